import { createPrivateKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { isLoopback } from '../../config.ts'
import { isMutableClaim, isProviderName } from '../../ids.ts'
import { retrying, type RootDb } from '../../store/db.ts'
import type { AppleKey } from './apple-key.ts'
import { isPresetName, presets, type Dialect, type ProviderPreset } from './presets.ts'

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
  /** it may be in the operator's own network */
  allowsPrivate?: boolean
  /** it is on this machine, without TLS; in development only */
  allowsHttp?: boolean
}

/** Names that mean something else than a provider on our pages and in our settings. */
const RESERVED_NAMES = new Set(['DEV', 'CALLBACK'])

const defaults = {
  scopes: ['openid', 'profile', 'email'],
  subjectClaim: 'sub',
  usernameClaims: ['preferred_username', 'name', 'nickname'],
  pictureClaim: 'picture',
}
/** Settings of every entry, of those found by discovery, and of presets. */
const fields = ['name', 'label', 'clientId', 'clientSecret', 'clientSecretFile', 'scopes', 'parameters']
const discoveredFields = ['issuer', 'subjectClaim', 'usernameClaims', 'pictureClaim', 'allowPrivate', 'clientAuthentication', 'askAgain'] // prettier-ignore
const plainFields = ['kind', 'authorizationUrl', 'tokenUrl', 'userUrl', 'emailsUrl', 'userMember', 'subjectClaim', 'usernameClaims', 'pictureClaim', 'emailClaim', 'emailVerifiedClaim', 'allowPrivate', 'clientAuthentication', 'askAgain'] // prettier-ignore
const presetFields: Record<ProviderPreset['needs'], string[]> = {
  secret: [],
  'secret and tenant': ['tenant'],
  'apple key': ['teamId', 'keyId', 'privateKeyFile'],
}

/** The tenant of everyone's personal Microsoft account. */
const CONSUMERS = '9188040d-6c67-4c5b-b112-36a304b66dad'

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
  const preset = readPreset()
  const isPlain = given.kind === 'oauth2'
  if (given.kind !== undefined && !isPlain) refuse('kind must be oauth2, or omitted for OpenID Connect')
  if (given.kind !== undefined && given.preset !== undefined) refuse('kind and preset exclude each other')
  const described = isPlain ? plainFields : discoveredFields
  const known = [...fields, ...(preset === null ? described : ['preset', 'kind', ...presetFields[preset.needs]])]
  for (const key of Object.keys(given))
    if (!known.includes(key)) refuse(`unknown field ${key}${preset === null ? '' : ' beside this preset'}`)

  const name = text('name', typeof given.preset === 'string' ? given.preset.toUpperCase() : undefined)
  if (name !== '' && !isProviderName(name))
    refuse('name must be upper-case letters, digits and underscores, at most 32')
  if (RESERVED_NAMES.has(name)) refuse(`name ${name} is reserved`)
  if (name.startsWith('APP_')) refuse(`name ${name} is reserved: APP_… are the providers that applications bring`)
  const shared = {
    name,
    clientId: text('clientId'),
    isDevelopment: false,
    parameters: { ...textsByName('parameters'), ...preset?.parameters },
  }
  if (preset !== null) return readPresetSettings(preset)
  return isPlain ? readPlain() : readDiscovered()

  function readDiscovered(): ProviderSettings {
    const issuer = address('issuer')
    const subjectClaim = subject(defaults.subjectClaim)
    const scopes = texts('scopes', defaults.scopes)
    if (!scopes.includes('openid')) refuse('scopes must contain openid')
    return {
      ...shared,
      label: text('label', name),
      issuer,
      clientSecret: secret(),
      scopes,
      subjectClaim,
      usernameClaims: texts('usernameClaims', defaults.usernameClaims),
      pictureClaim: text('pictureClaim', defaults.pictureClaim),
      ...(given.askAgain === undefined ? {} : { dialect: { askAgain: askAgain() } }),
      ...networkAccess(issuer),
      ...proof(),
    }
  }

  /** Without discovery and id tokens: who someone is, `userUrl` says to the access token that came for our own code. */
  function readPlain(): ProviderSettings {
    const [authorization, token, profile] = [address('authorizationUrl'), address('tokenUrl'), address('userUrl')]
    const emails = given.emailsUrl === undefined ? {} : { emails: address('emailsUrl') }
    const subjectClaim = subject()
    const optional = (key: string, as: string) => (given[key] === undefined ? {} : { [as]: text(key) })
    return {
      ...shared,
      label: text('label', name),
      // There is no issuer: the name belongs forever to what people are known by, and to who says it.
      issuer: `urn:chatelaine:oauth2:${encodeURIComponent(profile.split('?', 1)[0]!)}:${encodeURIComponent(subjectClaim)}`,
      clientSecret: secret(),
      scopes: texts('scopes', []),
      subjectClaim,
      usernameClaims: texts('usernameClaims', defaults.usernameClaims),
      pictureClaim: text('pictureClaim', defaults.pictureClaim),
      dialect: {
        endpoints: { authorization, token, profile, ...emails },
        ...proof(),
        ...optional('userMember', 'wrapper'),
        ...optional('emailClaim', 'emailClaim'),
        ...optional('emailVerifiedClaim', 'emailVerifiedClaim'),
        askAgain: given.askAgain === undefined ? { prompt: 'login' } : askAgain(),
        hintParameter: null,
      },
      ...networkAccess(authorization, token, profile),
    }
  }

  function subject(otherwise?: string): string {
    const claim = text('subjectClaim', otherwise)
    if (isMutableClaim(claim))
      refuse(`subjectClaim ${claim} can change or be given to another person; use an immutable id such as sub`)
    return claim
  }

  function address(key: string): string {
    const value = text(key)
    const url = URL.canParse(value) ? new URL(value) : null
    const isFit = url?.protocol === 'https:' || (allowsHttp && url?.protocol === 'http:' && isLoopback(url.hostname))
    if (value !== '' && !(isFit && !(key === 'issuer' ? /[?#]/ : /#/).test(value)))
      refuse(`${key} must be an https URL`)
    return value
  }

  function networkAccess(...addresses: string[]): Pick<ProviderSettings, 'allowsPrivate' | 'allowsHttp'> {
    const { allowPrivate = false } = given
    if (typeof allowPrivate !== 'boolean') refuse('allowPrivate must be true or false')
    return {
      ...(allowPrivate === true ? { allowsPrivate: true } : {}),
      ...(addresses.some((one) => one.startsWith('http:')) ? { allowsHttp: true } : {}),
    }
  }

  function askAgain(): Record<string, string> {
    const words = textsByName('askAgain')
    if (Object.keys(words).length === 0) refuse('askAgain must name a parameter')
    return words
  }

  function proof(): Pick<ProviderSettings, 'proof'> {
    const { clientAuthentication: way } = given
    if (way === undefined) return {}
    if (way === 'client_secret_basic') return { proof: 'basic' }
    if (way !== 'client_secret_post') refuse('clientAuthentication must be client_secret_basic or client_secret_post')
    return { proof: 'post' }
  }

  function readPresetSettings({ issuer, label, scopes, needs, ...described }: ProviderPreset): ProviderSettings {
    const isOpenid = described.dialect.endpoints === undefined
    const asked = texts('scopes', scopes)
    if (isOpenid && !asked.includes('openid')) refuse('scopes must contain openid')
    const clientSecret = needs === 'apple key' ? null : secret()
    if (clientSecret === null && needs !== 'apple key') refuse('clientSecret or clientSecretFile is missing')
    if (needs === 'apple key' && secret() !== null) refuse('Apple has no client secret; use privateKeyFile')
    return {
      ...described,
      ...shared,
      label: text('label', label),
      issuer: needs === 'secret and tenant' ? issuer.replace('{tenant}', tenant()) : issuer,
      clientSecret,
      scopes: asked,
      ...(needs === 'apple key'
        ? { appleKey: { teamId: text('teamId'), keyId: text('keyId'), key: privateKey() } }
        : {}),
    }
  }

  function readPreset(): ProviderPreset | null {
    if (given.preset === undefined) return null
    if (typeof given.preset === 'string' && isPresetName(given.preset)) return presets[given.preset]
    refuse(`preset must be one of ${Object.keys(presets).join(', ')}`)
    return null
  }

  /** Shared addresses (`common`, `organizations`) stand for any number of issuers, and a name belongs to one. */
  function tenant(): string {
    const id = text('tenant')
    if (id === 'consumers') return CONSUMERS
    if (id !== '' && !/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(id))
      refuse('tenant must be the id of one tenant in lower case, or consumers for personal accounts')
    return id
  }

  function secret(): string | null {
    if (given.clientSecret !== undefined && given.clientSecretFile !== undefined)
      refuse('clientSecret and clientSecretFile exclude each other')
    if (given.clientSecretFile !== undefined) return fileText('clientSecretFile')?.trim() ?? null
    return given.clientSecret === undefined ? null : text('clientSecret')
  }

  function privateKey(): KeyObject {
    try {
      const key = createPrivateKey(fileText('privateKeyFile') ?? '')
      if (key.asymmetricKeyDetails?.namedCurve === 'prime256v1') return key
    } catch {
      // The message of the library may repeat what the file holds.
    }
    refuse('privateKeyFile does not hold the .p8 key that Apple gave')
    return null as never
  }

  /** Of a file beside PROVIDERS_FILE, or anywhere by its full path. */
  function fileText(key: string): string | null {
    try {
      const content = readFileSync(resolve(folder, text(key)), 'utf8')
      if (content.trim() !== '') return content
    } catch {
      // Said below: why it cannot be read is of no help without its place.
    }
    refuse(`${key} cannot be read, or is empty`)
    return null
  }

  function text(key: string, otherwise?: string): string {
    const value = given[key] ?? otherwise
    if (typeof value === 'string' && value.trim() !== '') return value
    refuse(value === undefined ? `${key} is missing` : `${key} must be a string`)
    return ''
  }

  function textsByName(key: string): Record<string, string> {
    const value = given[key] ?? {}
    if (
      typeof value === 'object' &&
      !Array.isArray(value) &&
      Object.values(value).every((one) => typeof one === 'string')
    )
      return value as Record<string, string>
    refuse(`${key} must be an object of strings`)
    return {}
  }

  function texts(key: string, otherwise: string[]): string[] {
    const value = given[key] ?? otherwise
    if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string' && one !== ''))
      return value as string[]
    refuse(`${key} must be a list of strings`)
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
