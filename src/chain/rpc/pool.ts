import type { Clock } from '../../clock.ts'
import { classifySendError, isMissingMethod, isRateLimited } from './errors.ts'
import { RpcError, RpcTooLarge, RpcUnavailable } from './failures.ts'
import type { AskNode, Call } from './json-rpc.ts'
import { isAtTag, isRetryableOnAnotherNode, noteAnswer, noteFailure, pick, type Member } from './node-health.ts'
import { isSend } from './rpc.ts'

/** What became of a node, for the log. */
export type OnNode = (position: number, event: 'up' | 'down' | 'wrong_chain' | 'reads_by_number') => void

export type PoolSettings = { clock: Clock; members: readonly Member[]; random?: () => number; onNode: OnNode }

/** Reads that are asked twice, at most: one in twenty. */
const HEDGE_SHARE = 0.05
const MAX_HEDGES_SAVED = 10
/** milliseconds below which asking a second node is not worth it */
const MIN_HEDGE_MS = 5
/** milliseconds one node may take while another could be asked, and how many times its usual latency */
const MIN_PATIENCE_MS = 1_500
const PATIENCE = 10

/**
 * Asks one of several nodes of a network, and another one when it fails, lags or is late. Each batch goes to one node:
 * `ask` lets others fill in what this one could not answer, `askOneNode` repeats the whole at another.
 */
export function poolOf({ clock, members, random = Math.random, onNode }: PoolSettings): {
  ask: AskNode
  askOneNode: AskNode
} {
  let hedges = 0

  const ask: AskNode = async (calls, { timeoutMs }) => {
    if (calls.some(({ method }) => isSend(method))) return broadcast(calls, timeoutMs)
    const until = clock.ticks() + timeoutMs
    const tried = new Set<Member>()
    const answers = await askAny(calls, tried, until)
    for (;;) {
      const open = answers.flatMap((answer, index) => (isOpen(calls[index]!, answer) ? [index] : []))
      if (open.length === 0) return answers
      const missing = open.map((index) => calls[index]!)
      if (pick(members, missing, tried, random) === null || clock.ticks() >= until) return answers
      // When the others fail altogether, what this node said counts.
      const others = await askAny(missing, tried, until).catch(() => [])
      for (const [index, answer] of others.entries())
        if (!isOpen(missing[index]!, answer)) answers[open[index]!] = answer
    }
  }

  const askOneNode: AskNode = async (calls, { timeoutMs }) => {
    if (calls.some(({ method }) => isSend(method))) return broadcast(calls, timeoutMs)
    const until = clock.ticks() + timeoutMs
    const tried = new Set<Member>()
    const first = await askAny(calls, tried, until)
    for (let answers = first; ;) {
      if (!answers.some((answer, index) => isOpen(calls[index]!, answer))) return answers
      if (pick(members, calls, tried, random) === null || clock.ticks() >= until) return first
      try {
        answers = await askAny(calls, tried, until)
      } catch {
        return first
      }
    }
  }

  /** The answers of the first node that gives any. @throws RpcUnavailable the last one's */
  async function askAny(calls: readonly Call[], tried: Set<Member>, until: number): Promise<unknown[]> {
    let failure: unknown = new RpcUnavailable('no node of the network is available', { timedOut: false })
    for (;;) {
      const member = pick(members, calls, tried, random)
      if (member === null || clock.ticks() >= until) throw failure
      tried.add(member)
      try {
        return await askHedged(member, calls, tried, until)
      } catch (error) {
        if (error instanceof RpcTooLarge) throw error
        failure = error
      }
    }
  }

  /**
   * Asks a second node too when the first is later than usual. The answers that come first count, unless they say that
   * their node cannot answer: it is quick to say so.
   */
  async function askHedged(
    member: Member,
    calls: readonly Call[],
    tried: Set<Member>,
    until: number,
  ): Promise<unknown[]> {
    hedges = Math.min(MAX_HEDGES_SAVED, hedges + HEDGE_SHARE)
    const first = askMember(member, calls, patience(member, calls, tried, until))
    if (member.p95Ms === null || hedges < 1) return first
    const { promise: late, resolve } = Promise.withResolvers<'late'>()
    const timer = clock.after(Math.max(MIN_HEDGE_MS, member.p95Ms), () => resolve('late'))
    try {
      const winner = await Promise.race([first, late])
      if (winner !== 'late') return winner
    } finally {
      timer.cancel()
    }
    const other = hedges < 1 ? null : pick(members, calls, tried, random)
    // What is latest is not asked of a node that has seen less.
    if (other === null || (calls.some(isAtTag) && (other.head ?? 0) < (member.head ?? 0))) return first
    hedges--
    tried.add(other)
    const second = askMember(other, calls, patience(other, calls, tried, until))
    const settled = async (asked: Promise<unknown[]>): Promise<unknown[]> => {
      const answers = await asked
      if (answers.some((answer, index) => isOpen(calls[index]!, answer))) throw new Error('not all calls were answered')
      return answers
    }
    return Promise.any([settled(first), settled(second)]).catch(() => first.catch(() => second.catch(() => first)))
  }

  function patience(member: Member, calls: readonly Call[], tried: ReadonlySet<Member>, until: number): number {
    const left = Math.max(1, until - clock.ticks())
    return pick(members, calls, tried, random) === null
      ? left
      : Math.min(left, Math.max(MIN_PATIENCE_MS, PATIENCE * member.latencyMs))
  }

  async function askMember(member: Member, calls: readonly Call[], timeoutMs: number): Promise<unknown[]> {
    const startedAt = clock.ticks()
    member.inFlight++
    try {
      const answers = await member.node.ask(calls, { timeoutMs })
      // Not one answer: whatever is behind the URL, it is no node now.
      if (answers.length > 0 && answers.every((answer) => answer instanceof RpcUnavailable)) throw answers[0]
      for (const [index, answer] of answers.entries())
        if (answer instanceof RpcError && isMissingMethod(answer)) member.lacks.add(calls[index]!.method)
      if (answers.some((answer) => answer instanceof RpcError && isRateLimited(answer))) failed(member)
      else if (noteAnswer(member, clock.ticks() - startedAt)) onNode(member.position, 'up')
      return answers
    } catch (error) {
      if (!(error instanceof RpcTooLarge)) failed(member)
      throw error
    } finally {
      member.inFlight--
    }
  }

  function failed(member: Member): void {
    if (noteFailure(member, clock.ticks())) onNode(member.position, 'down')
  }

  /**
   * The same bytes may be sent to any number of nodes. Once a node left us without an answer it may have them, so
   * from then on only a yes is believed: a refusal such as "nonce too low" may mean that they are mined already.
   * What a node refuses by rules of its own, others are asked for: one that is outdated, or dearer, says nothing of the network.
   */
  async function broadcast(calls: readonly Call[], timeoutMs: number): Promise<unknown[]> {
    const until = clock.ticks() + timeoutMs
    const tried = new Set<Member>()
    const answers: unknown[] = calls.map(() => undefined)
    const unsettled = () =>
      answers.flatMap((answer, index) => (answer === undefined || isUnsettled(answer) ? [index] : []))
    for (let open = unsettled(); open.length > 0; open = unsettled()) {
      const member = pick(members, [{ method: 'eth_blockNumber', params: [] }], tried, random)
      if (member === null || clock.ticks() >= until) break
      tried.add(member)
      const sent = open.map((index) => calls[index]!)
      const said = await askMember(member, sent, patience(member, sent, tried, until)).catch((error: unknown) =>
        sent.map(() => error),
      )
      for (const [at, index] of open.entries()) answers[index] = settle(answers[index], said[at])
    }
    return answers.map(
      (answer) => answer ?? new RpcUnavailable('no node of the network is available', { timedOut: false }),
    )
  }

  return { ask, askOneNode }
}

const OWN_RULES: ReadonlySet<unknown> = new Set(['rejected', 'held_back', 'underpriced'])
const isOwnRule = (answer: unknown): boolean => answer instanceof RpcError && OWN_RULES.has(classifySendError(answer))
const isUnsettled = (answer: unknown): boolean => answer instanceof RpcUnavailable || isOwnRule(answer)

/** @param before  undefined at the first node, RpcUnavailable after a node that may have taken the bytes, else a refusal by a rule of its own */
function settle(before: unknown, said: unknown): unknown {
  if (!(said instanceof Error) || classifySendError(said) === 'known') return said
  if (before instanceof RpcUnavailable) return before
  // The first refusal of several, which are of one kind; what another says of the nonce or the funds, or nothing, counts more.
  if (before !== undefined && isOwnRule(said)) return before
  return said instanceof RpcError && isRateLimited(said)
    ? new RpcUnavailable('the node accepts nothing at the moment', { cause: said, timedOut: false })
    : said
}

/** Another node may answer this better. */
const isOpen = (call: Call, answer: unknown): boolean => isRetryableOnAnotherNode(answer) || isUnknownToIt(call, answer)

/**
 * Blocks asked for by hash are known to exist, and one of a number may: a node that says null lags. No balance, code or
 * result of a call is null.
 */
const isUnknownToIt = ({ method, params }: Call, answer: unknown): boolean =>
  answer === null &&
  (/^eth_(call|getBalance|getCode|getBlock(ByHash|Receipts))$/.test(method) ||
    (method === 'eth_getBlockByNumber' && String(params[0]).startsWith('0x')))
