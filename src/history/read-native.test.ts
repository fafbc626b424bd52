import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { checksumAddress } from '../digits.ts'
import type { App } from '../app.ts'
import { readConfig } from '../config.ts'
import { startFollower } from '../follower/follow.ts'
import type { Caller } from '../http/bearer.ts'
import { openListener } from '../http/listener.ts'
import type { Hex } from '../ids.ts'
import type { Signer } from '../signer-wire/client.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { attestingSigner } from '../../test/attesting.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { atHead } from '../../test/follower-stage.ts'
import { noSealKeys } from '../../test/seal-keys.ts'
import { chainLike } from '../../test/opened.ts'
import { addressOf, scriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { indexTransfers } from './index-transfers.ts'
import { history } from './routes.ts'
import type { Entry } from './wire.ts'
import { systemClock } from '../clock.ts'

const ALICE = signerAt(0xa1)
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'
const PATH = '/v1/users/DEV-alice/history'
const TARGET = checksumAddress(addressOf(0xc0))
const NOBODY = addressOf(0)
const FEE = (21_000n * 1_000_000_007n).toString()

suite('GET /v1/users/:userId/history with native currency', () => {
  let database: TestDatabase
  let app: App
  let server: FastifyInstance
  const script = scriptedChain({ isDevelopment: true, finality: 2, everySeconds: 12 })
  const caller: Caller = {
    ...{ userId: 'DEV-alice', accountId: ALICE_ID, address: ALICE, clientId: 'demo', chainId: 31337 },
    ...{ scopes: new Set(['wallet:read']), grantId: 'g', tokenId: 't', expiresAt: 2 ** 40, token: 'x' },
  }

  before(async () => {
    database = await testDatabase()
    const signer = attestingSigner(() => null)
    app = {
      ...({} as App),
      ...{ config: { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3 }, origin: 'http://localhost:4000' },
      ...{
        db: database.db,
        clock: systemClock,
        chains: new Map([[31337, chainLike(script.chain, { chainId: 31337 })]]),
      },
      ...{ telemetry: openTelemetry('test', 'silent'), state: openState(), sealKeys: noSealKeys },
      signer: signer as Partial<Signer> as Signer,
    }
    const account = { account_id: ALICE_ID, user_id: 'DEV-alice', address: fromHex(ALICE), created_at: new Date(0) }
    await app.db
      .insertInto('accounts')
      .values({ ...account, attestation: fromHex(signer.attestation('DEV-alice', ALICE)) })
      .execute()
    server = openListener(app)
    server.decorateRequest('reader', null as never)
    server.addHook('onRequest', async (request) => {
      request.reader = caller
    })
    history(server, app)
    const coins = (from: Hex, to: Hex, value: bigint): ScriptedTransfer => ({ type: 'ERC20', token: addressOf(0x70), from, to, items: [{ id: null, value }] }) // prettier-ignore
    script.mine({ from: ALICE, transfers: [coins(addressOf(0xc0), ALICE, 6n), coins(ALICE, addressOf(0xc0), 5n)] })
    script.mine(
      { from: ALICE, transfers: [], reverted: true },
      { from: ALICE, transfers: [coins(ALICE, addressOf(0xc0), 7n)] },
    )
    const follower = startFollower(app, script.chain, [indexTransfers])
    await atHead(app.db, 'history_cursors', () => script.blocks.at(-1)!.hash)
    await follower.stop()
  })
  after(async () => {
    await server.close()
    await database.close()
  })
  const get = async (query: string) => {
    const { statusCode, headers, body } = await server.inject(`${PATH}${query}`)
    return { status: statusCode, headers, text: body, entries: JSON.parse(body) as Entry[] }
  }
  const shown = ({ entries }: { entries: Entry[] }) =>
    entries.map(
      ({ blockNumber, tokenType, nativeKind, amount }) => `${blockNumber} ${nativeKind ?? tokenType} ${amount.value}`,
    )

  test('is there only on request: without, not a byte differs from a history that has none', async () => {
    const plain = [
      '',
      '?direction=out',
      '?type=ERC20,ERC721',
      '?limit=1',
      '?includeSpam=true',
      `?counterparty=${TARGET}`,
    ]
    const before = await Promise.all(plain.map(get))
    for (const { headers } of before) for (const name of ['x-native-from-block', 'x-native-internal-from-block']) assert.equal(headers[name], undefined) // prettier-ignore
    assert.deepEqual(shown(before[0]!), ['2 ERC20 7', '1 ERC20 5', '1 ERC20 6'])
    const rows = await app.db.deleteFrom('transfers').where('token_type', '=', 1).returningAll().execute()
    assert.equal(rows.length, 5)
    assert.deepEqual((await Promise.all(plain.map(get))).map(({ text }) => text), before.map(({ text }) => text)) // prettier-ignore
    await app.db.insertInto('transfers').values(rows).execute()
  })

  test('stands behind the logs of its block: values, and what each transaction cost, failed or not', async () => {
    assert.deepEqual(shown(await get('?include=native')), [
      '2 VALUE 3',
      `2 FEE ${FEE}`,
      `2 FEE ${FEE}`,
      '2 ERC20 7',
      '1 VALUE 3',
      `1 FEE ${FEE}`,
      '1 ERC20 5',
      '1 ERC20 6',
    ])
    const { entries, headers } = await get('?type=NATIVE&toBlock=1')
    const [value, fee] = entries
    const { hash } = script.blocks[1]!.transactions[0]!
    const common = {
      type: 'TRANSFER',
      direction: 'OUT',
      tokenType: 'NATIVE',
      tokenId: null,
      hash,
      blockNumber: 1,
      logIndex: 1_000_000_000,
    }
    const amount = { decimals: 18, symbol: 'ETH', name: 'Ether', tokenAddress: null, network: 'DEVNET', chainId: 31337 }
    assert.partialDeepStrictEqual(value, { ...common, id: `${hash}:1000000000:1`, nativeKind: 'VALUE', to: { address: TARGET }, amount: { ...amount, valueBn: { type: 'BigNumber', hex: '0x03' }, value: '3', formatted: 3e-18 } }) // prettier-ignore
    assert.partialDeepStrictEqual(fee, { ...common, id: `${hash}:1000000000:0`, nativeKind: 'FEE', from: { address: checksumAddress(ALICE) }, to: { address: NOBODY }, amount: { ...amount, value: FEE } }) // prettier-ignore
    assert.equal(headers['x-native-from-block'], '0')
    // This node has no traces. None were needed, because no transaction ran code.
    assert.equal(headers['x-native-internal-from-block'], '0')
  })

  test('is filtered and paged like the rest, and its cursors are its own', async () => {
    const all = shown(await get('?include=native'))
    const paged: string[] = []
    let link = '?include=native&limit=1'
    for (;;) {
      const page = await get(link)
      paged.push(...shown(page))
      const next = page.headers['x-next-cursor']
      if (typeof next !== 'string') break
      link = `?include=native&limit=1&cursor=${next}`
    }
    assert.deepEqual(paged, all)
    assert.deepEqual(shown(await get('?type=NATIVE&direction=in')), [])
    assert.deepEqual(shown(await get('?type=NATIVE&finality=finalized')), [])
    assert.deepEqual(shown(await get(`?include=native&counterparty=${TARGET}&limit=2`)), ['2 VALUE 3', '2 ERC20 7'])
    const own = (await get('?include=native&limit=1')).headers['x-next-cursor'] as string
    for (const [query, status] of [
      [`?type=ERC20,NATIVE,ERC721,ERC1155&cursor=${own}`, 200],
      [`?cursor=${own}`, 400],
      [`?type=NATIVE&cursor=${own}`, 400],
      ['?include=all', 400],
      ['?include=', 400],
      ['?type=native', 400],
    ] as const)
      assert.equal((await get(query)).status, status, query)
  })
})
