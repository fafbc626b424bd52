import type { Diagnosis } from '../../findings.ts'
import { readPrivateKeys } from '../../oauth/keys.ts'
import { sealKeysOf } from '../../oauth/seal-keys.ts'
import { keyFilesOf } from '../../open-auth.ts'
import { sqlState } from '../../store/away.ts'
import type { RootDb } from '../../store/db.ts'
import { secretsNotOpenedBy, webhookKeysOf } from '../../webhooks/keys.ts'
import { listWebhooks } from '../../webhooks/manage.ts'
import type { Examined } from './patient.ts'
import { finding, ownWords } from './faults.ts'

/** SQLSTATE of a statement that the role of the connection may not run */
const INSUFFICIENT_PRIVILEGE = '42501'
/** Ids that one finding names. */
const MAX_NAMED = 5

/** Checks the state of webhooks, their secrets, and the hosts that they may reach on the private network. */
export async function checkWebhooks(examined: Examined): Promise<Diagnosis[]> {
  const { config, db, part } = examined
  const hosts = config.NODE_ENV === 'production' && part === 'server' ? (config.WEBHOOK_PRIVATE_HOSTS ?? '').trim() : ''
  const privateHosts = hosts === '' ? [] : [finding('webhook_private_hosts', `webhooks may reach private addresses at ${hosts}`)] // prettier-ignore
  if (db === null) return privateHosts
  try {
    return [...privateHosts, ...(await checkState(db)), ...(await checkSecrets(db, examined))]
  } catch (error) {
    const isForbidden = sqlState(error) === INSUFFICIENT_PRIVILEGE
    // In a split deployment, the check of roles reports this.
    if (isForbidden && config.AUTH_SOCKET !== undefined) return privateHosts
    const code = isForbidden ? 'role_too_narrow' : 'database_unavailable'
    return [...privateHosts, finding(code, `the webhooks in the database cannot be read: ${ownWords(error)}`)]
  }
}

async function checkState(db: RootDb): Promise<Diagnosis[]> {
  const webhooks = await listWebhooks(db, null)
  const inState = (state: 'disabled' | 'failing') => webhooks.filter((one) => one.state === state).map(({ id }) => id)
  const [disabled, failing] = [inState('disabled'), inState('failing')]
  return [
    ...(disabled.length === 0 ? [] : [finding('webhook_disabled', `these webhooks are disabled: ${named(disabled)}`)]),
    ...(failing.length === 0 ? [] : [finding('webhook_failing', `these webhooks fail: ${named(failing)}`)]),
  ]
}

/** A separate API has no key file: it gets the keys from the authorization server, whose own doctor checks them. */
async function checkSecrets(db: RootDb, { config, part }: Examined): Promise<Diagnosis[]> {
  if (config.AUTH_SOCKET !== undefined && part !== 'auth') return []
  const keys = await readPrivateKeys(keyFilesOf(config).keysFile).catch(() => null)
  // The check of files reports this.
  if (keys === null) return []
  const closed = await secretsNotOpenedBy(db, webhookKeysOf(sealKeysOf(keys.seals)))
  return closed.length === 0 ? [] : [finding('webhook_secret_unreadable', `the keys in AUTH_KEYS_FILE do not decrypt the secrets of ${named(closed)}`)] // prettier-ignore
}

const named = (ids: string[]): string =>
  `${ids.slice(0, MAX_NAMED).join(', ')}${ids.length > MAX_NAMED ? ` and ${ids.length - MAX_NAMED} more` : ''}`
