import { createHash } from 'node:crypto'
import type { ApprovalQuestion } from '../../approvals/decide.ts'
import { fromHex, toHex } from '../../hex.ts'
import type { Hex } from '../../ids.ts'
import { checksummed } from '../../messages/address.ts'
import { classify, type MessageFacts, type Summary } from '../../messages/classify.ts'
import { digestOf, readMessage, type Message } from '../../messages/message.ts'
import { visible } from '../../messages/text.ts'
import { approvalDigest } from '../../signer-wire/approval.ts'
import type { ApprovalContent } from '../../store/column-values.ts'
import { readCall, type Move } from './read-call.ts'

type Warning = Summary['warnings'][number] | 'call'

/** What a request does, from its parsed content alone. */
export type Described = {
  /** of the content, for the approval token */
  digest: string
  /** `call`: of a function that is not known; `several`: calls that are made together */
  sentence: Summary['sentence'] | 'call' | 'several'
  moves: Move[]
  /** calls of functions that are not known */
  calls: { to: string; selector: Hex }[]
  /** contract at which typed data counts that moves nothing; checksummed */
  contract: string | null
  /** number of calls; 0 for a message */
  count: number
  /** host of a login */
  domain: string | null
  warnings: Warning[]
  /** the text that is signed, with invisible characters written out; null if it is none that people read */
  text: string | null
  /** everything that is signed, for people who look */
  raw: string
  /** false: the signer signs it for nobody */
  isApprovable: boolean
}

/** Describes a request. @throws MessageInvalid  if the signer would not sign it for this account and network */
export function describe(content: ApprovalContent, facts: MessageFacts): Described {
  return 'message' in content ? describeMessage(content.message, facts) : describeCalls(content.calls, facts)
}

/**
 * Returns a value that is equal only if the same request is approved as was shown. The form has it, so that a row that
 * changed in between is not approved.
 */
export const shownMark = ({ id, intentId, clientId }: ApprovalQuestion, { digest }: Described): string =>
  createHash('sha256')
    .update(JSON.stringify([id, intentId, clientId, digest]))
    .digest('hex')

function describeMessage(stored: { kind: Message['kind']; content: string }, facts: MessageFacts): Described {
  const { kind, content } = stored
  const message = readMessage(kind === 'text' ? { text: content } : kind === 'bytes' ? { hex: content } : { typedData: content }) // prettier-ignore
  const { class: named, summary, needs, verifyingContract } = classify(message, facts)
  return {
    digest: digestFor(facts, { message: toHex(digestOf(message)) }),
    ...summary,
    warnings: summary.warnings.filter((one) => one !== 'unknown' || summary.sentence !== 'revoke'),
    calls: [],
    contract: verifyingContract === null || summary.moves.length > 0 ? null : checksummed(verifyingContract),
    count: 0,
    text: named === 'text' || named === 'login' ? visible(textOf(message)) : null,
    raw: visible(kind === 'typedData' ? typedText(content) : content),
    isApprovable: needs !== 'never',
  }
}

/** Writes typed data with what it says first, and the types that give it its form last. */
function typedText(content: string): string {
  const { types, ...said } = JSON.parse(content) as Record<string, unknown>
  return JSON.stringify({ ...said, types }, null, 2)
}

const textOf = (message: Message): string =>
  message.kind === 'text' ? message.text : message.kind === 'bytes' ? message.bytes.toString('utf8') : ''

function describeCalls(calls: { to: Hex; value: string; data: Hex }[], facts: MessageFacts): Described {
  const read = calls.map(({ to, value, data }) =>
    readCall({ to: fromHex(to), value: BigInt(value), data: fromHex(data) }, facts.address),
  )
  const moves = read.flatMap((one) => one.moves)
  const unknown = read.flatMap(({ selector }, index) =>
    selector === null ? [] : [{ to: checksummed(fromHex(calls[index]!.to)), selector }],
  )
  return {
    digest: digestFor(facts, { calls }),
    sentence: calls.length !== 1 ? 'several' : unknown.length > 0 ? 'call' : sentenceOf(moves[0]!),
    moves,
    calls: unknown,
    contract: null,
    count: calls.length,
    domain: null,
    warnings: [
      ...(moves.some(({ amount }) => amount === 'unlimited' || amount === 'all') ? (['unlimited'] as const) : []),
      ...(unknown.length > 0 ? (['call'] as const) : []),
    ],
    text: null,
    raw: JSON.stringify(calls, null, 2),
    isApprovable: calls.length > 0,
  }
}

const digestFor = ({ chainId, address }: MessageFacts, content: Parameters<typeof approvalDigest>[0]['content']) =>
  approvalDigest({ chainId, from: toHex(address), content })

function sentenceOf({ kind, amount }: Move): Described['sentence'] {
  if (kind === 'pays') return 'pay'
  if (amount === '0') return 'revoke'
  return amount === 'all' ? 'allow-all' : 'allow'
}
