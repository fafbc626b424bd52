import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { hash } from 'node:crypto'
import { isProviderName, SPONSOR_PROVIDER } from '../../ids.ts'
import type { RootDb } from '../../store/db.ts'
import type { AppleKey } from './apple-key.ts'
import { isPresetName, presets, type Dialect, type ProviderPreset } from './presets.ts'
import { openProviderFields, type ProviderFields } from './provider-fields.ts'

/** An identity provider people may sign in with; found by OpenID discovery, or described by a preset. */
export type ProviderSettings = {
  /** upper-case letters, digits, underscore: the first part of user ids, forever */
  name: string
  /** what people read */
  label: string
  issuer: string
  clientId: string
  clientSecret: string | null
  scopes: string[]
  /** claim of the id token that holds the immutable id of a person */
  subjectClaim: string
  /** what every id of a person there looks like; without it no account is made before its owner comes */
  subjectForm?: RegExp
  /** claims to take the display name from, the first that is there */
  usernameClaims: string[]
  pictureClaim: string
  /** extra parameters of the authorization request */
  parameters: Record<string, string>
  /** the provider inside this program: plain http, marked on the pages */
  isDevelopment: boolean
  /** how it departs from OpenID Connect; left out where it does not */
  dialect?: Dialect
  /** instead of a secret */
  appleKey?: AppleKey
  /** how the secret is proved, where the provider's own description does not say it right */
  proof?: 'basic' | 'post'
  /** its operator has seen that a code is redeemed with its own verifier only: `chatelaine provider check --sign-in` */
  hasCheckedPkce?: boolean
  /** it may be in the operator's own network */
  allowsPrivate?: boolean
  /** it is on this machine, without TLS; in development only */
  allowsHttp?: boolean
}

/** Names that mean something else than a provider on our pages and in our settings. */
const RESERVED_NAMES = new Set(['DEV', 'CALLBACK', SPONSOR_PROVIDER])

const defaults = {
  scopes: ['openid', 'profile', 'email'],
  subjectClaim: 'sub',
  usernameClaims: ['preferred_username', 'name', 'nickname'],
  pictureClaim: 'picture',
}
/** Settings of every entry, of those found by discovery, and of presets. */
const everyonesFields = ['name', 'label', 'clientId', 'clientSecret', 'clientSecretFile', 'scopes', 'parameters']
const discoveredFields = ['issuer', 'subjectClaim', 'usernameClaims', 'pictureClaim', 'allowPrivate', 'clientAuthentication', 'askAgain'] // prettier-ignore
const plainFields = ['kind', 'pkceChecked', 'authorizationUrl', 'tokenUrl', 'userUrl', 'emailsUrl', 'userMember', 'subjectClaim', 'usernameClaims', 'pictureClaim', 'emailClaim', 'emailVerifiedClaim', 'allowPrivate', 'clientAuthentication', 'askAgain'] // prettier-ignore
const presetFields: Record<ProviderPreset['needs'], string[]> = {
  secret: [],
  'secret and tenant': ['tenant'],
  'apple key': ['teamId', 'keyId', 'privateKeyFile'],
}

/**
 * Reads PROVIDERS_FILE: a JSON list of providers.
 * @param allowsHttp  for providers on this machine; never in production
 * @throws Error naming every problem, never a value that may be secret
 */
export function readProviders(file: string, { allowsHttp = false }: { allowsHttp?: boolean } = {}): ProviderSettings[] {
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
    readProvider(entry, {
      folder: dirname(file),
      allowsHttp,
      refuse: (problem) => problems.push(`provider ${index + 1}: ${problem}`),
    }),
  )
  const names = providers.map(({ name }) => name)
  for (const name of new Set(names))
    if (names.filter((one) => one === name).length > 1) problems.push(`the name ${name} appears twice`)
  if (problems.length > 0)
    throw new Error(`PROVIDERS_FILE cannot be used:\n${problems.map((line) => `  ${line}`).join('\n')}`)
  return providers
}

function readProvider(
  entry: unknown,
  { folder, allowsHttp, refuse }: { folder: string; allowsHttp: boolean; refuse: (problem: string) => void },
): ProviderSettings {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
    refuse('must be an object')
    entry = {}
  }
  const given = entry as Record<string, unknown>
  const fields = openProviderFields(given, { folder, allowsHttp, refuse })
  const preset = readPreset(given.preset, refuse)
  const isPlain = given.kind === 'oauth2'
  if (given.kind !== undefined && !isPlain) refuse('kind must be oauth2, or omitted for OpenID Connect')
  if (given.kind !== undefined && given.preset !== undefined) refuse('kind and preset exclude each other')
  const described = isPlain ? plainFields : discoveredFields
  const known = [...everyonesFields, ...(preset === null ? described : ['preset', 'kind', ...presetFields[preset.needs], ...(preset.dialect.endpoints === undefined ? [] : ['pkceChecked'])])] // prettier-ignore
  for (const key of Object.keys(given))
    if (!known.includes(key)) refuse(`unknown field ${key}${preset === null ? '' : ' beside this preset'}`)

  const name = fields.text('name', typeof given.preset === 'string' ? given.preset.toUpperCase() : undefined)
  refuseName(name, refuse)
  const shared = {
    name,
    clientId: fields.text('clientId'),
    isDevelopment: false,
    parameters: { ...fields.textsByName('parameters'), ...preset?.parameters },
  }
  if (preset !== null) return withCheck(readOfPreset(preset, { fields, shared, refuse }), { fields, refuse })
  return isPlain ? withCheck(readPlain(fields, shared), { fields, refuse }) : readDiscovered({ fields, shared, refuse })
}

/** `pkceChecked` is what the check printed for these very settings. */
function withCheck(
  settings: ProviderSettings,
  { fields, refuse }: Pick<EntryInParts, 'fields' | 'refuse'>,
): ProviderSettings {
  if (!fields.has('pkceChecked')) return settings
  if (fields.text('pkceChecked') !== pkceMarkOf(settings))
    refuse(`pkceChecked is not of this clientId and these URLs: remove it, and run \`chatelaine provider check ${settings.name} --sign-in\``) // prettier-ignore
  return { ...settings, hasCheckedPkce: true }
}

/** What a check of PKCE holds for: another client or another URL may behave otherwise. */
export const pkceMarkOf = ({ clientId, dialect }: Pick<ProviderSettings, 'clientId' | 'dialect'>): string =>
  hash('sha256', JSON.stringify([clientId, dialect?.endpoints?.authorization, dialect?.endpoints?.token]), 'base64url').slice(0, 22) // prettier-ignore

/**
 * Whether a code is good only for the visit to the provider that it was given for: by the nonce in the id token, or by PKCE that was
 * seen to be enforced. Otherwise an attacker on the way exchanges it for a code of their own.
 * Source: RFC 9700 §4.5.3
 */
export const bindsCode = ({ dialect, hasCheckedPkce }: Pick<ProviderSettings, 'dialect' | 'hasCheckedPkce'>): boolean =>
  dialect?.endpoints === undefined || (hasCheckedPkce === true && dialect.refusesPkce !== true)

function refuseName(name: string, refuse: (problem: string) => void): void {
  if (RESERVED_NAMES.has(name.toUpperCase())) refuse(`name ${name} is reserved`)
  else if (name !== '' && !isProviderName(name))
    refuse('name must be upper-case letters, digits and underscores, at most 32')
  if (name.startsWith('APP_')) refuse(`name ${name} is reserved: APP_… are the providers that applications bring`)
}

/** What every entry has, however its endpoints are known. */
type SharedSettings = Pick<ProviderSettings, 'name' | 'clientId' | 'isDevelopment' | 'parameters'>
type EntryInParts = { fields: ProviderFields; shared: SharedSettings; refuse: (problem: string) => void }

function readDiscovered({ fields, shared, refuse }: EntryInParts): ProviderSettings {
  const issuer = fields.address('issuer')
  const scopes = fields.texts('scopes', defaults.scopes)
  if (!scopes.includes('openid')) refuse('scopes must contain openid')
  return {
    ...shared,
    label: fields.text('label', shared.name),
    issuer,
    clientSecret: fields.secret(),
    scopes,
    subjectClaim: fields.subject(defaults.subjectClaim),
    usernameClaims: fields.texts('usernameClaims', defaults.usernameClaims),
    pictureClaim: fields.text('pictureClaim', defaults.pictureClaim),
    ...(fields.has('askAgain') ? { dialect: { askAgain: fields.askAgain() } } : {}),
    ...fields.networkAccess(issuer),
    ...fields.proof(),
  }
}

/** Without discovery and id tokens: who someone is, `userUrl` says to the access token that came for our own code. */
function readPlain(fields: ProviderFields, shared: SharedSettings): ProviderSettings {
  const [authorization, token, profile] = [
    fields.address('authorizationUrl'),
    fields.address('tokenUrl'),
    fields.address('userUrl'),
  ]
  const emails = fields.has('emailsUrl') ? { emails: fields.address('emailsUrl') } : {}
  const subjectClaim = fields.subject()
  const optional = (key: string, as: string) => (fields.has(key) ? { [as]: fields.text(key) } : {})
  return {
    ...shared,
    label: fields.text('label', shared.name),
    // There is no issuer: the name belongs forever to what people are known by, and to who says it.
    issuer: `urn:chatelaine:oauth2:${encodeURIComponent(profile.split('?', 1)[0]!)}:${encodeURIComponent(subjectClaim)}`,
    clientSecret: fields.secret(),
    scopes: fields.texts('scopes', []),
    subjectClaim,
    usernameClaims: fields.texts('usernameClaims', defaults.usernameClaims),
    pictureClaim: fields.text('pictureClaim', defaults.pictureClaim),
    dialect: {
      endpoints: { authorization, token, profile, ...emails },
      ...fields.proof(),
      ...optional('userMember', 'wrapper'),
      ...optional('emailClaim', 'emailClaim'),
      ...optional('emailVerifiedClaim', 'emailVerifiedClaim'),
      askAgain: fields.has('askAgain') ? fields.askAgain() : { prompt: 'login' },
      hintParameter: null,
    },
    ...fields.networkAccess(authorization, token, profile),
  }
}

function readOfPreset(
  { issuer, label, scopes, needs, ...described }: ProviderPreset,
  { fields, shared, refuse }: EntryInParts,
): ProviderSettings {
  const isOpenid = described.dialect.endpoints === undefined
  const asked = fields.texts('scopes', scopes)
  if (isOpenid && !asked.includes('openid')) refuse('scopes must contain openid')
  const isApple = needs === 'apple key'
  const clientSecret = isApple ? null : fields.secret()
  if (clientSecret === null && !isApple) refuse('clientSecret or clientSecretFile is missing')
  if (isApple && fields.secret() !== null) refuse('Apple has no client secret; use privateKeyFile')
  return {
    ...described,
    ...shared,
    label: fields.text('label', label),
    issuer: needs === 'secret and tenant' ? issuer.replace('{tenant}', fields.tenant()) : issuer,
    clientSecret,
    scopes: asked,
    ...(isApple
      ? { appleKey: { teamId: fields.text('teamId'), keyId: fields.text('keyId'), key: fields.privateKey() } }
      : {}),
  }
}

function readPreset(name: unknown, refuse: (problem: string) => void): ProviderPreset | null {
  if (name === undefined) return null
  if (typeof name === 'string' && isPresetName(name)) return presets[name]
  refuse(`preset must be one of ${Object.keys(presets).join(', ')}`)
  return null
}

/** The settings of the development identity provider of this program. */
export const developmentProvider = (origin: string): ProviderSettings => ({
  name: 'DEV',
  label: 'Development sign-in',
  issuer: `${origin}/devnet/idp`,
  clientId: 'chatelaine',
  clientSecret: null,
  ...defaults,
  // Names in lower case.
  subjectForm: /^(?!.*\p{Lu})[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u,
  parameters: {},
  isDevelopment: true,
})

/**
 * Binds each provider name to its issuer, forever: the same name with another issuer would hand people's accounts to
 * anyone who has the same subject there. The development provider's address changes with the port, its people do not.
 * @throws Error naming each name that was repointed
 */
export async function bindProviders(db: RootDb, providers: ProviderSettings[]): Promise<void> {
  const problems: string[] = []
  for (const { name, issuer, isDevelopment } of providers) {
    const bound = isDevelopment ? `urn:chatelaine:development:${name.toLowerCase()}` : issuer
    await db
      .insertInto('provider_issuers')
      .values({ provider: name, issuer: bound })
      .onConflict((on) => on.doNothing())
      .execute()
    const row = await db
      .selectFrom('provider_issuers')
      .select('issuer')
      .where('provider', '=', name)
      .executeTakeFirstOrThrow()
    if (row.issuer !== bound)
      problems.push(
        `the provider name ${name} belongs to the issuer ${row.issuer}; people of another issuer need another name`,
      )
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))
}
