import type { App } from '../../app.ts'
import { findApplication, noteUser } from '../../applications/registry.ts'
import { assertChangeable } from '../../users/freeze.ts'
import { addConsent, waysOf } from '../consents.ts'
import type { Secrets } from '../secrets.ts'
import type { RevokedConsent } from './allowed.ts'

/** Time in which a revocation can be undone, in milliseconds. */
const UNDO_MS = 300_000

type UndoClaims = RevokedConsent & { accountId: string; clientId: string; until: number }

/**
 * Writes a revoked consent as a text for the form that gives it again. The text has a MAC, so only consents that the user
 * gave can be given again, and only by the same account.
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
 * Gives a revoked consent again. Sign-ins and tokens that the revocation ended remain ended. Returns false if the
 * application was removed or suspended, or can use the consent in a way that it could not before.
 * @throws account_frozen
 */
export async function giveAgain(app: App, { accountId, clientId, permissions, ways }: UndoClaims): Promise<boolean> {
  await assertChangeable(app.db, accountId)
  const application = await findApplication(app, clientId)
  if (application === null || application.isSuspended) return false
  if (!waysOf(application).every((way) => ways.includes(way))) return false
  const still = permissions.filter(
    (one) => one === 'email' || (application.permissions as readonly string[]).includes(one),
  )
  await addConsent(app, { accountId, clientId, permissions: still, application })
  await noteUser(app.db, { clientId, accountId })
  return true
}
