import assert from 'node:assert/strict'
import { beforeEach, after, before, suite, test } from 'node:test'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import { readConfig } from '../config.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { addressOf, scriptedChain, type ScriptedBlock, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import { noteTokens, reviewTokens } from './record.ts'
import { readFactsOfTokens, readTokenFacts } from './read.ts'
import { refreshTokens } from './refresh.ts'
import { systemClock } from '../clock.ts'

const TOKEN = addressOf(0x70)
const textOf = (text: string) => {
  const hex = Buffer.from(text).toString('hex')
  return `0x${'20'.padStart(64, '0')}${text.length.toString(16).padStart(64, '0')}${hex.padEnd(64, '0')}`
}
const word = (number: number): Hex => `0x${number.toString(16).padStart(64, '0')}`

suite('what is stored of tokens when the chain changes its mind', () => {
  let database: TestDatabase
  let app: App
  let script: ScriptedChain
  /** answers of the token by selector, and the block at which it was asked; null: it has no decimals */
  let told: {
    name: string
    decimals: Hex | null
    isCollection: boolean
    /** answers to other calls, by the first characters of their data */
    answers: Record<string, Hex>
    places: Set<unknown>
    elsewhere?: { block: Hex; name: string }
  }
  /** holds back the answers to the next query */
  let hold: (() => Promise<void>) | null
  before(async () => {
    database = await testDatabase()
    const telemetry = openTelemetry('test', 'silent')
    app = { config: readConfig({}, 'server'), db: database.db, telemetry, clock: systemClock } as App
  })
  after(() => database.close())
  beforeEach(async () => {
    for (const table of ['tokens', 'blocks', 'cursors', 'history_cursors'] as const)
      await app.db.deleteFrom(table).execute()
    script = scriptedChain({ isDevelopment: true })
    told = { name: 'before', decimals: word(6), isCollection: false, answers: {}, places: new Set() }
    hold = null
    const failed = new RpcError(3, 'execution reverted', '0x')
    script.answer = (method, params) => {
      told.places.add(JSON.stringify(params[1]))
      if (method === 'eth_getCode') return '0x60'
      const { data } = params[0] as { data: string }
      if (data === '0x313ce567' && told.decimals !== null) return told.decimals
      if (data.startsWith('0x01ffc9a780ac58cd')) return word(told.isCollection ? 1 : 0)
      if (data === '0x95d89b41' || data === '0x06fdde03') {
        const { blockHash } = params[1] as { blockHash?: Hex }
        return textOf(
          told.elsewhere !== undefined && blockHash === told.elsewhere.block ? told.elsewhere.name : told.name,
        )
      }
      const other = Object.entries(told.answers).find(([start]) => data.startsWith(start))
      if (other !== undefined) return other[1]
      throw failed
    }
    const { rpc } = script.chain
    script.chain.rpc = {
      ...rpc,
      batch: async (calls) => {
        const answers = await rpc.batch(calls)
        const held = hold
        hold = null
        await held?.()
        return answers
      },
    }
  })

  /** Stores a block on top of the followed ones. */
  async function store({ number, hash, parentHash, timestamp }: ScriptedBlock): Promise<void> {
    const block = { chain_id: 31337, number, hash: fromHex(hash), parent_hash: fromHex(parentHash), base_fee: null }
    await app.db
      .insertInto('blocks')
      .values({ ...block, mined_at: new Date(timestamp * 1_000) })
      .execute()
    const place = { block_number: number, block_hash: fromHex(hash) }
    const lease = { finalized_number: 0, epoch: 1, lease_owner: null, lease_until: null, halted: null }
    await app.db
      .insertInto('cursors')
      .values({ chain_id: 31337, ...place, ...lease })
      .onConflict((on) => on.column('chain_id').doUpdateSet(place))
      .execute()
  }
  /** Retracts everything above a block like the follower: cursor first, blocks last. */
  async function retractTo({ number, hash }: ScriptedBlock): Promise<void> {
    await app.db.transaction().execute(async (db) => {
      await db
        .updateTable('cursors')
        .set({ block_number: number, block_hash: fromHex(hash) })
        .execute()
      await reviewTokens(db, script.chain, number + 1)
      await db.deleteFrom('blocks').where('number', '>', number).execute()
    })
  }
  const rows = () => app.db.selectFrom('tokens').select(['symbol', 'decimals', 'state', 'asked_block']).execute()
  /** Starts a refresh, and returns when the node has answered and its answer is held back. */
  async function refreshHeld(): Promise<{ goOn: () => Promise<void> }> {
    const { promise, resolve } = Promise.withResolvers<void>()
    let isAsked = false
    hold = () => ((isAsked = true), promise)
    const refreshed = refreshTokens(app, script.chain)
    await until('the token was asked', () => isAsked)
    return { goOn: () => (resolve(), refreshed) }
  }
  const due = () => app.db.updateTable('tokens').set({ retry_at: sql<Date>`now()` }).execute() // prettier-ignore

  test('what a token said before a reorganisation is not stored after it; it is asked again, at the stored block', async () => {
    await store(script.blocks[0]!)
    await store(script.mine())
    // Set a newest block that was never stored.
    script.chain.head.set({ ...script.mine(), baseFee: null })
    await noteTokens(app.db, script.chain, [{ address: TOKEN, form: 'ERC20' }])
    const refreshed = await refreshHeld()
    script.lose(2)
    await retractTo(script.blocks[0]!)
    told.name = 'after'
    const block = script.mine()
    await store(block)
    told.places.clear()
    await refreshed.goOn()
    assert.deepEqual(await rows(), [{ symbol: 'after', decimals: 6, state: 'KNOWN', asked_block: 1 }])
    assert.deepEqual([...told.places], [JSON.stringify({ blockHash: block.hash })])
  })

  test('nor when the token had been asked before, below the reorganisation, and had failed', async () => {
    await store(script.blocks[0]!)
    await noteTokens(app.db, script.chain, [{ address: TOKEN, form: 'ERC20' }])
    told.decimals = null
    await refreshTokens(app, script.chain)
    assert.deepEqual((await rows())[0]!.state, 'FAILED')
    await store(script.mine())
    told = { ...told, name: 'upgraded', decimals: word(2) }
    await due()
    const refreshed = await refreshHeld()
    script.lose(1)
    await retractTo(script.blocks[0]!)
    told = { ...told, name: 'before', decimals: null }
    await store(script.mine())
    await refreshed.goOn()
    assert.deepEqual(
      (await rows()).map(({ symbol, state }) => [symbol, state]),
      [['before', 'FAILED']],
    )
  })

  test('a balance read at a block that is never stored leaves nothing of what the token said there', async () => {
    await store(script.blocks[0]!)
    const lost = script.mine()
    script.chain.head.set({ ...lost, baseFee: null })
    told.name = 'canonical'
    told.elsewhere = { block: lost.hash, name: 'lost' }
    assert.equal((await readTokenFacts(app, script.chain, TOKEN)).symbol, 'lost')
    assert.equal((await readFactsOfTokens(app, script.chain, [addressOf(0x71)])).get(addressOf(0x71))!.symbol, 'lost')
    await refreshTokens(app, script.chain)
    assert.deepEqual(
      (await rows()).map(({ symbol, asked_block }) => [symbol, asked_block]),
      [
        ['canonical', 0],
        ['canonical', 0],
      ],
    )
  })

  test('the reader itself stores nothing that was said, only that the token is to be asked', async () => {
    // No block is followed yet, so there is none at which answers can be stored.
    script.chain.head.set({ ...script.mine(), baseFee: null })
    await readTokenFacts(app, script.chain, TOKEN)
    await readFactsOfTokens(app, script.chain, [addressOf(0x71)])
    await refreshTokens(app, script.chain)
    assert.deepEqual(await rows(), [
      { symbol: '', decimals: 0, state: 'NEW', asked_block: null },
      { symbol: '', decimals: 0, state: 'NEW', asked_block: null },
    ])
  })

  const standards = async () =>
    (await app.db.selectFrom('tokens').select(['is_fungible', 'is_collection', 'is_wrapper', 'state']).execute())[0]

  test('a contract says by ERC-165 and its decimals what it is, whatever form its logs have', async () => {
    const collection = { decimals: null, isCollection: true }
    const cases: [what: string, told: Partial<typeof told>, is: [isFungible: boolean, isCollection: boolean, isWrapper: boolean]][] = [
      ['a fungible token', { decimals: word(18) }, [true, false, false]],
      ['a collection', collection, [false, true, false]],
      ['CryptoKitties, by the draft of ERC-721', { decimals: null, answers: { '0x01ffc9a79a20483d': word(1) } }, [false, true, false]],
      ['a collection with stray decimals', { ...collection, decimals: word(18) }, [false, true, false]],
      ['both, ERC-404', { ...collection, decimals: word(18), answers: { '0xdd62ed3e': word(0) } }, [true, true, false]],
      ['both without ERC-165', { decimals: word(18), answers: { '0xdd62ed3e': word(0), '0xe985e9c5': word(0) } }, [true, true, false]],
      ['an ERC-1155', { decimals: null, answers: { '0x01ffc9a7d9b67a26': word(1), '0xe985e9c5': word(0) } }, [false, false, false]],
      ['WETH9', { decimals: word(18), answers: { '0xd0e30db0': '0x' } }, [true, false, true]],
    ] // prettier-ignore
    await store(script.blocks[0]!)
    for (const [what, change, [is_fungible, is_collection, is_wrapper]] of cases) {
      await app.db.deleteFrom('tokens').execute()
      told = { ...told, answers: {}, isCollection: false, ...change }
      await noteTokens(app.db, script.chain, [{ address: TOKEN, form: 'ERC20' }, { address: TOKEN, form: 'ERC721' }]) // prettier-ignore
      await refreshTokens(app, script.chain)
      assert.deepEqual(await standards(), { is_fungible, is_collection, is_wrapper, state: 'KNOWN' }, what)
    }
  })

  const aged = (seconds: number) =>
    sql`update tokens set updated_at = updated_at - ${`${seconds} seconds`}::interval, retry_at = retry_at - ${`${seconds} seconds`}::interval`.execute(
      app.db,
    )

  test('a token that takes another name and other decimals is asked again after a day, and after a transfer', async () => {
    await store(script.blocks[0]!)
    await noteTokens(app.db, script.chain, [{ address: TOKEN, form: 'ERC20' }])
    const named = async () => {
      await refreshTokens(app, script.chain)
      const { symbol, decimals } = (await rows())[0]!
      return [symbol, decimals]
    }
    assert.deepEqual(await named(), ['before', 6])
    told = { ...told, name: 'renamed', decimals: word(7) }
    assert.deepEqual(await named(), ['before', 6])
    await aged(86_400)
    assert.deepEqual(await named(), ['renamed', 7])
    told = { ...told, name: 'again', decimals: word(8) }
    await noteTokens(app.db, script.chain, [{ address: TOKEN, form: 'ERC20' }])
    assert.deepEqual(await named(), ['renamed', 7], 'a transfer in each block does not ask in each block')
    await aged(60)
    await noteTokens(app.db, script.chain, [{ address: TOKEN, form: null }])
    assert.deepEqual(await named(), ['renamed', 7], 'a reader is no transfer')
    await noteTokens(app.db, script.chain, [{ address: TOKEN, form: 'ERC20' }])
    assert.deepEqual(await named(), ['again', 8])
    // The token fails now: its stored answer remains.
    told = { ...told, name: '', decimals: null }
    await aged(86_400)
    assert.deepEqual(await named(), ['again', 8])
  })
})
