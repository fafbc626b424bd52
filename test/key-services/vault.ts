import type { Certificate } from '../certificate.ts'
import { sameBytes, standIn, strictBase64, versionedKey, type Received, type Reply, type StandIn } from './server.ts'

/** Stands in for Vault's transit engine, with its paths, headers, base64 and sentences. Vault itself was never asked. */
export async function vaultStandIn(
  t: { after: (end: () => void | Promise<void>) => void },
  {
    socketPath,
    tls,
    namespace,
    mount = 'transit',
    agent = false,
    ignoresAad = false,
    config = {},
  }: {
    socketPath?: string
    tls?: Certificate
    namespace?: string
    mount?: string
    /** one that shows a token of its own */
    agent?: boolean
    /** as versions before associated_data */
    ignoresAad?: boolean
    /** of the key, over what a good one has */
    config?: Record<string, unknown>
  } = {},
) {
  const tokens = new Set(['hvs.first'])
  const key = versionedKey()
  let leastVersion = 1
  const options = { ...(socketPath === undefined ? {} : { socketPath }), ...(tls === undefined ? {} : { tls }) }
  const server: StandIn = await standIn(t, { ...options, answer, refuse })
  return {
    ...server,
    key,
    tokens,
    uri: `${socketPath === undefined ? `vault:${server.origin}` : `vault+unix:${socketPath}:`}/v1/${mount}/keys/kek${namespace === undefined ? '' : `?namespace=${namespace}`}`,
    /** `min_decryption_version` */
    forgetBefore: (version: number) => void (leastVersion = version),
  }

  function answer(asked: Received, fault: (what: string) => void, how: string | null): Reply {
    const [, verb] = new RegExp(`^/v1/${mount}/(keys|encrypt|decrypt)/kek$`).exec(asked.path) ?? []
    if (verb === undefined) return errors(404)
    if (asked.method !== (verb === 'keys' ? 'GET' : 'POST')) fault(`method ${asked.method}`)
    const token = asked.headers['x-vault-token']
    const { plaintext, ciphertext, associated_data: aad64 } = asked.body.length === 0 ? {} : (JSON.parse(asked.body.toString('utf8')) as Record<string, string>) // prettier-ignore
    const headers = {
      host: socketPath === undefined ? server.origin.replace(/^https?:\/\//, '') : 'localhost',
      'content-type': 'application/json',
      'x-vault-request': 'true',
      ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }),
      ...(agent ? {} : { 'x-vault-token': token ?? '' }),
    }
    const body = { keys: null, encrypt: { plaintext, associated_data: aad64 }, decrypt: { ciphertext, associated_data: aad64 } }[verb] // prettier-ignore
    sameBytes(asked, { headers, body: body! }, fault)
    if (!agent && !tokens.has(token ?? '')) return errors(403, '1 error occurred:\n\t* permission denied\n\n')
    if (verb === 'keys') return data({ name: 'kek', type: 'aes256-gcm96', derived: false, exportable: false, allow_plaintext_backup: false, latest_version: key.newest(), ...config }) // prettier-ignore
    const aad = ignoresAad ? Buffer.alloc(0) : strictBase64(aad64, fault)
    if (verb === 'encrypt') {
      const sealed = key.seal(strictBase64(plaintext, fault), aad).toString('base64')
      return data({ ciphertext: how === 'spoils a checksum' ? 'vault:v0:' : `vault:v${key.newest()}:${sealed}`, key_version: key.newest() }) // prettier-ignore
    }
    const [, version, sealed] = /^vault:v(\d+):(.*)$/.exec(ciphertext!) ?? []
    if (version === undefined) return errors(400, 'invalid ciphertext: no prefix')
    if (Number(version) > key.newest()) return errors(400, 'invalid ciphertext: version is too new')
    if (Number(version) < leastVersion) return errors(400, 'ciphertext or signature version is disallowed by policy (too old)') // prettier-ignore
    const opened = key.open(Number(version), strictBase64(sealed, fault), aad)
    return opened === null ? errors(400, 'cipher: message authentication failed') : data({ plaintext: opened.toString('base64') }) // prettier-ignore
  }

  function refuse(how: string): Reply {
    switch (how) {
      case 'throttles':
        return errors(429, 'request path "transit/encrypt/kek": rate limit quota exceeded')
      case 'denies':
        return errors(403, '1 error occurred:\n\t* permission denied\n\n')
      case 'has no such key':
        return errors(400, 'encryption key not found')
      default:
        // Vault has no keys that are disabled; sealed, it has none at all.
        return errors(503, 'Vault is sealed')
    }
  }
}

const data = (json: Record<string, unknown>): Reply => ({
  status: 200,
  json: { request_id: '0', lease_id: '', renewable: false, lease_duration: 0, data: json, wrap_info: null, warnings: null, auth: null }, // prettier-ignore
})
const errors = (status: number, ...said: string[]): Reply => ({ status, json: { errors: said } })
