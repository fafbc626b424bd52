import { createHash } from 'node:crypto'
import { sql, type RawBuilder } from 'kysely'
import type { App } from '../app.ts'
import type { StoredApplication } from '../applications/authentic.ts'
import { userIdOf, type UserId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import {
  isSealed,
  keyIdOf,
  sealedText,
  sealOf,
  type SealedRows,
  type SealedTable,
  type SealKeys,
} from '../store/seal.ts'
import { eachMinute } from '../users/each-minute.ts'
import { hasOwnAccount } from '../users/find.ts'
import { leadToOwnAccount } from '../users/identities.ts'
import { isIdentityProven, type StoredIdentity } from '../users/proven-identity.ts'
import { guardedBy, type GuardedColumns } from './record-macs.ts'

type RowsContext = Pick<App, 'sealKeys'> & { db: Db }

/** rows per page */
const PAGE = 500
/** Maximum number of rows that a start names in the log. It always logs how many there are. */
const MAX_NAMED = 20
/** Kinds of records that lead to a token. The other kinds only note that something was used, and count by existing. */
const KINDS = ['AuthorizationCode', 'Grant', 'Interaction', 'RefreshToken', 'Session']

type BelievedTable = Exclude<SealedTable, 'sign_ins'>
type ReadRow<T extends BelievedTable> = SealedRows[T] & { seal: string | null } & (T extends 'identities'
    ? StoredIdentity
    : unknown)

/**
 * How the rows of a table are read, page by page over its primary key. Of records it reads those that have not expired,
 * of identities the linked ones.
 */
const READS: {
  [T in BelievedTable]: { key: string; keyOf: (row: ReadRow<T>) => RawBuilder<unknown>; rows: RawBuilder<unknown> }
} = {
  applications: {
    key: 'client_id',
    keyOf: (row) => sql`${row.client_id}`,
    rows: sql`select one.* from applications as one where true`,
  },
  consents: {
    key: 'account_id, client_id',
    keyOf: (row) => sql`${row.account_id}::uuid, ${row.client_id}`,
    rows: sql`select one.* from consents as one where true`,
  },
  identities: {
    key: 'provider, subject',
    keyOf: (row) => sql`${row.provider}, ${row.subject}`,
    rows: sql`select one.provider, one.subject, one.seal, account.account_id, account.user_id
      from identities as one join accounts as account on account.account_id = one.account_id
      where one.provider || '-' || one.subject <> account.user_id`,
  },
  oauth_records: {
    key: 'kind, id_hash',
    keyOf: (row) => sql`${row.kind}, decode(${row.id_hash}, 'hex')`,
    rows: sql`select one.kind, encode(one.id_hash, 'hex') as id_hash, one.payload, ${guardedBy('one')} as guarded
      from oauth_records as one where one.kind = any(${`{${KINDS.join()}}`}::text[]) and (one.expires_at is null or one.expires_at > now())`,
  },
  operators: {
    key: 'user_id',
    keyOf: (row) => sql`${row.user_id}`,
    rows: sql`select one.* from operators as one where true`,
  },
}

/** An identity that leads to an account with another user id, without a valid seal. */
type UnprovenIdentity = {
  identity: UserId
  /** the user whose account it leads to */
  userId: UserId
  /** it has an account of its own: linked identities have none, so this row was changed */
  isMoved: boolean
}

/** Rows that the authorization server rejects, for an operator to judge. */
export type UnauthenticRows = {
  applications: StoredApplication[]
  /** how many users allowed an application these permissions */
  consents: { clientId: string; permissions: string[]; people: number }[]
  identities: UnprovenIdentity[]
  /** operators of the console */
  operators: { userId: string; role: string }[]
  /** live records, by kind */
  signIns: Record<string, number>
  /** identifies exactly these applications, consents, identities and operators: SHA-256, the first 32 hexadecimal digits */
  digest: string
}

/**
 * Lists all rows without a valid seal.
 * @param note  called with each application, consent, identity and operator, as it was read
 */
export async function listUnauthentic(
  context: RowsContext,
  note: (line: string) => void = () => {},
): Promise<UnauthenticRows> {
  const digest = createHash('sha256')
  const list = (line: string) => {
    note(line)
    digest.update(`${line}\n`)
  }
  const applications: StoredApplication[] = []
  for await (const row of unauthentic(context, 'applications')) {
    applications.push(row)
    list(lineOf('applications', row))
  }
  const consents = new Map<string, UnauthenticRows['consents'][number]>()
  for await (const row of unauthentic(context, 'consents')) {
    list(lineOf('consents', row))
    const { client_id: clientId, permissions } = row
    const key = JSON.stringify([clientId, permissions])
    const known = consents.get(key) ?? { clientId, permissions, people: 0 }
    consents.set(key, { ...known, people: known.people + 1 })
  }
  const identities: UnprovenIdentity[] = []
  for await (const row of unauthentic(context, 'identities')) {
    const isMoved = await hasOwnAccount(context.db, row)
    list(lineOf('identities', row, isMoved))
    identities.push({ identity: userIdOf(row.provider, row.subject), userId: row.user_id, isMoved })
  }
  const operators: UnauthenticRows['operators'] = []
  for await (const row of unauthentic(context, 'operators')) {
    list(lineOf('operators', row))
    operators.push({ userId: row.user_id, role: row.role })
  }
  const signIns: Record<string, number> = {}
  for await (const { kind } of unauthentic(context, 'oauth_records')) signIns[kind] = (signIns[kind] ?? 0) + 1
  return { applications, consents: [...consents.values()], identities, operators, signIns, digest: digest.digest('hex').slice(0, 32) } // prettier-ignore
}

/** Returns a row as the operator judges it, as text: the sealed columns, and whether it was moved. */
const lineOf = <T extends BelievedTable>(table: T, row: ReadRow<T>, isMoved = false): string =>
  JSON.stringify([sealedText(table, row).toString('utf8'), isMoved])

/**
 * Seals the rows that an operator has reviewed. An identity that has an account of its own is led back to that account
 * instead. After a crash, list the rows and run this again.
 * @param listed       the digest of `listUnauthentic`
 * @param withSignIns  also seals the sessions, codes, refresh tokens and grants that exist now; otherwise they count as
 *                     ended
 * @returns null if the applications, consents or identities have changed since they were listed: nothing is changed
 *          then
 */
export async function authenticateRows(
  context: RowsContext,
  { listed, withSignIns }: { listed: string; withSignIns: boolean },
): Promise<{
  applications: number
  consents: number
  identities: number
  ledBack: number
  operators: number
  signIns: number
} | null> {
  // The rows are read again below. In between they may change: write only those on the list.
  const accepted = new Set<string>()
  const { digest } = await listUnauthentic(context, (line) => accepted.add(line))
  if (digest !== listed) return null
  const write = async <T extends BelievedTable>(table: T, isListed: (row: ReadRow<T>) => boolean): Promise<number> => {
    let count = 0
    for await (const row of unauthentic(context, table))
      if (isListed(row) && (await reseal(context, table, row))) count += 1
    return count
  }
  return {
    applications: await write('applications', (row) => accepted.has(lineOf('applications', row))),
    consents: await write('consents', (row) => accepted.has(lineOf('consents', row))),
    ledBack: await leadBack(context, (row) => accepted.has(lineOf('identities', row, true))),
    identities: await write('identities', (row) => accepted.has(lineOf('identities', row))),
    operators: await write('operators', (row) => accepted.has(lineOf('operators', row))),
    signIns: withSignIns ? await write('oauth_records', () => true) : 0,
  }
}

async function leadBack(context: RowsContext, isListed: (row: StoredIdentity) => boolean): Promise<number> {
  let count = 0
  for await (const row of unauthentic(context, 'identities'))
    if (isListed(row) && (await leadToOwnAccount(context.db, row))) count += 1
  return count
}

/** Counts the rows sealed by another key than the current one; without that key they would count as absent. */
export async function countOnOlderKeys(context: RowsContext): Promise<number> {
  let count = 0
  for await (const _ of onOlderKeys(context)) count += 1
  return count
}

/**
 * Seals the rows of older keys again, by the current key, so that the older keys can be removed.
 * @param isOver  asked between two rows; if true, the rest is left to the next start
 * @returns how many
 */
export async function renewSeals(context: RowsContext, isOver: () => boolean = () => false): Promise<number> {
  let renewed = 0
  if (context.sealKeys.known.size === 1) return renewed
  for await (const write of onOlderKeys(context)) {
    if (isOver()) break
    if (await write()) renewed += 1
  }
  return renewed
}

async function* onOlderKeys(context: RowsContext): AsyncGenerator<() => Promise<boolean>> {
  const { signing } = context.sealKeys
  for (const table of Object.keys(READS) as BelievedTable[])
    for await (const row of everyRow(context, table))
      if (row.seal !== null && keyIdOf(row.seal) !== signing?.kid && isBelieved(context.sealKeys, table, row))
        yield () => reseal(context, table, row)
}

async function* unauthentic<T extends BelievedTable>(context: RowsContext, table: T): AsyncGenerator<ReadRow<T>> {
  for await (const row of everyRow(context, table)) if (!isBelieved(context.sealKeys, table, row)) yield row
}

const isBelieved = <T extends BelievedTable>(keys: SealKeys, table: T, row: ReadRow<T>): boolean =>
  table === 'identities' ? isIdentityProven(keys, row as ReadRow<'identities'>) : isSealed(keys, table, row)

/** Seals a row, unless its seal has changed since the row was read. */
async function reseal<T extends BelievedTable>(
  { db, sealKeys }: RowsContext,
  table: T,
  row: ReadRow<T>,
): Promise<boolean> {
  const seal = sealOf(sealKeys, table, row)
  if (seal === null) return false
  const { key, keyOf } = READS[table]
  const { numAffectedRows } = await sql`update ${sql.table(table)} set seal = ${seal}
    where (${sql.raw(key)}) = (${keyOf(row)}) and seal is not distinct from ${row.seal}`.execute(db)
  return numAffectedRows === 1n
}

async function* everyRow<T extends BelievedTable>({ db }: RowsContext, table: T): AsyncGenerator<ReadRow<T>> {
  const { key, keyOf, rows: select } = READS[table]
  const columns = sql.raw(key.replaceAll(/\w+/g, 'one.$&'))
  for (let after = sql``; ;) {
    const { rows } = await sql<ReadRow<T> & { guarded?: GuardedColumns }>`
      ${select} ${after} order by ${columns} limit ${PAGE}`.execute(db)
    for (const { guarded, ...row } of rows) yield { ...row, ...guarded } as ReadRow<T>
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) return
    after = sql`and (${columns}) > (${keyOf(last)})`
  }
}

/**
 * Seals rows by the newest key, then logs applications and identities without a valid seal: once after a start of the
 * authorization server, retried each minute until it succeeds.
 */
export function startRenewingSeals(app: App): { stop(): Promise<void> } {
  const { clock, telemetry } = app
  const { log } = telemetry
  let [isDone, isOver] = [false, false]
  const rounds = eachMinute({
    clock,
    async work() {
      if (isDone) return 0
      const renewed = await renewSeals(app, () => isOver)
      let without = 0
      const isNamed = () => (without += 1) <= MAX_NAMED
      for await (const { client_id: clientId } of unauthentic(app, 'applications'))
        if (isNamed()) log.error('row_not_authentic', { table: 'applications', clientId })
      for await (const { provider, subject, user_id: userId } of unauthentic(app, 'identities'))
        if (isNamed()) log.error('identity_not_proven', { identity: userIdOf(provider, subject), userId })
      if (without > 0)
        log.error('rows_not_authentic', { rows: without, hint: 'chatelaine auth-keys authenticate-rows' })
      isDone = true
      return renewed
    },
    done: (rows) => log.info('rows_renewed', { rows }),
    failed: (error) => log.warn('rows_not_read', {}, error),
  })
  return {
    stop() {
      isOver = true
      return rounds.stop()
    },
  }
}
