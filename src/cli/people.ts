import type { Command } from 'commander'
import { systemClock } from '../clock.ts'
import { listAccountTransactions } from '../operator/account-transactions.ts'
import type { AccountTransaction } from '../operator/account-wire.ts'
import { openState } from '../state.ts'
import { openTelemetry } from '../telemetry.ts'
import type { AddressProver } from '../http/proven-address.ts'
import type { Db } from '../store/db.ts'
import type { Signer } from '../signer-wire/client.ts'
import { countPeople, listPeople, readPerson } from '../users/people.ts'
import type { PeopleCounts, Person } from '../users/wire.ts'
import { withDatabaseOrServer } from './database.ts'
import { publishedSealKeys } from './seal-keys.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { inShell, logTo, type Shell } from './shell.ts'
import { withSignerOrServer } from './signer-or-server.ts'
import { wholeIn } from '../digits.ts'

type PageOptions = JsonOption & { limit: string; cursor?: string }

/** Adds `chatelaine account list`, `show`, `count` and `transactions`: users and what they sent. */
export function people(shell: Shell, command: Command): void {
  const paged = (name: string): Command =>
    command
      .command(name)
      .option('--limit <number>', 'entries per page, 1 to 200', '50')
      .option('--cursor <text>', 'cursor that the previous page printed')
      .option('--json', 'print JSON')
  paged('list')
    .description('list users, newest first, or search for them')
    .option('--search <text>', 'user id or address, or the beginning of a username or e-mail address')
    .action(inShell(shell, list))
  command
    .command('show')
    .description('show a user: address and linked identities')
    .argument('<user>', 'user id')
    .option('--json', 'print JSON')
    .action(inShell(shell, show))
  command
    .command('count')
    .description('count users, in total and by provider')
    .option('--json', 'print JSON')
    .action(inShell(shell, countAll))
  paged('transactions')
    .description('list the transactions of an account, newest first')
    .argument('<user>', 'user id')
    .option('--network <name>', 'name of the network; required if there are several')
    .action(inShell(shell, listSent))
}

async function list(shell: Shell, given: PageOptions & { search?: string }): Promise<void> {
  const limit = readLimit(given)
  const { search, cursor } = given
  const { entries, nextCursor } = await withSignerOrServer(
    shell.env,
    async (signer, db) => {
      const page = await listPeople(await proverOf(shell, signer, db), { search, limit, cursor })
      return { entries: page.people, nextCursor: page.nextCursor }
    },
    (ask) => ask.page<Person>(`/accounts?${query({ search, limit: String(limit), cursor })}`),
  )
  const rows = entries.map(({ userId, address, createdAt, identities, frozenAt }) => [
    userId,
    address ?? 'not attested',
    identities.map(({ username }) => username).join(', '),
    identities.map(({ email }) => email ?? '').filter((email) => email !== '').join(', '), // prettier-ignore
    createdAt,
    lastSignIn(identities),
    frozenAt === null ? '' : 'frozen',
  ])
  const titles = ['user', 'address', 'names', 'e-mail', 'created', 'signed in', '']
  print(shell, given, entries, rows.length === 0 ? 'No user was found.' : table(titles, rows))
  tellNext(shell, nextCursor)
}

async function show(shell: Shell, user: string, given: JsonOption): Promise<void> {
  const person = await withSignerOrServer(
    shell.env,
    async (signer, db) => readPerson(await proverOf(shell, signer, db), user),
    (ask) => ask<Person>('GET', `/accounts/${encodeURIComponent(user)}`),
  )
  const ways = person.identities.map(
    ({ userId, username, email, signedInAt }) =>
      `${userId}: ${username}${email === null ? '' : `, ${email}`}, ${signedInAt === null ? 'has not signed in' : `signed in ${signedInAt}`}`,
  )
  const text = facts([
    ['user', person.userId],
    ['address', person.address ?? 'not attested'],
    ['created', person.createdAt],
    ['frozen', person.frozenAt ?? 'no'],
    ['exported', person.exportedAt ?? 'no'],
    ['identities', ways],
  ])
  print(shell, given, person, text)
}

async function countAll(shell: Shell, given: JsonOption): Promise<void> {
  const counts = await withDatabaseOrServer(
    shell.env,
    (db) => countPeople(db),
    (ask) => ask<PeopleCounts>('GET', '/accounts/count'),
  )
  const text = facts([
    ['accounts', String(counts.accounts)],
    ['signed in', String(counts.signedIn)],
    ['frozen', String(counts.frozen)],
    ['by provider', counts.providers.map(({ provider, identities, signedIn }) => `${provider}: ${identities}, of which ${signedIn} signed in`)], // prettier-ignore
  ])
  print(shell, given, counts, text)
}

async function listSent(shell: Shell, user: string, given: PageOptions & { network?: string }): Promise<void> {
  const limit = readLimit(given)
  const { network, cursor } = given
  const { entries, nextCursor } = await withDatabaseOrServer(
    shell.env,
    async (db) => {
      const page = await listAccountTransactions(db, { userId: user, network, limit, cursor })
      return { entries: page.transactions, nextCursor: page.nextCursor }
    },
    (ask) =>
      ask.page<AccountTransaction>(
        `/accounts/${encodeURIComponent(user)}/transactions?${query({ network, limit: String(limit), cursor })}`,
      ),
  )
  const rows = entries.map(({ sentAt, state, clientId, to, value, hash }) => [sentAt, state, clientId, to, value, hash])
  const titles = ['sent', 'state', 'application', 'to', 'wei', 'hash']
  print(shell, given, entries, rows.length === 0 ? 'No transactions yet.' : table(titles, rows))
  tellNext(shell, nextCursor)
}

const proverOf = async (shell: Shell, signer: Signer, db: Db): Promise<AddressProver> => ({
  clock: systemClock,
  db,
  signer,
  state: openState(),
  sealKeys: await publishedSealKeys(shell.env),
  telemetry: openTelemetry('cli', 'error', logTo(shell)),
})

function readLimit({ limit }: PageOptions): number {
  const count = wholeIn(limit) ?? 0
  if (count >= 1 && count <= 200) return count
  throw new Error('--limit must be 1 to 200.')
}

const query = (given: Record<string, string | undefined>): string =>
  new URLSearchParams(
    Object.entries(given).filter((pair): pair is [string, string] => pair[1] !== undefined),
  ).toString()

const lastSignIn = (identities: Person['identities']): string =>
  identities
    .map(({ signedInAt }) => signedInAt ?? '')
    .toSorted()
    .at(-1) || 'never'

function tellNext(shell: Shell, cursor: string | null): void {
  if (cursor !== null) shell.stderr.write(`For the next page: --cursor ${cursor}\n`)
}
