import { sql } from 'kysely'
import type { Explorer } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db, RootDb } from '../store/db.ts'
import { spentOnNetwork } from '../store/sponsor-budget.ts'
import type { ExplorerTemplates } from '../store/column-values.ts'
import { columnsOf, factsIn, unsaid, type NetworkFacts } from './network-facts.ts'
import type { ListedNetwork } from './wire.ts'

type NetworkIdentity = { chainId: number; name: string; genesisHash: Hex }

/**
 * Binds the name and chain id of a network to one chain permanently, by its genesis block. A database with transactions
 * of one chain must not meet another chain with the same id. Then stores the other facts.
 * @param mayBegin  true for the embedded chain, which may have lost everything in a crash: its new genesis replaces the
 *                  old one, and the follower treats it as the deepest reorganisation
 * @throws Error  if the chain is another one
 */
export async function bindNetwork(
  db: RootDb,
  facts: NetworkFacts & { genesisHash: Hex },
  { mayBegin }: { mayBegin: boolean },
): Promise<void> {
  const { chainId, name, genesisHash } = facts
  const genesis = fromHex(genesisHash)
  const columns = columnsOf({ ...unsaid, ...facts })
  await db
    .insertInto('networks')
    .values({ chain_id: chainId, name, genesis_hash: genesis, ...columns } as never)
    .onConflict((on) => on.doNothing())
    .execute()
  await checkNetwork(db, facts, { mayBegin })
  await db
    .updateTable('networks')
    .set({ genesis_hash: genesis, ...columns } as never)
    .where('chain_id', '=', chainId)
    .execute()
}

/** Checks a chain against the one that this database was made for. Errors and `mayBegin` as for `bindNetwork`. */
export async function checkNetwork(
  db: RootDb,
  { chainId, name, genesisHash }: NetworkIdentity,
  { mayBegin }: { mayBegin: boolean },
): Promise<void> {
  const known = await db.selectFrom('networks').selectAll().where('chain_id', '=', chainId).executeTakeFirst()
  if (known === undefined)
    throw new Error(
      `the network name ${name} belongs to another chain id in this database, or no server has opened it yet`,
    )
  if (known.name !== name)
    throw new Error(
      `chain id ${chainId} is known to this database as ${known.name}, not ${name}: a network keeps its name`,
    )
  if (toHex(known.genesis_hash) !== genesisHash && !mayBegin)
    throw new Error(
      `the node is on another chain: the genesis block of chain id ${chainId} is not the one this database was made for. Point it at the previous chain, or start over with another DATA_DIR and database, which makes ${name} a new network and all accounts new`,
    )
}

/** No process has held or written the work for longer than the pause between two rounds. */
const LEFT_ALONE = sql<boolean>`coalesce(greatest(work.lease_until, work.updated_at) < now() - interval '2 minutes', false)`.as('is_left_alone') // prettier-ignore

/** Reads the facts of each network, by name. */
export async function readNetworks(db: Db): Promise<Required<NetworkFacts>[]> {
  const rows = await db.selectFrom('networks').selectAll().orderBy('name').execute()
  return rows.map((row) => ({ chainId: row.chain_id, name: row.name, ...factsIn(row) }))
}

/** Lists the networks by name, each with the number of applications that are bound to it. */
export async function listNetworks(db: Db): Promise<Omit<ListedNetwork, 'isServed' | 'owedDelegations'>[]> {
  const rows = await db
    .selectFrom('networks')
    .leftJoin('cursors', 'cursors.chain_id', 'networks.chain_id')
    .leftJoin('backfill_work as work', 'work.chain_id', 'networks.chain_id')
    .leftJoin('native_coverage as native', 'native.chain_id', 'networks.chain_id')
    .selectAll('networks')
    .select([
      'read_from',
      'native.from_block as native_from',
      'native.internal_from_block',
      'native.to_block as native_to',
    ])
    .select(['work.from_block', 'work.next_block', 'work.target_block', 'work.blocked_by', 'work.updated_at'])
    .select(sql<number | null>`cardinality(work.account_ids)`.as('accounts'))
    .select(['waiting', 'covered', 'counted_at', 'blocks_per_second', 'done_at', LEFT_ALONE])
    .orderBy('name')
    .execute()
  const bound = await db
    .selectFrom('applications')
    .select(({ fn }) => ['chain_id', fn.countAll<string | number>().as('count')])
    .groupBy('chain_id')
    .execute()
  const sponsors = await db.selectFrom('sponsors').select('chain_id').execute()
  const spent = await spentByNetwork(db)
  return rows.map((row) => ({
    chainId: row.chain_id,
    name: row.name,
    ...factsIn(row),
    sponsorSpent: spent.get(row.chain_id) ?? '0',
    sponsors: sponsors.filter(({ chain_id }) => chain_id === row.chain_id).length,
    readFrom: row.read_from,
    native:
      row.native_from === null || row.native_to === null
        ? null
        : { fromBlock: row.native_from, internalFromBlock: row.internal_from_block, toBlock: row.native_to },
    backfill: backfillOf(row),
    backfillProgress: progressOf(row),
    applications: Number(bound.find(({ chain_id }) => chain_id === row.chain_id)?.count ?? 0),
  }))
}

/** Returns the wei that sponsors spent in the rolling day, by chain id. */
async function spentByNetwork(db: Db): Promise<Map<number, string>> {
  const rows = await db.selectFrom('gas_spent_on_network').select('chain_id').distinct().execute()
  return new Map(
    await Promise.all(
      rows.map(async ({ chain_id: chainId }) => [chainId, String(await spentOnNetwork(db, chainId))] as const),
    ),
  )
}

/**
 * Lists the networks, also with the number of accounts that owe their delegation. For operators only, because it is
 * counted.
 */
export async function describeNetworks(db: Db): Promise<Omit<ListedNetwork, 'isServed'>[]> {
  const [networks, owed] = await Promise.all([listNetworks(db), owedByNetwork(db)])
  return networks.map((one) => ({ ...one, owedDelegations: owed === null ? null : (owed.get(one.chainId) ?? 0) }))
}

/**
 * Counts, by chain id, the accounts that signed a delegation which is in no block yet. It counts only on networks whose
 * gas is no longer `sponsor`. On others, the next write of each account includes the delegation, and there may be very
 * many. Null if the database role of this process may not read these tables.
 */
async function owedByNetwork(db: Db): Promise<Map<number, number> | null> {
  const { rows: rights } = await sql<{
    can: boolean
  }>`select has_table_privilege('operations', 'select') and has_table_privilege('carried', 'select') as can`.execute(db)
  if (!rights[0]!.can) return null
  const { rows } = await sql<{ chain_id: number; owed: string | number }>`
      with signed as (
        select o.chain_id, o.sender, o.authorization_nonce, bool_or(exists (select 1 from carried c join transactions t on t.id = c.transaction_id
            where c.operation_id = o.id and t.block_number is not null)) as is_there
        from operations o join networks n on n.chain_id = o.chain_id and n.gas <> 'sponsor'
        where o.authorization_nonce is not null
        group by o.chain_id, o.sender, o.authorization_nonce
      )
      select chain_id, count(distinct sender) as owed from signed where not is_there group by chain_id`.execute(db)
  return new Map(rows.map(({ chain_id: chainId, owed }) => [Number(chainId), Number(owed)]))
}

function backfillOf(row: {
  accounts: number | null
  from_block: number | null
  next_block: number | null
  target_block: number | null
  blocked_by: string | null
  updated_at: Date | null
}): ListedNetwork['backfill'] {
  const { accounts, from_block: fromBlock, target_block: toBlock } = row
  if (accounts === null) return null
  return {
    accounts,
    fromBlock: fromBlock!,
    nextBlock: row.next_block ?? fromBlock!,
    toBlock: toBlock!,
    blockedBy: row.blocked_by,
    updatedAt: row.updated_at!.toISOString(),
  }
}

/** Returns the progress that the backfill process counted: accounts are never counted for a request. */
function progressOf(row: {
  waiting: number | null
  covered: number | null
  counted_at: Date | null
  blocks_per_second: number | null
  done_at: Date | null
  blocked_by: string | null
  is_left_alone: boolean
}): ListedNetwork['backfillProgress'] {
  const { waiting, covered, counted_at: countedAt } = row
  if (waiting === null || covered === null || countedAt === null) return null
  const isAnyLeft = waiting > 0
  const leftAlone = row.is_left_alone ? 'no process is at it: BACKFILL is off, or no server of this network runs' : null
  const waitsFor = isAnyLeft ? (row.blocked_by ?? leftAlone) : null
  return {
    waiting,
    covered,
    countedAt: countedAt.toISOString(),
    blocksPerSecond: row.blocks_per_second,
    doneAt: isAnyLeft && waitsFor === null ? (row.done_at?.toISOString() ?? null) : null,
    waitsFor,
  }
}

/**
 * Removes a network.
 * @throws Error  if no network has that name, or applications are bound to it
 */
export async function removeNetwork(db: RootDb, name: string): Promise<void> {
  const gone = await db
    .deleteFrom('networks')
    .where('name', '=', name)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('applications').select('client_id').whereRef('applications.chain_id', '=', 'networks.chain_id'),
        ),
      ),
    )
    .returning('chain_id')
    .executeTakeFirst()
  if (gone !== undefined) return
  const network = (await listNetworks(db)).find((one) => one.name === name)
  if (network === undefined) throw new Error(`No network has the name ${name}.`)
  throw new Error(`The network ${name} cannot be removed: applications bound to it: ${network.applications}.`)
}

/** Returns the links of an explorer, with any page layout. */
export function explorerOf({ tx, address, block }: ExplorerTemplates): Explorer {
  const [ofTx, ofAddress, ofBlock] = [tx.split('{hash}'), address.split('{address}'), block.split('{number}')]
  return {
    tx: (hash) => ofTx.join(hash),
    address: (of) => ofAddress.join(of),
    block: (number) => ofBlock.join(String(number)),
  }
}

/** Returns the page templates of most explorers. */
export const templatesAt = (base: string): ExplorerTemplates => {
  const root = base.replace(/\/+$/, '')
  return { tx: `${root}/tx/{hash}`, address: `${root}/address/{address}`, block: `${root}/block/{number}` }
}
