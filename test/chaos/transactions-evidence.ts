import type { Selectable } from 'kysely'
import type { Hex } from '../../src/ids.ts'
import { fromHex, toHex } from '../../src/hex.ts'
import type { Database } from '../../src/store/rows.ts'
import { readChain, readReceipts, type Canonical, type MinedTx, type Receipt } from './transactions-chain.ts'
import type { Write } from './transactions-client.ts'
import type { Account, ChaosWorld } from './transactions-world.ts'

/**
 * What the judge can find wrong, by name; a mutant says which of these has to catch it.
 *
 * `lost`: told, and not on the chain. `doubled`: on the chain twice, or signed for two nonces. `wrong`: a hash that does
 * not lead to the mined one. `gaps`: a nonce that is skipped or had two effects. `unanswered`: a client that never got
 * an answer, or a false one. `late`: still open, or mined too long after the faults. `invented`: a row that the chain
 * does not show, or the reverse, or one for a key that is not under its id. `state`, `transitions`, `hashes`, `block`,
 * `receipt`, `finality`: a row or its history differs from the chain. `price`: gas or fees beyond what the rules allow.
 * `money`: coins that went elsewhere. `transfers`: the history differs from the logs. `answers`: the API says something
 * else than the tables. `key`: an idempotency key was forgotten, or answers otherwise. `lane`: an account is stopped
 * without a reason, or not with one. `scenario`: what a scenario says of itself.
 */
export type Check = 'lost' | 'doubled' | 'wrong' | 'gaps' | 'unanswered' | 'late' | 'invented' | 'state' | 'transitions' | 'hashes' | 'block' | 'receipt' | 'finality' | 'price' | 'money' | 'transfers' | 'answers' | 'key' | 'lane' | 'scenario' // prettier-ignore

/** Notes that something is wrong. */
export type Tell = (check: Check, text: string) => void

export type Row = Selectable<Database['transactions']>
export type AttemptRow = Selectable<Database['attempts']>

/** Everything at one moment at which the chain stands still and the service has followed it to its end. */
export type Evidence = {
  world: ChaosWorld
  accounts: Account[]
  writes: Write[]
  chain: Canonical
  /** the mined transactions of the accounts, by hash, and by account and nonce */
  byHash: Map<Hex, MinedTx>
  bySlot: Map<string, MinedTx>
  receipts: Map<Hex, Receipt>
  rows: Row[]
  attempts: Map<string, AttemptRow[]>
  stopped: Selectable<Database['stopped_lanes']>[]
  transfers: Selectable<Database['transfers']>[]
  cursor: Selectable<Database['cursors']>
}

export const slotOf = (from: Hex, nonce: number): string => `${from} ${nonce}`

export async function gather(world: ChaosWorld, writes: Write[], accounts: Account[]): Promise<Evidence> {
  const chain = await readChain(world)
  const senders = new Set(accounts.map(({ address }) => address))
  const own = chain.transactions.filter(({ from }) => senders.has(from))
  const receipts = await readReceipts(world, chain.transactions)
  const tables = await readTables(world, accounts)
  return {
    ...{ world, accounts, writes, chain, receipts, ...tables },
    byHash: new Map(own.map((tx) => [tx.hash, tx])),
    bySlot: new Map(own.map((tx) => [slotOf(tx.from, tx.nonce), tx])),
  }
}

/** The service's own word, as it stands in its tables. */
async function readTables(world: ChaosWorld, accounts: Account[]) {
  const senders = accounts.map(({ address }) => fromHex(address))
  return world.reading(async (db) => {
    const rows = await db.selectFrom('transactions').selectAll().where('sender', 'in', senders).execute()
    const attempts = await db
      .selectFrom('attempts')
      .innerJoin('transactions', 'transactions.id', 'attempts.transaction_id')
      .selectAll('attempts')
      .where('sender', 'in', senders)
      .execute()
    return {
      rows,
      attempts: Map.groupBy(attempts, ({ transaction_id }) => transaction_id),
      stopped: await db.selectFrom('stopped_lanes').selectAll().where('sender', 'in', senders).execute(),
      transfers: await db
        .selectFrom('transfers')
        .innerJoin('accounts', 'accounts.account_id', 'transfers.account_id')
        .selectAll('transfers')
        .where('address', 'in', senders)
        // Native currency has a judge of its own (test/sums/).
        .where('token_type', '<>', 1)
        .execute(),
      cursor: await db.selectFrom('cursors').selectAll().executeTakeFirstOrThrow(),
    }
  })
}

/** A row in a few words. */
export const nameOfRow = ({ id, sender, nonce }: Pick<Row, 'id' | 'sender' | 'nonce'>): string =>
  `${id} (nonce ${nonce} of ${toHex(sender)})`
