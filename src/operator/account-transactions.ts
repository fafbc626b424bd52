import { checksumAddress } from '../digits.ts'
import { explorerOf } from '../applications/networks.ts'
import { AppError } from '../errors.ts'
import type { UserId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { listOfAccount } from '../transactions/read/list-own.ts'
import { findNamed } from '../users/find.ts'
import type { AccountTransaction } from './account-wire.ts'

/**
 * Lists the transactions of a user's account on a network, by every application, newest first.
 * @param userId   any identity of the user
 * @param network  its name; optional if there is only one
 * @throws not_found, invalid_request, invalid_cursor
 */
export async function listAccountTransactions(
  db: Db,
  asked: { userId: UserId; network?: string | undefined; limit: number; cursor?: string | undefined },
): Promise<{ transactions: AccountTransaction[]; nextCursor: string | null }> {
  const user = await findNamed(db, asked.userId)
  if (user === null) throw new AppError('not_found', 'No account has this user id. Check the user id.')
  const { chainId, explorer } = await findNetwork(db, asked.network)
  const { entries, nextCursor } = await listOfAccount(
    { db },
    { accountId: user.accountId, chainId },
    { limit: asked.limit, cursor: asked.cursor, clientId: null },
  )
  const transactions = entries.map((one): AccountTransaction => ({
    id: one.id,
    clientId: one.clientId,
    state: one.state,
    hash: one.hash,
    explorerUrl: explorer?.tx(one.hash) ?? null,
    to: checksumAddress(one.to),
    value: String(one.value),
    abi: one.abi,
    fee: one.fee === null ? null : String(one.fee),
    blockNumber: one.blockNumber,
    sentAt: one.sentAt.toISOString(),
  }))
  return { transactions, nextCursor }
}

async function findNetwork(db: Db, name: string | undefined) {
  const all = await db.selectFrom('networks').select(['name', 'chain_id', 'explorer']).orderBy('name').execute() // prettier-ignore
  const found = name === undefined && all.length === 1 ? all[0] : all.find((one) => one.name === name)
  if (found !== undefined) return { chainId: found.chain_id, explorer: found.explorer && explorerOf(found.explorer) }
  const detail = `This network does not exist. Use one of: ${all.map((one) => one.name).join(', ')}.`
  throw new AppError('invalid_request', detail, { errors: [{ parameter: 'network', code: 'invalid', detail }] })
}
