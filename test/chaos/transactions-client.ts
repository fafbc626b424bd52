import { setTimeout as pause } from 'node:timers/promises'
import { encodeFunctionData, parseAbi } from 'viem'
import { BATCH_ROUTE } from '../../src/contracts/write-batch.ts'
import { WRITE_ROUTE } from '../../src/contracts/write.ts'
import { readGasContracts } from '../../src/gas/contracts.ts'
import { TESTED_DELEGATE } from '../delegate.ts'
import { readCancel } from '../../src/gas/dispatch.ts'
import type { Hex } from '../../src/ids.ts'
import { fromHex } from '../../src/hex.ts'
import type { Supervised } from './processes.ts'
import type { Account, ChaosWorld, Server } from './transactions-world.ts'

/**
 * What a client wants of the chain. No two are the same: `echo` has the marker in its calldata, `pay` sends so many wei
 * along, `move` so much of a token, and `add` adds so much to a number of its own, and no other does as much. A `batch` is all of
 * its parts or none.
 */
export type Part =
  | { kind: 'pay'; wei: bigint }
  | { kind: 'move'; amount: bigint; to: Hex }
  | { kind: 'add'; amount: bigint }
export type Want = { kind: 'echo' } | Part | { kind: 'batch'; parts: Part[] }

/** One write that a client wants. */
export type Write = {
  account: Account
  marker: bigint
  want: Want
  key: string
  /** the first hash that the client was told; null as long as it knows nothing */
  hash: Hex | null
  /** the whole answer that came with it */
  answer: Told['body'] | null
  /** every hash that anybody was ever told for it */
  hashes: Set<Hex>
  tries: number
  /** the client gave up before it was told anything: once or never are both right */
  isAbandoned: boolean
  /** the client asked for a cancel: mined once, or cancelled, are both right */
  isCancelAsked: boolean
  /** it may fail when it is mined: its state was another one when it was simulated */
  mayFail: boolean
  problems: string[]
  /** what it was told with a status of 500, by a server that was not killed */
  failures: string[]
}

export type Told = {
  status: number
  body: {
    hash?: Hex
    hashes?: Hex[]
    receipt?: { blockNumber: number } | null
    id?: string
    state?: string
    code?: string
    tx?: Record<string, unknown>
    /** where a sponsor sends it */
    operation?: { id: Hex; from: Hex; deadline: number; calls?: unknown[] } & Record<string, unknown>
  }
  /** the answer of an earlier request with the same key */
  isReplay: boolean
}

/** What clients were answered beside success, by code, for the report. */
export type Refusals = Map<string, number>

const TRY_MS = 12_000
const GIVE_UP = new Set(['execution_reverted', 'insufficient_funds'])

const ECHO = 'echoUint256(uint256)'
const PAY = 'pay() payable'
const MOVE = 'transfer(address,uint256)'
const ADD = 'add(uint256)'
const abi = parseAbi([
  'function echoUint256(uint256)',
  'function pay() payable',
  'function transfer(address to, uint256 amount)',
  'function add(uint256 amount)',
])

let markers = 0n
/** Unique in this process and, with the seed of the run in it, across runs. */
const nextMarker = (seed: number): bigint => (BigInt(seed) << 64n) | ++markers
/** wei, or units of the token: small, and as unique as the marker within a process */
export const nextAmount = (): bigint => 1_000_000n + ++markers

export function newWrite(account: Account, seed: number, want: Want = { kind: 'echo' }): Write {
  const marker = nextMarker(seed)
  return {
    ...{ account, marker, want, key: `write ${marker}`, hash: null, answer: null, hashes: new Set() },
    ...{ tries: 0, isAbandoned: false, isCancelAsked: false, mayFail: false, problems: [], failures: [] },
  }
}

/** Where it is asked for. */
export const routeOf = ({ want }: Pick<Write, 'want'>): string => (want.kind === 'batch' ? BATCH_ROUTE : WRITE_ROUTE)

/** What the service is asked for. */
export function bodyOf(world: ChaosWorld, { want, marker }: Pick<Write, 'want' | 'marker'>): Record<string, unknown> {
  const { probe, token } = world
  if (want.kind === 'batch') return { calls: want.parts.map((part) => bodyOf(world, { want: part, marker })) }
  if (want.kind === 'add') return { address: probe, abi: ADD, args: [String(want.amount)] }
  if (want.kind === 'pay') return { address: probe, abi: PAY, args: [], value: String(want.wei) }
  if (want.kind === 'move') return { address: token, abi: MOVE, args: [want.to, String(want.amount)] }
  return { address: probe, abi: ECHO, args: [String(marker)] }
}

/** What the chain then has to hold, once. */
export function effectOf({ probe, token }: ChaosWorld, { want, marker }: Pick<Write, 'want' | 'marker'>): Effect {
  if (want.kind === 'batch') throw new Error('a batch has several')
  if (want.kind === 'add')
    return { to: probe, data: encodeFunctionData({ abi, functionName: 'add', args: [want.amount] }), value: 0n }
  if (want.kind === 'pay') return { to: probe, data: encodeFunctionData({ abi, functionName: 'pay' }), value: want.wei }
  if (want.kind === 'move')
    return { to: token, data: encodeFunctionData({ abi, functionName: 'transfer', args: [want.to, want.amount] }), value: 0n } // prettier-ignore
  return { to: probe, data: encodeFunctionData({ abi, functionName: 'echoUint256', args: [marker] }), value: 0n }
}

export type Effect = { to: Hex | null; data: Hex; value: bigint }

/** A name for what a transaction does, the same for the same effect. */
export const nameOf = (from: Hex, { to, data, value }: Effect): string => `${from} ${to} ${data} ${value}`

/** True for the cancel of an account: nothing to oneself, or of a sponsor's transaction: ids are used up, and nothing is done. */
export const doesNothing = (from: Hex, { to, data, value }: Effect): boolean =>
  value === 0n && ((to === from && data === '0x') || usesUp({ to, data }))

/** A cancel by the dispatcher, to the last byte. */
export const usesUp = ({ to, data }: Pick<Effect, 'to' | 'data'>): boolean =>
  to === DISPATCHER && readCancel(fromHex(data)) !== null

const DISPATCHER = readGasContracts(TESTED_DELEGATE).dispatcher

/** One try. Null when there was no answer. */
export async function tryOnce(
  world: ChaosWorld,
  server: Server,
  write: Write,
  timeoutMs = TRY_MS,
): Promise<Told | null> {
  write.tries++
  const told = await call(server, routeOf(write), {
    token: write.account.token,
    timeoutMs,
    body: bodyOf(world, write),
    headers: { 'idempotency-key': write.key },
  })
  if (told?.status === 200 && told.body.hash !== undefined) write.hashes.add(told.body.hash)
  return withFailure(write, 'the write', told)
}

/** Who repeats gets over a failure of the service: it is kept, too. */
function withFailure(write: Write, asked: string, told: Told | null): Told | null {
  if (told?.status === 500) write.failures.push(`${asked} was answered ${told.body.code ?? 500}`)
  return told
}

/** Keeps the first answer. */
export function note(write: Write, told: Told | null): void {
  if (told?.status !== 200 || told.body.hash === undefined || write.hash !== null) return
  write.hash = told.body.hash
  write.answer = told.body
}

/** Repeats at one server until somebody has died: on a slow machine a try may be refused before anybody gets to its point. */
export async function insistAt(
  world: ChaosWorld,
  server: Server,
  { write, dying = server }: { write: Write; dying?: Supervised },
): Promise<void> {
  // Its end, and not its next start: who is held starts only when the caller has been told.
  const { length: deaths } = dying.ends
  while (write.hash === null && dying.ends.length === deaths) {
    note(write, await tryOnce(world, server, write))
    await pause(100)
  }
}

/** Repeats with its key until it is told a hash, or `isOver`. Now and then it looks twice. */
export async function insist(
  world: ChaosWorld,
  write: Write,
  { isOver, refusals, looks = 0.1 }: { isOver: () => boolean; refusals: Refusals; looks?: number },
): Promise<void> {
  while (write.hash === null && !isOver()) {
    // A balancer sends nothing to where nobody listens: waiting for a replica is no try.
    if (!world.servers.some((server) => server.isReady())) {
      await pause(20)
      continue
    }
    const told = await tryOnce(world, anyServer(world), write)
    note(write, told)
    if (write.hash === null) {
      const code = told?.body.code ?? (told === null ? 'no answer' : String(told.status))
      refusals.set(code, (refusals.get(code) ?? 0) + 1)
      // What was simulated may not be so any more, and its client is done with it: once or never are both right.
      if (write.mayFail && GIVE_UP.has(code)) {
        write.isAbandoned = true
        return
      }
      if (code === 'account_stopped') {
        write.problems.push('its account was stopped')
        return
      }
      // The longer it is refused, the rarer it asks, up to about a second.
      await pause((30 + world.roll() * 200) * Math.min(6, 1 + write.tries / 4))
    }
  }
  if (write.hash === null) return
  if (world.roll() < looks) await lookUp(world, write)
  if (world.roll() < looks) await askAgain(world, write)
}

/** A hash that was told is known to every replica from then on. */
export async function lookUp(world: ChaosWorld, write: Write): Promise<void> {
  for (let tries = 0; tries < 20; tries++) {
    const told = await readBack(anyServer(world), write)
    if (told?.status === 200) return
    if (told?.status === 404) {
      write.problems.push('was told a hash that the service does not know')
      return
    }
    await pause(100)
  }
}

/** The same key gives the same answer. */
async function askAgain(world: ChaosWorld, write: Write): Promise<void> {
  const told = await tryOnce(world, anyServer(world), write)
  if (told?.status !== 200) return
  // What a sponsor sends may be in another transaction by now.
  const isSame = told.body.operation === undefined ? told.body.hash === write.hash : told.body.id === write.answer?.id
  if (!isSame) write.problems.push('was told another hash the second time')
}

/**
 * Asks once for a cancel or a higher fee. Whatever becomes of it, the write is mined once or, after a cancel, perhaps
 * not at all; a hash that is told leads to it from then on.
 */
export async function change(server: Server, write: Write, how: 'cancel' | 'speed-up'): Promise<Told | null> {
  if (how === 'cancel') write.isCancelAsked = true
  // A hash of a sponsor's is of several.
  const of = write.answer?.operation === undefined ? write.hash : write.answer.id
  const told = await call(server, `/v1/transactions/${of}/${how}`, {
    token: write.account.token,
    timeoutMs: TRY_MS,
    body: undefined,
    method: 'POST',
  })
  if (told?.status === 200) for (const hash of told.body.hashes ?? []) write.hashes.add(hash)
  return withFailure(write, `the ${how}`, told)
}

/** @param by  the hash that was told, or the id */
export const readBack = async (server: Server, write: Write, by: string | null = write.hash): Promise<Told | null> =>
  withFailure(write, 'a look', await readAt(server, write.account, `/v1/transactions/${by}`))

/** A question as the account's own application asks it. */
export const readAt = (server: Server, { token }: Account, path: string): Promise<Told | null> =>
  call(server, path, { token, timeoutMs: TRY_MS })

export function anyServer({ servers, roll }: ChaosWorld): Server {
  const up = servers.filter((server) => server.isReady())
  const some = up.length > 0 ? up : servers
  return some[Math.floor(roll() * some.length)]!
}

/** Asks with a key that was used before, for the same or for something else. */
export const repeat = (server: Server, write: Write, body: Record<string, unknown>): Promise<Told | null> =>
  call(server, routeOf(write), {
    ...{ token: write.account.token, timeoutMs: TRY_MS, body, headers: { 'idempotency-key': write.key } },
  })

async function call(
  { url }: Server,
  path: string,
  options: { token: string; timeoutMs: number; body?: unknown; headers?: Record<string, string>; method?: 'POST' },
): Promise<Told | null> {
  try {
    const response = await fetch(`${url}${path}`, {
      method: options.method ?? (options.body === undefined ? 'GET' : 'POST'),
      headers: {
        authorization: `Bearer ${options.token}`,
        ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      signal: AbortSignal.timeout(options.timeoutMs),
    })
    const body = (await response.json()) as Told['body']
    return { status: response.status, body, isReplay: response.headers.get('idempotent-replayed') === 'true' }
  } catch {
    // Refused, dropped, late, half an answer: the client knows nothing, and repeats.
    return null
  }
}
