import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { CONSECUTIVE_TRANSFER_TOPIC, DEPOSIT_TOPIC, TRANSFER_TOPIC, WITHDRAWAL_TOPIC } from '../abi/transfers.ts'
import type { App } from '../app.ts'
import { listBalances } from '../balances/list.ts'
import { listNfts } from '../balances/nfts.ts'
import { readTokenBalance } from '../balances/read.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import { systemClock } from '../clock.ts'
import { readConfig } from '../config.ts'
import { startFollower } from '../follower/follow.ts'
import type { Caller } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import type { Signer } from '../signer-wire/client.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { countedOf } from '../tokens/moved.ts'
import { refreshTokens } from '../tokens/refresh.ts'
import { attestingSigner } from '../../test/attesting.ts'
import { atHead } from '../../test/follower-stage.ts'
import { noSealKeys } from '../../test/seal-keys.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { addressOf, scriptedChain, type ScriptedLog } from '../../test/nodes/scripted-chain.ts'
import { chainLike } from '../../test/opened.ts'
import { indexTransfers } from './index-transfers.ts'
import { readHistory } from './read.ts'

const ALICE = addressOf(0xa11ce)
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'
const STRANGER = addressOf(0x57)
const NOBODY = addressOf(0)
const WHOLE = 10n ** 18n
const caller: Caller = {
  ...{ userId: 'DEV-alice', accountId: ALICE_ID, address: ALICE, clientId: 'demo', chainId: 31337 },
  ...{ scopes: new Set(['wallet:read']), grantId: 'g', tokenId: 't', expiresAt: 2 ** 40, token: 'x' },
}

const word = (value: bigint | Hex): string => BigInt(value).toString(16).padStart(64, '0')
const topic = (value: bigint | Hex): Hex => `0x${word(value)}`
const text = (value: string): Hex => {
  const hex = Buffer.from(value).toString('hex')
  return `0x${word(32n)}${word(BigInt(value.length))}${hex.padEnd(64, '0')}`
}

const COLLECTION = '0x01ffc9a780ac58cd'
const DRAFT = '0x01ffc9a79a20483d'
const ALLOWANCE = '0xdd62ed3e'
const DEPOSIT = '0xd0e30db0'
const BALANCE = '0x70a08231'
const OWNER = '0x6352211e'

/** Contracts by name, with their answers by the beginning of the calldata. */
const CONTRACTS = {
  hybrid: { decimals: 18, [BALANCE]: topic(2n * WHOLE), [COLLECTION]: topic(1n), [ALLOWANCE]: topic(0n) },
  indexed: { decimals: 18, [BALANCE]: topic(5n * WHOLE) },
  unindexed: { decimals: null, [BALANCE]: topic(2n), [COLLECTION]: topic(1n), [OWNER]: topic(ALICE) },
  kitties: { decimals: null, [BALANCE]: topic(1n), [DRAFT]: topic(1n), [OWNER]: topic(ALICE) },
  weth: { decimals: 18, [BALANCE]: topic(3n * WHOLE), [DEPOSIT]: '0x' },
  both: { decimals: 18, [BALANCE]: topic(WHOLE), [DEPOSIT]: '0x' },
  pool: { decimals: null, [BALANCE]: topic(7n) },
  range: { decimals: null, [BALANCE]: topic(5n), [COLLECTION]: topic(1n), [OWNER]: topic(ALICE) },
  endless: { decimals: null, [BALANCE]: topic(9n), [COLLECTION]: topic(1n), [OWNER]: topic(ALICE) },
} as const satisfies Record<string, { decimals: number | null } & Record<string, unknown>>
type Contract = keyof typeof CONTRACTS
const NAMES = Object.keys(CONTRACTS) as Contract[]
const at = (name: Contract): Hex => addressOf(0x7000 + NAMES.indexOf(name))

const logOf = (name: Contract, topics: Hex[], data: bigint[] = []): ScriptedLog => ({ address: at(name), topics, data: `0x${data.map(word).join('')}` }) // prettier-ignore
const LOGS: [name: Contract, ...Parameters<typeof logOf> extends [unknown, ...infer Rest] ? Rest : never][] = [
  ['hybrid', [TRANSFER_TOPIC, topic(STRANGER), topic(ALICE)], [2n * WHOLE]],
  ['hybrid', [TRANSFER_TOPIC, topic(STRANGER), topic(ALICE), topic(2n ** 255n + 1n)]],
  ['indexed', [TRANSFER_TOPIC, topic(STRANGER), topic(ALICE), topic(5n * WHOLE)]],
  ['unindexed', [TRANSFER_TOPIC, topic(STRANGER), topic(ALICE)], [5_210n]],
  ['unindexed', [TRANSFER_TOPIC, topic(STRANGER), topic(ALICE)], [0n]],
  ['kitties', [TRANSFER_TOPIC], [BigInt(STRANGER), BigInt(ALICE), 77n]],
  ['weth', [DEPOSIT_TOPIC, topic(ALICE)], [4n * WHOLE]],
  ['weth', [WITHDRAWAL_TOPIC, topic(ALICE)], [WHOLE]],
  // Anyone can cause a transfer log of zero, so this log does not repeat the deposit or withdrawal.
  ['weth', [TRANSFER_TOPIC, topic(NOBODY), topic(ALICE)], [0n]],
  ['weth', [TRANSFER_TOPIC, topic(ALICE), topic(NOBODY)], [0n]],
  ['both', [DEPOSIT_TOPIC, topic(ALICE)], [WHOLE]],
  ['both', [TRANSFER_TOPIC, topic(NOBODY), topic(ALICE)], [WHOLE]],
  ['pool', [DEPOSIT_TOPIC, topic(ALICE)], [7n]],
  ['range', [CONSECUTIVE_TRANSFER_TOPIC, topic(10n), topic(NOBODY), topic(ALICE)], [14n]],
] // prettier-ignore

test('a balance of a contract that is both counts amounts, and not the pieces beside them', () => {
  const piece = { form: 'ERC721', tokenId: 7n, value: 1n } as const
  const amount = { form: 'ERC20', tokenId: null, value: 5n } as const
  const is = (isFungible: boolean, isCollection: boolean) => ({ isFungible, isCollection, isWrapper: false })
  assert.equal(countedOf(piece, is(true, true)), null)
  assert.equal(countedOf(piece, is(false, true))!.value, 1n)
  assert.equal(countedOf(piece, is(true, false))!.value, 7n)
  for (const standards of [is(true, true), is(true, false)]) assert.equal(countedOf(amount, standards)!.value, 5n)
  assert.equal(countedOf({ ...amount, form: 'WRAPPED' }, is(true, false)), null)
})

suite('what moved, by contracts whose logs are not what they look like', () => {
  let database: TestDatabase
  let app: App
  const script = scriptedChain({ isDevelopment: true, finality: 2, everySeconds: 12 })
  /** changed decimals and symbols by contract */
  const changed: Partial<Record<Contract, { decimals: number; symbol: string }>> = {}

  before(async () => {
    database = await testDatabase()
    const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3, NATIVE_HISTORY: 'off' as const }
    const signer = attestingSigner(() => null)
    script.answer = (method, params) => {
      if (method === 'eth_getBalance') return '0x0'
      const [first] = params as [Hex | { to: Hex; data: Hex }]
      const { to, data } = typeof first === 'string' ? { to: first, data: '' } : first
      const name = NAMES.find((one) => at(one) === to)
      if (method === 'eth_getCode') return name === undefined ? '0x' : '0x60'
      if (name === undefined) return '0x'
      const { decimals, ...answers }: Record<string, unknown> = { ...CONTRACTS[name], ...changed[name] }
      if (data === '0x313ce567' && decimals !== null) return topic(BigInt(decimals as number))
      if (data === '0x95d89b41' || data === '0x06fdde03') return text((answers.symbol as string) ?? name.toUpperCase())
      const answer = Object.entries(answers).find(([start]) => data.startsWith(start))
      if (answer !== undefined) return answer[1]
      throw new RpcError(3, 'execution reverted', '0x')
    }
    const chain = chainLike(script.chain, {})
    app = {
      ...({} as App),
      ...{ config, origin: 'http://localhost:4000', db: database.db, clock: systemClock },
      ...{ chains: new Map([[31337, chain]]), telemetry: openTelemetry('test', 'silent') },
      ...{ state: openState(), sealKeys: noSealKeys, signer: signer as Partial<Signer> as Signer },
    }
    // prettier-ignore
    await app.db.insertInto('accounts').values({ account_id: ALICE_ID, user_id: 'DEV-alice', address: fromHex(ALICE), attestation: fromHex(signer.attestation('DEV-alice', ALICE)) }).execute()
    script.mine({ from: STRANGER, transfers: [], logs: LOGS.map((one) => logOf(...one)) })
    await follow()
  })
  after(() => database.close())

  async function follow() {
    const follower = startFollower(app, script.chain, [indexTransfers])
    await atHead(app.db, 'history_cursors', () => script.blocks.at(-1)!.hash)
    await follower.stop()
    await refreshTokens(app, script.chain)
  }
  /** Returns the entries of a contract as type, amount, id and direction, oldest first. */
  async function entriesOf(name: Contract, query: Record<string, string> = {}) {
    const { entries } = await readHistory(app, caller, 'DEV-alice', { token: at(name), ...query })
    return entries.toReversed().map(({ tokenType, tokenId, amount, direction }) =>
      [tokenType, tokenId ?? amount.formatted, direction].join(' '),
    ) // prettier-ignore
  }

  test('the contract says what its numbers are, and the form of the log decides where it is several', async () => {
    const expected: Record<Exclude<Contract, 'endless'>, string[]> = {
      hybrid: ['ERC20 2 IN', 'ERC721 57896044618658097711785492504343953926634992332820282019728792003956564819969 IN'],
      indexed: ['ERC20 5 IN'],
      // The id 0 is not a transfer of zero.
      unindexed: ['ERC721 5210 IN', 'ERC721 0 IN'],
      kitties: ['ERC721 77 IN'],
      weth: ['ERC20 4 IN', 'ERC20 1 OUT'],
      both: ['ERC20 1 IN'],
      pool: [],
      range: ['ERC721 10 IN', 'ERC721 11 IN', 'ERC721 12 IN', 'ERC721 13 IN', 'ERC721 14 IN'],
    }
    for (const [name, entries] of Object.entries(expected)) {
      assert.deepEqual(await entriesOf(name as Contract), entries, name)
      for (const type of ['ERC20', 'ERC721'])
        assert.deepEqual(
          await entriesOf(name as Contract, { type }),
          entries.filter((entry) => entry.startsWith(type)),
          `${name} ${type}`,
        )
    }
    const { entries } = await readHistory(app, caller, 'DEV-alice', { token: at('hybrid') })
    assert.deepEqual(entries.map(({ amount }) => [amount.decimals, amount.value]), [[0, '1'], [18, '2000000000000000000']]) // prettier-ignore
  })

  test('pages go through everything once, through the ids of a range too, whatever their length', async () => {
    const all = (await readHistory(app, caller, 'DEV-alice', { limit: '200' })).entries.map(({ id }) => id)
    assert.equal(all.length, 14)
    for (const limit of [1, 3, 13]) {
      const seen: string[] = []
      for (let cursor: string | null = null; ;) {
        const page = await readHistory(app, caller, 'DEV-alice', { limit: `${limit}`, ...(cursor === null ? {} : { cursor }) }) // prettier-ignore
        seen.push(...page.entries.map(({ id }) => id))
        cursor = page.nextCursor
        if (cursor === null) break
      }
      assert.deepEqual(seen, all, `${limit}`)
    }
  })

  test('balances say what each is, and have the amounts of the contract; a pool that logs deposits is no token', async () => {
    const { entries } = await listBalances(app, caller, { userId: 'DEV-alice' })
    const told = Object.values(entries).map(({ symbol, tokenType, formatted, decimals }) =>
      [symbol, tokenType, formatted, decimals].join(' '),
    ) // prettier-ignore
    assert.deepEqual(told, [
      'ETH NATIVE 0 18',
      'HYBRID ERC20 2 18',
      'INDEXED ERC20 5 18',
      'UNINDEXED ERC721 2 0',
      'KITTIES ERC721 1 0',
      'WETH ERC20 3 18',
      'BOTH ERC20 1 18',
      'RANGE ERC721 5 0',
    ])
    for (const name of ['hybrid', 'unindexed', 'weth'] as const) {
      const alone = await readTokenBalance(app, caller, { userId: 'DEV-alice', tokenAddress: at(name) })
      assert.deepEqual(alone.entries[at(name)], entries[at(name)])
    }
  })

  test('pieces are found by ids that no log has where an id stands', async () => {
    const { entries } = await listNfts(app, caller, { userId: 'DEV-alice' })
    const ids = entries.map(({ tokenAddress, tokenId }) => `${NAMES.find((name) => at(name) === tokenAddress.toLowerCase())} ${tokenId}`) // prettier-ignore
    assert.deepEqual(ids.toSorted(), ['kitties 77', 'range 10', 'range 11', 'range 12', 'range 13', 'range 14', 'unindexed 0', 'unindexed 5210']) // prettier-ignore
  })

  test('a balance has the decimals of its own block, whatever was known before', async () => {
    changed.weth = { decimals: 17, symbol: 'WETH' }
    script.mine()
    await follow()
    const { entries } = await readTokenBalance(app, caller, { userId: 'DEV-alice', tokenAddress: at('weth') })
    assert.deepEqual([entries[at('weth')]!.decimals, entries[at('weth')]!.formatted], ['17', '30'])
    const listed = await listBalances(app, caller, { userId: 'DEV-alice' })
    assert.deepEqual(listed.entries[at('weth')], entries[at('weth')])
  })

  test('an endless range is a row, and a thousand entries of which the last counts the others', async () => {
    const endless = logOf('endless', [CONSECUTIVE_TRANSFER_TOPIC, topic(1n), topic(NOBODY), topic(ALICE)], [2n ** 256n - 1n]) // prettier-ignore
    script.mine({ from: STRANGER, transfers: [], logs: Array.from({ length: 3 }, () => endless) })
    await follow()
    const { rows } = await app.db
      .selectFrom('transfers')
      .select((eb) => eb.fn.countAll<string>().as('rows'))
      .where('token', '=', fromHex(at('endless')))
      .executeTakeFirstOrThrow()
    assert.equal(Number(rows), 3)
    const ids: (string | null)[] = []
    const omitted: (number | undefined)[] = []
    for (let cursor: string | null = null; ;) {
      const page = await readHistory(app, caller, 'DEV-alice', { token: at('endless'), limit: '200', ...(cursor === null ? {} : { cursor }) }) // prettier-ignore
      ids.push(...page.entries.map(({ tokenId }) => tokenId))
      omitted.push(...page.entries.map((entry) => entry.omitted).filter((one) => one !== undefined))
      cursor = page.nextCursor
      if (cursor === null) break
    }
    assert.equal(ids.length, 3_000)
    assert.deepEqual([ids[0], ids[999], ids[1_000]], ['1000', '1', '1000'])
    assert.deepEqual(omitted, Array(3).fill(Number.MAX_SAFE_INTEGER))
    assert.equal((await listNfts(app, caller, { userId: 'DEV-alice', limit: '20' })).entries.length, 20)
  })
})
