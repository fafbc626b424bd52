import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from '../../src/ids.ts'
import type { Account, ChaosWorld, Server } from './transactions-world.ts'

/** One write that a client wants: its marker is in its calldata and in no other's. */
export type Write = {
  account: Account
  marker: bigint
  key: string
  /** the first hash that the client was told; null as long as it knows nothing */
  hash: Hex | null
  tries: number
  /** the client gave up before it was told anything: once or never are both right */
  isAbandoned: boolean
  problems: string[]
}

export type Told = { status: number; body: { hash?: Hex; state?: string; code?: string } }

/** What clients were answered beside success, by code, for the report. */
export type Refusals = Map<string, number>

const TRY_MS = 12_000
/** Writes nothing, costs little and never reverts; declared as one that writes. */
const ABI = 'echoUint256(uint256)'

let markers = 0n
/** Unique in this process and, with the seed of the run in it, across runs. */
export const nextMarker = (seed: number): bigint => (BigInt(seed) << 64n) | ++markers

export function newWrite(account: Account, seed: number): Write {
  const marker = nextMarker(seed)
  return { account, marker, key: `write ${marker}`, hash: null, tries: 0, isAbandoned: false, problems: [] }
}

/** One try. Null when there was no answer. */
export async function tryOnce(
  world: ChaosWorld,
  server: Server,
  write: Write,
  timeoutMs = TRY_MS,
): Promise<Told | null> {
  write.tries++
  return call(server, '/v1/contracts/method/write', {
    token: write.account.token,
    timeoutMs,
    body: { address: world.probe, abi: ABI, args: [String(write.marker)] },
    headers: { 'idempotency-key': write.key },
  })
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
    if (told?.status === 200 && told.body.hash !== undefined) write.hash = told.body.hash
    else {
      const code = told?.body.code ?? (told === null ? 'no answer' : String(told.status))
      refusals.set(code, (refusals.get(code) ?? 0) + 1)
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
  if (told?.status === 200 && told.body.hash !== write.hash)
    write.problems.push('was told another hash the second time')
}

export const readBack = (server: Server, { account, hash }: Write): Promise<Told | null> =>
  call(server, `/v1/transactions/${hash}`, { token: account.token, timeoutMs: TRY_MS })

function anyServer({ servers, roll }: ChaosWorld): Server {
  const up = servers.filter((server) => server.isReady())
  const some = up.length > 0 ? up : servers
  return some[Math.floor(roll() * some.length)]!
}

async function call(
  { url }: Server,
  path: string,
  options: { token: string; timeoutMs: number; body?: unknown; headers?: Record<string, string> },
): Promise<Told | null> {
  try {
    const response = await fetch(`${url}${path}`, {
      method: options.body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${options.token}`,
        ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      signal: AbortSignal.timeout(options.timeoutMs),
    })
    return { status: response.status, body: (await response.json()) as Told['body'] }
  } catch {
    // Refused, dropped, late, half an answer: the client knows nothing, and repeats.
    return null
  }
}
