import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from '../../src/ids.ts'
import { readBack, type Write } from './transactions-client.ts'
import type { Account, ChaosWorld } from './transactions-world.ts'

/** What the chain says of a run. Everything but `writes`, `mined`, `cancels` and `settledMs` has to be 0. */
export type Verdict = {
  writes: number
  mined: number
  /** nonces used by nothing but a cancel: of intents that nobody was told a hash of */
  cancels: number
  /** answered, and not in the canonical chain */
  lost: number
  /** in the canonical chain more than once, or signed for two nonces */
  doubled: number
  /** the told hash neither is mined nor leads to the one that is */
  wrong: number
  /** nonces that were given to the node and are not mined, or that had two intents */
  gaps: number
  /** clients that never got an answer, or a false one */
  unanswered: number
  settledMs: number
  problems: string[]
}

type Mined = { hash: Hex; from: Hex; to: Hex | null; nonce: Hex; input: Hex }

export const markerOf = (input: Hex): bigint | null => (input.length === 74 ? BigInt(`0x${input.slice(10)}`) : null)

/** milliseconds to settle: for what waits for a time-out of its own, and for each write that is still open */
const WINDOW_MS = 45_000
const WINDOW_PER_WRITE_MS = 60

/**
 * Waits, with blocks going on and no more faults, until the chain has everything; then judges. The window grows with
 * the backlog; what is open after it has failed.
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
  let verdict = await look(world, writes, accounts)
  // What happened twice, or under a wrong name, does not become right by waiting.
  while (isOpen(verdict) && verdict.doubled === 0 && performance.now() < endsAt) {
    await pause(200)
    if (!(await isQuiet(world, writes, accounts))) continue
    verdict = await look(world, writes, accounts)
    log(`${verdict.problems.length} open`)
    if (isOpen(verdict)) await pause(1_000)
  }
  if (isOpen(verdict)) verdict = await look(world, writes, accounts)
  return { ...verdict, settledMs: Math.round(performance.now() - startedAt) }
}

const isOpen = (verdict: Verdict): boolean => verdict.problems.length > 0

export const isClean = ({ problems }: Verdict): boolean => problems.length === 0

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

function highestOffered(offered: Iterable<{ from: Hex; nonce: number }>): Map<Hex, number> {
  const highest = new Map<Hex, number>()
  for (const { from, nonce } of offered) highest.set(from, Math.max(highest.get(from) ?? -1, nonce))
  return highest
}

/** Everything at once: the canonical chain's calldata, then what the node was ever offered, then what callers were told. */
async function look(world: ChaosWorld, writes: Write[], accounts: Account[]): Promise<Verdict> {
  const { node } = world
  const senders = new Set(accounts.map(({ address }) => address))
  const onChain = (await canonical(world)).filter(({ from }) => senders.has(from))
  const byMarker = new Map<string, Mined[]>()
  const nonces = new Map<Hex, Set<number>>()
  let cancels = 0
  for (const tx of onChain) {
    nonces.set(tx.from, (nonces.get(tx.from) ?? new Set()).add(Number(tx.nonce)))
    const marker = tx.to === world.probe ? markerOf(tx.input) : null
    if (marker === null) cancels++
    else byMarker.set(`${tx.from} ${marker}`, [...(byMarker.get(`${tx.from} ${marker}`) ?? []), tx])
  }

  const problems: string[] = []
  const count = { lost: 0, doubled: 0, wrong: 0, gaps: 0, unanswered: 0 }
  const tell = (kind: keyof typeof count, text: string) => {
    count[kind]++
    problems.push(`${kind}: ${text}`)
  }

  for (const [marker, slots] of slotsByMarker(node.pool.offered.values(), senders))
    if (slots.size > 1) tell('doubled', `${marker} was signed for nonces ${[...slots].join(' and ')}`)
  for (const [slot, effects] of effectsBySlot(node.pool.offered.values(), senders))
    if (effects.size > 1) tell('gaps', `${slot} was given to ${effects.size} intents`)
  for (const [from, highest] of highestOffered(node.pool.offered.values())) {
    if (!senders.has(from)) continue
    const used = nonces.get(from) ?? new Set()
    for (let nonce = 0; nonce <= highest; nonce++)
      if (!used.has(nonce)) tell('gaps', `nonce ${nonce} of ${from} is not mined`)
  }

  const known = new Set(writes.map(({ account, marker }) => `${account.address} ${marker}`))
  for (const key of byMarker.keys()) if (!known.has(key)) tell('doubled', `${key} is mined and nobody asked for it`)

  await inParallel(writes, 8, async (write) => {
    const name = `${write.account.name} ${write.marker}`
    for (const problem of write.problems) tell('unanswered', `${name} ${problem}`)
    const mined = byMarker.get(`${write.account.address} ${write.marker}`) ?? []
    if (mined.length > 1) tell('doubled', `${name} is mined ${mined.length} times`)
    if (write.isAbandoned && write.hash === null) return
    if (write.hash === null)
      return write.problems.length > 0 ? undefined : tell('unanswered', `${name} after ${write.tries} tries`)
    if (mined.length === 0) return tell('lost', `${name} was told ${write.hash}`)
    if (mined.length > 1) return
    const server = world.servers[Number(write.marker % BigInt(world.servers.length))]!
    const told = await readBack(server, write)
    const isSettled = ['MINED', 'FINALIZED', 'REVERTED'].includes(told?.body.state ?? '')
    if (told?.body.hash !== mined[0]!.hash || !isSettled)
      tell(
        'wrong',
        `${name} was told ${write.hash}, mined is ${mined[0]!.hash}, the service says ${told?.body.state ?? told?.body.code ?? 'nothing'} ${told?.body.hash ?? ''}`,
      )
  })
  return { writes: writes.length, mined: byMarker.size, cancels, ...count, settledMs: 0, problems }
}

type Offered = { from: Hex; to: Hex; nonce: number; data: Hex; isAccepted: boolean }

/** Of every marker the nonces that it was ever signed and offered for: two are a double send that luck may hide. */
function slotsByMarker(offered: Iterable<Offered>, senders: Set<Hex>): Map<string, Set<number>> {
  const slots = new Map<string, Set<number>>()
  for (const { from, nonce, data } of offered) {
    const marker = markerOf(data)
    if (marker === null || !senders.has(from)) continue
    slots.set(`${from} ${marker}`, (slots.get(`${from} ${marker}`) ?? new Set()).add(nonce))
  }
  return slots
}

/** Of every nonce the effects that it was ever signed and offered with; a cancel is none. */
function effectsBySlot(offered: Iterable<Offered>, senders: Set<Hex>): Map<string, Set<string>> {
  const effects = new Map<string, Set<string>>()
  for (const { from, to, nonce, data } of offered) {
    if (!senders.has(from) || (to === from && data === '0x')) continue
    effects.set(`${from} ${nonce}`, (effects.get(`${from} ${nonce}`) ?? new Set()).add(`${to} ${data}`))
  }
  return effects
}

/** blocks per batch */
const AT_ONCE = 64

/** Every transaction of the canonical chain, in order. A node that has no block for a moment is asked again. */
async function canonical({ node }: ChaosWorld): Promise<Mined[]> {
  const last = Number(await node.anvil.rpc<Hex>('eth_blockNumber'))
  const all: Mined[] = []
  for (let start = 0; start <= last; start += AT_ONCE) {
    const numbers = Array.from({ length: Math.min(AT_ONCE, last - start + 1) }, (_, index) => start + index)
    const answers = await node.anvil.ask(
      numbers.map((number, id) => ({
        jsonrpc: '2.0',
        id,
        method: 'eth_getBlockByNumber',
        params: [`0x${number.toString(16)}`, true],
      })),
    )
    const blocks = answers.map(({ result }) => result as { transactions: Mined[] } | null)
    if (blocks.includes(null)) start -= AT_ONCE
    else all.push(...blocks.flatMap((block) => block!.transactions))
  }
  return all.map((tx) => ({ ...tx, from: tx.from.toLowerCase() as Hex, to: (tx.to?.toLowerCase() as Hex) ?? null }))
}

async function inParallel<T>(all: T[], many: number, work: (one: T) => Promise<unknown>): Promise<void> {
  const waiting = [...all]
  await Promise.all(
    Array.from({ length: many }, async () => {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) await work(one)
    }),
  )
}
