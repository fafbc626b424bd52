import { AppError, type FieldError } from '../errors.ts'
import { isApplicationProvider, isMutableClaim } from '../ids.ts'
import type { Db } from '../store/db.ts'
import type { TrustedIssuer } from './application.ts'
import { changeApplication, type ApplicationWriter } from './authentic.ts'
import { readApplication } from './manage.ts'
import { issuersIn } from './stored.ts'
import type { RegisteredApplication } from './wire.ts'

/** An issuer to trust; omitted settings have a default. */
export type IssuerDraft = Pick<TrustedIssuer, 'issuer' | 'audience'> & {
  [K in Exclude<keyof TrustedIssuer, 'provider' | 'issuer' | 'audience'>]?: TrustedIssuer[K] | undefined
} & {
  /** the provider already belongs to another application: its users have the same accounts in both */
  isShared?: boolean | undefined
}

/** Caller: the operator API may not change the keys of users who exist. */
export type IssuerChange = { by: 'command' | 'api' }

/** Signatures with a key pair only: with a shared secret, anyone who verifies could also sign. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']
const MAX_ISSUERS = 10
const MAX_TEXT = 255
const MAX_URI = 2_000
const [MIN_AGE, MAX_AGE] = [60, 86_400]

/** Returns whether the users of a provider belong to an application, because it brings them (decision 10). */
export async function bringsPeople(db: Db, clientId: string, provider: string): Promise<boolean> {
  const row = await db.selectFrom('applications').select('issuers').where('client_id', '=', clientId).executeTakeFirst()
  return row !== undefined && issuersIn(row.issuers).some((issuer) => issuer.provider === provider)
}

/**
 * Makes an application trust an issuer, or changes its settings. A provider name is bound to its issuer, its subject
 * claim, the address of its keys, and its application. Another application that trusts the same issuer has other users,
 * under another name, unless `isShared` says that they are the same. Only a command can make existing users depend on
 * another application or other keys.
 * @throws not_found, invalid_request naming everything that is wrong, already_exists
 */
export async function trustIssuer(
  app: ApplicationWriter,
  clientId: string,
  provider: string,
  { isShared = false, ...draft }: IssuerDraft,
  { by }: IssuerChange = { by: 'api' },
): Promise<RegisteredApplication> {
  const given = Object.fromEntries(Object.entries(draft).filter(([, value]) => value !== undefined))
  const trusted = { provider, ...defaults, ...given } as TrustedIssuer
  const problems = explainIssuer(trusted)
  await change(app, clientId, async (db, issuers, { kind }) => {
    if (kind === 'public')
      problems.push({
        pointer: '/clientId',
        code: 'invalid',
        detail: 'A public application cannot exchange tokens, because it cannot prove its identity.',
      })
    const before = issuers.find((one) => one.provider === provider)
    if (by === 'api' && trusted.allowsPrivate && before?.allowsPrivate !== true)
      problems.push({
        pointer: '/allowsPrivate',
        code: 'invalid',
        detail:
          'This issuer is in a private network. Only `chatelaine app trust-issuer --private`, on the operator’s machine, allows that.',
      })
    const others = issuers.filter((one) => one.provider !== provider)
    if (others.some(({ issuer }) => issuer === trusted.issuer))
      problems.push({
        pointer: '/issuer',
        code: 'invalid',
        detail: 'This application already trusts the issuer under another provider name.',
      })
    if (others.length >= MAX_ISSUERS)
      problems.push({ pointer: '/provider', code: 'invalid', detail: `At most ${MAX_ISSUERS} issuers are allowed.` })
    if (problems.length > 0)
      throw new AppError('invalid_request', problems.map(({ detail }) => detail).join(' '), { errors: problems })
    await bindName(db, { clientId, trusted, isShared, by })
    return [...others, trusted]
  })
  return readApplication(app.db, clientId)
}

/** Ends the trust in an issuer. Its users retain their accounts, and its name remains bound to it. @throws not_found */
export async function distrustIssuer(
  app: ApplicationWriter,
  clientId: string,
  provider: string,
): Promise<RegisteredApplication> {
  await change(app, clientId, async (_db, issuers) => {
    const rest = issuers.filter((one) => one.provider !== provider)
    if (rest.length === issuers.length)
      throw new AppError(
        'not_found',
        'This application trusts no issuer under this provider name. Nothing was changed. Check the provider name.',
      )
    return rest
  })
  return readApplication(app.db, clientId)
}

const defaults = {
  jwksUri: null,
  algorithms: ['RS256', 'ES256'],
  subjectClaim: 'sub',
  usernameClaims: ['preferred_username', 'name', 'nickname'],
  pictureClaim: 'picture',
  maxAgeSeconds: 3_600,
  isReusable: false,
  allowsPrivate: false,
}

const change = (
  app: ApplicationWriter,
  clientId: string,
  work: (db: Db, issuers: TrustedIssuer[], application: RegisteredApplication) => Promise<TrustedIssuer[]>,
): Promise<void> =>
  changeApplication(app, clientId, async (db) => {
    const application = await readApplication(db, clientId)
    const issuers = await work(db, application.issuers, application)
    await db
      .updateTable('applications')
      .set({ issuers: JSON.stringify(issuers) })
      .where('client_id', '=', clientId)
      .execute()
  })

/** Binds a provider name to an issuer. @throws invalid_request, already_exists if it belongs to another one */
async function bindName(
  db: Db,
  { clientId, trusted, isShared, by }: { clientId: string; trusted: TrustedIssuer; isShared: boolean } & IssuerChange,
): Promise<void> {
  const { provider, issuer, subjectClaim, jwksUri } = trusted
  await db
    .insertInto('application_providers')
    .values({ provider, issuer, subject_claim: subjectClaim, jwks_uri: jwksUri, client_id: clientId })
    .onConflict((on) => on.doNothing())
    .execute()
  const bound = await db
    .selectFrom('application_providers')
    .selectAll()
    .where('provider', '=', provider)
    .executeTakeFirstOrThrow()
  if (bound.issuer !== issuer || bound.subject_claim !== subjectClaim) {
    const detail = `The provider name ${provider} belongs permanently to the issuer ${bound.issuer} and its claim ${bound.subject_claim}. Choose another provider name.`
    throw new AppError('invalid_request', detail, { errors: [{ pointer: '/provider', code: 'invalid', detail }] })
  }
  if (bound.client_id !== clientId && !(isShared && by === 'command'))
    throw new AppError(
      'already_exists',
      `The provider name ${provider} belongs to the application ${bound.client_id}. Nothing was changed. Choose another name. To share its users and accounts, run \`chatelaine app trust-issuer --shared\` on the operator’s machine.`,
    )
  if (bound.jwks_uri === jwksUri) return
  if (by === 'api') {
    const detail = `The keys of ${provider} are ${bound.jwks_uri === null ? 'found by discovery' : `at ${bound.jwks_uri}`}. Only \`chatelaine app trust-issuer\`, on the operator’s machine, changes that location.`
    throw new AppError('invalid_request', detail, { errors: [{ pointer: '/jwksUri', code: 'invalid', detail }] })
  }
  await db.updateTable('application_providers').set({ jwks_uri: jwksUri }).where('provider', '=', provider).execute()
}

/** Returns everything that makes an issuer unsafe, each with its place. */
function explainIssuer(trusted: TrustedIssuer): FieldError[] {
  const { provider, issuer, audience, jwksUri, algorithms, subjectClaim, usernameClaims, pictureClaim, maxAgeSeconds } =
    trusted
  const problems: FieldError[] = []
  const refuse = (pointer: string, detail: string) => problems.push({ pointer, code: 'invalid', detail })
  if (!isApplicationProvider(provider))
    refuse(
      '/provider',
      'The provider name must be `APP_` followed by upper-case letters, digits or underscores, at most 32 characters in total.',
    )
  if (!isIssuerAddress(issuer)) refuse('/issuer', 'The issuer must be an https address without a query.')
  if (!isText(audience)) refuse('/audience', `The audience must have 1 to ${MAX_TEXT} visible characters.`)
  if (jwksUri !== null && !isAddress(jwksUri)) refuse('/jwksUri', 'The address of the keys must be https.')
  if (algorithms.length === 0 || !algorithms.every((one) => ALGORITHMS.includes(one)))
    refuse('/algorithms', `The algorithms must be some of ${ALGORITHMS.join(', ')}.`)
  if (!isText(subjectClaim)) refuse('/subjectClaim', 'The subject claim must be the name of a claim.')
  else if (isMutableClaim(subjectClaim))
    refuse(
      '/subjectClaim',
      `The claim ${subjectClaim} can change or pass to another user. Use an immutable id such as \`sub\`.`,
    )
  if (usernameClaims.length > MAX_ISSUERS || ![...usernameClaims, pictureClaim].every(isText))
    refuse('/usernameClaims', 'The claims for name and picture must be names of claims.')
  if (!Number.isInteger(maxAgeSeconds) || maxAgeSeconds < MIN_AGE || maxAgeSeconds > MAX_AGE)
    refuse('/maxAgeSeconds', `The age of a token may be ${MIN_AGE} to ${MAX_AGE} seconds.`)
  return problems
}

const isText = (text: string): boolean => text.length >= 1 && text.length <= MAX_TEXT && !/[\p{C}\s]/u.test(text)

/** Accepts https, and http on loopback for development: a server in production sends no request there. */
function isAddress(text: string): boolean {
  if (text.length > MAX_URI || /[\p{C}\s#]/u.test(text) || !URL.canParse(text)) return false
  const { protocol, username, password, hostname } = new URL(text)
  if (username !== '' || password !== '') return false
  return protocol === 'https:' || (protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(hostname))
}

const isIssuerAddress = (text: string): boolean => isAddress(text) && !text.includes('?')
