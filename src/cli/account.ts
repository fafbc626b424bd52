import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Command } from 'commander'
import { checksumAddress } from '../digits.ts'
import type { Hex } from '../ids.ts'
import { userIdOf } from '../ids.ts'
import { linesOf } from '../lines.ts'
import { endInDatabase } from '../oauth/sign-out.ts'
import type { SignedOut } from '../oauth/wire.ts'
import { MAX_OPEN_EXPORTS } from '../signer-wire/wire.ts'
import { recorded } from '../operator/actions.ts'
import { openState } from '../state.ts'
import { openTelemetry } from '../telemetry.ts'
import { listStopped } from '../transactions/recovery/resume.ts'
import type { StoppedLane } from '../transactions/lane-wire.ts'
import { cancelExport, listExports, markExported } from '../users/exported.ts'
import { listFrozen } from '../users/freeze.ts'
import type { ExportState, FreezeState, Pregenerated } from '../users/wire.ts'
import { importAccounts } from '../users/import.ts'
import { pregenerate } from '../users/pregenerate.ts'
import { exportWrappedKeys } from '../users/wrapped-keys.ts'
import { publishedSealKeys } from './seal-keys.ts'
import { readInstallationSettings, withDatabase, withDatabaseOrServer } from './database.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { actsOf, commandActor } from './registry.ts'
import { ExitCode, inShell, logTo, type Shell } from './shell.ts'
import { people } from './people.ts'
import { withSignerOrServer } from './signer-or-server.ts'
import { systemClock } from '../clock.ts'

type CreateAccountOptions = JsonOption & { provider: string; userId: string }

/**
 * Builds `chatelaine account …`: users (`people.ts`), accounts created in advance, freezes, stopped accounts,
 * sign-outs, and exported and imported keys.
 */
export function account(shell: Shell): Command {
  const command = new Command('account').description('manage user accounts')
  command
    .command('create')
    .description('create the account that a user gets at the first sign-in, or show it if it exists')
    .requiredOption('--provider <name>', 'upper-case name of the identity provider')
    .requiredOption('--user-id <id>', 'the provider’s immutable id of the user; never a name or an e-mail address')
    .option('--json', 'print JSON')
    .action(inShell(shell, create))
  people(shell, command)
  command
    .command('freeze')
    .description('freeze an account and sign its user out; open transactions are still processed')
    .argument('<user>', 'user id, as in tokens: PROVIDER-id')
    .option('--json', 'print JSON')
    .action((user: string, given: JsonOption) => change(shell, user, given, 'freeze'))
  command
    .command('unfreeze')
    .description('unfreeze an account')
    .argument('<user>', 'user id')
    .option('--json', 'print JSON')
    .action((user: string, given: JsonOption) => change(shell, user, given, 'unfreeze'))
  command
    .command('sign-out')
    .description('sign a user out everywhere: every browser, and every application with all its tokens')
    .argument('<user>', 'user id')
    .option('--json', 'print JSON')
    .action(inShell(shell, endSignIns))
  command
    .command('frozen')
    .description('list frozen accounts, with the time of each freeze')
    .option('--json', 'print JSON')
    .action(inShell(shell, listFrozenOnes))
  command
    .command('stopped')
    .description('list accounts that a foreign transaction stopped')
    .option('--json', 'print JSON')
    .action(inShell(shell, listStoppedOnes))
  command
    .command('resume')
    .description('resume a stopped account, with the first unused nonce')
    .argument('<user>', 'user id')
    .option('--json', 'print JSON')
    .action(inShell(shell, resume))
  command
    .command('exports')
    .description('list requests for keys, and when each key can be downloaded')
    .option('--json', 'print JSON')
    .action(inShell(shell, listRequested))
  command
    .command('cancel-export')
    .description('cancel the request for a key; the user may request it again')
    .argument('<user>', 'user id')
    .option('--json', 'print JSON')
    .action(inShell(shell, cancelRequested))
  command
    .command('import')
    .description('create the accounts of keys that `chatelaine signer import-keys` imported')
    .argument('<manifest>', 'manifest that `chatelaine signer import-keys` wrote; - reads standard input')
    .action(inShell(shell, importManifest))
  command
    .command('export-keys')
    .description(
      'export the wrapped keys of all accounts, for `chatelaine signer restore-keys`; useless without the master key (KEK)',
    )
    .argument('<file>', 'file to create; - for standard output')
    .action(inShell(shell, exportKeys))
  return command
}

async function listRequested(shell: Shell, given: JsonOption): Promise<void> {
  const { exports: requested, total } = await withSignerOrServer<{ exports: ExportState[]; total: number | null }>(
    shell.env,
    (signer) => listExports({ signer }),
    async (ask) => ({ exports: await ask<ExportState[]>('GET', '/accounts/exports'), total: null }),
  )
  const rows = requested.map(({ userId, state, askedAt, readyAt }) => [userId, state, askedAt ?? '', readyAt ?? ''])
  print(shell, given, requested, rows.length === 0 ? 'No user has requested a key.' : table(['user', 'state', 'requested', 'from'], rows)) // prettier-ignore
  shell.stderr.write(missingOf(requested.length, total))
}

/** Returns a note if the list may be incomplete. @param total  null: the total is unknown */
export function missingOf(listed: number, total: number | null): string {
  if (total === null ? listed < MAX_OPEN_EXPORTS : listed >= total) return ''
  return `The newest ${listed}${total === null ? ' are listed; there may be more' : ` of ${total} are listed`}.\n`
}

async function cancelRequested(shell: Shell, user: string, given: JsonOption): Promise<void> {
  const done = await withSignerOrServer(
    shell.env,
    (signer, db) =>
      recorded(db, commandActor(shell.env), { action: 'cancel-export', target: user }, (db) =>
        cancelExport({ db, signer }, user),
      ),
    (ask) => ask<ExportState>('POST', `/accounts/${encodeURIComponent(user)}/cancel-export`),
  )
  print(shell, given, done, facts([['user', done.userId], ['export', done.state]])) // prettier-ignore
}

/** Maximum number of rejected rows that are printed; their total is always printed. */
const MAX_SHOWN = 100

async function importManifest(shell: Shell, file: string): Promise<void> {
  const { imported, present, refused } = await withSignerOrServer(
    shell.env,
    async (signer, db) => {
      const done = await importAccounts(
        {
          db,
          signer,
          sealKeys: await publishedSealKeys(shell.env),
          telemetry: openTelemetry('cli', 'error', logTo(shell)),
          state: openState(),
          clock: systemClock,
        },
        linesOf(file, shell),
      )
      // Store the signer's records about these keys now, because the servers have passed these records already.
      await markExported({ db, signer }, { through: 0 })
      return done
    },
    () => {
      throw new Error('The server is using the embedded database. Stop the server and run this again.')
    },
  )
  for (const { row, reason } of refused.slice(0, MAX_SHOWN)) shell.stdout.write(`rejected  ${row}: ${reason}\n`)
  shell.stdout.write(`${imported} accounts imported, ${present} already present, ${refused.length} rejected.\n`)
  if (refused.length > 0) throw new ExitCode(1)
}

async function exportKeys({ env, stdout }: Shell, file: string): Promise<void> {
  await withDatabase(readInstallationSettings(env), async (db) => {
    const lines = Readable.from(mapLines(exportWrappedKeys(db)))
    await pipeline(lines, file === '-' ? stdout : createWriteStream(file, { flags: 'wx', mode: 0o600 }))
  })
}

async function* mapLines(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) yield `${line}\n`
}

async function listFrozenOnes(shell: Shell, given: JsonOption): Promise<void> {
  const frozen = await withDatabaseOrServer(
    shell.env,
    (db) => listFrozen(db),
    (ask) => ask('GET', '/accounts/frozen'),
  )
  const text = frozen.length === 0 ? 'No account is frozen.' : table(['user', 'since'], frozen.map(({ userId, frozenAt }) => [userId, frozenAt!])) // prettier-ignore
  print(shell, given, frozen, text)
}

async function listStoppedOnes(shell: Shell, given: JsonOption): Promise<void> {
  const stopped = await withDatabaseOrServer(
    shell.env,
    (db) => listStopped(db),
    (ask) => ask<StoppedLane[]>('GET', '/accounts/stopped'),
  )
  printStopped(shell, given, stopped, 'No account is stopped.')
}

async function resume(shell: Shell, user: string, given: JsonOption): Promise<void> {
  const stopped = await withDatabaseOrServer(
    shell.env,
    (db) => actsOf(shell.env, db).resumeAccount(user),
    (ask) => ask<StoppedLane[]>('POST', `/accounts/${encodeURIComponent(user)}/resume`),
  )
  printStopped(shell, given, stopped, 'The account is not stopped.')
}

function printStopped(shell: Shell, given: JsonOption, stopped: StoppedLane[], none: string): void {
  const rows = stopped.map(({ userId, chainId, nonce, hash, stoppedAt, resumeAskedAt }) =>
    [userId, String(chainId), String(nonce), hash ?? 'unknown', stoppedAt, resumeAskedAt ?? 'no']) // prettier-ignore
  print(
    shell,
    given,
    stopped,
    stopped.length === 0 ? none : table(['user', 'chain', 'nonce', 'used by', 'since', 'resume requested'], rows),
  )
}

async function change(shell: Shell, user: string, given: JsonOption, action: 'freeze' | 'unfreeze'): Promise<void> {
  const done = await withDatabaseOrServer(
    shell.env,
    (db) => {
      const acts = actsOf(shell.env, db)
      return action === 'freeze' ? acts.freeze(user, endInDatabase(db, systemClock)) : acts.unfreeze(user)
    },
    (ask) => ask<FreezeState>('POST', `/accounts/${encodeURIComponent(user)}/${action}`),
  )
  print(shell, given, done, facts([['user', done.userId], ['frozen', done.frozenAt ?? 'no']])) // prettier-ignore
}

async function endSignIns(shell: Shell, user: string, given: JsonOption): Promise<void> {
  const done = await withDatabaseOrServer(
    shell.env,
    (db) => actsOf(shell.env, db).signOut(user, endInDatabase(db, systemClock)),
    (ask) => ask<SignedOut>('POST', `/accounts/${encodeURIComponent(user)}/sign-out`),
  )
  print(shell, given, done, facts([['user', done.userId], ['browsers', String(done.browsers)], ['applications', String(done.applications)]])) // prettier-ignore
}

async function create(shell: Shell, given: CreateAccountOptions): Promise<void> {
  const made = await make(shell, { provider: given.provider, providerUserId: given.userId })
  const shown = { ...made, address: checksumAddress(made.address.toLowerCase() as Hex) }
  print(shell, given, shown, facts([['user', shown.userId], ['address', shown.address], ['created', shown.isNew ? 'now' : 'earlier']])) // prettier-ignore
}

const make = (shell: Shell, identity: { provider: string; providerUserId: string }): Promise<Pregenerated> =>
  withSignerOrServer(
    shell.env,
    (signer, db) => {
      const target = userIdOf(identity.provider, identity.providerUserId)
      return recorded(db, commandActor(shell.env), { action: 'create-account', target }, async (db) =>
        pregenerate(
          {
            clock: systemClock,
            db,
            signer,
            sealKeys: await publishedSealKeys(shell.env),
            telemetry: openTelemetry('cli', 'error', logTo(shell)),
            state: openState(),
          },
          identity,
        ),
      )
    },
    (ask) => ask<Pregenerated>('POST', '/accounts', identity),
  )
