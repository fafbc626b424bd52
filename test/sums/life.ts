import { sql } from 'kysely'
import type { App } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { startFollower } from '../../src/follower/follow.ts'
import { indexTransfers } from '../../src/history/index-transfers.ts'
import { kindOf } from '../../src/history/native.ts'
import {
  auditSums,
  sampledAccounts,
  summableBlocks,
  type SumCounts,
  type SumDifference,
} from '../../src/history/sum-audit.ts'
import type { Hex } from '../../src/ids.ts'
import { openState } from '../../src/state.ts'
import { fromHex } from '../../src/hex.ts'
import { openTelemetry } from '../../src/telemetry.ts'
import { testDatabase } from '../kit/database.ts'
import { atHead } from '../follower-stage.ts'
import { randomOf } from '../random.ts'
import { addressOf } from '../nodes/scripted-chain.ts'
import { until } from '../kit/until.ts'
import { ledgerChain } from './chain.ts'
import type { LedgerTransaction } from './ledger.ts'
import { generator, GENESIS } from './generate.ts'
import { systemClock } from '../../src/clock.ts'

export type SumsOutcome = {
  counts: SumCounts
  differences: SumDifference[]
  kinds: Set<string>
  reorganisations: number
  blocks: number
}

/**
 * A generated chain that is followed while it reorganises, and its entries summed for accounts at random, each at a block at random. A half of the
 * accounts is from before the network was followed.
 */
export async function liveAndSum({
  seed,
  accounts: count,
  turns,
  samples,
  tells,
  first = [],
}: {
  seed: number
  accounts: number
  turns: number
  samples: number
  tells: 'traces' | 'logs' | 'nothing'
  /** transactions before those at random, each in a block of its own; then samples are of the newest block */
  first?: LedgerTransaction[]
}): Promise<SumsOutcome> {
  const random = randomOf(seed)
  const accounts = Array.from({ length: count }, (_, index) => addressOf(0xa_0000 + index))
  const script = ledgerChain({ genesis: GENESIS, tells })
  const { mine } = generator(script, { accounts, random })
  const { db, close } = await testDatabase()
  const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3 }
  const app = { config, db, telemetry: openTelemetry('test', 'silent'), state: openState(), clock: systemClock } as App
  const insert = async (some: Hex[], columns: Record<string, unknown>) => {
    for (let start = 0; start < some.length; start += 500)
      await db
        .insertInto('accounts')
        .values(
          some.slice(start, start + 500).map((address) => ({
            account_id: idOf(address),
            user_id: `DEV-${address}`,
            address: fromHex(address),
            ...columns,
          })),
        ) // prettier-ignore
        .execute()
  }
  const half = Math.floor(count / 2)
  await insert(accounts.slice(0, half), { created_at: sql`now() - interval '1 hour'` })
  const follower = startFollower(app, script.chain, [indexTransfers])
  const settled = () => atHead(db, 'history_cursors', () => script.blocks.at(-1)!.hash)
  try {
    script.mine({ transactions: [], miner: addressOf(0), withdrawals: [] })
    await until('native currency is looked at', async () => (await db.selectFrom('native_coverage').select('to_block').execute()).length === 1) // prettier-ignore
    await insert(accounts.slice(half), { is_key_new: true })
    await db
      .insertInto('history_marks')
      .values({ chain_id: script.chain.chainId, at: sql<Date>`now()`, block_number: 0 })
      .onConflict((on) => on.doNothing())
      .execute()
    let reorganisations = 0
    for (const transaction of first) script.mine({ transactions: [transaction], miner: addressOf(0), withdrawals: [] })
    for (let turn = 0; turn < turns; turn++) {
      if (random(4) > 0) for (let more = random(5) + 1; more > 0; more--) mine()
      else {
        const depth = Math.min(random(8) + 1, script.blocks.length - 3)
        if (depth < 1) continue
        script.lose(depth)
        for (let more = depth + 1 + random(2); more > 0; more--) mine()
        reorganisations++
      }
      if (random(3) > 0) await settled()
    }
    if (turns > 0) mine()
    await settled()
    const { from, to } = await summableBlocks(db, script.chain)
    const differences: SumDifference[] = []
    const counts = await auditSums(app, script.chain, {
      targets: sampledAccounts(db, { count: samples, random, from: turns > 0 ? from : to, to }),
      ...{
        rpc: script.chain.rpc,
        since: null,
        onDifference: (one) => void differences.push(one),
        onProgress: () => {},
      },
    })
    const rows = await db
      .selectFrom('transfers')
      .select(['log_index', 'batch_index', 'omitted'])
      .where('token_type', '=', 1)
      .execute()
    const kinds = new Set<string>(rows.map((row) => kindOf({ logIndex: row.log_index, batchIndex: row.batch_index })))
    if (rows.some(({ omitted }) => omitted > 0)) kinds.add('omitted')
    return { counts, differences, kinds, reorganisations, blocks: script.blocks.length }
  } finally {
    await follower.stop()
    await close()
  }
}

/** Ids all over their range, as those of people are. */
const idOf = (address: Hex): string => {
  const number = Number(address)
  const spread = (Math.imul(number, 2_654_435_761) >>> 0).toString(16).padStart(8, '0')
  return `${spread}-0000-8000-8000-${address.slice(-12)}`
}
