import Type from 'typebox'

export const TOKEN_REASONS = {
  look_alike_symbol: 'the symbol or name looks like that of a known token or of the native currency, in other letters',
  same_symbol: 'a known token or the native currency has this symbol, at another address',
  link_in_name: 'the symbol or name contains the address of a website',
  lure_in_name: 'the symbol or name promises something, or asks to claim, visit or redeem',
  mixed_scripts: 'words in the symbol or name mix letters of several scripts',
} as const
export type TokenReason = keyof typeof TOKEN_REASONS

/** Minimum score of spam. */
export const SPAM_POINTS = 50
export const MAX_POINTS = 100

/** Describes a spam verdict on the wire, with the meaning of each reason. */
export function spamVerdict<Reason extends string>(
  reasons: Readonly<Record<Reason, string>>,
  { title, description }: { title: string; description: string },
) {
  return Type.Object(
    {
      score: Type.Integer({ minimum: SPAM_POINTS, maximum: MAX_POINTS }),
      // A text, not an enumeration, because reasons may be added.
      reasons: Type.Array(Type.Unsafe<Reason>(Type.String({ examples: ['look_alike_symbol'] })), {
        description: Object.entries(reasons)
          .map(([code, text]) => `\`${code}\`: ${String(text)}`)
          .join('; '),
      }),
    },
    { title, description },
  )
}

export const TokenSpamVerdict = spamVerdict(TOKEN_REASONS, {
  title: 'TokenSpam',
  description:
    'Reasons why the token looks like spam. Present only if its name or symbol is typical of spam and the user has never used the token',
})
