import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { openSilentNode } from '../../test/silent-node.ts'
import { until } from '../../test/kit/until.ts'
import type { Chain } from '../chain/network.ts'
import { closeChain } from '../chain/open.ts'
import { RpcUnavailable } from '../chain/rpc/rpc.ts'
import { readConfig, readSome, type ConfigError } from '../config.ts'
import { openTelemetry } from '../telemetry.ts'
import { readNetwork, updateNetwork } from './change-network.ts'
import type { NetworkFacts } from './network-facts.ts'
import { bindNetwork, listNetworks, templatesAt } from './networks.ts'
import { readNodes, writeNodes } from './nodes-file.ts'
import {
  NETWORK_KEYS,
  openKnownNetwork,
  openNetwork,
  openNetworks,
  storedNetworks,
  type NetworkContext,
  type NetworkToOpen,
} from './open-networks.ts'
import { systemClock } from '../clock.ts'
import { readValueOf } from '../transfers/amount.ts'

const GENESIS = `0x${'5e'.repeat(32)}` as const

let here: TestDatabase
let folder: string
let place: NetworkContext
const logged: unknown[] = []
before(async () => {
  here = await testDatabase()
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-networks-'))
  const line = (event: string, fields?: unknown, error?: unknown) =>
    void logged.push({ event, fields, error: String(error) })
  const telemetry = { ...openTelemetry('test', 'silent'), log: { debug: line, info: line, warn: line, error: line } }
  place = {
    db: here.db,
    config: readConfig({ NODE_ENV: 'test' }, 'server'),
    telemetry,
    origin: 'https://wallet.example',
    clock: systemClock,
  }
  for (const [name, chainId] of [
    ['one', 1],
    ['two', 2],
    ['three', 3],
  ] as const)
    await bindNetwork(here.db, { ...facts(name, chainId), genesisHash: GENESIS }, { mayBegin: false })
})
after(async () => {
  await here.close()
  await rm(folder, { recursive: true })
})

const facts = (name: string, chainId: number): NetworkFacts => ({
  chainId,
  name,
  symbol: 'ONE',
  coin: 'One',
  explorer: templatesAt('https://scan.example'),
  finality: 7,
  blockVerification: null,
  feeCapGwei: null,
  gas: 'self' as const,
})
const want = (name: string, chainId: number, ...rpcUrls: string[]): NetworkToOpen => ({
  ...facts(name, chainId),
  rpcUrls,
})
const fileOf = async (nodes: Record<string, string[]>): Promise<string> => {
  const file = join(folder, 'some.json')
  await writeNodes(file, nodes)
  return file
}
const closeAll = (chains: Map<number, Chain>) => chains.forEach(({ rpc }) => rpc.close())

test('a network whose node is down keeps no other from starting, and is served when the node comes', async () => {
  const up = await openSilentNode({ chainId: 1 })
  const down = await openSilentNode({ chainId: 2 })
  await down.close()
  const chains = new Map<number, Chain>()
  const keepTrying = await openNetworks(place, [want('one', 1, up.url), want('two', 2, down.url)], chains, {
    retryEveryMs: 20,
  })
  assert.deepEqual([...chains.keys()], [1])
  const { symbol, finality, explorer } = chains.get(1)!
  assert.deepEqual([symbol, finality, explorer.tx('0xab')], ['ONE', 7, 'https://scan.example/tx/0xab'])

  const back = await openSilentNode({ chainId: 2, port: down.port })
  const opened = Promise.withResolvers<Chain>()
  const stop = keepTrying(opened.resolve)
  assert.equal((await opened.promise).chainId, 2)
  assert.deepEqual([...chains.keys()], [1, 2])
  await stop()
  closeAll(chains)
  await Promise.all([up.close(), back.close()])
  assert.equal(logged.filter((line) => (line as { event: string }).event === 'network_down').length, 1)
  assert.doesNotMatch(JSON.stringify(logged), /key-of-the-node/)
})

test('how blocks are checked and what is paid at most is said network by network, and for the others by the settings', async () => {
  const [one, two] = await Promise.all([1, 2].map((chainId) => openSilentNode({ chainId })))
  const chains = new Map<number, Chain>()
  const own = { ...want('one', 1, one!.url), blockVerification: 'hash' as const, feeCapGwei: 3 }
  const config = { ...place.config, BLOCK_VERIFICATION: 'count' as const, FEE_CAP_GWEI: 50, TIP_CAP_GWEI: 2 }
  await openNetworks({ ...place, config }, [own, want('two', 2, two!.url)], chains)
  const gwei = 1_000_000_000n
  assert.deepEqual(
    [1, 2].map((chainId) => [
      chains.get(chainId)!.verification,
      chains.get(chainId)!.feeCapWei,
      chains.get(chainId)!.tipCapWei,
    ]),
    [
      ['hash', 3n * gwei, 2n * gwei],
      ['count', 50n * gwei, 2n * gwei],
    ],
  )
  const [kept] = await storedNetworks({ ...place, config }, await fileOf({ one: [one!.url] }))
  assert.deepEqual([kept!.blockVerification, kept!.feeCapGwei], ['hash', 3])
  closeAll(chains)
  await Promise.all([one!.close(), two!.close()])
})

/** 0.01 of the native currency, in its smallest unit */
const aHundredth = (chain: Chain) => readValueOf(chain, { tokenType: 'NATIVE', amount: { digits: 1n, places: 2 } })

test('whatever somebody writes of a network, 0.01 of its native currency sends as much', async () => {
  const node = await openSilentNode({ chainId: 1 })
  const file = await fileOf({ one: [node.url] })
  const { rows } = await sql<{ name: string; type: string }>`
    select column_name as name, data_type as type from information_schema.columns
    where table_schema = current_schema() and table_name = 'networks' and column_name not in ('chain_id', 'name')
      and (data_type in ('bigint', 'integer', 'smallint', 'numeric')
        or column_name in ('symbol', 'coin', 'finality', 'sponsor_per_day', 'sponsor_low'))`.execute(here.db)
  assert.ok(rows.some(({ name }) => name === 'fee_cap_gwei'))
  const written = rows.map(({ name }) => sql`${sql.ref(name)} = '20'`)
  await sql`update networks set ${sql.join(written)} where name = 'one'`.execute(here.db)
  const [stored] = await storedNetworks(place, file)
  assert.deepEqual([stored!.symbol, stored!.feeCapGwei], ['20', 20])
  const chain = await openNetwork(place, stored!)
  assert.equal(await aHundredth(chain), 10n ** 16n)
  closeChain(chain)
  await bindNetwork(here.db, { ...facts('one', 1), backfillFrom: null, genesisHash: GENESIS }, { mayBegin: false })
  await node.close()
})

test('native currency has 18 decimals, but on the networks for which NATIVE_DECIMALS says others', async () => {
  const [one, two] = [await openSilentNode({ chainId: 1 }), await openSilentNode({ chainId: 2 })]
  const file = await fileOf({ one: [one.url] })
  const decimalsWith = async (env: Record<string, string>) => {
    const chains = new Map<number, Chain>()
    const there = { ...place, config: readConfig({ NODE_ENV: 'test', ...env }, 'server') }
    // The network of the settings is what its node says it is: no chain id is given.
    const ofSettings = { ...want('two', 2, two.url), chainId: undefined }
    await openNetworks(there, [...(await storedNetworks(there, file)), ofSettings], chains)
    closeAll(chains)
    return [1, 2].map((chainId) => chains.get(chainId)!.decimals)
  }
  for (const [NATIVE_DECIMALS, decimals] of [
    ['', [18, 18]],
    ['2:6', [18, 6]],
    ['1:0,2:36', [0, 36]],
    [' 1:8\n2:18, 77:6 ', [8, 18]],
  ] as const)
    assert.deepEqual(await decimalsWith({ NATIVE_DECIMALS }), decimals, NATIVE_DECIMALS)
  await Promise.all([one.close(), two.close()])
})

test('NATIVE_DECIMALS that cannot be read ends the start of each program that has it, and a command, by its name', () => {
  const wrong = ['6', '1', '1:', ':6', '0:6', '01:6', '1:06', '1:37', '1:-1', '1:6.5', '1:1e1', '0x1:6', '1:6;2:6', '1:6,two:6', '1:6:6', '1=6', '1: 6', '1:6,1:6', '1:6 1:18', `${2 ** 53}:6`, ',', ' '] // prettier-ignore
  for (const NATIVE_DECIMALS of wrong)
    for (const read of [
      () => readConfig({ NATIVE_DECIMALS }, 'server'),
      () => readConfig({ NATIVE_DECIMALS, NODE_ENV: 'production' }, 'auth'),
      () => readSome({ NATIVE_DECIMALS }, NETWORK_KEYS),
    ])
      assert.throws(
        read,
        ({ problems }: ConfigError) => problems.some((line) => line.startsWith('NATIVE_DECIMALS must be ')),
        NATIVE_DECIMALS,
      )
})

test('a network that was opened before is opened again without changing what is kept of it; an unknown one is not', async () => {
  const node = await openSilentNode({ chainId: 2 })
  const chain = await openKnownNetwork(place, { ...want('two', 2, node.url), symbol: 'OTHER' })
  assert.equal(chain.symbol, 'OTHER')
  chain.rpc.close()
  const [kept] = await storedNetworks(place, await fileOf({ two: [node.url] }))
  assert.equal(kept!.symbol, 'ONE')
  await node.close()
  const unknown = await openSilentNode({ chainId: 77 })
  await assert.rejects(openKnownNetwork(place, want('unknown', 77, unknown.url)), /no server has opened it/)
  await unknown.close()
})

test('a node of another chain refuses the start, with the network’s name and without the node’s address', async () => {
  const node = await openSilentNode({ chainId: 9 })
  const chains = new Map<number, Chain>()
  await assert.rejects(openNetworks(place, [want('one', 1, node.url)], chains), (error: Error) => {
    assert.match(error.message, /^network one: the node has chain id 9/)
    assert.doesNotMatch(error.message, /127\.0\.0\.1|key/)
    return true
  })
  await node.close()
  assert.equal(chains.size, 0)
})

test('a network that turns out to be another chain later is not served, and the others go on', async () => {
  const down = await openSilentNode({ chainId: 3 })
  await down.close()
  const chains = new Map<number, Chain>()
  const keepTrying = await openNetworks(place, [want('three', 3, down.url)], chains, { retryEveryMs: 20 })
  const wrong = await openSilentNode({ chainId: 4, port: down.port })
  const refused = Promise.withResolvers<void>()
  const { log } = place.telemetry
  place.telemetry.log = { ...log, error: (event) => (event === 'network_refused' ? refused.resolve() : undefined) }
  const stop = keepTrying(() => assert.fail('another chain was served'))
  await refused.promise
  await stop()
  place.telemetry.log = log
  await wrong.close()
  assert.equal(chains.size, 0)
})

test('the networks of the database are served with the nodes of the file; what has none is told', async () => {
  const file = join(folder, 'networks.json')
  assert.deepEqual(await storedNetworks(place, file), [])
  await writeNodes(file, { one: ['https://a.example/key'], unknown: ['https://b.example'] })
  logged.length = 0
  const stored = await storedNetworks(place, file)
  assert.deepEqual(
    stored.map(({ name, rpcUrls, chainId }) => [name, rpcUrls, chainId]),
    [['one', ['https://a.example/key'], 1]],
  )
  const told = logged
    .map((line) => line as { event: string; fields: { network?: string } })
    .map(({ event, fields }) => `${event} ${fields.network}`)
  assert.deepEqual(told, [
    'nodes_of_unknown_network unknown',
    'network_without_nodes three',
    'network_without_nodes two',
  ])
  await chmod(file, 0o644)
  await storedNetworks(place, file)
  assert.ok(JSON.stringify(logged).includes('networks_file_open_to_all'))
})

test('a network that is opened late keeps the first block to look up that an operator set meanwhile', async () => {
  const node = await openSilentNode({ chainId: 2 })
  const file = join(folder, 'late.json')
  await writeNodes(file, { two: [node.url] })
  const [wanted] = await storedNetworks(place, file)
  await updateNetwork(here.db, 'two', { backfillFrom: 1_200 })
  closeChain(await openNetwork(place, wanted!))
  assert.equal((await listNetworks(here.db)).find(({ name }) => name === 'two')!.backfillFrom, 1_200)
  await node.close()
})

test('a network that is opened late keeps every limit that an operator set meanwhile', async () => {
  const down = await openSilentNode({ chainId: 2 })
  await down.close()
  await updateNetwork(here.db, 'two', { sponsorPerDay: '900', pagesPerUser: '90', pagesPerDay: '900' })
  const file = join(folder, 'limits.json')
  await writeNodes(file, { two: [down.url] })
  const chains = new Map<number, Chain>()
  const keepTrying = await openNetworks(place, await storedNetworks(place, file), chains, { retryEveryMs: 20 })
  const set = { sponsorPerDay: '1', sponsorLow: '5', pagesPerUser: null, pagesPerDay: null, feeCapGwei: 3 }
  await updateNetwork(here.db, 'two', set)
  const node = await openSilentNode({ chainId: 2, port: down.port })
  const opened = Promise.withResolvers<Chain>()
  const stop = keepTrying(opened.resolve)
  await opened.promise
  await stop()
  const { sponsorPerDay, sponsorLow, pagesPerUser, pagesPerDay, feeCapGwei } = await readNetwork(here.db, 'two')
  assert.deepEqual({ sponsorPerDay, sponsorLow, pagesPerUser, pagesPerDay, feeCapGwei }, set)
  closeAll(chains)
  await node.close()
})

test('a file of nodes that cannot be used is refused with every place, never with an address', async () => {
  const file = join(folder, 'bad.json')
  for (const [text, problem] of [
    ['{ "one": ["https://secret-key"', /does not hold JSON/],
    ['["https://secret-key"]', /must contain a list/],
    ['{ "one": "https://secret-key", "two": [], "three": ["ws://secret-key"] }', /one must[^]*two must[^]*three must/],
  ] as const) {
    await writeFile(file, text)
    await assert.rejects(
      readNodes(file),
      (error: Error) => problem.test(error.message) && !error.message.includes('secret-key'),
    )
  }
})

test('a network that cannot be served as its settings say is not, and is looked at again, as one whose node gave no answer to that', async () => {
  const [one, two] = [await openSilentNode({ chainId: 1 }), await openSilentNode({ chainId: 2 })]
  const chains = new Map<number, Chain>()
  let [looks, looksAtOne] = [0, 0]
  const explain = async ({ chainId }: Chain) => {
    if (chainId === 1) return ++looksAtOne < 4 ? 'it has no contracts' : null
    if (++looks < 3) throw new RpcUnavailable('the node took too long', { timedOut: true })
    return null
  }
  const wanted = [want('one', 1, one.url), want('two', 2, two.url)]
  const keepTrying = await openNetworks(place, wanted, chains, {
    retryEveryMs: 20,
    lookAgainEveryMs: 100,
    explain,
  })
  assert.deepEqual([...chains.keys()], [])
  const opened: number[] = []
  const stop = keepTrying(({ chainId }) => void opened.push(chainId))
  await until('both are served', () => opened.length === 2)
  await stop()
  // The second is asked at the pace of outages.
  assert.deepEqual(opened, [2, 1])
  assert.deepEqual([looks, looksAtOne], [3, 4])
  const refusals = logged.filter((entry) => (entry as { event: string }).event === 'network_cannot_sponsor')
  assert.deepEqual(refusals, [{ event: 'network_cannot_sponsor', fields: { network: 'one', reason: 'it has no contracts' }, error: 'undefined' }]) // prettier-ignore
  closeAll(chains)
  await Promise.all([one.close(), two.close()])
})
