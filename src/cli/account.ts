import { Command } from 'commander'
import { checksumAddress } from '../abi/address.ts'
import { readSome } from '../config.ts'
import type { Hex } from '../ids.ts'
import { connectSigner } from '../signer/client.ts'
import type { RootDb } from '../store/db.ts'
import { FolderInUse } from '../store/folder-lock.ts'
import { freezeAccount, listFrozen, thawAccount, type Freezable } from '../users/freeze.ts'
import { pregenerate, type Pregenerated } from '../users/pregenerate.ts'
import { findPlace, withDatabase } from './place.ts'
import { facts, print, table } from './print.ts'
import { openOperator, type AskOperator } from './reach.ts'

type Given = { provider: string; userId: string; json?: boolean }

/** `chatelaine account …`: an account for someone who has not signed in yet; freezing one, thawing it, and which are frozen. */
export function account(): Command {
  const command = new Command('account').description('accounts of people')
  command
    .command('create')
    .description('make the account that someone gets at their first sign-in, or show it when it is there')
    .requiredOption('--provider <name>', 'upper-case name of the identity provider')
    .requiredOption('--user-id <id>', 'the provider’s immutable id of the person; never a name or an e-mail address')
    .option('--json', 'print JSON')
    .action(create)
  command
    .command('freeze')
    .description('let an account be read and move nothing; what it has sent is followed to its end')
    .argument('<user>', 'id of the user, as in tokens: PROVIDER-id')
    .option('--json', 'print JSON')
    .action((user: string, given: { json?: boolean }) => change(user, given, 'freeze'))
  command
    .command('thaw')
    .description('let a frozen account go on')
    .argument('<user>', 'id of the user')
    .option('--json', 'print JSON')
    .action((user: string, given: { json?: boolean }) => change(user, given, 'thaw'))
  command
    .command('frozen')
    .description('which accounts are frozen, and since when')
    .option('--json', 'print JSON')
    .action(listFrozenOnes)
  return command
}

async function listFrozenOnes(given: { json?: boolean }): Promise<void> {
  const frozen = await withDatabaseOrServer(
    (db) => listFrozen(db),
    (ask) => ask('GET', '/accounts/frozen'),
  )
  const text = frozen.length === 0 ? 'No account is frozen.' : table(['user', 'since'], frozen.map(({ userId, frozenAt }) => [userId, frozenAt!])) // prettier-ignore
  print(given, frozen, text)
}

/** On the database, or through the running server where that holds the embedded one. */
async function withDatabaseOrServer<T>(
  work: (db: RootDb) => Promise<T>,
  through: (ask: AskOperator) => Promise<T>,
): Promise<T> {
  const place = findPlace()
  try {
    return await withDatabase(place, work)
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw error
    return through(await openOperator(place.dataDir, error.pid))
  }
}

async function change(user: string, given: { json?: boolean }, action: 'freeze' | 'thaw'): Promise<void> {
  const done = await withDatabaseOrServer(
    (db) => (action === 'freeze' ? freezeAccount : thawAccount)(db, user),
    (ask) => ask<Freezable>('POST', `/accounts/${encodeURIComponent(user)}/${action}`),
  )
  print(given, done, facts([['user', done.userId], ['frozen', done.frozenAt ?? 'no']])) // prettier-ignore
}

async function create(given: Given): Promise<void> {
  const made = await make({ provider: given.provider, providerUserId: given.userId })
  const shown = { ...made, address: checksumAddress(made.address.toLowerCase() as Hex) }
  print(given, shown, facts([['user', shown.userId], ['address', shown.address], ['made', shown.isNew ? 'now' : 'before']])) // prettier-ignore
}

/** With database and signer in our own hands, or through the running server where that holds the embedded database. */
async function make(identity: { provider: string; providerUserId: string }): Promise<Pregenerated> {
  const { SIGNER_SOCKET: path } = readSome(process.env, ['SIGNER_SOCKET'])
  return withDatabaseOrServer(
    async (db) => {
      if (path === undefined)
        throw new Error('SIGNER_SOCKET is missing: the key of an account is made by the signer. Or start the server, and this command asks it.') // prettier-ignore
      const signer = connectSigner({ path })
      try {
        return await pregenerate({ db, signer }, identity)
      } finally {
        signer.close()
      }
    },
    (ask) => ask<Pregenerated>('POST', '/accounts', identity),
  )
}
