import { AppError } from '../errors.ts'
import type { UserId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import type { SealKeys } from '../store/seal.ts'
import { findNamed } from '../users/find.ts'
import type { Actor } from './actions.ts'
import { highestRole, includesRole } from './operators.ts'

/**
 * Rejects that a console operator locks out one with a higher role. The command line and the operator API have the power of an
 * owner, because they change any role.
 * @throws insufficient_scope, not_found
 */
export async function assertMayLockOut(
  db: Db,
  readSealKeys: () => Promise<SealKeys>,
  { by, userId }: { by: Actor; userId: UserId },
): Promise<void> {
  if (by.via !== 'console') return
  const named = await findNamed(db, userId)
  const role = named === null ? null : await highestRole(db, await readSealKeys(), named.accountId)
  if (role !== null && !includesRole(by.role, role))
    throw new AppError('insufficient_scope', 'This account belongs to an operator with a higher role. Nothing was changed. Ask an operator with that role.') // prettier-ignore
}
