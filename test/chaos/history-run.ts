import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import type { App } from '../../src/app.ts'
import { openHead } from '../../src/chain/head.ts'
import type { Chain } from '../../src/chain/network.ts'
import { RpcError } from '../../src/chain/rpc/rpc.ts'
import { readConfig } from '../../src/config.ts'
import { startFollower } from '../../src/follower/follow.ts'
import { indexTransfers } from '../../src/history/index-transfers.ts'
import type { Hex } from '../../src/ids.ts'
import { toHex } from '../../src/hex.ts'
import type { RootDb } from '../../src/store/db.ts'
import { openTelemetry } from '../../src/telemetry.ts'
import { refreshTokens } from '../../src/tokens/refresh.ts'
import { expectedTransfers, storedTransfers } from '../expected-transfers.ts'
import { randomOf } from '../random.ts'
import {
  addressOf,
  scriptedChain,
  type ScriptedBlock,
  type ScriptedChain,
  type ScriptedTransfer,
} from '../nodes/scripted-chain.ts'
import { signerAt } from '../scripted-transactions.ts'
import { until } from '../kit/until.ts'
import { empty, expireLease, type Home } from './history-home.ts'
import { startHistoryNode, type HistoryNode } from '../nodes/history-node.ts'
import { chainLike } from '../opened.ts'
import { systemClock } from '../../src/clock.ts'

/** deeper than any reorganisation here, but for a development chain, which may lose anything */
const FINALITY = 140
const TURNS = 16
/** milliseconds after which a run that does not come to rest has failed; late is not wrong, but has a bound */
const BOUND_MS = 60_000

// They sign what they send: strict mode asks who did.
const PARTIES = Array.from({ length: 12 }, (_, index) => signerAt(0xa00 + index))
const ACCOUNTS: Record<Hex, string> = Object.fromEntries(
  PARTIES.slice(0, 5).map((address) => [address, `00000000-0000-8000-8000-${address.slice(-12)}`]),
)

export type HistoryOutcome = {
  seed: number
  /** null when everything is as it must be */
  problem: string | null
  blocks: number
  transfers: number
  reorganisations: number
  deepest: number
  kills: number
  freezes: number
  lies: Record<string, number>
  ms: number
}

type Run = {
  script: ScriptedChain
  node: HistoryNode
  home: Home
  random: (below: number) => number
  children: ChildProcess[]
  start(): void
  outcome: HistoryOutcome
}

const PROGRAM = new URL('history-program.ts', import.meta.url).pathname

/** Half of what a life costs is starting its processes again: they share what the compiler made. */
const compiled = mkdtempSync(join(tmpdir(), 'chatelaine-compiled-'))
process.once('exit', () => rmSync(compiled, { recursive: true, force: true }))

/**
 * One seeded life of a follower: two processes on one database, or one on the embedded one, behind a node that lies,
 * fails and reorganises, killed and frozen throughout. At the end the tables are compared with what the test wrote
 * down, and with an index of the final chain from scratch.
 * @param program   the process to kill: a mutant, or the real one
 * @param lies      the node tells only these, and often
 */
export async function runHistory(
  seed: number,
  home: Home,
  {
    program = PROGRAM,
    turns = TURNS,
    boundMs = BOUND_MS,
    lies = null,
  }: { program?: string; turns?: number; boundMs?: number; lies?: readonly string[] | null } = {},
): Promise<HistoryOutcome> {
  const startedAt = performance.now()
  const random = randomOf(seed)
  const isStrict = seed % 2 === 1
  const isDevelopment = seed % 4 === 0
  const script = scriptedChain({ isDevelopment, finality: isDevelopment ? 3 : FINALITY })
  script.answer = (method, params) => tellOfToken(script, method, params)
  await home.begin(ACCOUNTS)
  const node = await startHistoryNode(script, { random, isStrict, lies })
  const children: ChildProcess[] = []
  const zeroes = { blocks: 0, transfers: 0, reorganisations: 0, deepest: 0, kills: 0, freezes: 0, ms: 0 }
  const outcome: HistoryOutcome = { seed, problem: null, ...zeroes, lies: node.counts }
  let isOver = false
  const start = () => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program], {
      stdio: ['ignore', 'ignore', process.env.CHAOS_LOG === undefined ? 'ignore' : 'inherit', 'ipc'],
      serialization: 'advanced',
      env: {
        ...process.env,
        ...home.env(),
        ...{ NODE_COMPILE_CACHE: compiled, CHAOS_NODE: node.url, CHAOS_FINALITY: String(script.chain.finality) },
        ...{ CHAOS_DEVELOPMENT: isDevelopment ? 'yes' : 'no', CHAOS_STRICT: isStrict ? 'hash' : 'bloom' },
        ...(random(2) === 0 ? { KILL_SEED: String(random(1_000_000)) } : {}),
      },
    })
    children.push(child)
    home.adopt(child)
    child.once('exit', () => {
      children.splice(children.indexOf(child), 1)
      if (isOver) return
      outcome.kills++
      start()
      expireLease(home.db).catch(() => {})
    })
  }
  const run: Run = { script, node, home, random, children, start, outcome }
  try {
    for (let count = 0; count < home.processes; count++) start()
    await live(run, turns, boundMs)
    await settle(run, boundMs)
  } catch (error) {
    outcome.problem = `does not come to rest: ${(error as Error).message}`
  } finally {
    isOver = true
    await Promise.all(children.map((child) => (child.kill('SIGKILL'), once(child, 'exit'))))
    await node.close()
  }
  outcome.blocks = script.blocks.length
  outcome.problem ??= await judge(run, isStrict)
  outcome.ms = Math.round(performance.now() - startedAt)
  return outcome
}

async function live(run: Run, turns: number, boundMs: number): Promise<void> {
  const { script, node, home, random, children, outcome } = run
  const { db } = home
  // Followed from block 0: a network that is no development chain starts at what is final by then.
  await until('somebody follows', async () => (await cursorHash(db)) !== null, boundMs)
  node.isBad = true
  for (let turn = 0; turn < turns; turn++) {
    const roll = random(10)
    if (roll < 4) for (let count = random(12) + 1; count > 0; count--) mine(run)
    else if (roll < 7) reorganise(run)
    else if (roll === 7) await forkForAWhile(run)
    else if (roll === 8) children[random(children.length)]?.kill('SIGKILL')
    else await freezeForAWhile(run)
    // Sometimes the follower keeps up, sometimes the chain moves on under its hands.
    const how = random(3)
    if (how === 0) {
      const asked = (await cursorHash(db)) ?? ''
      await until('something was stored', async () => (await cursorHash(db)) !== asked || (await cursorHash(db)) === script.blocks.at(-1)!.hash, boundMs) // prettier-ignore
    } else await new Promise((resolve) => setTimeout(resolve, random(30)))
  }
  outcome.blocks = script.blocks.length
}

function mine({ script, random }: Run): void {
  const somebody = () => PARTIES[random(PARTIES.length)]!
  const transfer = (): ScriptedTransfer => {
    const [from, to] = [somebody(), random(12) === 0 ? addressOf(0) : somebody()]
    const token = (type: number) => addressOf(0x7000 + type * 0x100 + random(6))
    const kind = random(3)
    if (kind === 0) return { type: 'ERC20', token: token(0), from, to, items: [{ id: null, value: BigInt(random(3)) }] }
    if (kind === 1) return { type: 'ERC721', token: token(1), from, to, items: [{ id: BigInt(random(99)), value: 1n }] }
    const items = Array.from({ length: random(4) + 1 }, () => ({ id: BigInt(random(9)), value: BigInt(random(3)) }))
    return { type: 'ERC1155', token: token(2), from, to, items }
  }
  const transactions = Array.from({ length: random(3) }, () => {
    const transfers = Array.from({ length: random(4) }, transfer)
    return { from: somebody(), reverted: random(8) === 0, transfers }
  })
  script.mine(...transactions)
}

/** One block, or up to 128; on a development chain the other branch may be shorter. */
function reorganise(run: Run): void {
  const { script, random, outcome } = run
  const most = [3, 12, 40, 128][random(4)]!
  const depth = Math.min(1 + random(most), script.blocks.length - 1)
  if (depth < 1) return
  script.lose(depth)
  const isShorter = script.chain.faucet !== null && random(4) === 0
  const blocks = isShorter ? random(depth) : depth + 1 + random(3)
  for (let count = 0; count < blocks; count++) mine(run)
  outcome.reorganisations++
  outcome.deepest = Math.max(outcome.deepest, depth)
}

/** Two nodes behind one address that disagree about the newest blocks, until one of them wins. */
async function forkForAWhile(run: Run): Promise<void> {
  const { script, node, random, outcome } = run
  const depth = Math.min(1 + random(8), script.blocks.length - 1)
  const ours: ScriptedBlock[] = script.blocks
  script.blocks = ours.slice(0, ours.length - depth)
  for (let count = 0; count < depth + random(2); count++) mine(run)
  node.otherFork = ours
  await new Promise((resolve) => setTimeout(resolve, 40))
  node.otherFork = null
  mine(run)
  mine(run)
  outcome.reorganisations++
}

/** The one who follows stops in the middle of what it does; another takes over; then it wakes and believes that it leads. */
async function freezeForAWhile(run: Run): Promise<void> {
  const { home, children, random, outcome } = run
  const frozen = children[random(children.length)]
  if (frozen === undefined) return
  frozen.kill('SIGSTOP')
  outcome.freezes++
  // Frozen in the middle of a transaction it holds the row, and this waits until it wakes.
  const expired = expireLease(home.db).catch(() => {})
  for (let count = random(4) + 1; count > 0; count--) mine(run)
  if (random(2) === 0) reorganise(run)
  await new Promise((resolve) => setTimeout(resolve, 60))
  frozen.kill('SIGCONT')
  await expired
}

/** null before the first block, and while nobody is there to be asked */
const cursorHash = async (db: RootDb): Promise<Hex | null> => {
  const asked = db.selectFrom('history_cursors').select('block_hash').executeTakeFirst()
  const row = await asked.catch(() => undefined)
  return row === undefined ? null : toHex(row.block_hash)
}

/** Everything becomes good, and what was stored has to become right within the bound. */
async function settle(run: Run, boundMs: number): Promise<void> {
  const { script, node, home } = run
  const { db } = home
  node.isBad = false
  mine(run)
  mine(run)
  const isThere = async () => (await cursorHash(db)) === script.blocks.at(-1)!.hash
  await until('the cursor is at the newest block', isThere, boundMs)
  // Tokens that a bad node kept from telling are asked again after a minute: now.
  const isUnknown = () => db.selectFrom('tokens').select('address').where('state', '<>', 'KNOWN').execute().catch(() => null) // prettier-ignore
  await until(
    'every token is known',
    async () => {
      const waiting = await isUnknown()
      if (waiting === null) return false
      if (waiting.length === 0) return true
      await db
        .updateTable('tokens')
        .set({ retry_at: sql<Date>`now()` })
        .where('state', '<>', 'KNOWN')
        .execute()
        .catch(() => {})
      mine(run)
      await until('the cursor is at the newest block', isThere, boundMs)
      await new Promise((resolve) => setTimeout(resolve, 30))
      return false
    },
    boundMs,
  )
}

/** The tables as they are, against the test's own list and against an index from scratch by an honest node. */
async function judge(run: Run, isStrict: boolean): Promise<string | null> {
  const { db, close } = await run.home.leftBehind()
  return compare(run, db, isStrict).finally(close)
}

async function compare({ script, outcome }: Run, db: RootDb, isStrict: boolean): Promise<string | null> {
  const stored = await storedTransfers(db)
  outcome.transfers = stored.length
  const wanted = expectedTransfers(script.blocks, ACCOUNTS)
  const wrong = firstDifference(stored, wanted)
  if (wrong !== null) return `transfers: ${wrong}`
  const lived = await dump(db)
  await empty(db, ACCOUNTS)
  const chain: Chain = chainLike(script.chain, {
    head: openHead(systemClock),
    verification: isStrict ? 'hash' : 'bloom',
  })
  const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3 }
  const app = { config, db, telemetry: openTelemetry('scratch', 'silent'), clock: systemClock } as unknown as App
  const all = script.blocks
  script.blocks = all.slice(0, 1)
  const follower = startFollower(app, chain, [indexTransfers])
  await until('the fresh index has begun', async () => (await cursorHash(db)) === all[0]!.hash)
  script.blocks = all
  await until('the fresh index is at the newest block', async () => (await cursorHash(db)) === all.at(-1)!.hash)
  await refreshTokens(app, chain)
  await follower.stop()
  const fresh = await dump(db)
  for (const table of ['transfers', 'blocks', 'cursor'] as const) {
    const difference = firstDifference(lived[table], fresh[table])
    if (difference !== null) return `${table}: ${difference}`
  }
  // Tokens that only a lost branch had stay known; nobody meets them.
  const tokens = new Set(fresh.tokens)
  const missing = [...tokens].filter((line) => !lived.tokens.includes(line))
  return missing.length === 0 ? null : `tokens: ${missing[0]} is not among ${lived.tokens.join('; ')}`
}

function firstDifference(have: string[], want: string[]): string | null {
  const extra = have.find((line) => !want.includes(line))
  const missing = want.find((line) => !have.includes(line))
  if (extra === undefined && missing === undefined) return have.length === want.length ? null : 'a row twice'
  return `${have.length} rows instead of ${want.length}; extra: ${extra ?? 'none'}; missing: ${missing ?? 'none'}`
}

async function dump(db: RootDb): Promise<Record<'transfers' | 'blocks' | 'cursor' | 'tokens', string[]>> {
  const lines = async (query: string) =>
    (await sql<{ line: string }>`select line::text from (${sql.raw(query)}) as line order by 1`.execute(db)).rows.map(({ line }) => line) // prettier-ignore
  return {
    transfers: await lines('select * from transfers'),
    blocks: await lines('select * from blocks'),
    cursor: await lines(
      'select cursors.chain_id, cursors.block_number, cursors.block_hash, halted, history.block_number as history_number, history.block_hash as history_hash from cursors left join history_cursors as history on history.chain_id = cursors.chain_id',
    ),
    tokens: await lines('select address, symbol, name, decimals, state from tokens'),
  }
}

/**
 * What tokens say of themselves depends on the branch: each names the block in which it first appeared. A node that
 * does not have the block that it is asked at says so.
 */
function tellOfToken(script: ScriptedChain, method: string, params: unknown[]): unknown {
  const at = params[1] as 'latest' | Hex | { blockHash: Hex }
  const reach =
    at === 'latest'
      ? script.blocks.length - 1
      : typeof at === 'string'
        ? Number(at)
        : script.blocks.findIndex(({ hash }) => hash === at.blockHash)
  if (reach < 0) throw new RpcError(-32000, 'header not found', undefined)
  if (method !== 'eth_call' && method !== 'eth_getCode') throw new RpcError(-32601, 'Method not found', undefined)
  const call = params[0] as Hex | { to: Hex; data: Hex }
  const { to, data } = typeof call === 'string' ? { to: call, data: null } : call
  const first = script.blocks.slice(0, reach + 1).find(({ transactions }) => transactions.some((one) => !one.reverted && one.transfers.some(({ token }) => token === to))) // prettier-ignore
  if (method === 'eth_getCode') return first === undefined ? '0x' : '0x60'
  if (first === undefined) return '0x'
  if (data === '0x313ce567') return `0x${'0'.repeat(63)}6`
  const name = Buffer.from(`T${first.hash.slice(2, 10)}`).toString('hex')
  return `0x${'20'.padStart(64, '0')}${(name.length / 2).toString(16).padStart(64, '0')}${name.padEnd(64, '0')}`
}
