import { parseTransaction } from 'viem'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import type { Recalled } from '../signer/wire.ts'
import { fromHex, toWord } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import { writeFees } from './intent.ts'
import { readRecalled } from './recall.ts'

type Mined = { hash: Hex; from: Hex; nonce: number }

/** What the signer's ledger holds for the nonce of a mined transaction, newest first; null when that is not what was mined. */
export type Ours = { intentId: string; isCancel: boolean; attempts: Recalled[] }

/** @throws signer_unavailable */
export async function recallMined(
  { signer }: App,
  { chainId }: Chain,
  { hash, from, nonce }: Mined,
): Promise<Ours | null> {
  const { attempts } = await signer.recall({ chainId, from, nonce })
  const mined = attempts.find((attempt) => attempt.hash === hash)
  return mined === undefined ? null : { intentId: mined.intentId, isCancel: mined.kind === 'cancel', attempts }
}

/**
 * Writes down once more what the database has lost, and the signer's ledger has not: the transaction with all its
 * attempts, under its own id, as submitted. Its idempotency key and the caller's ABI are gone. Inside a transaction.
 */
export async function takeIn(
  db: Db,
  app: App,
  { chainId }: Chain,
  { hash, from, nonce }: Mined,
  { intentId: id, isCancel, attempts }: Ours,
): Promise<void> {
  const { account_id } = await db
    .selectFrom('accounts')
    .select('account_id')
    .where('address', '=', fromHex(from))
    .executeTakeFirstOrThrow()
  await db
    .insertInto('transactions')
    .values({
      id,
      account_id,
      // Its application is gone too; nothing is asked by it.
      client_id: '',
      chain_id: chainId,
      sender: fromHex(from),
      nonce,
      ...effectOf(attempts.at(-1)!),
      hash: fromHex(hash),
      is_cancel: isCancel,
      abi: '',
      state: 'SUBMITTED',
      transitions: JSON.stringify([{ state: 'SUBMITTED', at: new Date(app.now()).toISOString(), hash }]),
    })
    .execute()
  await db
    .insertInto('attempts')
    .values(
      attempts.map((recalled) => {
        const { raw, gas, fees, isCancel: cancels, hash: own } = readRecalled(recalled)
        const terms = { gas_limit: Number(gas), ...writeFees(fees), is_cancel: cancels }
        return { chain_id: chainId, hash: fromHex(own), transaction_id: id, raw: fromHex(raw), ...terms }
      }),
    )
    .execute()
  app.telemetry.log.warn('transaction_taken_in', { chainId, id, sender: from, nonce, hash })
}

function effectOf(first: Recalled) {
  const { to, value = 0n, data = '0x' } = parseTransaction(first.raw)
  const { gas, fees } = readRecalled(first)
  const effect = { target: fromHex(to!.toLowerCase() as Hex), value: toWord(value), data: fromHex(data) }
  return { ...effect, gas_limit: Number(gas), ...writeFees(fees) }
}
