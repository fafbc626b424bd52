import { AppError } from '../errors.ts'
import type { Db, RootDb } from '../store/db.ts'
import type { SecretKeys } from '../store/secret-keys.ts'
import {
  createWebhook,
  deleteWebhook,
  enableWebhook,
  readWebhook,
  redeliverEvent,
  replayWebhook,
  requestTest,
  rotateWebhookSecret,
  updateWebhook,
  type UrlRules,
} from '../webhooks/manage.ts'
import { withoutQuery } from '../webhooks/shown-url.ts'
import { recorded, type Actor } from './actions.ts'

/**
 * Opens the changes that an operator can make to webhooks, by the API or by a command. Each is recorded in
 * `operator_actions`, without secrets.
 */
export function webhookActs(
  { db: root, readKeys, privateHosts }: { db: RootDb; readKeys: () => Promise<SecretKeys> } & UrlRules,
  by: Actor,
) {
  const onWebhook = <T>(action: string, id: string, work: (db: RootDb) => Promise<T>): Promise<T> =>
    recorded(root, by, { action, target: id, look: facts }, work)
  const any = (id: string) => ({ id, clientId: null })
  return {
    create: async (draft: { clientId: string; url: string; types?: string[] | undefined }) => {
      const keys = await readKeys()
      return recorded<Awaited<ReturnType<typeof createWebhook>>>(
        root,
        by,
        { action: 'create-webhook', target: (made) => made.webhook.id, look: facts },
        (db) => createWebhook(db, { keys, privateHosts }, draft),
      )
    },
    update: (id: string, changes: Parameters<typeof updateWebhook>[2]) =>
      onWebhook('update-webhook', id, (db) => updateWebhook(db, any(id), changes, { privateHosts })),
    remove: (id: string) => onWebhook('remove-webhook', id, (db) => deleteWebhook(db, any(id))),
    test: (id: string) => onWebhook('test-webhook', id, (db) => requestTest(db, any(id))),
    rotateSecret: async (id: string) => {
      const keys = await readKeys()
      return onWebhook('rotate-webhook-secret', id, (db) => rotateWebhookSecret(db, keys, any(id)))
    },
    enable: (id: string) => onWebhook('enable-webhook', id, (db) => enableWebhook(db, any(id))),
    replay: (id: string, range: Parameters<typeof replayWebhook>[2]) =>
      onWebhook('replay-webhook', id, (db) => replayWebhook(db, any(id), range)),
    redeliver: (id: string, eventId: string) =>
      onWebhook('redeliver-event', id, (db) => redeliverEvent(db, any(id), eventId)),
  }
}

/** Returns what a record says of a webhook; null if there is none. */
const facts = (id: string) => async (db: Db) => {
  try {
    const { clientId, url, types, state, oldSecretEndsAt } = await readWebhook(db, { id, clientId: null })
    // The query often has a token, and each viewer of the console may read the record.
    return { clientId, url: withoutQuery(url), types, state, oldSecretEndsAt }
  } catch (error) {
    if (error instanceof AppError && error.code === 'not_found') return null
    throw error
  }
}
