// tier: all, because it plays the history of a thousand labelled transfers
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { cleanText } from '../abi/text.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import { openTelemetry } from '../telemetry.ts'
import { TOKEN_TYPE_NUMBERS } from '../tokens/record.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { makeCases } from '../../test/spam/make-cases.ts'
import { NETWORKS, type CaseTransfer, type SpamCase } from '../../test/spam/story.ts'
import { insertTransfers } from './columns.ts'
import { selectPage } from './page.ts'
import { readParameters } from './query.ts'
import { DIRECTION, type TransferRow } from './rows.ts'
import type { Spam } from './spam.ts'

const cases = makeCases()
const SPONSOR_ID = '00000000-0000-8000-8000-0000000000ff'
const ROUTER = addressOf(0x70075)
const JUDGED_BLOCK = 1_000

/** Minimum precision on cases that were not used for tuning. */
const PRECISION = 0.99
const RECALL = 0.95

test('there are at least 500 cases, each told once', () => {
  assert.ok(cases.length >= 500)
  assert.equal(new Set(cases.map(({ id }) => id)).size, cases.length)
  for (const half of ['tune', 'judge'] as const)
    for (const isSpam of [true, false])
      assert.ok(cases.filter((one) => one.half === half && one.isSpam === isSpam).length >= 100)
})

suite('labelled transfers, each in the history of a person of its own', () => {
  let database: TestDatabase
  const verdicts = new Map<number, Spam | null>()

  before(async () => {
    database = await testDatabase()
    await store(database, cases)
    const knownTokens = new Map(
      Object.values(NETWORKS).flatMap(({ chainId, known }) =>
        known.map(({ address, symbol, name }) => [`${chainId}:${address}`, { symbol, name }] as const),
      ),
    )
    const app: Pick<App, 'db' | 'knownTokens' | 'telemetry'> = { db: database.db, knownTokens, telemetry: openTelemetry('test', 'silent') } // prettier-ignore
    const chains = Object.fromEntries(
      Object.entries(NETWORKS).map(([name, { chainId, native }]) => {
        const chain: Pick<Chain, 'chainId' | 'symbol' | 'coin' | 'state'> = { chainId, symbol: native.symbol, coin: native.name, state: openState() } // prettier-ignore
        return [name, chain as Chain]
      }),
    )
    for (const one of cases) {
      const { shown } = await selectPage(app, chains[one.network]!, {
        ...{ accountId: accountOf(one), after: null, limit: 1, isCovered: one.isUncovered === undefined },
        bounds: { indexedTo: JUDGED_BLOCK, finalizedTo: JUDGED_BLOCK },
        filters: readParameters({ includeSpam: 'true' }).filters,
      })
      assert.equal(shown[0]!.row.block_number, JUDGED_BLOCK)
      verdicts.set(one.id, shown[0]!.spam)
    }
  })
  after(() => database.close())

  for (const half of ['tune', 'judge'] as const)
    test(`precision and recall on the half to ${half} by`, (context) => {
      const mine = cases.filter((one) => one.half === half)
      const isHidden = (one: SpamCase) => verdicts.get(one.id) !== null
      const hit = mine.filter((one) => one.isSpam && isHidden(one)).length
      const wrong = mine.filter((one) => !one.isSpam && isHidden(one))
      const missed = mine.filter((one) => one.isSpam && !isHidden(one))
      const precision = hit / (hit + wrong.length)
      const recall = hit / (hit + missed.length)
      context.diagnostic(`${mine.length} cases: precision ${precision.toFixed(4)}, recall ${recall.toFixed(4)}`)
      const told = (one: SpamCase) => `${one.id} ${one.pattern} ${JSON.stringify(one.tokens.map(({ symbol, name }) => [symbol, name]))} ${JSON.stringify(verdicts.get(one.id))}` // prettier-ignore
      for (const one of wrong) context.diagnostic(`hidden, and real: ${told(one)}`)
      for (const one of missed) context.diagnostic(`shown, and spam: ${told(one)}`)
      assert.ok(precision >= PRECISION, `precision ${precision}`)
      assert.ok(recall >= RECALL, `recall ${recall}`)
    })

  test('what the person or a sponsor initiated is never spam, nor is what a known token says of leaving', () => {
    for (const one of cases.filter(({ judged }) => judged.by !== 'others')) assert.equal(verdicts.get(one.id), null)
  })
})

const accountOf = ({ id }: SpamCase) => `00000000-0000-8000-8000-${String(id).padStart(12, '0')}`
const personOf = ({ id }: SpamCase) => addressOf(0xbeef_0000 + id)

async function store({ db }: TestDatabase, all: SpamCase[]): Promise<void> {
  const account = (id: string, name: string, address: Hex) => ({
    account_id: id,
    user_id: name,
    address: fromHex(address),
  })
  await db.insertInto('accounts').values(account(SPONSOR_ID, 'SPONSOR-HOUSE', addressOf(0x59))).execute() // prettier-ignore
  const networks = Object.values(NETWORKS)
  await db.insertInto('sponsors').values(networks.map(({ chainId }) => ({ account_id: SPONSOR_ID, chain_id: chainId, name: 'HOUSE' }))).execute() // prettier-ignore
  await db
    .insertInto('accounts')
    .values(
      all.map((one) => ({
        ...account(accountOf(one), `DEV-${one.id}`, personOf(one)),
        imported_at: one.isElsewhere ? new Date() : null,
      })),
    ) // prettier-ignore
    .execute()
  for (const [network, { chainId, known }] of Object.entries(NETWORKS)) {
    const mine = all.filter((one) => one.network === network)
    const tokens = [...known, ...mine.flatMap((one) => one.tokens)]
    const rows = tokens.map(({ address, symbol, name, decimals }) => ({
      ...{ chain_id: chainId, address: fromHex(address), decimals },
      // Convert them as when answers are stored.
      ...{ symbol: cleanText(symbol), name: cleanText(name), state: 'KNOWN' as const, attempts: 1, retry_at: null },
    }))
    await db.insertInto('tokens').values(rows).execute()
    const types = new Map(tokens.map(({ address, type }) => [address, TOKEN_TYPE_NUMBERS[type]]))
    let nonce = 0
    const write = (accountId: string, target: Hex, hash: Hex | null) => {
      const id = `tx_${network}_${nonce}`
      return {
        transaction: {
          ...{
            id,
            account_id: accountId,
            client_id: 'demo',
            chain_id: chainId,
            sender: fromHex(ROUTER),
            nonce: nonce++,
          },
          ...{ target: fromHex(target), value: toWord(0n), data: Buffer.alloc(0), gas_limit: 1, max_fee: toWord(1n) },
          ...{ max_priority_fee: null, abi: '', state: 'FINALIZED' as const, transitions: '[]' },
        },
        attempt: hash && { chain_id: chainId, hash: fromHex(hash), transaction_id: id, raw: Buffer.alloc(1), gas_limit: 1, max_fee: toWord(1n), max_priority_fee: null }, // prettier-ignore
      }
    }
    const stories = mine.flatMap((one) => {
      const isKnown = (token: string) => known.some(({ address }) => address === token)
      const places: [CaseTransfer, number][] = [...one.before.map((moved, index) => [moved, index + 1] as [CaseTransfer, number]), [one.judged, JUDGED_BLOCK]] // prettier-ignore
      return places.map(([moved, block]) => {
        const row = rowOf(one, moved, { block, tokenType: types.get(moved.token as Hex)! })
        // Exchanges call a router, payments call the token.
        const target = isKnown(moved.token) ? (moved.token as Hex) : ROUTER
        const by = { person: accountOf(one), sponsor: SPONSOR_ID, others: null }[moved.by]
        return { row, writes: by === null ? [] : [write(by, target, row.hash)] }
      })
    })
    const calls = mine.flatMap((one) => one.writes.map((target) => write(accountOf(one), target, null)))
    const writes = [...stories.flatMap((one) => one.writes), ...calls]
    await insertTransfers(db, { chainId } as Chain, stories.map(({ row }) => row)) // prettier-ignore
    if (writes.length === 0) continue
    await db.insertInto('transactions').values(writes.map(({ transaction }) => transaction)).execute() // prettier-ignore
    const attempts = writes.flatMap(({ attempt }) => (attempt === null ? [] : [attempt]))
    await db.insertInto('attempts').values(attempts).execute()
  }
}

function rowOf(
  one: SpamCase,
  moved: CaseTransfer,
  { block, tokenType }: { block: number; tokenType: number },
): TransferRow {
  const { token, direction, other, value, by } = moved
  const person = personOf(one)
  return {
    ...{ accountId: accountOf(one), blockNumber: block, logIndex: 0, batchIndex: 0, direction: DIRECTION[direction] },
    ...{ tokenType, token: token as Hex, tokenId: tokenType === 20 ? null : `0x${wordDigits(7n)}` },
    sender: direction === 'IN' ? other : person,
    recipient: direction === 'OUT' ? other : person,
    value: `0x${wordDigits(BigInt(value))}`,
    hash: `0x${wordDigits(BigInt(one.id * 10_000 + block))}`,
    ...{ blockHash: `0x${'22'.repeat(32)}`, minedAt: 1_767_225_600 + block * 12, omitted: 0 },
    isSpam: BigInt(value) === 0n && by === 'others',
  }
}
