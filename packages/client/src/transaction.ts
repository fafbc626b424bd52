import { Busy, Refused, Reverted } from './errors.ts'
import type { CallOptions, Requests } from './request.ts'
import type { Hex, Transaction, TransactionState } from './wire.ts'

/** Options of waiting. `onProgress` receives each new version of the transaction. */
export type WaitOptions = CallOptions & { onProgress?: (transaction: Transaction) => void }

/** A transaction that the service has stored. Store `id`: it never changes, while `hash` changes with the fee. */
export type TransactionHandle = {
  readonly id: string
  /** idempotency key of the write; null if the handle was created from an id */
  readonly key: string | null
  /** Reads the transaction. */
  refresh(options?: CallOptions): Promise<Transaction>
  /**
   * Waits until the transaction is in a block. A reorganisation can still undo it.
   * @throws Reverted  the contract reverted
   * @throws Refused   `transaction_failed`, `transaction_cancelled` or `transaction_replaced`
   */
  mined(options?: WaitOptions): Promise<Transaction>
  /** Waits until the transaction can no longer be reorganised. @throws as `mined` */
  finalized(options?: WaitOptions): Promise<Transaction>
  /**
   * Sends an empty transaction with the same nonce. The first one to be mined wins: wait with `mined`. @throws Unknown
   * whose `resume` reads the transaction
   */
  cancel(options?: CallOptions): Promise<Transaction>
  /** Sends the transaction again with a higher fee. @throws Unknown  whose `resume` reads the transaction */
  speedUp(options?: CallOptions): Promise<Transaction>
}

/**
 * Response to a write at the time when the service stored it. `state` is the state at that time. `reference` is null if
 * none was given.
 */
export type Submission = { hash: Hex; explorerUrl: string; state: TransactionState; reference: string | null }

const FINAL_POLL_MS = 4_000
const MINED_POLL_MS = 500
const MINED_WAIT = 'wait=25'
/**
 * Waiting survives restarts of the service: it ends after this number of consecutive reads without a response, each
 * with its own tries.
 */
const MAX_SILENT = 5

/** Creates the handle of a transaction. @param id  id, or any hash */
export function handleOf(requests: Requests, id: string, key: string | null = null): TransactionHandle {
  const path = `/v1/transactions/${encodeURIComponent(id)}`
  const refresh = async ({ signal }: CallOptions = {}) => (await requests.get<Transaction>(path, {}, { signal })).body

  async function wait(
    { signal, onProgress }: WaitOptions,
    isOver: (transaction: Transaction) => boolean,
  ): Promise<Transaction> {
    let seen = ''
    let isPending = false
    for (let silent = 0; ;) {
      const transaction: Transaction | null = await next(isPending, signal).catch((error: unknown) => {
        if (!(error instanceof Busy) || ++silent === MAX_SILENT) throw error
        return null
      })
      if (transaction !== null) {
        const { state, hash, updatedAt, reason }: Transaction = transaction
        silent = 0
        const version = `${state} ${hash} ${updatedAt} ${reason?.code}`
        if (version !== seen) onProgress?.(transaction)
        seen = version
        if (isOver(transaction)) return transaction
        const isFirst: boolean = !isPending
        isPending = state === 'SUBMITTED'
        // From the second read on, the service itself waits for the block.
        if (isPending && isFirst) continue
      }
      await requests.sleep(isPending ? MINED_POLL_MS : FINAL_POLL_MS, signal)
    }
  }

  async function next(isPending: boolean, signal: AbortSignal | undefined): Promise<Transaction> {
    if (!isPending) return refresh({ signal })
    return (await requests.get<Transaction>(path, { wait: 'mined' }, { signal, prefer: MINED_WAIT })).body
  }

  return {
    id,
    key,
    refresh,
    mined: async (options = {}) => successOf(await wait(options, ({ state }) => state !== 'SUBMITTED')),
    finalized: async (options = {}) =>
      successOf(await wait(options, ({ state, isFinal }) => isFinal || state === 'FAILED')),
    cancel: (options = {}) => requests.act(`${path}/cancel`, options, refresh),
    speedUp: (options = {}) => requests.act(`${path}/speed-up`, options, refresh),
  }
}

function successOf(transaction: Transaction): Transaction {
  const { id, state, revert } = transaction
  if (state === 'MINED' || state === 'FINALIZED') return transaction
  const code = `transaction_${state.toLowerCase()}`
  if (state === 'REVERTED') {
    const message = `Transaction ${id} reverted: ${revert?.reason ?? 'no reason'}.`
    throw new Reverted({
      code,
      message,
      revert,
      transaction,
      userMessage: 'The contract rejected this. The network fee was paid, and nothing else changed.',
    })
  }
  throw new Refused({
    code,
    message: `Transaction ${id} is ${state}: it has no effect.`,
    userMessage: 'This was not carried out.',
  })
}
