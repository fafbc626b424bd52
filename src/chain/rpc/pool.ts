import type { Clock } from '../../clock.ts'
import { classifySendError, isMissingMethod, isRateLimited, isRateLimitedAt } from './errors.ts'
import { RpcError, RpcTooLarge, RpcUnavailable } from './failures.ts'
import type { AskNode, Call } from './json-rpc.ts'
import { isAtTag, isRetryableOnAnotherNode, noteAnswer, noteFailure, pick, type Member } from './node-health.ts'
import { isSend } from './rpc.ts'

/** Called when a node's state changes, for the log. */
export type OnNode = (position: number, event: 'up' | 'down' | 'wrong_chain' | 'reads_by_number') => void

export type PoolSettings = { clock: Clock; members: readonly Member[]; random?: () => number; onNode: OnNode }

/** Highest share of reads that are sent to a second node: 5 %. */
const HEDGE_SHARE = 0.05
const MAX_HEDGES_SAVED = 10
/** shortest time in milliseconds after which a second node is asked */
const MIN_HEDGE_MS = 5
/** milliseconds that a node may take while another one could be asked, and multiple of its latency that it may take */
const MIN_PATIENCE_MS = 1_500
const PATIENCE = 10

/**
 * Sends calls to one of a network's nodes, and to another if the first fails, lags or is late. Each batch goes to one
 * node: `ask` requests missing results from other nodes, `askOneNode` repeats the whole batch at another node.
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
      // If the other nodes fail entirely, use the results of this node.
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

  /**
   * Returns the results of the first node that responds.
   * @throws RpcUnavailable  of the last node
   */
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
   * Asks a second node if the first takes longer than usual. The earlier results count, unless their node could not
   * answer all calls: such a failure is often the fastest response.
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
    // Do not send calls at `latest` to a node with a lower head.
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
      // If there is no result at all, the URL does not serve a node now.
      if (answers.length > 0 && answers.every((answer) => answer instanceof RpcUnavailable)) throw answers[0]
      for (const [index, answer] of answers.entries())
        if (answer instanceof RpcError && isMissingMethod(answer)) member.lacks.add(calls[index]!.method)
      if (answers.some((answer, index) => answer instanceof RpcError && isRateLimitedAt(calls[index]!.method, answer)))
        failed(member)
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
   * Sends the same bytes to one or several nodes. A node that did not respond may have accepted them. From then on only
   * success counts: a refusal such as "nonce too low" may mean that they are mined already.
   * If a node rejects bytes by rules of its own, asks others, because an outdated or more expensive node is no evidence
   * about the network.
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

/**
 * Returns the outcome so far, after one more node's response.
 * @param before  undefined at the first node; RpcUnavailable after a node that may have accepted the bytes; otherwise
 *   a refusal by a node's own rules
 */
function settle(before: unknown, said: unknown): unknown {
  if (!(said instanceof Error) || classifySendError(said) === 'known') return said
  if (before instanceof RpcUnavailable) return before
  // Of several refusals by nodes' own rules, the first one counts. A refusal for the nonce or the funds, or no
  // response, takes precedence.
  if (before !== undefined && isOwnRule(said)) return before
  return said instanceof RpcError && isRateLimited(said)
    ? new RpcUnavailable('the node accepts nothing at the moment', { cause: said, timedOut: false })
    : said
}

/** Returns whether another node may have a better result. */
const isOpen = (call: Call, answer: unknown): boolean =>
  isRetryableOnAnotherNode(call, answer) || isUnknownToIt(call, answer)

/**
 * Returns whether null means that the node lags. Blocks requested by hash exist, and a block with a number may exist. A
 * balance, code or result of a call is never null.
 */
const isUnknownToIt = ({ method, params }: Call, answer: unknown): boolean =>
  answer === null &&
  (/^eth_(call|getBalance|getCode|getBlock(ByHash|Receipts))$/.test(method) ||
    (method === 'eth_getBlockByNumber' && String(params[0]).startsWith('0x')))
