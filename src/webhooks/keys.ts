import { sql } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { slot } from '../state.ts'
import type { Db } from '../store/db.ts'
import type { SealKeys } from '../store/seal.ts'
import { decryptSecret, secretKeysOf, type SecretKeys } from '../store/secret-keys.ts'

/** Purpose of the derived keys, by which they differ from all others. */
const PURPOSE = 'webhook secrets'

const cached = slot('keys of webhook secrets', (_app: App): { keys: SecretKeys | null } => ({ keys: null }))

/**
 * Returns the keys that encrypt secrets in the database. They are derived from AUTH_KEYS_FILE; a separate API gets them
 * from the authorization server, and holds them in memory only.
 * @param wanted  id of a key that must be among them, if anyone has it: it may be newer than this process
 * @throws auth_unavailable
 */
export async function readWebhookKeys(app: App, wanted?: string): Promise<SecretKeys> {
  if (app.auth === null) return webhookKeysOf(app.sealKeys)
  const state = cached.of(app)
  if (state.keys === null || (wanted !== undefined && !state.keys.has(wanted)))
    state.keys = await app.auth.webhookKeys()
  return state.keys
}

/** Derives the keys of a program with the private keys. @throws auth_unavailable  it has none */
export function webhookKeysOf(sealKeys: SealKeys): SecretKeys {
  const keys = secretKeysOf(sealKeys, PURPOSE)
  if (keys === null)
    throw new AppError(
      'auth_unavailable',
      'This program has no key for the secrets of webhooks. Nothing was done. Check AUTH_KEYS_FILE.',
    )
  return keys
}

/**
 * Lists webhooks with a secret that these keys cannot decrypt: the present one, or a former one that still signs.
 * @returns ids
 */
export async function secretsNotOpenedBy(db: Db, keys: SecretKeys): Promise<string[]> {
  const { rows } = await sql<{ id: string; secret: string; former: string | null }>`
    select id, secret, case when old_secret_ends_at > now() then old_secret end as former from webhooks order by id`.execute(
    db,
  )
  return rows.flatMap(({ id, secret, former }) =>
    [secret, former].some((text) => text !== null && decryptSecret(keys, text, id) === null) ? [id] : [],
  )
}
