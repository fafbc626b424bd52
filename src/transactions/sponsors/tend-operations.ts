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

/** `t` is a transaction of a sponsor's: whether another one may send. */
const hasOtherSponsor = sql<boolean>`exists (select 1 from sponsors s join accounts a on a.account_id = s.account_id
  where s.chain_id = t.chain_id and a.frozen_at is null and a.address <> t.sender)`

/**
 * A transaction that waits, `t`, whose sponsor cannot bring it about: frozen, none any more, short of funds at it or before it, or behind one
 * that nodes refuse, while there is another. Which of two is mined first does what they carry. What is refused itself another could not send either.
 */
const isStuck = sql<boolean>`(t.state = 'SUBMITTED' and ${isAgo(sql.ref('t.created_at'), STUCK_SECONDS)} and ${hasOtherSponsor}
  and (not exists (select 1 from sponsors s join accounts a on a.account_id = s.account_id
      where s.chain_id = t.chain_id and a.frozen_at is null and a.address = t.sender)
    or exists (select 1 from waits w join transactions l on l.chain_id = w.chain_id and l.sender = w.sender and l.nonce = w.nonce
      where w.chain_id = t.chain_id and w.sender = t.sender and w.nonce <= t.nonce and l.state = 'SUBMITTED'
        and (w.trouble in ('insufficient_funds', 'account_frozen')
          or (w.trouble = 'rejected_by_nodes' and w.nonce < t.nonce and ${isAgo(sql.ref('w.since'), STUCK_SECONDS)})))))`

/** operations that a round takes up */
const ROUND = 300

/**
 * What became of operations that no block has settled: those whose transaction can not do them any more go into another, under the same
 * id, and those whose time is over have failed. Both only after the dispatcher was asked, at a block by its hash, that their id is not
 * used. @throws what is away
 */
export async function tendOperations(app: App, chain: Chain): Promise<void> {
  if (!(await hasOperations(app, chain))) return
  await missedByFollower(app, chain)
  await expire(app, chain)
  await giveUpRefused(app, chain)
  await packAgain(app, chain)
  while (await countOperations(app, chain)) continue
}

/** Cheap for the networks that have none: one search in an index that is empty. */
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
 * Operations that are open although a transaction which carried them is in a block: the follower passed it before they were known, or
 * it was reverted whole. What the block says of them is read again, by the whole block.
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
 * Those whose last second is over at the newest block: whatever carries them, the dispatcher does not do them any more. What was never
 * carried gives its id back, unless its account has signed it: the signer signs nothing else under that id, and a key is at its next use.
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
      // With that the row is what was signed, and has what carried it: then it is another one than was looked at, and left to the next round.
      const isSigned = row.outer_id === null && (await reconcileIntent(app, chain, row.id)) === 'operation'
      await reach(app, 'before-expire')
      await fail(app, chain, row, head, { isIdFree: row.outer_id === null && !isSigned })
    })
}

/**
 * It has failed at a block, or was cancelled as its person wished: not before its time is over, though everything that carried it is given
 * up. A database that went back from before the cancel would have it packed again.
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
      // The block has to be one that the follower has, or nobody would take this back with it.
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
 * Transactions that nodes refuse as they are: cancelled, so that what they carry goes into others, half as many in each. One that carries a
 * single operation is tried again at another estimate, and cancelled after half a minute where others wait behind it and no other
 * sponsor can send them; what alone was refused twice is not sent any more.
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
  app.telemetry.log.warn('outer_cancelled', { chainId: chain.chainId, id: row.id, sender: bound.from })
  if (sent === 'sent') await forgetRefusals(app.db, bound)
  const limit = count > 1 ? Math.floor(count / 2) : before === 1 ? 0 : 1
  // What another process has packed again by now is refused again, and halved then. One that is alone counts this refusal once, in
  // whichever process.
  await operationRows
    .update(app.db, 'limitPacking')
    .set({ pack_limit: limit })
    .where('outer_id', '=', row.id)
    .where(sql<boolean>`(${count > 1}::boolean or pack_limit is not distinct from ${before}::int)`)
    .execute()
}

/** `t` is a transaction of a sponsor's: whether something of the same sponsor comes after it. */
const hasOthersBehind = sql<boolean>`exists (select 1 from transactions b
  where b.chain_id = t.chain_id and b.sender = t.sender and b.nonce > t.nonce and b.state in ('BOUND', 'SUBMITTED', 'VACANT'))`

/**
 * Those whose transaction is in no block and never will be, was reverted whole, or waits for a sponsor that cannot send. Not those that their person wants cancelled.
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
        // It does nothing any more, whether it is mined or not.
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
  app.telemetry.log.info('operation_packed_again', { chainId: chain.chainId, id: row.id, hash: result.hash })
}

/** Whether the dispatcher has used an id up, at a block. @throws RpcError | RpcUnavailable */
async function isUsedAt(
  { rpc }: Chain,
  { delegate, space, sequence }: Operation,
  { hash }: Pick<Block, 'hash'>,
): Promise<boolean> {
  // It had the number of another, and was signed for none (reconcile-operation.ts).
  if (sequence < 0) return false
  const call = { to: gasContracts(delegate).dispatcher, data: toHex(usedData(fromHex(space), BigInt(sequence))) }
  const answer = await rpc.call('eth_call', [call, { blockHash: hash }])
  return isUsed(fromHex(readBytes(answer, 'word of used ids')), BigInt(sequence))
}
