import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Block } from '../../chain/rpc/block.ts'
import { readBytes } from '../../chain/rpc/answers.ts'
import type { Chain } from '../../chain/network.ts'
import { isUsed, usedData } from '../../gas/dispatch.ts'
import { fetchBlock } from '../../follower/fetch.ts'
import { sourceOf } from '../../follower/receipt-source.ts'
import { storedBlockHash } from '../../store/block-hash.ts'
import { fromHex, toHex } from '../../hex.ts'
import { retrying } from '../../store/db.ts'
import { nobodysOperation, operationRows } from '../rows.ts'
import { countOperations } from '../settle/count-operations.ts'
import { reach } from '../crash-points.ts'
import { gasContracts } from './delegation.ts'
import { toBound, type TransactionRow } from '../intent.ts'
import { sendCancel } from '../lanes/replace.ts'
import { toOperation, type Operation, type OperationRow } from '../operation.ts'
import { STUCK_SECONDS } from './carriers.ts'
import { carry, MIN_LIFE_SECONDS } from './pack.ts'
import { prove } from '../settle/prove.ts'
import { isolateRowErrors } from '../recovery/recover.ts'
import { reconcileIntent } from '../recovery/reconcile-operation.ts'
import { settleOperations } from '../settle/settle-operations.ts'
import { isAgo } from '../recovery/stop-lane.ts'
import { forgetRefusals } from '../recovery/trouble.ts'

/** SQL for: there is another sponsor than the sender of the transaction `t`. */
const hasOtherSponsor = sql<boolean>`exists (select 1 from sponsors s join accounts a on a.account_id = s.account_id
  where s.chain_id = t.chain_id and a.frozen_at is null and a.address <> t.sender)`

/**
 * SQL for: the sponsor of the pending transaction `t` cannot get it mined, and there is another sponsor. The sponsor is
 * frozen or removed, has insufficient funds for this or an earlier nonce, or nodes reject an earlier nonce. If two
 * transactions include an operation, the one that is mined first executes it. A transaction that nodes reject for
 * itself does not count: another sponsor could not send it either.
 */
const isStuck = sql<boolean>`(t.state = 'SUBMITTED' and ${isAgo(sql.ref('t.created_at'), STUCK_SECONDS)} and ${hasOtherSponsor}
  and (not exists (select 1 from sponsors s join accounts a on a.account_id = s.account_id
      where s.chain_id = t.chain_id and a.frozen_at is null and a.address = t.sender)
    or exists (select 1 from waits w join transactions l on l.chain_id = w.chain_id and l.sender = w.sender and l.nonce = w.nonce
      where w.chain_id = t.chain_id and w.sender = t.sender and w.nonce <= t.nonce and l.state = 'SUBMITTED'
        and (w.trouble in ('insufficient_funds', 'account_frozen')
          or (w.trouble = 'rejected_by_nodes' and w.nonce < t.nonce and ${isAgo(sql.ref('w.since'), STUCK_SECONDS)})))))`

/** operations per round */
const ROUND = 300

/**
 * Handles operations that no block has settled. If their transaction can no longer execute them, packs them into
 * another, under the same id. If their deadline is over, marks them as failed.
 * Before both, asks the dispatcher, at a block by its hash, whether the id is unused.
 * @throws an error if node, signer or database is unavailable
 */
export async function tendOperations(app: App, chain: Chain): Promise<void> {
  if (!(await hasOperations(app, chain))) return
  await missedByFollower(app, chain)
  await expire(app, chain)
  await giveUpRefused(app, chain)
  await packAgain(app, chain)
  while (await countOperations(app, chain)) continue
}

/** Returns whether the network has operations; for a network without any, this is one search in an empty index. */
async function hasOperations({ db }: App, { chainId }: Chain): Promise<boolean> {
  const { rows } =
    await sql`select 1 where exists (select 1 from operations where chain_id = ${chainId}::bigint and state in ('BOUND', 'SUBMITTED'))
      or exists (select 1 from operations where chain_id = ${chainId}::bigint and not is_counted and state not in ('BOUND', 'SUBMITTED'))`.execute(
      db,
    )
  return rows.length > 0
}

const open = ({ db }: App, { chainId }: Chain) =>
  db.selectFrom('operations as o').selectAll('o').where('o.chain_id', '=', chainId)

/**
 * Settles operations that are open although a transaction with them is mined, because the follower passed its block
 * before the operations were known. Reads and verifies the whole block again.
 */
async function missedByFollower(app: App, chain: Chain): Promise<void> {
  const outers = await app.db
    .selectFrom('transactions as t')
    .select(['t.id', 't.hash', 't.block_number', 't.block_hash'])
    .select(({ selectFrom }) =>
      selectFrom('attempts as a')
        .select('a.raw')
        .whereRef('a.chain_id', '=', 't.chain_id')
        .whereRef('a.hash', '=', 't.hash')
        .as('raw'),
    )
    .where('t.chain_id', '=', chain.chainId)
    .where('t.succeeded', '=', true)
    .where('t.block_number', 'is not', null)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('carried as c')
          .innerJoin('operations as o', 'o.id', 'c.operation_id')
          .select('o.id')
          .whereRef('c.transaction_id', '=', 't.id')
          .where('o.state', 'in', ['BOUND', 'SUBMITTED']),
      ),
    )
    .limit(ROUND)
    .execute()
  for (const outer of outers)
    await isolateRowErrors(app, outer, async () => {
      const [hash, number, blockHash] = [toHex(outer.hash!), outer.block_number!, toHex(outer.block_hash!)]
      const block = await fetchBlock(chain.rpc, blockHash, sourceOf(chain))
      const raw = outer.raw === null ? null : Buffer.from(outer.raw)
      const ours =
        raw === null ? { signed: new Map(), claimed: [hash] } : { signed: new Map([[hash, raw]]), claimed: [] }
      const receipt = (await prove(app, chain, block, ours)).receipts.get(hash)
      if (receipt === undefined) return
      const { status, logs = [] } = receipt
      await app.db.transaction().execute(async (db) => {
        await db.selectFrom('cursors').select('chain_id').where('chain_id', '=', chain.chainId).forUpdate().execute()
        if ((await storedBlockHash(db, chain.chainId, number)) !== blockHash) return
        await settleOperations(db, app, chain, { number, hash: blockHash }, [{ hash, status, logs }])
      })
    })
}

/**
 * Marks operations as failed if their deadline is over at the newest block: the dispatcher no longer executes them. An
 * operation without a transaction frees its id, unless its account has signed it. The signer signs nothing else under
 * that id, so the key goes to its next use.
 */
async function expire(app: App, chain: Chain): Promise<void> {
  const head = chain.head.current()
  if (head === null) return
  const rows = await open(app, chain)
    .where('o.state', 'in', ['BOUND', 'SUBMITTED'])
    .where('o.deadline', '<', head.timestamp)
    .orderBy('o.updated_at')
    .limit(ROUND)
    .execute()
  for (const row of rows)
    await isolateRowErrors(app, row, async () => {
      if (await isUsedAt(chain, toOperation(row), head)) return
      // This restores a lost record. The row then differs from this copy, and the next round handles it.
      const isSigned = row.outer_id === null && (await reconcileIntent(app, chain, row.id)) === 'operation'
      await reach(app, 'before-expire')
      await fail(app, chain, row, head, { isIdFree: row.outer_id === null && !isSigned })
    })
}

/**
 * Marks an operation as failed at a block, or as cancelled if its user requested that. Does so only after its deadline,
 * even if none of its transactions can be mined: a database restored to a time before the cancellation would send the
 * operation again.
 */
async function fail(
  app: App,
  { chainId }: Chain,
  row: OperationRow,
  head: Pick<Block, 'number' | 'hash'>,
  { isIdFree }: { isIdFree: boolean } = { isIdFree: false },
): Promise<void> {
  const step = { at: new Date(app.clock.wall()).toISOString(), blockNumber: head.number }
  await retrying(() =>
    app.db.transaction().execute(async (db) => {
      // The follower must have the block; otherwise no reorganisation would undo this change.
      await db.selectFrom('cursors').select('chain_id').where('chain_id', '=', chainId).forUpdate().execute()
      if ((await storedBlockHash(db, chainId, head.number)) !== head.hash) return
      await operationRows
        .update(db, row.is_cancel ? 'expireCancelled' : 'expire', step)
        .set({
          ...(isIdFree ? nobodysOperation() : {}),
          block_number: head.number,
          block_hash: fromHex(head.hash),
          updated_at: sql`now()`,
        })
        .where('id', '=', row.id)
        .where('state', '=', row.state)
        .where('outer_id', 'is not distinct from', row.outer_id)
        .where('sequence', '=', row.sequence)
        .where('deadline', '=', row.deadline)
        .execute()
    }),
  )
  app.telemetry.writes.inc({ state: row.is_cancel ? 'CANCELLED' : 'FAILED' })
}

/**
 * Cancels transactions that nodes reject, so that others include their operations, half as many in each. A transaction
 * with a single operation is tried again with a new estimate. It is cancelled after 30 s if others wait behind it and
 * no other sponsor can send them. An operation that was rejected alone twice is not sent again.
 */
async function giveUpRefused(app: App, chain: Chain): Promise<void> {
  const { rows } = await sql<TransactionRow & { carried_count: number; limit_before: number | null }>`
    select * from (
      select t.*, (select count(*)::int from operations o where o.outer_id = t.id and o.state = 'SUBMITTED') as carried_count,
        (select max(o.pack_limit) from operations o where o.outer_id = t.id and o.state = 'SUBMITTED') as limit_before,
        ${isAgo(sql.ref('w.since'), STUCK_SECONDS)} and ${hasOthersBehind} and not ${hasOtherSponsor} as is_in_the_way
      from waits w join transactions t on t.chain_id = w.chain_id and t.sender = w.sender and t.nonce = w.nonce
      where w.chain_id = ${chain.chainId}::bigint and w.trouble = 'rejected_by_nodes'
        and t.state = 'SUBMITTED' and not t.is_cancel and t.authorizations is not null) as t
    where carried_count > 1 or is_in_the_way
    limit ${ROUND}::int`.execute(app.db)
  for (const row of rows) await isolateRowErrors(app, row, () => giveUpOne(app, chain, row))
}

async function giveUpOne(
  app: App,
  chain: Chain,
  {
    carried_count: count,
    limit_before: before,
    ...row
  }: TransactionRow & { carried_count: number; limit_before: number | null },
): Promise<void> {
  const bound = toBound(row)
  const { sent } = await sendCancel(app, chain, bound)
  app.telemetry.log.warn('sponsor_transaction_cancelled', { chainId: chain.chainId, id: row.id, sender: bound.from })
  if (sent === 'sent') await forgetRefusals(app.db, bound)
  const limit = count > 1 ? Math.floor(count / 2) : before === 1 ? 0 : 1
  // If another process has packed an operation again, that transaction is rejected and halved again. A single operation
  // counts this rejection once, whichever process records it.
  await operationRows
    .update(app.db, 'limitPacking')
    .set({ pack_limit: limit })
    .where('outer_id', '=', row.id)
    .where(sql<boolean>`(${count > 1}::boolean or pack_limit is not distinct from ${before}::int)`)
    .execute()
}

/** SQL for: the sponsor of the transaction `t` has a later transaction. */
const hasOthersBehind = sql<boolean>`exists (select 1 from transactions b
  where b.chain_id = t.chain_id and b.sender = t.sender and b.nonce > t.nonce and b.state in ('BOUND', 'SUBMITTED', 'VACANT'))`

/**
 * Sends operations again if their transaction can never be mined, was reverted, or waits for a sponsor that cannot send
 * it. Excludes operations that their user has cancelled.
 */
async function packAgain(app: App, chain: Chain): Promise<void> {
  const head = chain.head.current()
  if (head === null) return
  const rows = await open(app, chain)
    .innerJoin('transactions as t', 't.id', 'o.outer_id')
    .where('o.state', '=', 'SUBMITTED')
    .where('o.is_cancel', '=', false)
    .where(sql<boolean>`o.pack_limit is distinct from 0`)
    .where('o.deadline', '>', head.timestamp + MIN_LIFE_SECONDS)
    .where((eb) =>
      eb.or([
        eb('t.state', 'in', ['CANCELLED', 'FAILED', 'REPLACED', 'VACANT', 'REVERTED']),
        // A cancelled transaction executes nothing, mined or not.
        eb('t.is_cancel', '=', true),
        isStuck,
      ]),
    )
    .orderBy('o.sequence')
    .limit(ROUND)
    .execute()
  await Promise.all(rows.map((row) => isolateRowErrors(app, row, () => packOneAgain(app, chain, row, head))))
}

async function packOneAgain(
  app: App,
  chain: Chain,
  row: OperationRow,
  head: Pick<Block, 'number' | 'hash'>,
): Promise<void> {
  const operation = toOperation(row)
  if (await isUsedAt(chain, operation, head)) return
  const { operation: recalled } = await app.signer.recall({ intentId: row.id })
  if (recalled === undefined) {
    app.telemetry.log.error('operation_unknown_to_signer', { chainId: chain.chainId, id: row.id })
    return
  }
  await reach(app, 'before-repack')
  const result = await carry(app, chain, {
    operation,
    packed: fromHex(recalled.packed),
    isRepacked: true,
    packLimit: row.pack_limit,
  })
  if (result.kind === 'failed') throw result.error
  app.telemetry.log.info('operation_rebatched', { chainId: chain.chainId, id: row.id, hash: result.hash })
}

/**
 * Returns whether the dispatcher has used up an id, at a block.
 * @throws RpcError | RpcUnavailable
 */
async function isUsedAt(
  { rpc }: Chain,
  { delegate, space, sequence }: Operation,
  { hash }: Pick<Block, 'hash'>,
): Promise<boolean> {
  // A negative number marks a lost number of another operation; nothing was signed for this one
  // (reconcile-operation.ts).
  if (sequence < 0) return false
  const call = { to: gasContracts(delegate).dispatcher, data: toHex(usedData(fromHex(space), BigInt(sequence))) }
  const answer = await rpc.call('eth_call', [call, { blockHash: hash }])
  return isUsed(fromHex(readBytes(answer, 'word of used ids')), BigInt(sequence))
}
