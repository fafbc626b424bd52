import { sql } from 'kysely'
import { checksumAddress, explainAddress } from '../abi/address.ts'
import type { Explorer, Verification } from '../chain/network.ts'
import { isDelegateName, type Hex } from '../ids.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import { retrying, type Db, type RootDb } from '../store/db.ts'
import { spentOnNetwork } from '../store/sponsor-budget.ts'
import { textsIn, type ExplorerTemplates } from '../store/column-values.ts'
import type { ListedNetwork } from './wire.ts'

/** What people and programs have to know of a network, but for its nodes. */
export type NetworkFacts = Omit<
  ListedNetwork,
  | 'applications'
  | 'isServed'
  | 'readFrom'
  | 'native'
  | 'backfill'
  | 'backfillProgress'
  | 'sponsors'
  | 'sponsorSpent'
  | 'owedDelegations'
  | 'sponsorPerDay'
  | 'sponsorLow'
  | 'topUpContracts'
  | 'backfillFrom'
> &
  Partial<Pick<ListedNetwork, 'sponsorPerDay' | 'sponsorLow' | 'topUpContracts' | 'backfillFrom'>>
type NetworkIdentity = { chainId: number; name: string; genesisHash: Hex }

/**
 * Ties a network's name and chain id to one chain, identified by its genesis block, forever: a database that knows
 * transactions of one chain must not meet another under the same number. Then keeps what else is said of it.
 * @param mayBegin  true for the embedded chain, which may have lost everything in a crash: its new genesis replaces
 *   the old one, and the follower treats it as the deepest of reorganisations
 * @throws Error when the chain is another one
 */
export async function bindNetwork(
  db: RootDb,
  facts: NetworkFacts & { genesisHash: Hex },
  { mayBegin }: { mayBegin: boolean },
): Promise<void> {
  const { chainId, name, genesisHash } = facts
  const genesis = fromHex(genesisHash)
  const columns = columnsOf(facts)
  await retrying(() =>
    db
      .insertInto('networks')
      .values({ chain_id: chainId, name, genesis_hash: genesis, ...columns })
      .onConflict((on) => on.doNothing())
      .execute(),
  )
  await checkNetwork(db, facts, { mayBegin })
  await retrying(() =>
    db
      .updateTable('networks')
      .set({ genesis_hash: genesis, ...columns })
      .where('chain_id', '=', chainId)
      .execute(),
  )
}

/** Checks a chain against the one that this database was made for. Errors and `mayBegin` as above. */
export async function checkNetwork(
  db: RootDb,
  { chainId, name, genesisHash }: NetworkIdentity,
  { mayBegin }: { mayBegin: boolean },
): Promise<void> {
  const known = await retrying(() =>
    db.selectFrom('networks').selectAll().where('chain_id', '=', chainId).executeTakeFirst(),
  )
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

/** Nobody has held or written the work for longer than the pause between two looks. */
const LEFT_ALONE = sql<boolean>`coalesce(greatest(work.lease_until, work.updated_at) < now() - interval '2 minutes', false)`.as('is_left_alone') // prettier-ignore

/** All networks by name, each with how many applications are bound to it. */
export async function listNetworks(db: Db): Promise<Omit<ListedNetwork, 'isServed' | 'owedDelegations'>[]> {
  const rows = await retrying(() =>
    db
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
      .select(['waiting', 'asked', 'covered', 'counted_at', 'blocks_per_second', 'done_at', LEFT_ALONE])
      .orderBy('name')
      .execute(),
  )
  const bound = await retrying(() =>
    db
      .selectFrom('applications')
      .select(({ fn }) => ['chain_id', fn.countAll<string | number>().as('count')])
      .groupBy('chain_id')
      .execute(),
  )
  const sponsors = await retrying(() => db.selectFrom('sponsors').select('chain_id').execute())
  const spent = await spentByNetwork(db)
  return rows.map((row) => ({
    chainId: row.chain_id,
    name: row.name,
    symbol: row.symbol,
    coin: row.coin,
    explorer: row.explorer,
    finality: row.finality === 'finalized' ? 'finalized' : Number(row.finality),
    blockVerification: row.block_verification as Verification | null,
    feeCapGwei: row.fee_cap_gwei,
    gas: row.gas === 'topup' || row.gas === 'sponsor' ? row.gas : 'self',
    delegate: row.delegate,
    gasSpace: row.gas_space === null ? null : checksumAddress(toHex(row.gas_space)),
    topUpContracts: textsIn(row.top_up_contracts) as Hex[],
    sponsorPerDay: row.sponsor_per_day,
    sponsorLow: row.sponsor_low,
    backfillFrom: row.backfill_from,
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

/** wei of the rolling day, by chain id. */
async function spentByNetwork(db: Db): Promise<Map<number, string>> {
  const rows = await retrying(() => db.selectFrom('gas_spent_on_network').select('chain_id').distinct().execute())
  return new Map(
    await Promise.all(
      rows.map(async ({ chain_id: chainId }) => [chainId, String(await spentOnNetwork(db, chainId))] as const),
    ),
  )
}

/** The same, with how many accounts of each still owe their delegation: for operators, since it is counted. */
export async function describeNetworks(db: Db): Promise<Omit<ListedNetwork, 'isServed'>[]> {
  const [networks, owed] = await Promise.all([listNetworks(db), owedByNetwork(db)])
  return networks.map((one) => ({ ...one, owedDelegations: owed === null ? null : (owed.get(one.chainId) ?? 0) }))
}

/**
 * Accounts that signed by which nonce they delegate, and whose transactions with that are in no block, by chain id: those of networks where sponsors
 * carry nothing new. Elsewhere the next write of each brings it, and there may be very many. Null where the role of this process was given its rights
 * before operations were one of them.
 */
async function owedByNetwork(db: Db): Promise<Map<number, number> | null> {
  const { rows: rights } = await retrying(() =>
    sql<{
      can: boolean
    }>`select has_table_privilege('operations', 'select') and has_table_privilege('carried', 'select') as can`.execute(
      db,
    ),
  )
  if (!rights[0]!.can) return null
  const { rows } = await retrying(() =>
    sql<{ chain_id: number; owed: string | number }>`
      with signed as (
        select o.chain_id, o.sender, o.authorization_nonce, bool_or(exists (select 1 from carried c join transactions t on t.id = c.transaction_id
            where c.operation_id = o.id and t.block_number is not null)) as is_there
        from operations o join networks n on n.chain_id = o.chain_id and n.gas <> 'sponsor'
        where o.authorization_nonce is not null
        group by o.chain_id, o.sender, o.authorization_nonce
      )
      select chain_id, count(distinct sender) as owed from signed where not is_there group by chain_id`.execute(db),
  )
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
    ...{ accounts, fromBlock: fromBlock!, nextBlock: row.next_block ?? fromBlock!, toBlock: toBlock! },
    ...{ blockedBy: row.blocked_by, updatedAt: row.updated_at!.toISOString() },
  }
}

/** What the work's own process counted: an account is never counted for a request. */
function progressOf(row: {
  waiting: number | null
  asked: number | null
  covered: number | null
  counted_at: Date | null
  blocks_per_second: number | null
  done_at: Date | null
  blocked_by: string | null
  is_left_alone: boolean
}): ListedNetwork['backfillProgress'] {
  const { waiting, asked, covered, counted_at: countedAt } = row
  if (waiting === null || asked === null || covered === null || countedAt === null) return null
  const isAnyLeft = waiting > 0
  const leftAlone = row.is_left_alone ? 'no process is at it: BACKFILL is off, or no server of this network runs' : null
  const waitsFor = isAnyLeft ? (row.blocked_by ?? leftAlone) : null
  return {
    ...{ waiting, asked, covered, countedAt: countedAt.toISOString(), blocksPerSecond: row.blocks_per_second },
    doneAt: isAnyLeft && waitsFor === null ? (row.done_at?.toISOString() ?? null) : null,
    waitsFor,
  }
}

/**
 * Takes a network out.
 * @throws Error when there is none of that name, or applications are bound to it
 */
export async function removeNetwork(db: RootDb, name: string): Promise<void> {
  const gone = await retrying(() =>
    db
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
      .executeTakeFirst(),
  )
  if (gone !== undefined) return
  const network = (await listNetworks(db)).find((one) => one.name === name)
  if (network === undefined) throw new Error(`There is no network ${name}.`)
  throw new Error(`The network ${name} cannot be removed: applications bound to it: ${network.applications}.`)
}

/** Links of an explorer with pages of any layout. */
export function explorerOf({ tx, address, block }: ExplorerTemplates): Explorer {
  const [ofTx, ofAddress, ofBlock] = [tx.split('{hash}'), address.split('{address}'), block.split('{number}')]
  return {
    tx: (hash) => ofTx.join(hash),
    address: (of) => ofAddress.join(of),
    block: (number) => ofBlock.join(String(number)),
  }
}

/** The layout that most explorers share. */
export const templatesAt = (base: string): ExplorerTemplates => {
  const root = base.replace(/\/+$/, '')
  return { tx: `${root}/tx/{hash}`, address: `${root}/address/{address}`, block: `${root}/block/{number}` }
}

/** whose writes accounts send themselves: a list that a person keeps, as that of a budget */
const MAX_CONTRACTS = 1_000

/** Everything wrong with what someone says of a network, a sentence each. */
export function explainNetwork({
  chainId,
  name,
  symbol,
  coin,
  explorer,
  finality,
  blockVerification,
  feeCapGwei,
  gas,
  gasSpace = null,
  delegate = 'chatelaine',
  topUpContracts = [],
  sponsorPerDay = null,
  sponsorLow = null,
  backfillFrom = null,
}: NetworkFacts): string[] {
  const problems: string[] = []
  if (!/^[a-z0-9][a-z0-9-]{0,31}$/.test(name))
    problems.push('The name must be lower-case letters, digits and hyphens, at most 32.')
  if (!Number.isSafeInteger(chainId) || chainId < 1) problems.push('The chain id must be a whole number above 0.')
  if (!/^[^\p{C}\s]{1,16}$/u.test(symbol)) problems.push('The symbol must have 1 to 16 characters without spaces.')
  if (!/^[^\p{C}]{1,64}$/u.test(coin)) problems.push('The name of the native currency must have 1 to 64 characters.')
  if (finality !== 'finalized' && !(Number.isInteger(finality) && finality >= 0 && finality <= 9_999))
    problems.push('The finality must be `finalized` or a number of blocks up to 9999.')
  if (blockVerification !== null && !['hash', 'bloom', 'count'].includes(blockVerification))
    problems.push('The block verification must be `hash`, `bloom` or `count`.')
  if (feeCapGwei !== null && !(Number.isSafeInteger(feeCapGwei) && feeCapGwei >= 1))
    problems.push('The fee cap must be a whole number of gwei above 0.')
  if (!['self', 'topup', 'sponsor'].includes(gas)) problems.push('The gas must be `self`, `topup` or `sponsor`.')
  if (!isDelegateName(delegate)) problems.push('The delegate must be `chatelaine` or `calibur`.')
  if (gasSpace !== null && !/^0x[0-9a-fA-F]{40}$/.test(gasSpace))
    problems.push('The gas space must be an address: of the key that `network deploy-gas` was given.')
  else if (gas === 'sponsor' && gasSpace === null)
    problems.push('The gas `sponsor` needs a gas space: the address of the key that `network deploy-gas` was given.')
  if (topUpContracts.length > MAX_CONTRACTS)
    problems.push(`The contracts whose writes accounts send themselves must be at most ${MAX_CONTRACTS}.`)
  else
    for (const contract of topUpContracts) {
      const problem = explainAddress(contract)
      if (problem !== null) problems.push(`The contract ${contract.slice(0, 64)} ${problem.detail}.`)
    }
  for (const [what, wei] of [
    ['What its sponsors may spend in a day', sponsorPerDay],
    ['The balance below which a sponsor counts as low', sponsorLow],
  ] as const)
    if (wei !== null && !(/^\d{1,78}$/.test(wei) && BigInt(wei) < 2n ** 256n))
      problems.push(`${what} must be wei: decimal digits of a number below 2^256.`)
  if (backfillFrom !== null && !(Number.isSafeInteger(backfillFrom) && backfillFrom >= 0))
    problems.push('The first block to look up must be a whole number from 0 on.')
  for (const [page, value] of [
    ['tx', '{hash}'],
    ['address', '{address}'],
    ['block', '{number}'],
  ] as const) {
    const template = explorer?.[page]
    if (template === undefined) continue
    if (!/^https?:\/\//.test(template) || !URL.canParse(template))
      problems.push(`The explorer’s ${page} page must be an http or https address.`)
    else if (!template.includes(value))
      problems.push(`The explorer’s ${page} page must have ${value} where the value goes.`)
  }
  return problems
}

/** Columns of what is kept of a network, by the names of its facts. */
export const columnsOf = ({
  symbol,
  coin,
  explorer,
  finality,
  blockVerification,
  feeCapGwei,
  gas,
  gasSpace = null,
  delegate = 'chatelaine',
  topUpContracts = [],
  sponsorPerDay = null,
  sponsorLow = null,
  backfillFrom,
}: NetworkFacts) => ({
  symbol,
  coin,
  explorer: explorer === null ? null : JSON.stringify(explorer),
  finality: String(finality),
  block_verification: blockVerification,
  fee_cap_gwei: feeCapGwei,
  gas,
  delegate,
  gas_space: gasSpace === null ? null : fromHex(gasSpace),
  // As targets of writes are compared: lower case, each once.
  top_up_contracts:
    topUpContracts.length === 0 ? null : JSON.stringify([...new Set(topUpContracts.map((one) => one.toLowerCase()))]),
  sponsor_per_day: sponsorPerDay,
  sponsor_low: sponsorLow,
  // Who opens a network says nothing of it: what an operator set meanwhile stays.
  ...(backfillFrom === undefined ? {} : { backfill_from: backfillFrom }),
})
