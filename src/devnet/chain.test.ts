import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { until } from '../../test/kit/until.ts'
import type { Logger } from '../log.ts'
import { type ChainOptions, startChain } from './chain.ts'
import { isDue } from './miner.ts'
import { rpc } from './rpc.ts'

test('blocks come at their pace while something happens, and rarely otherwise', () => {
  const calm = { number: 10, ageMs: 5_000, pending: 0, settledAt: 10 }
  assert.equal(isDue(calm), false)
  assert.equal(isDue({ ...calm, pending: 1 }), true)
  assert.equal(isDue({ ...calm, settledAt: 11 }), true)
  assert.equal(isDue({ ...calm, ageMs: 60_000 }), true)
})

test('a transaction is mined and becomes final without anybody asking, and then the chain rests', async (t) => {
  const { rpcUrl } = await chain(t, folder(t))
  const [from, to] = await rpc<string[]>(rpcUrl, 'eth_accounts')
  const hash = await rpc(rpcUrl, 'eth_sendTransaction', { from, to, value: '0x1' })
  const { blockNumber } = await until('the receipt', () =>
    rpc<{ blockNumber: string } | null>(rpcUrl, 'eth_getTransactionReceipt', hash),
  )
  await until('its block is final', async () => Number(await numberOf(rpcUrl, 'finalized')) >= Number(blockNumber))
  const rested = await until('the chain rests', async () => {
    const before = await numberOf(rpcUrl, 'latest')
    await wait(250)
    return (await numberOf(rpcUrl, 'latest')) === before ? before : null
  })
  assert.ok(rested - Number(blockNumber) <= 8)
  assert.equal(await rpc(rpcUrl, 'eth_chainId'), '0x7a69')
})

test('a stopped chain continues on the same port with the same blocks', async (t) => {
  const dir = folder(t)
  const first = await chain(t, dir)
  const mined = await mineTo(first.rpcUrl, 20)
  await first.stop()
  assert.equal(await first.exited, 0)
  const second = await chain(t, dir)
  assert.equal(second.port, first.port)
  assert.deepEqual(await rpc(second.rpcUrl, 'eth_getBlockByNumber', '0x14', false), mined)
})

test('restarts change neither the genesis nor the clock', async (t) => {
  const dir = folder(t)
  const geneses = new Set<string>()
  for (const round of [1, 2, 3, 4]) {
    const { rpcUrl, stop } = await chain(t, dir)
    const second = Math.floor(Date.now() / 1_000)
    await mineTo(rpcUrl, round)
    const newest = await rpc<{ timestamp: string }>(rpcUrl, 'eth_getBlockByNumber', 'latest', false)
    const at = Number(newest.timestamp)
    assert.ok(at >= second - 2 && at <= Date.now() / 1_000 + 2, `${at - second} s`)
    const { hash } = await rpc<{ hash: string }>(rpcUrl, 'eth_getBlockByNumber', '0x0', false)
    const first = await rpc<{ parentHash: string }>(rpcUrl, 'eth_getBlockByNumber', '0x1', false)
    assert.equal(first.parentHash, hash)
    geneses.add(hash)
    await stop()
    // A genesis is distinguished by its second.
    await until('the next second', () => Math.floor(Date.now() / 1_000) > second)
  }
  assert.equal(geneses.size, 1)
})

test('when its parent is killed the chain ends by itself and keeps its state', async (t) => {
  const dir = folder(t)
  const parent = spawn(process.execPath, [
    '--input-type=module-typescript',
    '-e',
    `import { startChain } from ${JSON.stringify(new URL('chain.ts', import.meta.url).href)}
     process.on('SIGINT', () => console.log('interrupted'))
     const none = () => {}
     const { rpcUrl } = await startChain({ dir: ${JSON.stringify(dir)}, port: 0, blockSeconds: 1, log: { debug: none, info: none, warn: none, error: none } })
     console.log(rpcUrl)`,
  ], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] }) // prettier-ignore
  t.after(() => parent.kill('SIGKILL'))
  const words = parent.stdout[Symbol.asyncIterator]()
  const rpcUrl = String((await words.next()).value).trim()
  const mined = await mineTo(rpcUrl, 30)

  // Ctrl-C in a terminal is a signal to the whole group. The chain must outlive it until its parent decides.
  process.kill(-parent.pid!, 'SIGINT')
  assert.equal(String((await words.next()).value), 'interrupted\n')
  assert.equal(await rpc(rpcUrl, 'eth_chainId'), '0x7a69')

  const pid = readFileSync(join(dir, 'chain.pid'), 'utf8')
  process.kill(-parent.pid!, 'SIGKILL')
  await once(parent, 'exit')
  const next = await chain(t, dir)
  assert.equal(commandLine(pid), '', 'the orphan is gone before the next chain starts')
  assert.deepEqual(await rpc(next.rpcUrl, 'eth_getBlockByNumber', '0x1e', false), mined)
})

test('two chains side by side take two ports', async (t) => {
  const [one, other] = await Promise.all([
    chain(t, folder(t), { port: undefined }),
    chain(t, folder(t), { port: undefined }),
  ])
  assert.notEqual(one.port, other.port)
  await rpc(one.rpcUrl, 'anvil_mine', '0x64')
  assert.ok((await numberOf(other.rpcUrl, 'latest')) < 100)
})

test('a wanted port that is taken is refused by name', async (t) => {
  const holder = createServer().listen(0, '127.0.0.1')
  t.after(() => holder.close())
  await once(holder, 'listening')
  const { port } = holder.address() as { port: number }
  await assert.rejects(chain(t, folder(t), { port }), {
    name: 'ChainStartError',
    message: new RegExp(`CHAIN_PORT ${port} is in use`),
  })
})

test('a state torn at exit falls back to the last saved one', async (t) => {
  const dir = folder(t)
  const first = await chain(t, dir)
  await until('the state is written', () => existsSync(join(dir, 'chain-state.json.gz')))
  const genesis = await rpc(first.rpcUrl, 'eth_getBlockByNumber', '0x1', false)
  await first.stop()
  truncateSync(join(dir, 'chain-exit.json'), 700)
  const warnings: string[] = []
  const second = await chain(t, dir, { log: { ...quiet, warn: (event) => warnings.push(event) } })
  assert.deepEqual(await rpc(second.rpcUrl, 'eth_getBlockByNumber', '0x1', false), genesis)
  assert.deepEqual(warnings, ['chain_state_unreadable'])
})

test('with every state unreadable the chain starts afresh and says so', async (t) => {
  const dir = folder(t)
  writeFileSync(join(dir, 'chain-exit.json'), '{"block":}')
  writeFileSync(join(dir, 'chain-state.json.gz'), 'not gzip')
  const warnings: string[] = []
  const { rpcUrl } = await chain(t, dir, { log: { ...quiet, warn: (event) => warnings.push(event) } })
  assert.equal(await rpc(rpcUrl, 'eth_chainId'), '0x7a69')
  assert.deepEqual(warnings, ['chain_state_unreadable', 'chain_state_unreadable', 'chain_state_discarded'])
})

const silent = () => {}
const quiet: Logger = { debug: silent, info: silent, warn: silent, error: silent }

function folder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'chain-'))
  t.after(() => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }))
  return dir
}

/** A chain that is fast and ends with the test; on any free port the first time, on its own afterwards. */
async function chain(t: TestContext, dir: string, options: Partial<ChainOptions> = {}) {
  const port = existsSync(join(dir, 'chain-port')) ? {} : { port: 0 }
  const started = await startChain({ dir, ...port, blockSeconds: 0.05, log: quiet, ...options })
  t.after(started.stop)
  return started
}

async function mineTo(rpcUrl: string, number: number): Promise<unknown> {
  await rpc(rpcUrl, 'anvil_mine', `0x${number.toString(16)}`)
  return rpc(rpcUrl, 'eth_getBlockByNumber', `0x${number.toString(16)}`, false)
}

async function numberOf(rpcUrl: string, tag: string): Promise<number> {
  return Number((await rpc<{ number: string }>(rpcUrl, 'eth_getBlockByNumber', tag, false)).number)
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
