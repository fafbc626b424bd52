import { readFileSync } from 'node:fs'
import { isProviderName } from '../ids.ts'
import { retrying, type RootDb } from '../store/db.ts'

/** An identity provider people may sign in with; found by OpenID discovery. */
export type ProviderSettings = {
  /** upper-case letters, digits, underscore: the first part of user ids, for ever */
  name: string
  /** what people read */
  label: string
  issuer: string
  clientId: string
  clientSecret: string | null
  scopes: string[]
  /** claim of the id token that holds the immutable id of a person */
  subjectClaim: string
  /** claims to take the display name from, the first that is there */
  usernameClaims: string[]
  pictureClaim: string
  /** extra parameters of the authorization request */
  parameters: Record<string, string>
  /** the provider inside this program: plain http, marked on the pages */
  isDevelopment: boolean
}

/** Claims that people can change, or that are given to somebody else later: never the key of an account. */
const MUTABLE_CLAIMS = new Set([
  'email',
  'username',
  'user_name',
  'preferred_username',
  'login',
  'name',
  'nickname',
  'given_name',
  'family_name',
  'display_name',
  'displayname',
  'screen_name',
  'handle',
  'upn',
  'unique_name',
  'phone_number',
  'mail',
  'profile',
  'picture',
])

/** Names that mean something else than a provider on our pages and in our settings. */
const RESERVED_NAMES = new Set(['DEV', 'CALLBACK'])

const defaults = {
  scopes: ['openid', 'profile', 'email'],
  subjectClaim: 'sub',
  usernameClaims: ['preferred_username', 'name', 'nickname'],
  pictureClaim: 'picture',
}
const fields = new Set([
  'name',
  'label',
  'issuer',
  'clientId',
  'clientSecret',
  'scopes',
  'subjectClaim',
  'usernameClaims',
  'pictureClaim',
  'parameters',
])

/**
 * Reads PROVIDERS_FILE: a JSON list of providers.
 * @throws Error naming every problem, never a value that may be secret
 */
export function readProviders(file: string): ProviderSettings[] {
  let list: unknown
  try {
    list = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    // JSON.parse repeats part of its input in its message, and that may be a secret.
    throw new Error(
      error instanceof SyntaxError ? 'PROVIDERS_FILE does not hold JSON' : 'PROVIDERS_FILE cannot be read',
    )
  }
  if (!Array.isArray(list) || list.length === 0)
    throw new Error('PROVIDERS_FILE must be a list of at least one provider')
  const problems: string[] = []
  const providers = list.map((entry, index) =>
    readProvider(entry, (problem) => problems.push(`provider ${index + 1}: ${problem}`)),
  )
  const names = providers.map(({ name }) => name)
  for (const name of new Set(names))
    if (names.filter((one) => one === name).length > 1) problems.push(`the name ${name} stands there twice`)
  if (problems.length > 0)
    throw new Error(`PROVIDERS_FILE cannot be used:\n${problems.map((line) => `  ${line}`).join('\n')}`)
  return providers
}

function readProvider(entry: unknown, refuse: (problem: string) => void): ProviderSettings {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
    refuse('must be an object')
    entry = {}
  }
  const given = entry as Record<string, unknown>
  for (const key of Object.keys(given)) if (!fields.has(key)) refuse(`there is no field ${key}`)

  const name = text('name')
  if (name !== '' && !isProviderName(name))
    refuse('name must be upper-case letters, digits and underscores, at most 32')
  if (RESERVED_NAMES.has(name)) refuse(`name ${name} is reserved`)
  const issuer = text('issuer')
  if (issuer !== '' && !(URL.canParse(issuer) && new URL(issuer).protocol === 'https:' && !/[?#]/.test(issuer)))
    refuse('issuer must be an https URL')
  const subjectClaim = text('subjectClaim', defaults.subjectClaim)
  if (MUTABLE_CLAIMS.has(subjectClaim.toLowerCase()))
    refuse(`subjectClaim ${subjectClaim} can change or be given to another person; use an immutable id such as sub`)
  const scopes = texts('scopes', defaults.scopes)
  if (!scopes.includes('openid')) refuse('scopes must contain openid')
  const parameters = given.parameters ?? {}
  if (
    typeof parameters !== 'object' ||
    parameters === null ||
    !Object.values(parameters).every((value) => typeof value === 'string')
  )
    refuse('parameters must be texts by name')

  return {
    name,
    label: text('label', name),
    issuer,
    clientId: text('clientId'),
    clientSecret: given.clientSecret === undefined ? null : text('clientSecret'),
    scopes,
    subjectClaim,
    usernameClaims: texts('usernameClaims', defaults.usernameClaims),
    pictureClaim: text('pictureClaim', defaults.pictureClaim),
    parameters: parameters as Record<string, string>,
    isDevelopment: false,
  }

  function text(key: string, otherwise?: string): string {
    const value = given[key] ?? otherwise
    if (typeof value === 'string' && value.trim() !== '') return value
    refuse(value === undefined ? `${key} is missing` : `${key} must be a text`)
    return ''
  }

  function texts(key: string, otherwise: string[]): string[] {
    const value = given[key] ?? otherwise
    if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string' && one !== ''))
      return value as string[]
    refuse(`${key} must be a list of texts`)
    return otherwise
  }
}

/** The settings of the development identity provider of this program. */
export const developmentProvider = (origin: string): ProviderSettings => ({
  name: 'DEV',
  label: 'Development sign-in',
  issuer: `${origin}/devnet/idp`,
  clientId: 'chatelaine',
  clientSecret: null,
  ...defaults,
  parameters: {},
  isDevelopment: true,
})

/**
 * Binds each provider name to its issuer, for ever: the same name with another issuer would hand people's accounts to
 * whoever has the same subject there. The development provider's address changes with the port, its people do not.
 * @throws Error naming each name that was repointed
 */
export async function bindProviders(db: RootDb, providers: ProviderSettings[]): Promise<void> {
  const problems: string[] = []
  for (const { name, issuer, isDevelopment } of providers) {
    const bound = isDevelopment ? `urn:chatelaine:development:${name.toLowerCase()}` : issuer
    await retrying(() =>
      db
        .insertInto('provider_issuers')
        .values({ provider: name, issuer: bound })
        .onConflict((on) => on.doNothing())
        .execute(),
    )
    const row = await retrying(() =>
      db.selectFrom('provider_issuers').select('issuer').where('provider', '=', name).executeTakeFirstOrThrow(),
    )
    if (row.issuer !== bound)
      problems.push(
        `the provider name ${name} belongs to the issuer ${row.issuer}; people of another issuer need another name`,
      )
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))
}
