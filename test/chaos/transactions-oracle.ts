import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from '../../src/ids.ts'
import { toHex } from '../../src/hex.ts'
import { PATIENCE_MS } from '../kit/until.ts'
import { inParallel, judgeAnswers, judgeRepeats } from './transactions-answers.ts'
import { readChain, type MinedTx } from './transactions-chain.ts'
import { doesNothing, effectOf, nameOf, readBack, type Write } from './transactions-client.ts'
import { gather, slotOf, type Check, type Evidence, type Tell } from './transactions-evidence.ts'
import { judgeMoney, judgeTransfers } from './transactions-money.ts'
import type { Offered } from './pool.ts'
import { judgeRows } from './transactions-rows.ts'
import type { Account, ChaosWorld } from './transactions-world.ts'

/** What the chain says of a run. `problems` has to be empty; the counts before it say how much was looked at. */
export type Verdict = {
  writes: number
  mined: number
  /** nonces used by nothing but a cancel */
  cancels: number
  /** rows, attempts and transfers that were compared with the chain, each in all its columns */
  rows: number
  attempts: number
  transfers: number
  /** told, and not on the canonical chain */
  lost: number
  /** on the canonical chain more than once, or signed for two nonces */
  doubled: number
  /** a told hash neither is mined nor leads to the one that is */
  wrong: number
  /** nonces that were given to the node and are not mined, or that had two intents */
  gaps: number
  /** clients that never got an answer, or a false one */
  unanswered: number
  settledMs: number
  /** blocks after the faults until the last told write was mined for good */
  settledBlocks: number
  /** `<check>: <what>` */
  problems: string[]
}

/** The name of the check that found a problem. */
export const checkOf = (problem: string): Check => problem.slice(0, problem.indexOf(':')) as Check

/** milliseconds to settle: for what waits for a time-out of its own on a slow machine, and for each write that is still open */
export const WINDOW_MS = 180_000
const WINDOW_PER_WRITE_MS = 60
/** blocks until a told write is mined for good: as many as come in that time */
const WINDOW_BLOCKS = 1_200
const WINDOW_BLOCKS_PER_WRITE = 0.4

/**
 * Waits, with blocks going on and no more faults, until the chain has everything; the window grows with the backlog,
 * and what is open after it has failed. Then clients come back with their keys, the chain is made to stand still, and
 * everything that the service has stored and says is compared with it.
 */
export async function judge(
  world: ChaosWorld,
  writes: Write[],
  {
    accounts = world.accounts,
    windowMs = WINDOW_MS,
    log = () => {},
  }: { accounts?: Account[]; windowMs?: number; log?: (line: string) => void } = {},
): Promise<Verdict> {
  const startedAt = performance.now()
  const backlog = writes.filter(({ hash }) => hash === null).length + world.node.pool.size()
  const mostMs = windowMs + backlog * WINDOW_PER_WRITE_MS
  const endsAt = startedAt + mostMs
  log(`${backlog} open, which have ${(mostMs / 1_000).toFixed(0)} s to settle`)
  // Then nothing that follows would say anything about the engine.
  if ((await world.node.anvil.rpc<Hex>('eth_getCode', world.probe, 'latest')) === '0x')
    throw new Error('the development chain has lost its contract')
  const from = Number(await world.node.anvil.rpc<Hex>('eth_blockNumber'))
  let seen = await look(world, writes, accounts)
  // What happened twice, or under a wrong name, does not become right by waiting.
  while (seen.problems.length > 0 && !has(seen.problems, 'doubled') && performance.now() < endsAt) {
    await pause(200)
    if (!(await isQuiet(world, writes, accounts))) continue
    seen = await look(world, writes, accounts)
    log(`${seen.problems.length} open`)
    if (seen.problems.length > 0) await pause(1_000)
  }
  if (seen.problems.length > 0) seen = await look(world, writes, accounts)
  const settledMs = Math.round(performance.now() - startedAt)

  const problems = new Set(seen.problems)
  const tell: Tell = (check, text) => void problems.add(`${check}: ${text}`)
  await judgeRepeats(world, writes, tell)
  const evidence = await standStill(world, writes, accounts, tell)
  const latest = lastOf(evidence, writes)
  const mostBlocks = Math.ceil(WINDOW_BLOCKS + backlog * WINDOW_BLOCKS_PER_WRITE)
  if (latest !== null && latest.block.number > from + mostBlocks)
    tell('late', `${latest.hash} was mined ${latest.block.number - from} blocks after the faults, ${mostBlocks} are allowed`) // prettier-ignore
  const all = [...problems]
  const countOf = (check: Check) => all.filter((problem) => checkOf(problem) === check).length
  return {
    ...{ writes: writes.length, mined: seen.mined, cancels: seen.cancels },
    ...{ rows: evidence.rows.length, transfers: evidence.transfers.length },
    attempts: [...evidence.attempts.values()].reduce((sum, some) => sum + some.length, 0),
    ...{ lost: countOf('lost'), doubled: countOf('doubled'), wrong: countOf('wrong'), gaps: countOf('gaps') },
    ...{ unanswered: countOf('unanswered'), settledMs, problems: all },
    settledBlocks: Math.max(0, (latest?.block.number ?? from) - from),
  }
}

const has = (problems: string[], check: Check): boolean => problems.some((problem) => checkOf(problem) === check)

/** Nothing is mined while the service's tables and answers are compared with the chain, which it has followed to its end. */
async function standStill(world: ChaosWorld, writes: Write[], accounts: Account[], tell: Tell): Promise<Evidence> {
  // One more block: what is final is counted from a head that was not reorganised.
  await world.node.mine()
  return world.node.still(async () => {
    await untilFollowed(world, accounts[0]!, tell)
    const evidence = await gather(world, writes, accounts)
    const { cursor, chain } = evidence
    const finalized = chain.head.number - world.finality
    if (cursor.finalized_number !== finalized)
      tell('finality', `block ${cursor.finalized_number} counts as final, it is ${finalized} at ${chain.head.number}`)
    await judgeRows(evidence, tell)
    await judgeMoney(evidence, tell)
    judgeTransfers(evidence, tell)
    judgeLanes(evidence, tell)
    await judgeAnswers(evidence, tell)
    return evidence
  })
}

export async function untilFollowed(world: ChaosWorld, account: Account, tell: Tell): Promise<void> {
  const head = Number(await world.node.anvil.rpc<Hex>('eth_blockNumber'))
  const endsAt = performance.now() + PATIENCE_MS
  let reached: number | null = null
  while (performance.now() < endsAt) {
    reached = await followedTo(world, account)
    if (reached === head) return
    await pause(50)
  }
  tell('late', `block ${head} was not followed within ${PATIENCE_MS} ms; the service is at ${reached}`)
}

/** The block that a server says it has followed to, or null while none answers. */
export async function followedTo({ servers }: ChaosWorld, { name, token }: Account): Promise<number | null> {
  const server = servers.find((one) => one.isReady())
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`${server?.url}/v1/users/DEV-${name}/history`, { headers }).catch(() => null)
  await response?.arrayBuffer().catch(() => null)
  const reached = response?.headers.get('x-indexed-to-block') ?? null
  return reached === null ? null : Number(reached)
}

/**
 * An account is stopped where somebody else used its nonces, and nowhere else. Each such nonce counts until an operator
 * let the account go on behind it: the first says nothing of the next.
 */
export function judgeLanes(
  { world, stopped, rows, byHash, accounts }: Pick<Evidence, 'world' | 'stopped' | 'rows' | 'byHash' | 'accounts'>,
  tell: Tell,
): void {
  for (const { sender, nonce, hash } of stopped) {
    const reason = [...byHash.values()].find((tx) => tx.from === toHex(sender) && tx.nonce === nonce)
    if (reason === undefined || !world.foreign.has(reason.hash) || (hash !== null && toHex(hash) !== reason.hash))
      tell('lane', `${toHex(sender)} is stopped for nonce ${nonce}, which nobody else has used`)
    else if (world.resumed.has(reason.hash))
      tell('lane', `${toHex(sender)} is stopped for nonce ${nonce}, behind which it was let go on`)
  }
  for (const { address } of accounts) {
    if (stopped.some(({ sender }) => toHex(sender) === address)) continue
    const own = rows.filter(({ sender }) => toHex(sender) === address)
    for (const { hash, from, nonce } of byHash.values())
      if (
        from === address &&
        world.foreign.has(hash) &&
        !world.resumed.has(hash) &&
        own.some((row) => row.nonce <= nonce)
      )
        tell('lane', `${address} goes on although ${hash} used its nonce ${nonce}`)
  }
}

/** The last of the writes to be mined. */
function lastOf({ world, byHash }: Evidence, writes: Write[]): MinedTx | null {
  const wanted = new Set(writes.map((write) => nameOf(write.account.address, effectOf(world, write))))
  const mined = [...byHash.values()].filter((tx) => wanted.has(nameOf(tx.from, tx)))
  return mined.toSorted((a, b) => a.block.number - b.block.number).at(-1) ?? null
}

/** A cheap look first: everybody was answered, and the chain's count of each account has reached what was broadcast. */
async function isQuiet({ node }: ChaosWorld, writes: Write[], accounts: Account[]): Promise<boolean> {
  if (writes.some(({ hash, isAbandoned, problems }) => hash === null && !isAbandoned && problems.length === 0))
    return false
  const highest = highestOffered(node.pool.offered.values())
  const counts = await node.anvil.ask(
    accounts.map(({ address }, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'eth_getTransactionCount',
      params: [address, 'latest'],
    })),
  )
  return accounts.every(({ address }, index) => Number(counts[index]!.result) > (highest.get(address) ?? -1))
}

export function highestOffered(offered: Iterable<Offered>): Map<Hex, number> {
  const highest = new Map<Hex, number>()
  for (const { from, nonce } of offered) highest.set(from, Math.max(highest.get(from) ?? -1, nonce))
  return highest
}

type Look = { mined: number; cancels: number; problems: string[] }

/** What must settle: the canonical chain's effects, then what the node was ever offered, then what callers were told. */
async function look(world: ChaosWorld, writes: Write[], accounts: Account[]): Promise<Look> {
  const { node, foreign } = world
  const senders = new Set(accounts.map(({ address }) => address))
  const onChain = (await readChain(world)).transactions.filter(({ from }) => senders.has(from))
  const byEffect = new Map<string, MinedTx[]>()
  const bySlot = new Map(onChain.map((tx) => [slotOf(tx.from, tx.nonce), tx]))
  let cancels = 0
  for (const tx of onChain) {
    if (foreign.has(tx.hash)) continue
    if (doesNothing(tx.from, tx)) cancels++
    else byEffect.set(nameOf(tx.from, tx), [...(byEffect.get(nameOf(tx.from, tx)) ?? []), tx])
  }
  const problems: string[] = []
  const tell: Tell = (check, text) => void problems.push(`${check}: ${text}`)

  const offered = [...node.pool.offered.values()].filter(({ from }) => senders.has(from))
  for (const [effect, slots] of slotsByEffect(offered))
    if (slots.size > 1) tell('doubled', `${effect} was signed for nonces ${[...slots].join(' and ')}`)
  for (const [slot, effects] of effectsBySlot(offered))
    if (effects.size > 1) tell('gaps', `${slot} was given to ${effects.size} intents`)
  for (const [from, highest] of highestOffered(offered))
    for (let nonce = 0; nonce <= highest; nonce++)
      if (!bySlot.has(slotOf(from, nonce))) tell('gaps', `nonce ${nonce} of ${from} is not mined`)

  const known = new Set(writes.map((write) => nameOf(write.account.address, effectOf(world, write))))
  for (const effect of byEffect.keys()) if (!known.has(effect)) tell('doubled', `${effect} is mined and nobody asked for it`) // prettier-ignore

  const nonceOf = new Map(offered.map(({ hash, nonce }) => [hash, nonce]))
  await inParallel(writes, 8, async (write) => {
    const name = `${write.account.name} ${write.marker}`
    for (const problem of write.problems) tell('unanswered', `${name} ${problem}`)
    const mined = byEffect.get(nameOf(write.account.address, effectOf(world, write))) ?? []
    if (mined.length > 1) tell('doubled', `${name} is mined ${mined.length} times`)
    if (write.isAbandoned && write.hash === null) return
    if (write.hash === null)
      return write.problems.length > 0 ? undefined : tell('unanswered', `${name} after ${write.tries} tries`)
    if (mined.length > 1) return
    const nonce = nonceOf.get(write.hash) ?? Number(write.answer?.tx?.nonce)
    const instead = bySlot.get(slotOf(write.account.address, nonce))
    const isExcused =
      instead !== undefined &&
      (foreign.has(instead.hash) || (write.isCancelAsked && doesNothing(instead.from, instead)))
    if (mined.length === 0 && !isExcused) return tell('lost', `${name} was told ${write.hash}`)
    const server = world.servers[Number(write.marker % BigInt(world.servers.length))]!
    const told = await readBack(server, write)
    const isSettled = !['SUBMITTED', undefined].includes(told?.body.state)
    const hash = mined[0]?.hash ?? (foreign.has(instead!.hash) ? told?.body.hash : instead!.hash)
    if (told?.body.hash !== hash || !isSettled)
      tell(
        'wrong',
        `${name} was told ${write.hash}, mined is ${hash}, the service says ${told?.body.state ?? told?.body.code ?? 'nothing'} ${told?.body.hash ?? ''}`,
      )
  })
  return { mined: byEffect.size, cancels, problems }
}

/** Of every effect the nonces that it was ever signed and offered for: two are a double send that luck may hide. */
function slotsByEffect(offered: Offered[]): Map<string, Set<number>> {
  const slots = new Map<string, Set<number>>()
  for (const { from, nonce, ...effect } of offered) {
    if (doesNothing(from, effect)) continue
    const name = nameOf(from, effect)
    slots.set(name, (slots.get(name) ?? new Set()).add(nonce))
  }
  return slots
}

/** Of every nonce the effects that it was ever signed and offered with; a cancel is none. */
function effectsBySlot(offered: Offered[]): Map<string, Set<string>> {
  const effects = new Map<string, Set<string>>()
  for (const { from, nonce, ...effect } of offered) {
    if (doesNothing(from, effect)) continue
    effects.set(slotOf(from, nonce), (effects.get(slotOf(from, nonce)) ?? new Set()).add(nameOf(from, effect)))
  }
  return effects
}
