import { signDigest } from './curve.ts'
import type { Group } from './group.ts'
import { judge } from './judge.ts'
import type { Account, Keys } from './keys.ts'
import type { Held, Ledger } from './ledger.ts'
import { decide, type Limits } from './policy.ts'
import { Refusal } from './refusal.ts'
import { readSignRequest, type Ask } from './request.ts'
import type { Caller, Tokens } from './tokens.ts'
import { assemble, digestOf } from './transaction.ts'
import type { Hex, Signed } from './wire.ts'

/** What the verbs of the signer work with. */
export type Inside = { keys: Keys; tokens: Tokens; ledger: Ledger; group: Group; limits: Limits; now: () => number }

const WRITE_SCOPE = 'contracts:write'

/**
 * Verb `sign`: token, policy, ledger, in this order; then the key is opened, the signature made and checked, the
 * record written and committed, and only then are the bytes told.
 * Errors: bad_request, unknown_account, invalid_token, insufficient_scope, forbidden_user, policy_denied, those of
 * the ledger (`judge`), key_damaged.
 */
export async function sign({ keys, tokens, ledger, group, limits, now }: Inside, request: unknown): Promise<Signed> {
  const ask = readSignRequest(request)
  const { tx } = ask
  const caller = ask.accessToken === null ? null : await tokens.check(ask.accessToken)
  const account = keys.ofAddress(tx.from)
  if (caller !== null) authorise(caller, { chainId: tx.chainId, userId: account?.userId ?? null })
  if (account === null) throw new Refusal('unknown_account', 'The signer has no such account.')
  const { allowed, rule } = decide(tx, limits)
  if (!allowed) throw new Refusal('policy_denied', `The rule ${rule} refuses this transaction.`)

  return group(tx.nonce, () => {
    const slot = { chainId: tx.chainId, address: tx.from, nonce: tx.nonce }
    const verdict = judge(ask, {
      attempts: ledger.attempts(slot),
      isElsewhere: ledger.isElsewhere(ask.intentId, slot),
      hasToken: caller !== null,
      lane: () => ledger.lane(slot),
      unsignedBetween: (low, high) => ledger.unsignedBetween(slot, low, high),
      unvouchedBetween: (low, high) => ledger.unvouchedBetween(slot, low, high),
    })
    if ('stored' in verdict) return { ...toSigned(verdict.stored), stored: true }
    const held = { ...verdict.terms, ...slot, ...signWith(keys, account, ask), kind: verdict.sign, rule }
    ledger.append({
      at: now(),
      kind: held.kind,
      userId: account.userId,
      address: account.address,
      rule,
      held,
      clientId: caller?.clientId ?? null,
      tokenId: caller?.tokenId ?? null,
    })
    return { ...toSigned(held), stored: false }
  })
}

/** The token's own limits: what it may do, on which chain, for whom. */
function authorise(caller: Caller, { chainId, userId }: { chainId: number; userId: string | null }): void {
  if (!caller.scopes.includes(WRITE_SCOPE)) {
    throw new Refusal('insufficient_scope', `The access token lacks the scope ${WRITE_SCOPE}.`)
  }
  if (caller.chainId !== chainId) {
    throw new Refusal('insufficient_scope', 'The access token is for an application on another chain.')
  }
  if (userId !== null && caller.userId !== userId) {
    throw new Refusal('forbidden_user', 'The access token is another user’s.')
  }
}

function signWith(keys: Keys, account: Account, { tx }: Ask): { raw: Buffer; hash: Buffer } {
  const digest = digestOf(tx)
  return assemble(
    tx,
    keys.use(account, (key, publicKey) => signDigest(digest, key, publicKey)),
  )
}

export function toSigned({ raw, hash, nonce, kind, rule }: Held): Omit<Signed, 'stored'> {
  return { raw: hex(raw), hash: hex(hash), nonce, kind, rule }
}

export const hex = (bytes: Buffer): Hex => `0x${bytes.toString('hex')}`
