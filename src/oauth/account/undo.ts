import type { App } from '../../app.ts'
import { findApplication, noteUser } from '../../applications/registry.ts'
import { assertChangeable } from '../../users/freeze.ts'
import { retrying } from '../../store/db.ts'
import { inTransaction } from '../../store/transaction.ts'
import { addMissingConsent, waysOf } from '../consents.ts'
import type { Secrets } from '../secrets.ts'
import type { RevokedConsent } from './allowed.ts'
import { UNDO_MS, useUndo } from './open-undo.ts'

type UndoClaims = RevokedConsent & { accountId: string; clientId: string; until: number }

/**
 * Writes a revoked consent as a text for the form that gives it again. The text has a MAC, so only consents that the user
 * gave can be given again, and only by the same account. It is valid
 * once, and until the next revocation (`open-undo.ts`).
 */
export function writeUndo(
  { clock }: Pick<App, 'clock'>,
  secrets: Pick<Secrets, 'csrfToken'>,
  revoked: RevokedConsent & { accountId: string; clientId: string },
): string {
  const claims: UndoClaims = { ...revoked, until: clock.wall() + UNDO_MS }
  const text = Buffer.from(JSON.stringify(claims)).toString('base64url')
  return `${text}.${secrets.csrfToken(purposeOf(text))}`
}

/** Reads such a text; null if it is of another account, too old, or not ours. */
export function readUndo(
  { clock }: Pick<App, 'clock'>,
  secrets: Pick<Secrets, 'isCsrfTokenRight'>,
  { accountId, undo }: { accountId: string; undo: unknown },
): UndoClaims | null {
  if (typeof undo !== 'string') return null
  const [text = '', mac] = undo.split('.')
  if (!secrets.isCsrfTokenRight(purposeOf(text), mac)) return null
  const claims = JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as UndoClaims
  return claims.accountId === accountId && claims.until > clock.wall() ? claims : null
}

/** CSRF tokens of pages have other purposes: ids of interactions, and `account …`. */
const purposeOf = (text: string): string => `undo ${text}`

/**
 * Gives a revoked consent again. Sign-ins and tokens that the revocation ended remain ended. Returns false if it was
 * used before, the user has revoked or allowed something since, or the application was removed or suspended, or can use
 * the consent in a way that it could not before.
 * @throws account_frozen
 */
export async function giveAgain(app: App, claims: UndoClaims): Promise<boolean> {
  const { accountId, clientId, permissions, ways, revocation } = claims
  await assertChangeable(app.db, accountId)
  const application = await findApplication(app, clientId)
  if (application === null || application.isSuspended) return false
  if (!waysOf(application).every((way) => ways.includes(way))) return false
  const still = permissions.filter(
    (one) => one === 'email' || (application.permissions as readonly string[]).includes(one),
  )
  const whose = { accountId, clientId }
  const isGiven = await retrying(() =>
    inTransaction(
      app.db,
      async (db) =>
        (await useUndo(db, { ...whose, revocation })) &&
        (await addMissingConsent({ ...app, db }, { ...whose, permissions: still, application })),
    ),
  )
  if (isGiven) await noteUser(app.db, whose)
  return isGiven
}
