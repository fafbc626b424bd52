import { amountText } from '../../http/amount.ts'
import { ends } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import type { Rich } from '../../texts/rich.ts'
import { timeText } from '../../texts/time.ts'
import type { Described } from './describe.ts'
import type { Names } from './names.ts'
import type { Move } from './read-call.ts'

/** Describes the effect of a request in one sentence. */
export function sentenceOf(words: Texts, names: Names, described: Described): Rich {
  const { sentences } = words.approvals
  const { domain, steps, count } = described
  const moves = described.moves.map((one) => withItem(names, one))
  const [move] = moves
  // An approval of the collectible with id 0 looks like a revocation until the token is known.
  const sentence = described.sentence === 'revoke' && move !== undefined && move.amount !== '0' ? 'allow' : described.sentence // prettier-ignore
  switch (sentence) {
    case 'login':
      return sentences.login(domain ?? '?')
    case 'text':
    case 'vote':
    case 'power':
    case 'other':
    case 'opaque':
      return sentences[sentence]
    case 'call':
      return sentences.call(whoText(words, names, steps[0]!.unknown!.to))
    case 'several':
      return sentences.several(count)
    case 'order':
      return move === undefined ? sentences.orderOfNothing : sentences.order(listText(words, names, moves))
    case 'pay':
      if (move === undefined) return sentences.other
      return sentences[move.item === null ? 'pay' : 'give'](
        listText(words, names, moves),
        whoText(words, names, move.to),
      )
    case 'revoke':
      if (move === undefined) return sentences.cancel
      return sentences.revoke(whoText(words, names, move.to), tokenText(words, names, move.token))
    default: {
      if (move === undefined) return sentences.other
      const end = endOf(moves)
      const listed = listText(words, names, moves)
      return sentences.allow(
        whoText(words, names, move.to),
        moves.every((one) => isLimit(names, one)) ? words.approvals.upTo(listed) : listed,
        end === null ? null : timeText(words, end),
      )
    }
  }
}

/** Returns the latest end of several permissions; null if one has no end, or ends later than a Date can represent. */
export function endOf(moves: readonly Move[]): Date | null {
  const end = new Date(Math.max(...moves.map(({ until }) => (until ?? Number.NaN) * 1_000)))
  return Number.isNaN(end.getTime()) ? null : end
}

const NOBODY = `0x${'0'.repeat(40)}`

/** Reads the number of a call as an id at a contract of collectibles. An approval of nobody is a revocation there. */
export function withItem(names: Names, move: Move): Move {
  const isItem = move.id !== undefined && move.to !== NOBODY
  return isItem && move.token !== null && names.token(move.token)?.isCollection === true
    ? { ...move, item: move.id!, amount: '1' }
    : move
}

/** Joins several amounts to a list in the page's language. */
function listText(words: Texts, names: Names, moves: readonly Move[]): string {
  const texts = moves.map((move) => moveText(words, names, move))
  return new Intl.ListFormat(words.locale, { type: 'conjunction' }).format(texts)
}

/** Returns whether a permission is for an amount, not for a collectible or for everything. */
const isLimit = (names: Names, { token, item, amount }: Move): boolean =>
  item === null && /^\d+$/.test(amount) && (token === null || names.token(token)?.isCollection !== true)

/** Formats a move: an amount and its token. */
export function moveText(words: Texts, names: Names, move: Move): string {
  const texts = words.approvals
  const token = tokenText(words, names, move.token)
  const known = move.token === null ? null : names.token(move.token)
  if (move.amount === 'all') return texts.all(token)
  // For a collection, the amount of `approve` and `transferFrom` is an id.
  const item = move.item ?? (known?.isCollection === true && move.amount !== '0' ? move.amount : null)
  if (item !== null && item !== 'unlimited') {
    const piece = texts.piece(token, item)
    return move.item !== null && move.amount !== '1' ? `${move.amount} × ${piece}` : piece
  }
  if (move.amount === 'unlimited') return texts.unlimited(token)
  const facts = move.token === null ? names.native : known
  if (facts === null) return texts.smallest(move.amount, token)
  const amount = amountText(words, { value: BigInt(move.amount), decimals: facts.decimals }).full
  if (known === null || known.isListed) return `${amount} ${token}`
  return known.symbol === '' ? texts.smallest(move.amount, token) : texts.claimed(amount, known.symbol)
}

/** Returns the operator's symbol of a token, otherwise the token's own. */
export function tokenText(words: Texts, names: Names, token: string | null): string {
  const texts = words.approvals
  if (token === null) return names.native?.symbol ?? texts.coin
  const known = names.token(token)
  if (known === null || known.symbol === '') return texts.nameless(ends(token))
  return known.isListed ? known.symbol : texts.claims(known.symbol)
}

/** Returns the user's name and a short address. A name alone could read as text of the page. */
function whoText(words: Texts, names: Names, address: string): string {
  const name = names.user(address)
  return name === null ? ends(address) : words.approvals.named(name, ends(address))
}
