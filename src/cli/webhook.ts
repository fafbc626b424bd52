import { Command } from 'commander'
import { readSome } from '../config.ts'
import { webhookActs } from '../operator/webhook-acts.ts'
import { systemClock } from '../clock.ts'
import type { RootDb } from '../store/db.ts'
import { webhookKeysOf } from '../webhooks/keys.ts'
import { listDeliveries, listWebhooks, readWebhook } from '../webhooks/manage.ts'
import { privateHostsOf } from '../webhooks/post.ts'
import type { WebhookWithSecret, WireDelivery, WireWebhook } from '../webhooks/wire.ts'
import { withDatabaseOrServer } from './database.ts'
import { collect } from './options.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { commandActor } from './registry.ts'
import { readSealKeys } from './seal-keys.ts'
import { ExitCode, inShell, type Shell } from './shell.ts'

/** Builds `chatelaine webhook …`: events that are sent to the servers of applications. */
export function webhook(shell: Shell): Command {
  const command = new Command('webhook').description('manage webhooks of applications: docs/build/webhooks.md')
  const json = ['--json', 'print JSON'] as const
  const ofOne = (name: string, description: string) =>
    command
      .command(name)
      .description(description)
      .argument('<id>', 'whk_…')
      .option(...json)
  command
    .command('add')
    .description('send the events of an application to a URL, and print the secret of the signatures once')
    .argument('<client-id>', 'application, which needs the permission events:read')
    .argument('<url>', 'https URL')
    .option('--type <type>', 'type or group, such as transaction.*; repeat for several; default: all', collect)
    .option(...json)
    .action(inShell(shell, add))
  command
    .command('list')
    .description('list webhooks')
    .option('--client-id <id>', 'only of this application')
    .option(...json)
    .action(inShell(shell, list))
  ofOne('show', 'show a webhook, its failed attempts and its tests').action(inShell(shell, show))
  ofOne('remove', 'delete a webhook, with its log and its waiting events').action(inShell(shell, remove))
  ofOne('test', 'send a test event and print the response; the API server must run').action(inShell(shell, test))
  ofOne('replay', 'send the stored events of a time range again')
    .requiredOption('--from <time>', 'ISO 8601, such as 2026-01-31T12:00:00Z')
    .option('--until <time>', 'ISO 8601; default: now')
    .action(inShell(shell, replay))
  ofOne('redeliver', 'send one event again, such as a dead one')
    .requiredOption('--event <id>', 'evt_…')
    .action(inShell(shell, redeliver))
  ofOne('rotate-secret', 'issue a new secret; for 24 hours the former one signs as well').action(inShell(shell, rotate))
  ofOne('enable', 'continue a disabled or failing webhook where it stood').action(inShell(shell, enable))
  return command
}

const actsIn = (shell: Shell, db: RootDb) =>
  webhookActs(
    {
      db,
      readKeys: async () => webhookKeysOf(await readSealKeys(shell.env)),
      privateHosts: privateHostsOf({ config: readSome(shell.env, ['WEBHOOK_PRIVATE_HOSTS', 'NODE_ENV']) }),
    },
    commandActor(shell.env),
  )
const pathOf = (id: string, rest = '') => `/webhooks/${encodeURIComponent(id)}${rest}`

async function add(shell: Shell, clientId: string, url: string, given: JsonOption & { type?: string[] }) {
  const draft = { clientId, url, ...(given.type === undefined ? {} : { types: given.type }) }
  const made = await withDatabaseOrServer(
    shell.env,
    (db) => actsIn(shell, db).create(draft),
    (ask) => ask<WebhookWithSecret>('POST', '/webhooks', draft),
  )
  print(shell, given, made, withSecret(made))
}

async function list(shell: Shell, given: JsonOption & { clientId?: string }) {
  const { clientId } = given
  const found = await withDatabaseOrServer(
    shell.env,
    (db) => listWebhooks(db, clientId ?? null),
    (ask) => ask<WireWebhook[]>('GET', clientId === undefined ? '/webhooks' : `/webhooks?clientId=${encodeURIComponent(clientId)}`), // prettier-ignore
  )
  const rows = found.map((one) => [one.id, one.clientId, one.state, String(one.delivered), String(one.waiting), String(one.dead), one.url]) // prettier-ignore
  print(shell, given, found, rows.length === 0 ? 'There are no webhooks.' : table(['id', 'application', 'state', 'delivered', 'waiting', 'dead', 'url'], rows)) // prettier-ignore
}

async function show(shell: Shell, id: string, given: JsonOption) {
  const found = await withDatabaseOrServer(
    shell.env,
    async (db) => ({
      webhook: await readWebhook(db, { id, clientId: null }),
      deliveries: (await listDeliveries(db, { id, clientId: null }, { limit: 20, cursor: undefined })).deliveries,
    }),
    async (ask) => ({
      webhook: await ask<WireWebhook>('GET', pathOf(id)),
      deliveries: await ask<WireDelivery[]>('GET', pathOf(id, '/deliveries?limit=20')),
    }),
  )
  const { webhook: one, deliveries } = found
  const rows = deliveries.map(({ createdAt, kind, type, eventId, attempt, status, error }) => [createdAt, kind, type, eventId, String(attempt), error ?? (status === null ? 'not sent yet' : String(status))]) // prettier-ignore
  const log = rows.length === 0 ? 'No failed attempts or tests in the last seven days.' : table(['at', 'kind', 'type', 'event', 'attempt', 'result'], rows) // prettier-ignore
  print(shell, given, found, `${describe(one)}\n\n${log}`)
}

async function remove(shell: Shell, id: string, given: JsonOption) {
  const done = await withDatabaseOrServer(
    shell.env,
    (db) => actsIn(shell, db).remove(id),
    (ask) => ask<{ id: string }>('DELETE', pathOf(id)),
  )
  print(shell, given, done, facts([['removed', done.id]]))
}

async function replay(
  shell: Shell,
  id: string,
  { from, until, ...given }: JsonOption & { from: string; until?: string },
) {
  // prettier-ignore
  const range = { from, ...(until === undefined ? {} : { until }) }
  const one = await withDatabaseOrServer(
    shell.env,
    (db) => actsIn(shell, db).replay(id, range),
    (ask) => ask<WireWebhook>('POST', pathOf(id, '/replay'), range),
  )
  print(shell, given, one, `The replay has started.\n\n${describe(one)}`)
}

async function rotate(shell: Shell, id: string, given: JsonOption) {
  const made = await withDatabaseOrServer(
    shell.env,
    (db) => actsIn(shell, db).rotateSecret(id),
    (ask) => ask<WebhookWithSecret>('POST', pathOf(id, '/rotate-secret')),
  )
  print(shell, given, made, withSecret(made))
}

async function enable(shell: Shell, id: string, given: JsonOption) {
  const one = await withDatabaseOrServer(
    shell.env,
    (db) => actsIn(shell, db).enable(id),
    (ask) => ask<WireWebhook>('POST', pathOf(id, '/enable')),
  )
  print(shell, given, one, describe(one))
}

async function test(shell: Shell, id: string, given: JsonOption) {
  const asked = await withDatabaseOrServer(
    shell.env,
    (db) => actsIn(shell, db).test(id),
    (ask) => ask<WireDelivery>('POST', pathOf(id, '/test')),
  )
  await printResult(shell, id, asked, given)
}

async function redeliver(shell: Shell, id: string, { event, ...given }: JsonOption & { event: string }) {
  const asked = await withDatabaseOrServer(
    shell.env,
    (db) => actsIn(shell, db).redeliver(id, event),
    (ask) => ask<WireDelivery>('POST', pathOf(id, '/redeliver'), { eventId: event }),
  )
  await printResult(shell, id, asked, given)
}

/** How long a command waits until a server has sent an event, and between two looks. */
const [PATIENCE_MS, LOOK_MS] = [20_000, 500]

async function printResult(shell: Shell, id: string, asked: WireDelivery, given: JsonOption): Promise<void> {
  const end = systemClock.ticks() + PATIENCE_MS
  let now = asked
  while (now.doneAt === null && systemClock.ticks() < end) {
    await systemClock.sleep(LOOK_MS)
    const deliveries = await withDatabaseOrServer(
      shell.env,
      async (db) => (await listDeliveries(db, { id, clientId: null }, { limit: 200, cursor: undefined })).deliveries,
      (ask) => ask<WireDelivery[]>('GET', pathOf(id, '/deliveries?limit=200')),
    )
    now = deliveries.find((one) => one.id === asked.id) ?? now
  }
  const result = now.doneAt === null ? 'not sent yet: does the API server run?' : (now.error ?? `status ${now.status}`)
  const shown = facts([
    ['Event', now.eventId],
    ['Result', result],
    ['Response', now.answer === null || now.answer === '' ? null : now.answer],
  ])
  print(shell, given, now, shown)
  if (now.doneAt === null || now.error !== null) throw new ExitCode(1)
}

const withSecret = ({ webhook: one, secret }: WebhookWithSecret): string =>
  `${describe(one)}\n\nSecret, shown only once: ${secret}`

const describe = (one: WireWebhook): string =>
  facts([
    ['Webhook', one.id],
    ['Application', one.clientId],
    ['URL', one.url],
    ['Types', one.types.join(', ')],
    ['State', one.disabledReason === null ? one.state : `${one.state}: ${one.disabledReason}`],
    ['Delivered', String(one.delivered)],
    ['Waiting', String(one.waiting)],
    ['Dead', String(one.dead)],
    ['Last success', one.lastSuccessAt],
    ['Last failure', one.lastFailureAt === null ? null : `${one.lastFailureAt}: ${one.lastFailure ?? ''}`],
    ['Former secret until', one.oldSecretEndsAt],
    ['Replay', one.replay === null ? null : `${one.replay.delivered} delivered`],
  ])
