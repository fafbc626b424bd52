import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { checksumAddress } from '../digits.ts'
import { readConfig } from '../config.ts'
import { BEFORE_GENESIS } from '../follower/cursor.ts'
import { startFollower } from '../follower/follow.ts'
import { openCursors } from '../follower/history-cursor.ts'
import type { Caller } from '../http/bearer.ts'
import { writeCursor } from '../http/cursor.ts'
import { openListener } from '../http/listener.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import type { Signer } from '../signer-wire/client.ts'
import { openState } from '../state.ts'
import { attestingSigner } from '../../test/attesting.ts'
import { noSealKeys } from '../../test/seal-keys.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { addressOf, scriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { atHead } from '../../test/follower-stage.ts'
import { noteCoverage } from './coverage.ts'
import { indexTransfers } from './index-transfers.ts'
import { history } from './routes.ts'
import type { Entry } from './wire.ts'
import { chainLike } from '../../test/opened.ts'
import { systemClock } from '../clock.ts'

const ALICE = addressOf(0xa11ce)
const BOB = addressOf(0xb0b)
const STRANGER = addressOf(0x57)
const TOKEN = addressOf(0x70)
const SECOND = addressOf(0x7f)
const ITEMS = addressOf(0x71)
const PIECES = addressOf(0x72)
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'
const BOB_ID = '00000000-0000-8000-8000-000000000b0b'
const ALICE_PATH = '/v1/users/DEV-alice/history'

const coins = (from: Hex, to: Hex, value: bigint, token = TOKEN): ScriptedTransfer => ({
  type: 'ERC20',
  token,
  from,
  to,
  items: [{ id: null, value }],
})

suite('GET /v1/users/:userId/history', () => {
  let database: TestDatabase
  let app: App
  let server: FastifyInstance
  let caller: Caller
  const script = scriptedChain({ isDevelopment: true, finality: 2, everySeconds: 12 })

  before(async () => {
    database = await testDatabase()
    const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3, NATIVE_HISTORY: 'off' as const }
    const signer = attestingSigner(() => null)
    app = {
      ...({} as App),
      ...{ config, origin: 'http://localhost:4000', db: database.db, clock: systemClock },
      ...{
        chains: new Map([31337, 5].map((chainId) => [chainId, chainLike(script.chain, { chainId })])),
        telemetry: openTelemetry('test', 'silent'),
        ...{ state: openState(), sealKeys: noSealKeys, signer: signer as Partial<Signer> as Signer },
      },
    }
    for (const [account_id, subject, address] of [
      [ALICE_ID, 'alice', ALICE],
      [BOB_ID, 'bob', BOB],
    ] as const) {
      // prettier-ignore
      await app.db.insertInto('accounts').values({ account_id, user_id: `DEV-${subject}`, address: fromHex(address), attestation: fromHex(signer.attestation(`DEV-${subject}`, address)) }).execute()
      const person = {
        provider: 'DEV',
        subject,
        account_id,
        username: `${subject} of dev`,
        image_src: null,
        email: null,
        email_verified: null,
      }
      await app.db
        .insertInto('identities')
        .values([person, { ...person, provider: 'OTHER', username: 'another name' }])
        .execute()
    }
    server = openListener(app)
    server.decorateRequest('reader', null as never)
    server.addHook('onRequest', async (request) => {
      request.reader = caller
    })
    history(server, app)

    script.mine({ from: STRANGER, transfers: [coins(STRANGER, ALICE, 25n * 10n ** 15n)] })
    script.mine({
      from: ALICE,
      transfers: [
        coins(ALICE, BOB, 10n ** 18n),
        { type: 'ERC721', token: PIECES, from: STRANGER, to: ALICE, items: [{ id: 2n ** 255n, value: 1n }] },
        { type: 'ERC1155', token: ITEMS, from: STRANGER, to: ALICE, items: [{ id: 1n, value: 5n }, { id: 2n, value: 6n }] }, // prettier-ignore
      ],
    })
    script.mine({ from: STRANGER, transfers: [coins(STRANGER, ALICE, 0n), coins(ALICE, ALICE, 3n, SECOND)] })
    script.mine({ from: STRANGER, transfers: [coins(STRANGER, BOB, 3n)] })
    await follow()
    await app.db
      .updateTable('tokens')
      .set({ symbol: 'SMPL', name: 'Sample', decimals: 18, state: 'KNOWN', retry_at: null })
      .where('address', '=', fromHex(TOKEN))
      .execute()
    await app.db
      .updateTable('tokens')
      .set({ symbol: 'PCS', name: 'Pieces', decimals: 18, state: 'KNOWN', retry_at: null })
      .where('address', '=', fromHex(PIECES))
      .execute()
  })
  after(async () => {
    await server.close()
    await database.close()
  })

  async function follow() {
    const follower = startFollower(app, script.chain, [indexTransfers])
    await atHead(app.db, 'history_cursors', () => script.blocks.at(-1)!.hash)
    await follower.stop()
  }
  const as = (userId: string, accountId: string, address: Hex): Caller => ({
    ...{ userId, accountId, address, clientId: 'demo', chainId: 31337, scopes: new Set(['wallet:read']) },
    ...{ grantId: 'g', tokenId: 't', expiresAt: 2 ** 40, token: 'x' },
  })
  const get = async (url: string, who = as('DEV-alice', ALICE_ID, ALICE)) => {
    caller = who
    const { statusCode, headers, body } = await server.inject(url)
    return { status: statusCode, headers, body: JSON.parse(body) }
  }
  const entries = async (query = ''): Promise<Entry[]> => {
    const { status, body } = await get(`${ALICE_PATH}${query}`)
    assert.equal(status, 200, JSON.stringify(body))
    return body
  }
  /** Formats entries as block.log.batch, so that a page is readable. */
  const places = (list: Entry[]) =>
    list.map(({ id, blockNumber }) => `${blockNumber}.${id.split(':').slice(1).join('.')}`)

  test('gives every field of the specification, newest first', async () => {
    const { status, headers, body } = await get(ALICE_PATH)
    assert.equal(status, 200)
    assert.deepEqual(places(body), ['3.1.0', '2.2.1', '2.2.0', '2.1.0', '2.0.0', '1.0.0'])
    const block = script.blocks[2]!
    const hash = block.transactions[0]!.hash
    const alice = { username: 'alice of dev', platform: 'DEV', address: checksumAddress(ALICE) }
    assert.deepEqual(body[4], {
      type: 'TRANSFER',
      id: `${hash}:0:0`,
      direction: 'OUT',
      status: 'FINALIZED',
      from: alice,
      to: { username: 'bob of dev', platform: 'DEV', address: checksumAddress(BOB) },
      amount: {
        valueBn: { type: 'BigNumber', hex: '0x0de0b6b3a7640000' },
        value: '1000000000000000000',
        formatted: 1,
        decimals: 18,
        symbol: 'SMPL',
        name: 'Sample',
        tokenAddress: checksumAddress(TOKEN),
        network: 'DEVNET',
        chainId: 31337,
      },
      tokenType: 'ERC20',
      tokenId: null,
      timestamp: '2026-01-01T00:00:24.000Z',
      hash,
      blockNumber: 2,
      blockHash: block.hash,
      logIndex: 0,
      explorerUrl: `http://localhost:4000/explorer/tx/${hash}`,
    })
    assert.equal(body[5].amount.formatted, 0.025)
    assert.deepEqual(body[5].from, { username: null, platform: null, address: checksumAddress(STRANGER) })
    assert.equal(body[0].direction, 'SELF')
    assert.equal(body[0].status, 'CONFIRMED')
    assert.equal(headers['x-indexed-to-block'], '4')
    // The block is unknown: the account is younger than the newest mark of the history.
    assert.equal(headers['x-indexed-from-block'], undefined)
    await noteCoverage(app.db, script.chain, { accountIds: [ALICE_ID], from: 2 })
    assert.equal((await get(ALICE_PATH)).headers['x-indexed-from-block'], '2')
    await noteCoverage(app.db, script.chain, { accountIds: [ALICE_ID], from: 0 })
    assert.equal((await get(ALICE_PATH)).headers['x-indexed-from-block'], '0')
    assert.equal(headers['x-finalized-to-block'], '2')
    assert.equal(headers.link, undefined)
    assert.equal(headers['x-next-cursor'], undefined)
  })

  test('counts collectibles in pieces, whatever their contract says of decimals', async () => {
    const [piece] = await entries('?type=ERC721')
    assert.equal(piece!.tokenId, (2n ** 255n).toString())
    assert.deepEqual([piece!.amount.formatted, piece!.amount.decimals, piece!.amount.symbol], [1, 0, 'PCS'])
    const items = await entries('?type=ERC1155')
    assert.deepEqual(
      items.map(({ tokenId, amount }) => [tokenId, amount.value, amount.formatted, amount.decimals]),
      [
        ['2', '6', 6, 0],
        ['1', '5', 5, 0],
      ],
    )
  })

  test('each filter thins out before paging', async () => {
    const cases: Record<string, string[]> = {
      'direction=in': ['3.1.0', '2.2.1', '2.2.0', '2.1.0', '1.0.0'],
      'direction=out': ['3.1.0', '2.0.0'],
      'direction=all&type=ERC721,ERC20': ['3.1.0', '2.1.0', '2.0.0', '1.0.0'],
      [`token=${TOKEN}`]: ['2.0.0', '1.0.0'],
      [`token=${checksumAddress(ITEMS)}`]: ['2.2.1', '2.2.0'],
      [`counterparty=${BOB}`]: ['2.0.0'],
      [`counterparty=${ALICE}`]: ['3.1.0'],
      [`counterparty=${STRANGER}&type=ERC20`]: ['1.0.0'],
      'fromBlock=3': ['3.1.0'],
      'toBlock=1': ['1.0.0'],
      'fromBlock=1&toBlock=1': ['1.0.0'],
      'from=2026-01-01T00:00:36Z': ['3.1.0'],
      'to=2026-01-01T02:00:12.000%2B02:00': ['1.0.0'],
      'from=2026-01-01&to=2026-01-01T00:00:12Z': ['1.0.0'],
      'from=2026-01-02': [],
      'finality=finalized': ['2.2.1', '2.2.0', '2.1.0', '2.0.0', '1.0.0'],
      'includeSpam=true': ['3.1.0', '3.0.0', '2.2.1', '2.2.0', '2.1.0', '2.0.0', '1.0.0'],
      'includeSpam=false&limit=1': ['3.1.0'],
    }
    for (const [query, expected] of Object.entries(cases))
      assert.deepEqual(places(await entries(`?${query}`)), expected, query)
  })

  test('refuses every wrong parameter by its name', async () => {
    const cases: [query: string, parameter: string, code?: string][] = [
      ['limit=0', 'limit'],
      ['limit=201', 'limit'],
      ['limit=-1', 'limit'],
      ['limit=1.5', 'limit'],
      ['limit=', 'limit'],
      ['limit=1&limit=2', 'limit'],
      ['type=ERC777', 'type'],
      ['type=', 'type'],
      ['type=erc20', 'type'],
      ['direction=sideways', 'direction'],
      ['token=0x12', 'token'],
      [`token=${checksumAddress(ALICE).replace('A', 'a')}`, 'token'],
      ['counterparty=alice', 'counterparty'],
      ['from=yesterday', 'from'],
      ['from=2026-02-30', 'from'],
      ['from=2026-01-01T00:00:00', 'from'],
      ['to=2026-01-01T25:00:00Z', 'to'],
      ['from=0000-01-01', 'from'],
      ['from=0001-01-01T00:00:00%2B14:00', 'from'],
      ['to=9999-12-31T23:59:59-12:00', 'to'],
      ['from=2026-01-02&to=2026-01-01', 'from'],
      ['fromBlock=0x1', 'fromBlock'],
      ['toBlock=-1', 'toBlock'],
      ['fromBlock=2&toBlock=1', 'fromBlock'],
      ['fromBlock=99999999999999999999', 'fromBlock'],
      ['finality=latest', 'finality'],
      ['includeSpam=yes', 'includeSpam'],
      ['page=2', 'page', 'unknown_parameter'],
      ['cursor=%F0', 'cursor'],
      ['cursor=', 'cursor'],
      [`cursor=${'A'.repeat(301)}`, 'cursor'],
      ['cursor=e30&cursor=e30', 'cursor'],
      ['cursor=e30', 'cursor', 'invalid_cursor'],
      [`cursor=${Buffer.from('["x",1,99999999999,0]').toString('base64url')}`, 'cursor', 'invalid_cursor'],
    ]
    for (const [query, parameter, code = 'invalid_request'] of cases) {
      const { status, body } = await get(`${ALICE_PATH}?${query}`)
      assert.equal(status, 400, query)
      assert.equal(body.code, code, query)
      assert.deepEqual(
        body.errors.map((error: { parameter: string }) => error.parameter),
        [parameter],
        query,
      )
    }
  })

  test('refuses another user alike whether they exist or not', async () => {
    const answers = await Promise.all(['DEV-bob', 'DEV-nobody'].map((id) => get(`/v1/users/${id}/history`)))
    for (const { status, body } of answers)
      assert.deepEqual([status, body.code, body.detail], [403, 'forbidden_user', answers[0]!.body.detail])
    assert.equal((await get('/v1/users/nobody/history')).body.code, 'invalid_user_id')
  })

  test('pages by its own links through everything exactly once', async () => {
    const all = places(await entries('?includeSpam=true'))
    for (const limit of [1, 2, 3]) {
      const seen: string[] = []
      let url: string | null = `${ALICE_PATH}?includeSpam=true&limit=${limit}`
      while (url !== null) {
        const { headers, body }: { headers: Record<string, unknown>; body: Entry[] } = await get(url)
        seen.push(...places(body))
        const next: RegExpExecArray | null = /^"<http:\/\/localhost:4000(.*)>; rel=\\"next\\""$/.exec(
          JSON.stringify(headers.link ?? null),
        )
        assert.equal(next === null, headers['x-next-cursor'] === undefined)
        url = next?.[1] ?? null
      }
      assert.deepEqual(seen, all)
    }
  })

  test('a cursor holds only for its user and filters; the page size may change', async () => {
    const cursor = String((await get(`${ALICE_PATH}?limit=1&type=ERC20,ERC721`)).headers['x-next-cursor'])
    assert.deepEqual(places(await entries(`?limit=2&type=ERC721,ERC20&cursor=${cursor}`)), ['2.1.0', '2.0.0'])
    const same = `type=ERC20,ERC721&cursor=${cursor}`
    const balancesCursor = writeCursor(['balances', TOKEN])
    const elsewhere = { ...as('DEV-alice', ALICE_ID, ALICE), chainId: 5 }
    const refused: [what: string, ask: () => ReturnType<typeof get>][] = [
      ['another user', () => get(`/v1/users/DEV-bob/history?${same}`, as('DEV-bob', BOB_ID, BOB))],
      ['another network', () => get(`${ALICE_PATH}?${same}`, elsewhere)],
      ['another list', () => get(`${ALICE_PATH}?cursor=${balancesCursor}`)],
      ...['', 'type=ERC20&', 'type=ERC20,ERC721&direction=in&', 'includeSpam=true&type=ERC20,ERC721&'].map(
        (query): [string, () => ReturnType<typeof get>] => [query, () => get(`${ALICE_PATH}?${query}cursor=${cursor}`)],
      ),
    ]
    for (const [what, ask] of refused) {
      const { status, body } = await ask()
      assert.deepEqual([status, body.code, body.errors?.[0]?.parameter], [400, 'invalid_cursor', 'cursor'], what)
    }
  })

  test('of a network that is not followed yet is empty and reaches nowhere; block 0 is a block', async () => {
    const elsewhere = { ...as('DEV-alice', ALICE_ID, ALICE), chainId: 5 }
    const reach = async () => {
      const { status, headers, body } = await get(ALICE_PATH, elsewhere)
      assert.deepEqual([status, body], [200, []])
      return [headers['x-indexed-to-block'], headers['x-finalized-to-block']]
    }
    assert.deepEqual(await reach(), [undefined, undefined])
    await openCursors(app.db, 5, BEFORE_GENESIS)
    assert.deepEqual(await reach(), [undefined, undefined])
    await app.db.updateTable('cursors').set({ block_number: 3 }).where('chain_id', '=', 5).execute()
    assert.deepEqual(await reach(), [undefined, undefined])
    const set = (block_number: number) =>
      app.db.updateTable('history_cursors').set({ block_number }).where('chain_id', '=', 5).execute()
    await set(0)
    assert.deepEqual(await reach(), ['0', undefined])
    await app.db.updateTable('cursors').set({ finalized_number: 2 }).where('chain_id', '=', 5).execute()
    assert.deepEqual(await reach(), ['0', '0'])
    await set(3)
    assert.deepEqual(await reach(), ['3', '2'])
    for (const table of ['cursors', 'history_cursors'] as const)
      await app.db.deleteFrom(table).where('chain_id', '=', 5).execute()
  })

  test('pages stay stable while blocks arrive and a reorganisation takes some back', async () => {
    const first = await get(`${ALICE_PATH}?limit=2`)
    const cursor = String(first.headers['x-next-cursor'])
    const rest = places(await entries(`?cursor=${cursor}`))
    script.mine({ from: ALICE, transfers: [coins(ALICE, BOB, 1n), coins(ALICE, BOB, 2n)] })
    script.mine({ from: ALICE, transfers: [coins(ALICE, BOB, 3n)] })
    await follow()
    assert.deepEqual(places(await entries(`?cursor=${cursor}`)), rest)
    script.lose(4)
    for (let count = 0; count < 5; count++) script.mine()
    await follow()
    assert.deepEqual(places(await entries(`?cursor=${cursor}`)), rest, 'the cursor names a place, its row may be gone')
    assert.deepEqual(places(await entries()), ['2.2.1', '2.2.0', '2.1.0', '2.0.0', '1.0.0'])
    assert.equal((await get(ALICE_PATH)).headers['x-indexed-to-block'], '7')
  })

  test('spam is left out, and given with its score and reasons when it is asked for; other entries have no such field', async () => {
    const lure = addressOf(0xc1a1)
    const path = '/v1/users/DEV-bob/history'
    const bob = as('DEV-bob', BOB_ID, BOB)
    const before = await get(path, bob)
    script.mine({ from: STRANGER, transfers: [coins(STRANGER, BOB, 9n, lure), coins(STRANGER, BOB, 0n)] })
    await follow()
    await app.db
      .updateTable('tokens')
      .set({ symbol: 'GIFT', name: 'Claim your gift at gift.example.org', state: 'KNOWN', retry_at: null })
      .where('address', '=', fromHex(lure))
      .execute()
    const shown = await get(path, bob)
    assert.equal(shown.body.length, before.body.length)
    assert.ok(shown.body.every((one: Entry) => one.spam === undefined))
    const all = await get(`${path}?includeSpam=true`, bob)
    assert.deepEqual(
      all.body.slice(0, 3).map(({ spam }: Entry) => spam),
      [{ score: 100, reasons: ['zero_value'] }, { score: 70, reasons: ['link_in_name', 'lure_in_name'] }, undefined],
    )
  })

  test('a transfer that an unknown token claims is shown while transfers from before may be missing, wherever a backfill begins', async () => {
    const path = '/v1/users/DEV-bob/history'
    const bob = as('DEV-bob', BOB_ID, BOB)
    script.mine({ from: STRANGER, transfers: [coins(BOB, STRANGER, 9n, addressOf(0xc1a2))] })
    await follow()
    const { number } = script.blocks.at(-1)!
    const isShown = async () => (await get(`${path}?fromBlock=${number}`, bob)).body.length === 1
    const { config } = app
    app.config = { ...config, BACKFILL_FROM_BLOCK: 5 }
    await noteCoverage(app.db, script.chain, { accountIds: [BOB_ID], from: 5 })
    assert.ok(await isShown())
    app.config = config
    await noteCoverage(app.db, script.chain, { accountIds: [BOB_ID], from: 0 })
    assert.ok(!(await isShown()))
  })
})
