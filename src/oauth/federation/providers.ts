import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { hash } from 'node:crypto'
import { isProviderName, SPONSOR_PROVIDER } from '../../ids.ts'
import type { RootDb } from '../../store/db.ts'
import type { AppleKey } from './apple-key.ts'
import { isPresetName, presets, type Dialect, type ProviderPreset } from './presets.ts'
import { openProviderFields, type ProviderFields } from './provider-fields.ts'

/** An identity provider that users may sign in with, from OpenID discovery, a preset or settings. */
export type ProviderSettings = {
  /** upper-case letters, digits, underscore: the first part of user ids, permanently */
  name: string
  /** display name */
  label: string
  issuer: string
  clientId: string
  clientSecret: string | null
  scopes: string[]
  /** claim that holds the immutable id of a user */
  subjectClaim: string
  /** form of every user's id there; without it, no account is created before its user signs in */
  subjectForm?: RegExp
  /** claims to take the display name from, in order of preference */
  usernameClaims: string[]
  pictureClaim: string
  /** extra parameters of the authorization request */
  parameters: Record<string, string>
  /** the provider inside this program: plain http, marked on the pages */
  isDevelopment: boolean
  /** how it deviates from OpenID Connect, if it does */
  dialect?: Dialect
  /** replaces the secret */
  appleKey?: AppleKey
  /** how the secret is sent, if the provider's discovery document is wrong about it */
  proof?: 'basic' | 'post'
  /**
   * an operator has checked that a code is redeemed with its own verifier only: `chatelaine provider check --sign-in`
   */
  hasCheckedPkce?: boolean
  /** it may be in the operator's private network */
  allowsPrivate?: boolean
  /** it is on this machine, without TLS; in development only */
  allowsHttp?: boolean
}

/** Names with another meaning on our pages or in our settings. */
const RESERVED_NAMES = new Set(['DEV', 'CALLBACK', SPONSOR_PROVIDER])

const defaults = {
  scopes: ['openid', 'profile', 'email'],
  subjectClaim: 'sub',
  usernameClaims: ['preferred_username', 'name', 'nickname'],
  pictureClaim: 'picture',
}
/** Fields of every entry, of entries with and without discovery, and of presets. */
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
    // The message of JSON.parse may repeat a part of a secret.
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

/** Checks that `pkceChecked` is the mark of these settings, which the check prints. */
function withCheck(
  settings: ProviderSettings,
  { fields, refuse }: Pick<EntryInParts, 'fields' | 'refuse'>,
): ProviderSettings {
  if (!fields.has('pkceChecked')) return settings
  if (fields.text('pkceChecked') !== pkceMarkOf(settings))
    refuse(`pkceChecked does not match this clientId and these URLs: remove it, and run \`chatelaine provider check ${settings.name} --sign-in\``) // prettier-ignore
  return { ...settings, hasCheckedPkce: true }
}

/** Returns the mark of the settings that a check of PKCE is valid for: another client or URL may behave differently. */
export const pkceMarkOf = ({ clientId, dialect }: Pick<ProviderSettings, 'clientId' | 'dialect'>): string =>
  hash('sha256', JSON.stringify([clientId, dialect?.endpoints?.authorization, dialect?.endpoints?.token]), 'base64url').slice(0, 22) // prettier-ignore

/**
 * Returns whether a code is usable only in the visit that it was issued for: by the nonce in the id token, or by PKCE
 * that was checked to be enforced. Otherwise an attacker in between can swap it for a code of their own.
 * Source: RFC 9700 §4.5.3
 */
export const bindsCode = ({ dialect, hasCheckedPkce }: Pick<ProviderSettings, 'dialect' | 'hasCheckedPkce'>): boolean =>
  dialect?.endpoints === undefined || (hasCheckedPkce === true && dialect.refusesPkce !== true)

function refuseName(name: string, refuse: (problem: string) => void): void {
  if (RESERVED_NAMES.has(name.toUpperCase())) refuse(`name ${name} is reserved`)
  else if (name !== '' && !isProviderName(name))
    refuse('name must be upper-case letters, digits and underscores, at most 32')
  if (name.startsWith('APP_'))
    refuse(`name ${name} is reserved: APP_… names are for identity providers of applications`)
}

/** Settings of every entry, however its endpoints are known. */
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

/**
 * Reads an entry without discovery and id tokens. The response of `userUrl` identifies the user, because the access
 * token was issued for our own code.
 */
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
    // Without an issuer, the provider name is bound to the profile URL and the subject claim.
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

/** Returns the settings of the development identity provider in this program. */
export const developmentProvider = (origin: string): ProviderSettings => ({
  name: 'DEV',
  label: 'Development sign-in',
  issuer: `${origin}/devnet/idp`,
  clientId: 'chatelaine',
  clientSecret: null,
  ...defaults,
  // no upper-case letters
  subjectForm: /^(?!.*\p{Lu})[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u,
  parameters: {},
  isDevelopment: true,
})

/**
 * Binds each provider name to its issuer permanently. The same name with another issuer would give user accounts to
 * anyone with the same subject there. The development provider is bound to a fixed text, because its address changes
 * with the port.
 * @throws Error  naming each name that was repointed
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
        `the provider name ${name} belongs to the issuer ${row.issuer}; choose another name for another issuer`,
      )
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))
}
