import { createHash, randomInt } from 'node:crypto'
import { AppError, type FieldError } from '../errors.ts'
import { newSecret } from '../ids.ts'
import { retrying, type Db, type RootDb } from '../store/db.ts'
import { laterThan } from '../store/later-than.ts'
import { textsIn } from '../store/column-values.ts'
import { sponsorBudgetOf } from '../store/sponsor-budget.ts'
import { inTransaction } from '../store/transaction.ts'
import { changeApplication, sealApplication, type ApplicationWriter } from './authentic.ts'
import { redirectOrigin } from './redirects.ts'
import { columnsOf, issuersIn, settingsIn, unsaid, writtenBudget } from './stored.ts'
import { explainRegistration } from './validate.ts'
import type { ApplicationSettings, BudgetChanges, RegisteredApplication, WrittenBudget } from './wire.ts'

/** Settings to change; a list replaces the whole list. */
export type Changes = { [F in keyof ApplicationSettings]?: ApplicationSettings[F] | undefined }

/** An application to register. Everything but the network, the kind and the client id can be changed later. */
export type Draft = Changes &
  Pick<ApplicationSettings, 'name' | 'redirectUris'> & {
    /** default: made from the name */
    clientId?: string | undefined
    /** name of a network of this installation */
    network: string
    kind?: RegisteredApplication['kind'] | undefined
  }

const MAX_PAGE = 200

/** Lists applications by client id, starting after `after`. */
export async function listApplications(
  db: RootDb,
  { after = '', limit = MAX_PAGE }: { after?: string; limit?: number } = {},
): Promise<RegisteredApplication[]> {
  const rows = await registered(db)
    .where('client_id', '>', after)
    .orderBy('client_id')
    .limit(Math.min(limit, MAX_PAGE))
    .execute()
  return rows.map(wireOf)
}

/** Reads an application. @throws not_found */
export async function readApplication(db: Db, clientId: string): Promise<RegisteredApplication> {
  const row = isClientId(clientId)
    ? await registered(db).where('client_id', '=', clientId).executeTakeFirst()
    : undefined
  if (row === undefined)
    throw new AppError('not_found', 'No application has this client id. Nothing was changed. Check the client id.')
  return wireOf(row)
}

/**
 * Registers an application. The secret of a confidential one is returned, and stored only as a hash.
 * @throws invalid_request naming everything that is wrong, already_exists
 */
export async function createApplication(
  { db: root, sealKeys }: ApplicationWriter,
  draft: Draft,
): Promise<{ application: RegisteredApplication; secret: string | null }> {
  const { kind = 'public', clientId = clientIdFor(draft.name) } = draft
  const settings = { ...unsaid, ...named(draft) } as ApplicationSettings
  const secret = kind === 'confidential' ? newClientSecret() : null
  const secretHashes = secret === null ? [] : [hashOf(secret)]
  const problems = explainRegistration({ ...settings, kind, clientId, secretHashes })
  const network = await findChainId(root, draft.network)
  if ('problem' in network) problems.push(network.problem)
  refuseIfAny(problems)
  const values = {
    client_id: clientId,
    chain_id: (network as { chainId: number }).chainId,
    kind,
    secret_hashes: JSON.stringify(secretHashes),
    ...columnsOf(settings),
  }
  const application = await retrying(() =>
    inTransaction(root, async (db) => {
      const inserted = await db
        .insertInto('applications')
        .values(values as never)
        .onConflict((on) => on.column('client_id').doNothing())
        .returning('client_id')
        .executeTakeFirst()
      if (inserted === undefined)
        throw new AppError(
          'already_exists',
          `The application ${clientId} already exists. Nothing was changed. Choose another client id.`,
        )
      await sealApplication({ db, sealKeys }, clientId)
      return readApplication(db, clientId)
    }),
  )
  return { application, secret }
}

/**
 * Changes the given settings only. An application of the operator's own that gets another redirect origin no longer
 * counts as such, unless `isFirstParty` is given again.
 * @throws not_found, invalid_request naming everything that is wrong
 */
export async function updateApplication(
  app: ApplicationWriter,
  clientId: string,
  changes: Changes,
): Promise<RegisteredApplication> {
  const { db } = app
  const before = await readApplication(db, clientId)
  const given = named(changes)
  const after = {
    ...before,
    ...given,
    sponsor: given.sponsor ? { ...before.sponsor, ...given.sponsor } : (given.sponsor ?? before.sponsor),
    secretHashes: before.kind === 'public' ? [] : ['0'.repeat(64)],
  }
  // Stored settings were accepted before, so only the given ones are checked.
  refuseIfAny(explainRegistration(after).filter(({ pointer }) => pointer!.split('/')[1]! in given))
  if (before.isFirstParty && hasNewOrigin(before, given)) given.isFirstParty ??= false
  const columns = columnsOf(
    given.sponsor ? { ...given, sponsor: withBothAmounts(given.sponsor, before.sponsor) } : given,
  )
  if (Object.keys(columns).length > 0)
    await changeApplication(app, clientId, (one) =>
      one
        .updateTable('applications')
        .set(columns as never)
        .where('client_id', '=', clientId)
        .execute(),
    )
  return readApplication(db, clientId)
}

/** Returns whether responses would go to a new origin, which is not known to be the operator's own. */
function hasNewOrigin(before: Pick<Draft, 'redirectUris'>, { redirectUris = [] }: Changes): boolean {
  const known = new Set(before.redirectUris.map(redirectOrigin))
  return redirectUris.some((uri) => !known.has(redirectOrigin(uri)))
}

/**
 * Gives a confidential application a new secret; the newest of the old ones remains valid until the next rotation.
 * @throws not_found, invalid_request for a public application
 */
export const rotateSecret = (
  app: ApplicationWriter,
  clientId: string,
): Promise<{ application: RegisteredApplication; secret: string }> => addSecret(app, clientId, { kept: 1 })

/** Gives a confidential application a new secret, and ends all others immediately. Errors as for `rotateSecret`. */
export const resetSecret = (
  app: ApplicationWriter,
  clientId: string,
): Promise<{ application: RegisteredApplication; secret: string }> => addSecret(app, clientId, { kept: 0 })

/**
 * Suspends an application: its sign-ins and tokens end within seconds, in every process. Idempotent. An application
 * without a valid seal is suspended as well, and not sealed.
 * @throws not_found
 */
export async function suspendApplication(app: ApplicationWriter, clientId: string): Promise<RegisteredApplication> {
  const { db } = app
  await readApplication(db, clientId)
  const suspend = (one: Db) =>
    one
      .updateTable('applications')
      .set({ suspended_at: laterThan('resumed_at') })
      .where('client_id', '=', clientId)
      .where('suspended_at', 'is', null)
      .execute()
  try {
    await changeApplication(app, clientId, suspend)
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'application_not_authentic') throw error
    await suspend(db)
  }
  return readApplication(db, clientId)
}

/** Resumes a suspended application; its unexpired tokens are valid again. */
export async function resumeApplication(app: ApplicationWriter, clientId: string): Promise<RegisteredApplication> {
  const { db } = app
  await readApplication(db, clientId)
  await changeApplication(app, clientId, (one) =>
    one
      .updateTable('applications')
      .set({ suspended_at: null, resumed_at: laterThan('suspended_at') })
      .where('client_id', '=', clientId)
      .where('suspended_at', 'is not', null)
      .execute(),
  )
  return readApplication(db, clientId)
}

async function addSecret(
  app: ApplicationWriter,
  clientId: string,
  { kept }: { kept: number },
): Promise<{ application: RegisteredApplication; secret: string }> {
  const secret = newClientSecret()
  const application = await changeApplication(app, clientId, async (db) => {
    const { kind } = await readApplication(db, clientId)
    if (kind === 'public')
      refuseIfAny([{ pointer: '/clientId', code: 'invalid', detail: 'A public application has no secret.' }])
    // The row is locked: of two concurrent rotations, the second one sees the first one's secret and retains it.
    const row = await db
      .selectFrom('applications')
      .select('secret_hashes')
      .where('client_id', '=', clientId)
      .executeTakeFirstOrThrow()
    const hashes = [hashOf(secret), ...textsIn(row.secret_hashes).slice(0, kept)]
    await db
      .updateTable('applications')
      .set({ secret_hashes: JSON.stringify(hashes) })
      .where('client_id', '=', clientId)
      .execute()
    return readApplication(db, clientId)
  })
  return { application, secret }
}

async function findChainId(db: Db, name: string): Promise<{ chainId: number } | { problem: FieldError }> {
  const networks = await db.selectFrom('networks').select(['name', 'chain_id']).orderBy('name').execute()
  const found = networks.find((network) => network.name === name)
  if (found !== undefined) return { chainId: found.chain_id }
  const known =
    networks.length === 0
      ? 'this installation has none yet'
      : `known networks: ${networks.map((one) => one.name).join(', ')}`
  return { problem: { pointer: '/network', code: 'unknown', detail: `No network has this name; ${known}.` } }
}

function refuseIfAny(problems: FieldError[]): void {
  if (problems.length > 0)
    throw new AppError('invalid_request', problems.map(({ detail }) => detail).join(' '), { errors: problems })
}

/** Returns the settings that are given. */
const named = (changes: Changes): Partial<ApplicationSettings> =>
  Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))

/** Adds the other amount: the table has both or neither. */
function withBothAmounts(given: BudgetChanges, before: WrittenBudget | null): BudgetChanges {
  const { perUser = before?.perUser, perApplication = before?.perApplication } = given
  if (given.perUser === undefined && given.perApplication === undefined) return given
  return { ...given, ...(perUser === undefined ? {} : { perUser }), ...(perApplication === undefined ? {} : { perApplication }) } // prettier-ignore
}

const registered = (db: Db) =>
  db
    .selectFrom('applications')
    .leftJoin('networks', 'networks.chain_id', 'applications.chain_id')
    .selectAll('applications')
    .select('networks.name as network')

type ApplicationRow = Awaited<ReturnType<ReturnType<typeof registered>['executeTakeFirstOrThrow']>>

const wireOf = (row: ApplicationRow): RegisteredApplication => ({
  clientId: row.client_id,
  network: row.network,
  chainId: row.chain_id,
  kind: row.kind,
  ...settingsIn(row),
  sponsor: writtenBudget(sponsorBudgetOf(row)),
  liveSecrets: textsIn(row.secret_hashes).length,
  issuers: issuersIn(row.issuers),
  createdAt: row.created_at.toISOString(),
  suspendedAt: row.suspended_at?.toISOString() ?? null,
})

/** Returns whether PostgreSQL can look this up: it rejects NUL, and no client id is this long. */
const isClientId = (text: string): boolean => text.length <= 255 && !text.includes('\0')

/** The prefix lets source code scanners find a secret that was committed by mistake. */
const newClientSecret = (): string => `chs_${newSecret()}`
const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')

const ID_LETTERS = 'abcdefghjkmnpqrstuvwxyz23456789'

/** Makes a client id that is recognisable by the name, and unique by a random suffix. */
function clientIdFor(name: string): string {
  const word = name
    .toLowerCase()
    .normalize('NFKD')
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 40)
  const tail = Array.from({ length: 6 }, () => ID_LETTERS[randomInt(ID_LETTERS.length)]).join('')
  return `${word === '' ? 'app' : word}-${tail}`
}
