import { execFileSync, spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../../test/kit/until.ts'
import { freePort } from '../../test/kit/ports.ts'
import { missing } from './missing.ts'

const PROGRAM = '/usr/bin/glewlwyd'
const TABLES = '/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3'
const PAGES = '/usr/share/glewlwyd/webapp'
const MODULES = '/usr/lib/glewlwyd'
/** `nobody` of Debian: the server wants no rights, and a test that root starts gives it none. */
const NOBODY = 65_534

/** Debian's package, with what makes a database of it. */
export const skip = missing('glewlwyd', PROGRAM, TABLES, PAGES, '/usr/bin/sqlite3')

export type Person = { username: string; password: string; name: string; email: string }
/** `how`: the ways to prove the secret that glewlwyd lets this client use */
export type Client = {
  id: string
  secret: string
  redirectUri: string
  how: 'client_secret_basic' | 'client_secret_post'
}

export type Glewlwyd = {
  /** as it names itself in its description and its id tokens */
  issuer: string
  origin: string
  /** ends the process; its database stays */
  stop(): Promise<void>
  /** starts it again on what it has kept */
  start(): Promise<void>
  /** ends it and removes all that it wrote */
  remove(): Promise<void>
}

/**
 * Glewlwyd of Debian with a database of its own in a temporary folder, set up through its admin interface as its manual
 * says: one instance of the OpenID Connect plugin that signs with ES256, people, and clients.
 */
export async function glewlwyd(given: { people: Person[]; clients: Client[] }): Promise<Glewlwyd> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-glewlwyd-'))
  const port = await freePort()
  const origin = `http://localhost:${port}`
  const database = join(folder, 'glewlwyd.db')
  execFileSync('/usr/bin/sqlite3', [database], { input: readFileSync(TABLES) })
  preparePages(join(folder, 'webapp'))
  const config = join(folder, 'glewlwyd.conf')
  writeFileSync(config, settings({ port, origin, database, pages: join(folder, 'webapp') }))
  const isRoot = process.getuid!() === 0
  // SQLite writes its journal beside the database.
  if (isRoot) for (const file of [folder, database]) chownSync(file, NOBODY, NOBODY)
  chmodSync(folder, 0o700)

  let stop = async (): Promise<void> => {}
  async function start(): Promise<void> {
    const rights = isRoot ? { uid: NOBODY, gid: NOBODY } : {}
    const child = spawn(PROGRAM, ['-c', config], { ...rights, env: {}, stdio: ['ignore', 'pipe', 'pipe'] })
    const ended = once(child, 'exit')
    let printed = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (printed += chunk.toString()))
    stop = async () => {
      child.kill('SIGKILL')
      await ended
    }
    await until('glewlwyd answers', async () => {
      if (child.exitCode !== null) throw new Error(printed)
      return fetch(`${origin}/config`).then(({ ok }) => ok, () => false) // prettier-ignore
    }) // prettier-ignore
  }

  const remove = async (): Promise<void> => {
    await stop()
    await rm(folder, { recursive: true, force: true })
  }
  const issuer = `${origin}/api/oidc`
  try {
    await start()
    await setUp({ origin, issuer }, given)
  } catch (error) {
    await remove()
    throw error
  }
  return { issuer, origin, start, stop: () => stop(), remove }
}

/** Debian's own `glewlwyd.conf` says the same, but for the places, for this machine alone and for the pages. */
const settings = (at: { port: number; origin: string; database: string; pages: string }): string => `
port = ${at.port}
bind_address = "127.0.0.1"
external_url = "${at.origin}/"
login_url = "login.html"
api_prefix = "api"
static_files_path = "${at.pages}/"
log_mode = "console"
log_level = "WARNING"
cookie_secure = 0
session_expiration = 2419200
session_key = "GLEWLWYD2_SESSION_ID"
admin_scope = "g_admin"
profile_scope = "g_profile"
user_module_path = "${MODULES}/user"
client_module_path = "${MODULES}/client"
user_auth_scheme_module_path = "${MODULES}/scheme"
plugin_module_path = "${MODULES}/plugin"
hash_algorithm = "SHA512"
database = { type = "sqlite3"; path = "${at.database}"; };
static_files_mime_types = (
  { extension = ".html"; mime_type = "text/html"; },
  { extension = ".css"; mime_type = "text/css"; },
  { extension = ".js"; mime_type = "application/javascript"; },
  { extension = ".json"; mime_type = "application/json"; }
)
`

/** The pages as packaged. Their config.json leads to a folder in Debian 12, where the file of that name in it is meant. */
function preparePages(folder: string): void {
  execFileSync('cp', ['-rL', PAGES, folder])
  const file = join(folder, 'config.json')
  if (statSync(file).isDirectory()) {
    renameSync(file, `${file}.folder`)
    renameSync(join(`${file}.folder`, 'config.json'), file)
  }
}

async function setUp(
  { origin, issuer }: { origin: string; issuer: string },
  { people, clients }: { people: Person[]; clients: Client[] },
): Promise<void> {
  let cookie = ''
  const call = async (method: 'POST' | 'PUT', path: string, body: object): Promise<void> => {
    const answer = await fetch(`${origin}/api/${path}`, {
      method,
      headers: { 'content-type': 'application/json', cookie },
      body: JSON.stringify(body),
    })
    if (!answer.ok) throw new Error(`${method} ${path} answers ${answer.status}: ${await answer.text()}`)
    const [set] = answer.headers.getSetCookie()
    if (set !== undefined) cookie = set.split(';', 1)[0]!
  }
  await call('POST', 'auth/', { username: 'admin', password: 'password' })
  const rules = { password_required: true, password_max_age: 0, scheme: {} }
  await call('PUT', 'scope/openid', { display_name: 'OpenID', ...rules })
  await call('POST', 'scope/', { name: 'profile', display_name: 'Profile', ...rules })
  await call('POST', 'scope/', { name: 'email', display_name: 'E-mail', ...rules })
  for (const person of people)
    await call('POST', 'user/', { ...person, enabled: true, scope: ['g_profile', 'openid', 'profile', 'email'] })
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  await call('POST', 'mod/plugin/', {
    module: 'oidc',
    name: 'oidc',
    display_name: 'OpenID Connect',
    parameters: {
      iss: issuer,
      'jwt-type': 'ecdsa',
      'jwt-key-size': '256',
      key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
      cert: publicKey.export({ type: 'spki', format: 'pem' }),
      'jwks-show': true,
      'access-token-duration': 3600,
      'refresh-token-duration': 1209600,
      'code-duration': 600,
      'refresh-token-rolling': false,
      'allow-non-oidc': false,
      'auth-type-code-enabled': true,
      'auth-type-token-enabled': false,
      'auth-type-id-token-enabled': true,
      'auth-type-none-enabled': false,
      'auth-type-password-enabled': false,
      'auth-type-client-enabled': false,
      'auth-type-device-enabled': false,
      'auth-type-refresh-enabled': true,
      'subject-type': 'public',
      'allowed-scope': ['openid', 'profile', 'email'],
      'pkce-allowed': true,
      'pkce-required': true,
      'pkce-method-plain-allowed': false,
      'name-claim': 'on-demand',
      'name-claim-scope': ['profile'],
      'email-claim': 'on-demand',
      'email-claim-scope': ['email'],
      'scope-claim': 'no',
    },
  })
  for (const { id, secret, redirectUri, how } of clients)
    await call('POST', 'client/', {
      client_id: id,
      client_secret: secret,
      redirect_uri: [redirectUri],
      token_endpoint_auth_method: [how],
      name: 'Chatelaine',
      enabled: true,
      confidential: true,
      authorization_type: ['code'],
      scope: [],
    })
}
