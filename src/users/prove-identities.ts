import { createHash, type Hash } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { accountIdOf, userIdOf, type UserId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { hasOwnAccount } from './find.ts'
import { isIdentityProven, keyOfProof, proofOf, type IdentityReader, type StoredIdentity } from './proven-identity.ts'
import { type Timer } from '../clock.ts'

type Prover = Pick<IdentityReader, 'db' | 'identityKeys'>

/** Rows of one page. */
const PAGE = 500
/** Between two tries while the database is away. */
const AGAIN_MS = 60_000

/** An identity that leads to an account of another user id, without a proof that is in force. */
export type UnprovenIdentity = {
  identity: UserId
  /** to whom it leads */
  userId: UserId
  /** it has an account of its own: no identity that was linked has one, so this row was changed */
  isMoved: boolean
}

/**
 * Those of the whole table, page after page. For an operator: see `proveIdentities`.
 * @returns what stands for exactly these: SHA-256, the first 32 hexadecimal digits
 */
export async function* listUnproven({ db, identityKeys }: Prover): AsyncGenerator<UnprovenIdentity, string> {
  const digest = createHash('sha256')
  for await (const { row, isMoved } of unproven({ db, identityKeys })) {
    digest.update(textOf(row, isMoved))
    yield { identity: userIdOf(row.provider, row.subject), userId: row.user_id, isMoved }
  }
  return short(digest)
}

/**
 * Proves what an operator has looked at, after keys leaked or were lost. An identity that has an account of its own is led back to it
 * instead. Killed at any point it is listed and run again.
 * @param listed  what `listUnproven` returned. Only those rows are changed: they are read as a whole before the first is
 * @returns null where the rows are others than were listed: nothing is changed then
 */
export async function proveIdentities(
  { db, identityKeys }: Prover,
  listed: string,
): Promise<{ proven: number; ledBack: number } | null> {
  const digest = createHash('sha256')
  const all: { row: StoredIdentity; isMoved: boolean }[] = []
  for await (const { row, isMoved } of unproven({ db, identityKeys })) {
    digest.update(textOf(row, isMoved))
    all.push({ row, isMoved })
  }
  if (short(digest) !== listed) return null
  const done = { proven: 0, ledBack: 0 }
  for (const { row, isMoved } of all) {
    const accountId = accountIdOf(row.provider, row.subject)
    const changes = isMoved ? { account_id: accountId, proof: null } : { proof: proofOf(identityKeys, row) }
    if (await change(db, row, changes)) done[isMoved ? 'ledBack' : 'proven'] += 1
  }
  return done
}

async function* unproven({ db, identityKeys }: Prover): AsyncGenerator<{ row: StoredIdentity; isMoved: boolean }> {
  for await (const row of pages(db, false))
    if (!isIdentityProven(identityKeys, row)) yield { row, isMoved: await hasOwnAccount(db, row) }
}

/** What an operator judges of a row. A line each, and no row reads like two. */
const textOf = ({ provider, subject, account_id, user_id }: StoredIdentity, isMoved: boolean): string =>
  `${JSON.stringify([provider, subject, account_id, user_id, isMoved])}\n`

const short = (digest: Hash): string => digest.digest('hex').slice(0, 32)

/** How many identities are proven by another key than the one that signs now, and would not be without it. */
export async function countOnOlderKeys({ db, identityKeys }: Prover): Promise<number> {
  let count = 0
  for await (const row of pages(db, true))
    if (keyOfProof(row.proof!) !== identityKeys.signing?.kid && isIdentityProven(identityKeys, row)) count += 1
  return count
}

/**
 * Proves again, by the key that signs now, what an older key has proven, so that the older one can go.
 * @returns how many
 * @throws database_unavailable
 */
export async function renewProofs({ db, identityKeys }: Prover): Promise<number> {
  const { signing } = identityKeys
  let renewed = 0
  if (signing === null) return renewed
  for await (const row of pages(db, true)) {
    if (keyOfProof(row.proof!) === signing.kid || !isIdentityProven(identityKeys, row)) continue
    if (await change(db, row, { proof: proofOf(identityKeys, row) })) renewed += 1
  }
  return renewed
}

/** Only while it leads where it led when it was read. */
async function change(
  db: Db,
  { provider, subject, account_id }: StoredIdentity,
  changes: { account_id?: string; proof: string | null },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('identities')
    .set(changes)
    .where('provider', '=', provider)
    .where('subject', '=', subject)
    .where('account_id', '=', account_id)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Identities that are not the first of the account they lead to. Over the primary key, or the index of those with a proof. */
async function* pages(db: Db, hasProof: boolean): AsyncGenerator<StoredIdentity> {
  let after = { provider: '', subject: '' }
  for (;;) {
    const rows: StoredIdentity[] = await db
      .selectFrom('identities as identity')
      .innerJoin('accounts as account', 'account.account_id', 'identity.account_id')
      .select(['identity.provider', 'identity.subject', 'identity.proof', 'account.account_id', 'account.user_id'])
      .where(sql<boolean>`(identity.provider, identity.subject) > (${after.provider}, ${after.subject})`)
      .where(sql<boolean>`identity.provider || '-' || identity.subject <> account.user_id`)
      .$if(hasProof, (query) => query.where('identity.proof', 'is not', null))
      .orderBy('identity.provider')
      .orderBy('identity.subject')
      .limit(PAGE)
      .execute()
    yield* rows
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) return
    after = last
  }
}

/** At the start of the authorization server: proofs by the newest key, and word of what lacks one. */
export function startRenewingProofs(app: App): { stop(): Promise<void> } {
  const { log } = app.telemetry
  let timer: Timer | undefined
  let hasFailed = false
  const look = async () => {
    const identities = await renewProofs(app)
    if (identities > 0) log.info('identities_proven', { identities })
    let without = 0
    for await (const { identity, userId } of listUnproven(app)) {
      without += 1
      if (without <= MAX_NAMED) log.error('identity_not_proven', { identity, userId })
    }
    if (without > 0) log.error('identities_not_proven', { identities: without, hint: 'chatelaine auth-keys prove-identities' }) // prettier-ignore
  }
  const run = (): Promise<void> =>
    look().catch((error: unknown) => {
      if (!hasFailed) log.warn('identities_not_read', {}, error)
      hasFailed = true
      timer = app.clock.after(AGAIN_MS, () => (running = run()))
    })
  let running = run()
  return {
    stop: async () => {
      timer?.cancel()
      await running
      timer?.cancel()
    },
  }
}

/** Rows that a start names in its log; their number it says in any case. */
const MAX_NAMED = 20
