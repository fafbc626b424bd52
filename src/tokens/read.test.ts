import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, suite, test } from 'node:test'
import { sql } from 'kysely'
import type { LogForm } from '../abi/transfers.ts'
import type { App } from '../app.ts'
import { explorerAt, type Chain } from '../chain/network.ts'
import { openRpc, RpcError, RpcUnavailable, type Rpc } from '../chain/rpc/rpc.ts'
import { launchAnvil, type Anvil } from '../devnet/anvil.ts'
import { rpc } from '../devnet/rpc.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import type { TokenFacts } from './ask.ts'
import { noteTokens } from './record.ts'
import { readFactsOfTokens, readTokenFacts } from './read.ts'
import { refreshTokens } from './refresh.ts'
import { chainLike, openedHead } from '../../test/opened.ts'
import { systemClock } from '../clock.ts'

const NOTHING = { symbol: '', name: '', decimals: 0 }
const TOKENS: Record<string, { facts: typeof NOTHING; state: 'KNOWN' | 'FAILED'; form?: LogForm }> = {
  Bytes32Token: { facts: { symbol: 'OLD', name: 'Old Token', decimals: 18 }, state: 'KNOWN' },
  NamelessToken: { facts: NOTHING, state: 'FAILED' },
  RevertingToken: { facts: NOTHING, state: 'FAILED' },
  EndlessToken: { facts: { ...NOTHING, decimals: 18 }, state: 'FAILED' },
  HugeToken: { facts: { symbol: 'HUGE', name: '', decimals: 18 }, state: 'FAILED' },
  Decimals255Token: { facts: { symbol: 'D255', name: 'Decimals', decimals: 0 }, state: 'KNOWN' },
  DecimalsMaxToken: { facts: { symbol: 'DMAX', name: 'Decimals', decimals: 0 }, state: 'KNOWN' },
  LyingToken: { facts: NOTHING, state: 'FAILED' },
  Silent: { facts: NOTHING, state: 'FAILED' },
  // A collectible has no decimals.
  SampleItems: { facts: { symbol: 'SITM', name: 'Sample Items', decimals: 0 }, state: 'KNOWN', form: 'ERC1155' },
}
/** Returns the metadata of a token, without its standards. */
const wordsOf = ({ symbol, name, decimals }: TokenFacts) => ({ symbol, name, decimals })
const addressOf = (name: string): Hex => `0x${Buffer.from(name).toString('hex').padStart(40, '0').slice(-40)}`

suite('what tokens call themselves', () => {
  let database: TestDatabase
  let anvil: Anvil
  let dir: string
  let real: Rpc
  let app: App
  let chain: Chain
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'chatelaine-tokens-'))
    const launch = { port: 0, genesisSeconds: 1_767_225_600, loadFile: null, dumpFile: join(dir, 'state.json') }
    ;[database, anvil] = await Promise.all([testDatabase(), launchAnvil({ dir, ...launch })])
    for (const name of [...Object.keys(TOKENS), 'ScrawlToken', 'LongNameToken']) {
      const artefact = JSON.parse(await readFile(new URL(`../../contracts/out/${name}.json`, import.meta.url), 'utf8'))
      await rpc(anvil.rpcUrl, 'anvil_setCode', addressOf(name), artefact.deployedBytecode)
    }
    real = openRpc({ url: anvil.rpcUrl })
    app = { db: database.db, telemetry: openTelemetry('test', 'silent'), clock: systemClock } as App
  })
  beforeEach(async () => {
    for (const table of ['tokens', 'blocks', 'cursors', 'history_cursors'] as const)
      await app.db.deleteFrom(table).execute()
    const { hash, parentHash } = await real.call<{ hash: Hex; parentHash: Hex }>('eth_getBlockByNumber', ['0x0', false])
    const block = { chain_id: 31337, number: 0, hash: fromHex(hash), parent_hash: fromHex(parentHash), base_fee: null }
    await app.db
      .insertInto('blocks')
      .values({ ...block, mined_at: new Date() })
      .execute()
    const lease = { epoch: 1, lease_owner: null, lease_until: null, halted: null }
    await app.db
      .insertInto('cursors')
      .values({ chain_id: 31337, block_number: 0, block_hash: fromHex(hash), finalized_number: -1, ...lease })
      .execute()
    // Use a new object each time, because the memory belongs to the network.
    chain = {
      ...{ chainId: 31337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 'finalized' as const },
      ...{
        feeCapWei: 1n,
        verification: 'bloom',
        gas: 'self',
        explorer: explorerAt(''),
        rpc: real,
        ...openedHead(),
        faucet: null,
      },
    }
  })
  /** Opens another network without memory. Its background queries end with its test, like those of `chain`. */
  const others: Chain[] = []
  const copyOf = (of: Chain): Chain => {
    const copy = chainLike(of)
    others.push(copy)
    return copy
  }
  afterEach(async () => {
    for (const one of [chain, ...others.splice(0)]) await refreshTokens(app, one)
  })
  after(async () => {
    real.close()
    await anvil.stop()
    await database.close()
    await rm(dir, { recursive: true })
  })

  const rows = async () => {
    const found = await app.db.selectFrom('tokens').selectAll().execute()
    return new Map(found.map((row) => [toHex(row.address), row]))
  }
  /** The node, with changed batches. */
  const badNode = (
    batch: (asked: number, real: () => Promise<unknown[]>) => Promise<unknown[]>,
  ): { chain: Chain; asked: () => number } => {
    let count = 0
    const rpc: Rpc = { ...real, batch: (calls, options) => batch(count++, () => real.batch(calls, options)) }
    return { chain: copyOf({ ...chain, rpc }), asked: () => count }
  }

  test('are read from honest, old, empty and hostile ones, and their failures remembered', async () => {
    for (const [name, { facts }] of Object.entries(TOKENS))
      assert.deepEqual(wordsOf(await readTokenFacts(app, chain, addressOf(name))), facts, name)
    await refreshTokens(app, chain)
    const stored = await rows()
    for (const [name, { state, form }] of Object.entries(TOKENS)) {
      const row = stored.get(addressOf(name))!
      // The collection identifies itself as one.
      assert.equal(row.state, form === undefined ? state : 'KNOWN', name)
      assert.ok(row.retry_at!.getTime() > Date.now(), name)
    }
  })

  test('are asked in the background for tokens that the history saw, a bomb among them hurts itself only', async () => {
    const seen = Object.entries(TOKENS).map(([name, { form }]) => ({
      address: addressOf(name),
      form: form ?? ('ERC20' as const),
    }))
    await noteTokens(app.db, chain, seen)
    await noteTokens(app.db, chain, seen)
    await refreshTokens(app, chain)
    const stored = await rows()
    for (const [name, { facts, state }] of Object.entries(TOKENS)) {
      const { symbol, name: title, decimals, state: is } = stored.get(addressOf(name))!
      assert.deepEqual({ symbol, name: title, decimals, state: is }, { ...facts, state }, name)
    }
  })

  test('are cleaned and cut', async () => {
    const scrawl = await readTokenFacts(app, chain, addressOf('ScrawlToken'))
    assert.equal(scrawl.decimals, 6)
    assert.match(scrawl.symbol, /^CDSU/)
    assert.doesNotMatch(scrawl.symbol + scrawl.name, /[\p{Cc}\p{Cf}\p{Cs}]/u)
    assert.equal((await readTokenFacts(app, chain, addressOf('LongNameToken'))).symbol.length, 64)
  })

  test('are asked once, also by many at a time', async () => {
    const node = badNode((_asked, answer) => answer())
    await Promise.all(Array.from({ length: 20 }, () => readTokenFacts(app, node.chain, addressOf('Bytes32Token'))))
    await refreshTokens(app, node.chain)
    // The reader's answer is stored, because its block is stored.
    assert.equal(node.asked(), 1)
    assert.equal((await rows()).get(addressOf('Bytes32Token'))!.state, 'KNOWN')
    await readTokenFacts(app, copyOf(node.chain), addressOf('Bytes32Token'))
    await readFactsOfTokens(app, node.chain, [addressOf('Decimals255Token')])
    await refreshTokens(app, node.chain)
    assert.equal(node.asked(), 2)
    assert.equal((await rows()).get(addressOf('Decimals255Token'))!.state, 'KNOWN')
  })

  test('are not stored for an address without code', async () => {
    assert.deepEqual(wordsOf(await readTokenFacts(app, chain, addressOf('nobody'))), NOTHING)
    assert.equal((await rows()).size, 0)
  })

  test('a node that is away, does not know the block or limits us is not a failure of the token', async () => {
    const failures = [
      () => Promise.reject(new RpcUnavailable('the node could not be reached', { timedOut: false })),
      () => Promise.resolve(Array<unknown>(6).fill(new RpcError(-32001, 'Resource not found', undefined))),
      async (answer: () => Promise<unknown[]>) => [
        (await answer())[0],
        ...Array<unknown>(5).fill(new RpcError(-32005, 'rate limit exceeded', undefined)),
      ],
    ]
    for (const fail of failures) {
      const node = badNode((_asked, answer) => fail(answer))
      const address = addressOf('Bytes32Token')
      await assert.rejects(
        readTokenFacts(app, node.chain, address),
        (error) => error instanceof AppError && error.code === 'chain_unavailable',
      )
      await noteTokens(app.db, chain, [{ address, form: 'ERC20' }])
      await refreshTokens(app, node.chain)
      assert.equal((await rows()).get(address)!.state, 'NEW')
      await app.db.deleteFrom('tokens').execute()
    }
  })

  test('a node that lags for a moment is waited for', async () => {
    const node = badNode((asked, answer) =>
      asked < 2
        ? Promise.resolve(Array<unknown>(6).fill(new RpcError(-32000, 'header not found', undefined)))
        : answer(),
    )
    const address = addressOf('Bytes32Token')
    assert.deepEqual(wordsOf(await readTokenFacts(app, node.chain, address)), TOKENS.Bytes32Token!.facts)
    await refreshTokens(app, node.chain)
  })

  test('megabytes where a few bytes were asked for are no text and no failure of ours', async () => {
    const long = `0x${'00'.repeat(6_000_000)}`
    const node = badNode(async (_asked, answer) => [(await answer())[0], ...Array<unknown>(5).fill(long)])
    assert.deepEqual(wordsOf(await readTokenFacts(app, node.chain, addressOf('Bytes32Token'))), NOTHING)
    await refreshTokens(app, node.chain)
  })

  test('a revert that reads like the limits of a node is the token’s own failure', async () => {
    for (const rpcCode of [3, -32000, -32603]) {
      const revert = new RpcError(rpcCode, 'execution reverted: rate limit exceeded, too many requests', undefined)
      const node = badNode(async (_asked, answer) => [(await answer())[0], ...Array<unknown>(5).fill(revert)])
      assert.deepEqual(wordsOf(await readTokenFacts(app, copyOf(node.chain), addressOf('RevertingToken'))), NOTHING)
      await app.db.deleteFrom('tokens').execute()
    }
  })

  test('a token that takes the node down with it does not keep the others waiting', async () => {
    const bomb = addressOf('RevertingToken')
    const others = ['Bytes32Token', 'Decimals255Token'].map(addressOf)
    await noteTokens(app.db, chain, [bomb, ...others].map((address) => ({ address, form: 'ERC20' as const }))) // prettier-ignore
    const rpc: Rpc = {
      ...real,
      batch: (calls, options) =>
        JSON.stringify(calls).includes(bomb)
          ? Promise.reject(new RpcUnavailable('the node took too long', { timedOut: true }))
          : real.batch(calls, options),
    }
    await refreshTokens(app, chainLike(chain, { rpc }))
    const stored = await rows()
    assert.deepEqual(
      others.map((address) => stored.get(address)!.state),
      ['KNOWN', 'KNOWN'],
    )
    assert.equal(stored.get(bomb)!.state, 'NEW')
    assert.ok(stored.get(bomb)!.retry_at!.getTime() > Date.now() + 30_000)
  })

  test('a failure is asked again later each time, and forgotten when the token answers', async () => {
    const address = addressOf('late')
    await rpc(anvil.rpcUrl, 'anvil_setCode', address, '0xfe')
    const waits: number[] = []
    for (let round = 0; round < 3; round++) {
      await noteTokens(app.db, chain, [{ address, form: 'ERC20' }])
      await app.db
        .updateTable('tokens')
        .set({ retry_at: sql<Date>`now()` })
        .execute()
      await refreshTokens(app, chain)
      const { seconds } = await app.db
        .selectFrom('tokens')
        .select(sql<number>`round(extract(epoch from retry_at - updated_at))::int`.as('seconds'))
        .executeTakeFirstOrThrow()
      waits.push(seconds)
    }
    assert.deepEqual(waits, [60, 120, 240])
    const { deployedBytecode } = JSON.parse(
      await readFile(new URL('../../contracts/out/Bytes32Token.json', import.meta.url), 'utf8'),
    )
    await rpc(anvil.rpcUrl, 'anvil_setCode', address, deployedBytecode)
    await app.db
      .updateTable('tokens')
      .set({ retry_at: sql<Date>`now()` })
      .where('address', '=', fromHex(address))
      .execute()
    await refreshTokens(app, chain)
    assert.deepEqual(wordsOf(await readTokenFacts(app, chain, address)), TOKENS.Bytes32Token!.facts)
  })
})
