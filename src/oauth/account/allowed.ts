import { OWN_CLIENT } from '../../ids.ts'
import type { App } from '../../app.ts'
import { findApplication, forgetUse } from '../../applications/registry.ts'
import { textsIn } from '../../store/column-values.ts'
import { inTransaction } from '../../store/transaction.ts'
import { allowedBy, authenticConsent, keysIn, waysOf } from '../consents.ts'
import { revokeGrant } from '../revoke.ts'
import { grantsOf } from '../sign-out.ts'
import { endUndo, endUndosOf, openUndo } from './open-undo.ts'

type ConsentOwner = { accountId: string; userId: string }

/** An application that a user allowed, or that is signed in for them. */
export type AllowedApplication = {
  clientId: string
  name: string
  /** it is the operator's own */
  isFirstParty: boolean
  chainId: number
  permissions: string[]
  /** keys that the user allowed, which are not asked about again, by thumbprint */
  keys: { thumbprint: string; permissions: string[]; at: string }[]
  /** number of its live sign-ins */
  signIns: number
}

/** A consent that was revoked. `ways`: those of the application at that time; `revocation`: id of its `openUndo` */
export type RevokedConsent = { permissions: string[]; ways: string[]; revocation: string }

/** Lists the applications that may use an account, by name. */
export async function listAllowed(
  { db }: Pick<App, 'db'>,
  { accountId, userId }: ConsentOwner,
): Promise<AllowedApplication[]> {
  const [grants, consents, uses] = await Promise.all([
    grantsOf(db, userId),
    db
      .selectFrom('consents')
      .select(['client_id', 'permissions', 'keys'])
      .where('account_id', '=', accountId)
      .execute(),
    // An application with `users:read` can read its past users permanently, so it is listed here to be revoked.
    db.selectFrom('application_users').select('client_id').where('account_id', '=', accountId).execute(),
  ])
  const known = [...consents, ...uses].map((row) => row.client_id)
  const ids = [...new Set([...grants.map(({ clientId }) => clientId), ...known])].filter((id) => id !== OWN_CLIENT)
  if (ids.length === 0) return []
  const applications = await db
    .selectFrom('applications')
    .select(['client_id', 'name', 'chain_id', 'is_first_party'])
    .where('client_id', 'in', ids)
    .orderBy('name')
    .execute()
  return applications.map(({ client_id: clientId, name, chain_id: chainId, is_first_party: isFirstParty }) => {
    const { permissions = [], keys = {} } = consents.find((row) => row.client_id === clientId) ?? {}
    return {
      clientId,
      name,
      isFirstParty: isFirstParty === true,
      chainId,
      permissions: textsIn(permissions),
      keys: keysIn(keys).map(([thumbprint, allowed]) => ({ thumbprint, ...allowed })),
      signIns: grants.filter((grant) => grant.clientId === clientId).length,
    }
  })
}

/**
 * Revokes the permissions that a user granted to an application. The application must ask again, its tokens end everywhere within 60 s,
 * and it can no longer read the user by itself (`users:read`).
 * @returns the consent, which the user can give again; null: there was none that held
 */
export async function revokeAllowed(app: App, owner: ConsentOwner, clientId: string): Promise<RevokedConsent | null> {
  const application = await findApplication(app, clientId)
  const whose = { accountId: owner.accountId, clientId }
  // Before the grants, so that an authorization in progress cannot use the consent.
  const revoked = await inTransaction(app.db, async (db): Promise<RevokedConsent | null> => {
    // First, because it waits for an undo in progress, whose consent the next statement then deletes.
    await endUndo(db, whose)
    const row = await db
      .deleteFrom('consents')
      .where('account_id', '=', owner.accountId)
      .where('client_id', '=', clientId)
      .returning(['permissions', 'keys', 'ways', 'seal'])
      .executeTakeFirst()
    if (row === undefined || application === null) return null
    const permissions = [...allowedBy(authenticConsent(app, whose, row), application)]
    if (permissions.length === 0) return null
    const revocation = await openUndo({ db, clock: app.clock }, { ...whose, userId: owner.userId })
    return { permissions, ways: waysOf(application), revocation }
  })
  await forgetUse(app.db, { clientId, accountId: owner.accountId })
  for (const grant of await grantsOf(app.db, owner.userId))
    if (grant.clientId === clientId) await revokeGrant(app, grant.grantId)
  return revoked
}

/** Revokes every consent of a user, and ends all sign-ins of applications. */
export async function revokeAll(app: App, owner: ConsentOwner): Promise<void> {
  await inTransaction(app.db, async (db) => {
    await db.deleteFrom('consents').where('account_id', '=', owner.accountId).execute()
    await endUndosOf(db, owner.userId)
  })
  for (const grant of await grantsOf(app.db, owner.userId)) await revokeGrant(app, grant.grantId)
}
