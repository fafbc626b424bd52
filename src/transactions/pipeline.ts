import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import { newTransactionId, type Hex } from '../ids.ts'
import { SignerRefused } from '../signer-wire/client.ts'
import { answerOf, toldOperation } from './read/answer.ts'
import { between, type Step } from './crash-points.ts'
import { toBound } from './intent.ts'
import { findKey, type IdempotencyKey, type WriteRow } from './key.ts'
import { untilReplayed } from './recovery/replay.ts'
import { reconcileIntent } from './recovery/reconcile-operation.ts'
import type { WriteAnswer } from './write-wire.ts'

/**
 * One of two ways in which a write reaches the chain: with a nonce of its own account (`send.ts`), or with a number of
 * a space in a sponsor's transaction (`send-operation.ts`). `Bound` is the result of commit 1.
 */
type Lane<Bound> = {
  /** Simulates and estimates the write, and stores it with a nonce or number (commit 1). Signs nothing. */
  bind: (id: string) => Promise<Bound>
  /** Signs, stores the bytes (commit 2), sends, and returns the response. */
  finish: (bound: Bound) => Promise<Outcome>
  /**
   * Finishes a row that an earlier request with the same key has bound.
   * @throws idempotency_in_flight  if the row was bound for the other way of sending
   */
  resume: (row: WriteRow) => Promise<Outcome>
  answered: Step
}

/**
 * Outcome of `finish`. `lost`: the signer's ledger had a record that the database had lost. The record is restored now,
 * and the write starts over.
 */
export type Outcome = { kind: 'sent'; answer: WriteAnswer } | { kind: 'lost' }
export const LOST = { kind: 'lost' } as const

/** Number of ledger records of one account that the database may have lost; each costs one attempt of the write. */
export const MAX_LOST = 64

/**
 * Sends a write once, in this order: claim the key, bind a number (commit 1), sign, store the bytes (commit 2), send,
 * respond. Nothing is sent and no hash is returned before the bytes are stored.
 * If it throws before commit 1, nothing is stored. If it throws later, a retry with the same key finishes the write.
 * The signer's ledger decides what was sent, not the database, which may have lost its newest commits. If the ledger
 * has another signature for an id or a number, the database is corrected and the write starts over.
 * @returns the answer, and whether an earlier request with the same key already got it
 * @throws idempotency_key_reused, idempotency_in_flight, database_unavailable, and the errors of `lane`
 */
export async function sendOnce<Bound>(
  app: App,
  { chain, key, lane }: { chain: Chain; key: IdempotencyKey | null; lane: Lane<Bound> },
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  await untilReplayed(app)
  const attempt = between({ after: ({ kind }) => (kind === 'sent' ? lane.answered : null) }, attemptWrite<Bound>)
  for (let lost = 0; lost < MAX_LOST; lost++) {
    const outcome = await attempt(app, chain, key, lane)
    if (outcome.kind !== 'lost') return { answer: outcome.answer, isReplay: outcome.kind === 'told_before' }
  }
  throw new AppError(
    'database_unavailable',
    'The database is behind the signer’s ledger for this account. Nothing was sent. Retry.',
    {
      retryAfter: 5,
    },
  )
}

async function attemptWrite<Bound>(
  app: App,
  chain: Chain,
  key: IdempotencyKey | null,
  lane: Lane<Bound>,
): Promise<Outcome | { kind: 'told_before'; answer: WriteAnswer }> {
  const known = key === null ? { free: newTransactionId() } : await findKey(app, key)
  if ('told' in known) return { kind: 'told_before', answer: await toldAnswer(app, chain, known) }
  if ('unsigned' in known) return lane.resume(known.unsigned)
  let bound: Bound
  try {
    bound = await lane.bind(known.free)
  } catch (error) {
    // An earlier request may have sent this write, which may now be the reason for the refusal.
    const isRefused = error instanceof AppError || error instanceof SignerRefused
    if (key !== null && isRefused && (await reconcileIntent(app, chain, known.free)) !== null) return LOST
    throw error
  }
  return lane.finish(bound)
}

/**
 * Returns the stored response. The row shows how the write was sent, because the network's gas mode may have changed.
 */
const toldAnswer = async (
  app: App,
  chain: Chain,
  { told, hash }: { told: WriteRow; hash: Hex },
): Promise<WriteAnswer> =>
  told.sequence === undefined ? answerOf(chain, toBound(told), hash) : toldOperation(app, chain, told, hash)
