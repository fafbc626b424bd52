import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { macedApplications, type StoredApplication } from '../applications/authentic.ts'
import type { Db } from '../store/db.ts'
import { isMacRight, keyOfMac, macOf, type MacedRow, type RowContent, type RowKeys } from '../store/row-mac.ts'
import { consentContent } from './consents.ts'
import { guardedBy, recordContent } from './record-macs.ts'
import { type Timer } from '../clock.ts'

type RowsContext = { db: Db; rowKeys: RowKeys }

/** Rows of one page. */
const PAGE = 500
/** Between two tries while the database is away. */
const AGAIN_MS = 60_000
/** What leads to a token; the others note only that something was used, and count by being there. */
const KINDS = ['AuthorizationCode', 'Grant', 'Interaction', 'RefreshToken', 'Session']

/** What the authorization server does not believe, for an operator to judge. */
export type UnauthenticRows = {
  applications: StoredApplication[]
  /** how many people allowed an application what */
  consents: { clientId: string; permissions: string[]; people: number }[]
  /** live ones, by kind */
  signIns: Record<string, number>
  /** stands for exactly these applications and consents: SHA-256, the first 32 hexadecimal digits */
  digest: string
}

/**
 * Reads all of them.
 * @param note  is told of each application and consent, as it was read
 */
export async function listUnauthentic(
  { db, rowKeys }: RowsContext,
  note: (content: RowContent) => void = () => {},
): Promise<UnauthenticRows> {
  const digest = createHash('sha256')
  const applications: StoredApplication[] = []
  for await (const one of unauthentic(rowKeys, macedApplications(db))) {
    applications.push(one.row)
    note(one.content)
    digest.update(`${JSON.stringify(one.content)}\n`)
  }
  const consents = new Map<string, UnauthenticRows['consents'][number]>()
  for await (const one of unauthentic(rowKeys, macedConsents(db))) {
    digest.update(`${JSON.stringify(one.content)}\n`)
    note(one.content)
    const { clientId, permissions } = one
    const key = JSON.stringify([clientId, permissions])
    const known = consents.get(key) ?? { clientId, permissions, people: 0 }
    consents.set(key, { ...known, people: known.people + 1 })
  }
  const signIns: Record<string, number> = {}
  for await (const { kind } of unauthentic(rowKeys, macedRecords(db))) signIns[kind] = (signIns[kind] ?? 0) + 1
  return { applications, consents: [...consents.values()], signIns, digest: digest.digest('hex').slice(0, 32) }
}

/**
 * Gives those rows a MAC that an operator has looked at. Killed at any point it is listed and run again.
 * @param listed       the digest of `listUnauthentic`
 * @param withSignIns  sessions, codes, refresh tokens and grants, too: whatever they are at this moment. Else these count as ended
 * @returns null where applications or consents are others than were listed: nothing is changed then
 */
export async function authenticateRows(
  { db, rowKeys }: RowsContext,
  { listed, withSignIns }: { listed: string; withSignIns: boolean },
): Promise<{ applications: number; consents: number; signIns: number } | null> {
  // They are read again to be written, and someone may have changed them in between.
  const accepted = new Set<string>()
  const { digest } = await listUnauthentic({ db, rowKeys }, (content) => accepted.add(macOf(rowKeys, content)!))
  if (digest !== listed) return null
  const write = async (rows: AsyncGenerator<MacedRow>, isAccepted: (row: MacedRow) => boolean): Promise<number> => {
    let count = 0
    for await (const row of unauthentic(rowKeys, rows)) if (isAccepted(row) && (await row.write(rowKeys))) count += 1
    return count
  }
  const wasListed = ({ content }: MacedRow) => accepted.has(macOf(rowKeys, content)!)
  return {
    applications: await write(macedApplications(db), wasListed),
    consents: await write(macedConsents(db), wasListed),
    signIns: withSignIns ? await write(macedRecords(db), () => true) : 0,
  }
}

/** Rows that another key than the one that signs has authenticated, and that would be none without it. */
export async function countOnOlderRowKeys({ db, rowKeys }: RowsContext): Promise<number> {
  let count = 0
  for await (const row of everyRow(db)) if (isOnOlderKey(rowKeys, row)) count += 1
  return count
}

/**
 * Authenticates again, by the key that signs now, what an older one has, so that the older one can go.
 * @param isOver  asked between two rows: the rest is left to the next start
 * @returns how many
 */
export async function renewMacs({ db, rowKeys }: RowsContext, isOver: () => boolean = () => false): Promise<number> {
  let renewed = 0
  if (rowKeys.known.size === 1) return renewed
  for await (const row of everyRow(db)) {
    if (isOver()) break
    if (isOnOlderKey(rowKeys, row) && (await row.write(rowKeys))) renewed += 1
  }
  return renewed
}

const isOnOlderKey = (keys: RowKeys, { content, mac }: MacedRow): boolean =>
  mac !== null && keyOfMac(mac) !== keys.signing.kid && isMacRight(keys, content, mac)

async function* unauthentic<R extends MacedRow>(keys: RowKeys, rows: AsyncGenerator<R>): AsyncGenerator<R> {
  for await (const row of rows) if (!isMacRight(keys, row.content, row.mac)) yield row
}

async function* everyRow(db: Db): AsyncGenerator<MacedRow> {
  yield* macedApplications(db)
  yield* macedConsents(db)
  yield* macedRecords(db)
}

/** Over the primary key. */
async function* macedConsents(db: Db): AsyncGenerator<MacedRow & { clientId: string; permissions: string[] }> {
  let after = { account_id: '00000000-0000-0000-0000-000000000000', client_id: '' }
  for (;;) {
    const rows = await db
      .selectFrom('consents')
      .select(['account_id', 'client_id', 'permissions', 'keys', 'ways', 'mac'])
      .where(sql<boolean>`(account_id, client_id) > (${after.account_id}::uuid, ${after.client_id})`)
      .orderBy('account_id')
      .orderBy('client_id')
      .limit(PAGE)
      .execute()
    for (const { account_id: accountId, client_id: clientId, permissions, keys, ways, mac } of rows) {
      const content = consentContent({ accountId, clientId }, { permissions, keys, ways })
      const write = (by: RowKeys) =>
        wrote(
          sql`
          update consents set mac = ${macOf(by, content)} where account_id = ${accountId} and client_id = ${clientId}
            and permissions = ${JSON.stringify(permissions)}::jsonb and keys = ${JSON.stringify(keys)}::jsonb and ways = ${JSON.stringify(ways)}::jsonb`.execute(
            db,
          ),
        )
      yield { content, mac, write, clientId, permissions }
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) return
    after = last
  }
}

/** Those that have not expired, over the primary key. */
async function* macedRecords(db: Db): AsyncGenerator<MacedRow & { kind: string }> {
  let after = { kind: '', id_hash: '' }
  for (;;) {
    const rows = await db
      .selectFrom('oauth_records')
      .select([
        'kind',
        'payload',
        sql<string>`encode(id_hash, 'hex')`.as('id_hash'),
        guardedBy('oauth_records').as('guarded'),
      ])
      .where('kind', 'in', KINDS)
      .where(sql<boolean>`(kind, id_hash) > (${after.kind}, decode(${after.id_hash}, 'hex'))`)
      .where(sql<boolean>`(expires_at is null or expires_at > now())`)
      .orderBy('kind')
      .orderBy('oauth_records.id_hash')
      .limit(PAGE)
      .execute()
    for (const { kind, id_hash: idHash, payload, guarded } of rows) {
      const [grantId, uid, userId, clientId, consumedAt, mac] = guarded
      const record = { kind, id_hash: idHash, grant_id: grantId, uid, user_id: userId, client_id: clientId, payload }
      const content = recordContent(record, consumedAt)
      const write = (by: RowKeys) =>
        wrote(
          sql`
          update oauth_records set mac = ${macOf(by, content)} where kind = ${kind} and id_hash = decode(${idHash}, 'hex')
            and payload - 'exp' = ${JSON.stringify(payload)}::jsonb - 'exp' and mac is not distinct from ${mac}
            and consumed_at is not distinct from ${consumedAt}::timestamptz`.execute(db),
        )
      yield { content, mac, write, kind }
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) return
    after = last
  }
}

const wrote = async (statement: Promise<{ numAffectedRows?: bigint }>): Promise<boolean> =>
  ((await statement).numAffectedRows ?? 0n) > 0n

/** At the start of the authorization server: MACs by the newest key, and word of applications that nobody believes. */
export function startRenewingMacs(app: App): { stop(): Promise<void> } {
  const { log } = app.telemetry
  let timer: Timer | undefined
  let [hasFailed, isOver] = [false, false]
  const look = async () => {
    const { db, rowKeys } = app
    if (rowKeys === null) return
    const rows = await renewMacs({ db, rowKeys }, () => isOver)
    if (rows > 0) log.info('rows_renewed', { rows })
    for await (const { row } of unauthentic(rowKeys, macedApplications(db)))
      log.error('row_not_authentic', { table: 'applications', clientId: row.client_id, hint: 'chatelaine auth-keys authenticate-rows' }) // prettier-ignore
  }
  const run = (): Promise<void> =>
    look().catch((error: unknown) => {
      if (!hasFailed) log.warn('rows_not_read', {}, error)
      hasFailed = true
      timer = app.clock.after(AGAIN_MS, () => (running = run()))
    })
  let running = run()
  return {
    stop: async () => {
      isOver = true
      timer?.cancel()
      await running
      timer?.cancel()
    },
  }
}
