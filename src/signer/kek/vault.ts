import { KekUnavailable, NotItsOwn, type Kek, type KekSetting } from './provider.ts'
import { readToken } from './secret.ts'
import { readWithSecret, writeWithSecret } from './secret-json.ts'
import { askService, PATIENCE, readCa, type Patience, type Service, type ServiceAnswer } from './service.ts' // prettier-ignore

type VaultSetting = Extract<KekSetting, { provider: 'vault' }>

/**
 * Opens an AES-256 key in Vault's transit engine or a compatible service. Wrapped bytes are Vault's ciphertext text, which names
 * the key version; older versions unwrap as long as Vault allows it. The token is read at each use, so that an agent can renew it.
 * @throws KekUnavailable  if Vault is unavailable, or the key has another type or may leave Vault
 * Source: https://developer.hashicorp.com/vault/api-docs/secret/transit
 */
export async function openVault(setting: VaultSetting, patience: Patience = PATIENCE): Promise<Kek> {
  const { mount, key } = setting.uri
  await assertFit()
  let isBound = false

  return {
    provider: 'vault',
    isVersioned: true,
    async wrap(dek, aad) {
      const wrapped = await encrypt(dek, aad)
      isBound ||= await isBinding(wrapped, aad)
      if (!isBound) throw new KekUnavailable('Vault ignores associated_data: use Vault 1.13 or later.') // prettier-ignore
      return wrapped
    },
    unwrap: decrypt,
  }

  async function encrypt(dek: Buffer, aad: Buffer): Promise<Buffer> {
    const bound = { associated_data: aad.toString('base64') }
    const { data } = await ask('encrypt', () => writeWithSecret({ field: 'plaintext', bytes: dek }, bound))
    const text = (data as { ciphertext?: unknown } | undefined)?.ciphertext
    if (typeof text !== 'string' || !CIPHERTEXT.test(text)) throw withoutIt()
    return Buffer.from(text, 'utf8')
  }

  async function decrypt(wrapped: Buffer, aad: Buffer): Promise<Buffer> {
    const ciphertext = wrapped.toString('utf8')
    if (!CIPHERTEXT.test(ciphertext)) throw new NotItsOwn()
    const fields = { ciphertext, associated_data: aad.toString('base64') }
    const { secret } = await ask('decrypt', () => Buffer.from(JSON.stringify(fields)))
    if (secret === null) throw withoutIt()
    return secret
  }

  /** Returns whether Vault authenticates `associated_data`: an old version silently ignores it. */
  async function isBinding(wrapped: Buffer, aad: Buffer): Promise<boolean> {
    try {
      const dek = await decrypt(wrapped, Buffer.concat([aad, Buffer.from('x')]))
      dek.fill(0)
      return false
    } catch (error) {
      if (!(error instanceof NotItsOwn)) throw error
      return true
    }
  }

  async function assertFit(): Promise<void> {
    const { data } = await ask('keys', () => Buffer.alloc(0))
    const { type, exportable, allow_plaintext_backup: mayBackUp, derived } = (data ?? {}) as Record<string, unknown>
    if (exportable !== false || mayBackUp !== false)
      throw new KekUnavailable('The key in Vault can be exported: it must be neither exportable nor allow plaintext backups.') // prettier-ignore
    if (type !== 'aes256-gcm96' || derived !== false)
      throw new KekUnavailable('The key in Vault is not of type aes256-gcm96, or is derived.')
  }

  async function ask(verb: 'keys' | 'encrypt' | 'decrypt', body: () => Buffer) {
    const service = serviceOf(setting)
    const answer = await askService(
      service,
      () => ({
        method: verb === 'keys' ? 'GET' : 'POST',
        path: `/v1/${[...mount.split('/'), verb, key].map(encodeURIComponent).join('/')}`,
        headers: headersOf(setting),
        body: body(),
      }),
      { patience },
    )
    const refusal = answer.status === 200 ? null : refusalOf(answer, setting)
    if (refusal !== null) throw refusal
    const { json, secret } = readWithSecret(answer.body, 'plaintext')
    if (json === null || typeof json !== 'object') {
      secret?.fill(0)
      throw withoutIt()
    }
    return { data: (json as { data?: unknown }).data, secret }
  }
}

const CIPHERTEXT = /^vault:v[1-9]\d{0,8}:[A-Za-z0-9+/]{20,1000}={0,2}$/

const withoutIt = (): KekUnavailable => new KekUnavailable('The response of Vault is incomplete.')

function serviceOf({ uri: { origin, socketPath }, caFile, name }: VaultSetting): Service {
  return { name: 'Vault', origin, socketPath, ca: readCa(caFile, name) }
}

function headersOf({ uri: { origin, namespace }, tokenFile, name }: VaultSetting): Record<string, string> {
  return {
    host: origin.host,
    'content-type': 'application/json',
    // A carefully configured agent rejects requests without this header, because browsers cannot send it.
    'x-vault-request': 'true',
    ...(namespace === null ? {} : { 'x-vault-namespace': namespace }),
    ...(tokenFile === undefined ? {} : { 'x-vault-token': readToken(tokenFile, `${name}_TOKEN_FILE`) }),
  }
}

function refusalOf({ status, body }: ServiceAnswer, { tokenFile, name }: VaultSetting): Error {
  const said = saidBy(body)
  const token = tokenFile === undefined ? 'the token of the agent' : `the token in ${name}_TOKEN_FILE`
  if (status === 403 || status === 401)
    return new KekUnavailable(`Vault denies access (${status}): ${token} has expired, or its policy does not allow this key.`) // prettier-ignore
  if (status === 404 || /encryption key not found/.test(said))
    return new KekUnavailable('Vault does not have the key in the setting.')
  if (/disallowed by policy/.test(said))
    return new KekUnavailable('Vault cannot decrypt the data key: its version is below min_decryption_version of the key.') // prettier-ignore
  if (status === 400 && /message authentication failed|invalid ciphertext|invalid key version|decrypt/i.test(said)) return new NotItsOwn() // prettier-ignore
  return new KekUnavailable(`Vault responded with status ${status}.`)
}

/** Returns Vault's own error messages; '' for an answer in another form, which a proxy in between may have sent. */
function saidBy(body: Buffer): string {
  try {
    const { errors } = JSON.parse(body.toString('utf8')) as { errors?: unknown }
    return Array.isArray(errors) && errors.every((one) => typeof one === 'string') ? errors.join('\n') : ''
  } catch {
    return ''
  }
}
