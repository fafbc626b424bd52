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

/** The description of a request, computed from its parsed content alone. */
export type Described = {
  /** digest of the content, for the approval token */
  digest: string
  /** `call`: a call of an unknown function; `several`: calls that are executed together */
  sentence: Summary['sentence'] | 'call' | 'several'
  moves: Move[]
  /** for each call its moves; `unknown`: contract and selector of a function that cannot be described. A message is one step */
  steps: { moves: Move[]; unknown: { to: string; selector: Hex } | null }[]
  /** verifying contract of typed data without moves, with its checksum */
  contract: string | null
  /** number of calls; 0 for a message */
  count: number
  /** host of a login */
  domain: string | null
  warnings: Warning[]
  /** the signed text, with invisible characters as code points; null if the content is not readable text */
  text: string | null
  /** the complete signed content */
  raw: string
  /** false if the signer rejects it even with an approval */
  isApprovable: boolean
}

/** Describes a request. @throws MessageInvalid  if the signer would not sign it for this account and network */
export function describe(content: ApprovalContent, facts: MessageFacts): Described {
  return 'message' in content ? describeMessage(content.message, facts) : describeCalls(content.calls, facts)
}

/**
 * Computes the mark of a displayed request. The form contains it: if the row changes before the user approves, the marks differ and
 * nothing is approved.
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
    steps: [{ moves: summary.moves, unknown: null }],
    contract: verifyingContract === null || summary.moves.length > 0 ? null : checksummed(verifyingContract),
    count: 0,
    text: named === 'text' || named === 'login' ? visible(textOf(message)) : null,
    raw: visible(kind === 'typedData' ? typedText(content) : content),
    isApprovable: needs !== 'never',
  }
}

/** Formats typed data: message and domain first, types last. */
function typedText(content: string): string {
  const { types, ...said } = JSON.parse(content) as Record<string, unknown>
  return JSON.stringify({ ...said, types }, null, 2)
}

const textOf = (message: Message): string =>
  message.kind === 'text' ? message.text : message.kind === 'bytes' ? message.bytes.toString('utf8') : ''

function describeCalls(calls: { to: Hex; value: string; data: Hex }[], facts: MessageFacts): Described {
  const steps = calls.map(({ to, value, data }) => {
    const { moves, selector } = readCall({ to: fromHex(to), value: BigInt(value), data: fromHex(data) }, facts.address)
    return { moves, unknown: selector === null ? null : { to: checksummed(fromHex(to)), selector } }
  })
  const moves = steps.flatMap((step) => step.moves)
  const isUnknown = steps.some(({ unknown }) => unknown !== null)
  return {
    digest: digestFor(facts, { calls }),
    sentence: calls.length !== 1 ? 'several' : isUnknown ? 'call' : sentenceOf(moves[0]!),
    moves,
    steps,
    contract: null,
    count: calls.length,
    domain: null,
    warnings: [
      ...(moves.some(({ amount }) => amount === 'unlimited' || amount === 'all') ? (['unlimited'] as const) : []),
      ...(isUnknown ? (['call'] as const) : []),
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
