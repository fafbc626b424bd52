import assert from 'node:assert/strict'
import { beforeEach, after, before, suite, test } from 'node:test'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import { readConfig } from '../config.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
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
  /** what the token answers by selector, and whose block it was asked at; it never has decimals when they are null */
  let told: {
    name: string
    decimals: Hex | null
    isCollection: boolean
    places: Set<unknown>
    elsewhere?: { block: Hex; name: string }
  }
  /** holds back the answers to the next question */
  let hold: (() => Promise<void>) | null
  before(async () => {
    database = await testDatabase()
    const telemetry = openTelemetry('test', 'silent')
    app = { config: readConfig({}, 'server'), db: database.db, telemetry, clock: systemClock } as App
  })
  after(() => database.close())
  beforeEach(async () => {
    for (const table of ['tokens', 'blocks', 'cursors'] as const) await app.db.deleteFrom(table).execute()
    script = scriptedChain({ isDevelopment: true })
    told = { name: 'before', decimals: word(6), isCollection: false, places: new Set() }
    hold = null
    const failed = new RpcError(3, 'execution reverted', '0x')
    script.answer = (method, params) => {
      told.places.add(JSON.stringify(params[1]))
      if (method === 'eth_getCode') return '0x60'
      const { data } = params[0] as { data: string }
      if (data === '0x313ce567' && told.decimals !== null) return told.decimals
      if (data.startsWith('0x01ffc9a7')) return word(told.isCollection && data.startsWith('0x01ffc9a780ac58cd') ? 1 : 0)
      if (data === '0x95d89b41' || data === '0x06fdde03') {
        const { blockHash } = params[1] as { blockHash?: Hex }
        return textOf(
          told.elsewhere !== undefined && blockHash === told.elsewhere.block ? told.elsewhere.name : told.name,
        )
      }
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

  /** The follower stores a block on top of what it has. */
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
  /** The follower takes back everything above a block, as it does: cursor first, the block last. */
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
  const rows = () =>
    app.db.selectFrom('tokens').select(['symbol', 'decimals', 'state', 'token_type', 'asked_block']).execute()
  /** Starts a look at the tokens that are due, and returns when the node has answered and its answer is held back. */
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
    // A newest block that was never stored.
    script.chain.head.set({ ...script.mine(), baseFee: null })
    await noteTokens(app.db, script.chain, [{ address: TOKEN, tokenType: 'ERC20' }])
    const refreshed = await refreshHeld()
    script.lose(2)
    await retractTo(script.blocks[0]!)
    told.name = 'after'
    const block = script.mine()
    await store(block)
    told.places.clear()
    await refreshed.goOn()
    assert.deepEqual(await rows(), [{ symbol: 'after', decimals: 6, state: 'KNOWN', token_type: 20, asked_block: 1 }])
    assert.deepEqual([...told.places], [JSON.stringify({ blockHash: block.hash })])
  })

  test('nor when the token had been asked before, below the reorganisation, and had failed', async () => {
    await store(script.blocks[0]!)
    await noteTokens(app.db, script.chain, [{ address: TOKEN, tokenType: 'ERC20' }])
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
    // Nothing is followed yet, so there is no block at which to ask for good.
    script.chain.head.set({ ...script.mine(), baseFee: null })
    await readTokenFacts(app, script.chain, TOKEN)
    await readFactsOfTokens(app, script.chain, [addressOf(0x71)])
    await refreshTokens(app, script.chain)
    assert.deepEqual(await rows(), [
      { symbol: '', decimals: 0, state: 'NEW', token_type: 0, asked_block: null },
      { symbol: '', decimals: 0, state: 'NEW', token_type: 0, asked_block: null },
    ])
  })

  test('a collection that was first asked for by its address says so itself, and has not failed for lack of decimals', async () => {
    await store(script.blocks[0]!)
    told = { ...told, name: 'PIECES', decimals: null, isCollection: true }
    assert.deepEqual(await readTokenFacts(app, script.chain, TOKEN), { symbol: 'PIECES', name: 'PIECES', decimals: 0 })
    await refreshTokens(app, script.chain)
    assert.deepEqual(await rows(), [{ symbol: 'PIECES', decimals: 0, state: 'KNOWN', token_type: 0, asked_block: 0 }])
    // Its decimals do not count when it has some, as the transfers show it later.
    told.decimals = word(18)
    await noteTokens(app.db, script.chain, [{ address: TOKEN, tokenType: 'ERC721' }])
    assert.deepEqual((await rows())[0], { symbol: 'PIECES', decimals: 0, state: 'NEW', token_type: 721, asked_block: null }) // prettier-ignore
    await refreshTokens(app, script.chain)
    assert.deepEqual(await rows(), [{ symbol: 'PIECES', decimals: 0, state: 'KNOWN', token_type: 721, asked_block: 0 }])
  })

  test('a collection without ERC-165 is freed of its failure by its first transfer; a later one of another kind changes nothing', async () => {
    await store(script.blocks[0]!)
    told = { ...told, name: 'OLD', decimals: null }
    await readTokenFacts(app, script.chain, TOKEN)
    await refreshTokens(app, script.chain)
    assert.equal((await rows())[0]!.state, 'FAILED')
    await noteTokens(app.db, script.chain, [{ address: TOKEN, tokenType: 'ERC721' }])
    await refreshTokens(app, script.chain)
    const [known] = await rows()
    assert.deepEqual([known!.state, known!.token_type], ['KNOWN', 721])
    await noteTokens(app.db, script.chain, [{ address: TOKEN, tokenType: 'ERC20' }])
    assert.deepEqual(await rows(), [known])
  })

  test('an answer to the question of before the first transfer is not stored after it', async () => {
    await store(script.blocks[0]!)
    told = { ...told, name: 'PIECES', decimals: word(18) }
    await noteTokens(app.db, script.chain, [{ address: TOKEN, tokenType: null }])
    const refreshed = await refreshHeld()
    await noteTokens(app.db, script.chain, [{ address: TOKEN, tokenType: 'ERC721' }])
    await refreshed.goOn()
    assert.deepEqual((await rows())[0], { symbol: 'PIECES', decimals: 0, state: 'KNOWN', token_type: 721, asked_block: 0 }) // prettier-ignore
  })
})
