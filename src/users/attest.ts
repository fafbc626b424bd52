import { attestingIdentity, isAttested, storedAddressOf, toStored, type AddressProver } from '../http/proven-address.ts'
import { MAX_ATTESTED } from '../signer/wire.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import { retrying, type Db } from '../store/db.ts'

/** Between two looks for accounts that lack the signer's word: one was added by a server of an earlier version. */
const LOOK_EVERY_MS = 60_000
/** before any account id */
const START = '00000000-0000-0000-0000-000000000000'

/**
 * Has the signer attest the addresses that were stored before it did, or that an identity attested which is no more: page after page
 * by account id, from where the last run ended. An address that is not the signer's stays as it is, and is refused from then on.
 * @returns how many were attested
 * @throws signer_unavailable, database_unavailable
 */
export async function attestAccounts(app: AddressProver): Promise<number> {
  const { db } = app
  const identity = await attestingIdentity(app)
  const { origin } = identity
  let attested = 0
  for (;;) {
    const { through, isDone } = await placeOf(db, origin)
    if (isDone) break
    const rows = await retrying(() => page(db).where('account_id', '>', through).execute())
    attested += await attestRows(app, rows.filter((row) => !isAttested(identity, storedAddressOf(row)))) // prettier-ignore
    const last = rows.at(-1)
    const isEnd = rows.length < MAX_ATTESTED
    await moveTo(db, { origin, through: last?.account_id ?? through, isDone: isEnd })
    if (isEnd) break
  }
  // Afterwards each is stored with its attestation: one without is of a server of an earlier version, or someone took it away.
  const late = await retrying(() => page(db).where('attestation', 'is', null).execute())
  return attested + (await attestRows(app, late))
}

/** Over the primary key, or the index of those that lack it. */
const page = (db: Db) =>
  db
    .selectFrom('accounts')
    .select(['account_id', 'user_id', 'address', 'attestation'])
    .orderBy('account_id')
    .limit(MAX_ATTESTED)

async function attestRows(app: AddressProver, rows: { user_id: string; address: Uint8Array }[]): Promise<number> {
  if (rows.length === 0) return 0
  const identity = await attestingIdentity(app)
  const { attested } = await app.signer.attest({ userIds: rows.map(({ user_id }) => user_id) })
  const said = new Map(attested.map((one) => [one.userId, toStored(identity, one)]))
  let done = 0
  for (const { user_id: userId, address } of rows) {
    const right = said.get(userId)
    if (right === undefined || right.address !== toHex(address)) {
      app.telemetry.log.error('address_not_proven', { userId, address: toHex(address) })
      continue
    }
    await retrying(() =>
      app.db
        .updateTable('accounts')
        .set({ attestation: right.attestation })
        .where('user_id', '=', userId)
        .where('address', '=', fromHex(right.address))
        .execute(),
    )
    done += 1
  }
  return done
}

async function placeOf(db: Db, origin: string): Promise<{ through: string; isDone: boolean }> {
  const row = await retrying(() => db.selectFrom('accounts_attested').selectAll().executeTakeFirst())
  return row?.origin === origin ? { through: row.through, isDone: row.is_done } : { through: START, isDone: false }
}

const moveTo = (db: Db, { origin, through, isDone }: { origin: string; through: string; isDone: boolean }) =>
  retrying(() =>
    db
      .insertInto('accounts_attested')
      .values({ only_row: 1, origin, through, is_done: isDone })
      .onConflict((on) => on.column('only_row').doUpdateSet({ origin, through, is_done: isDone }))
      .execute(),
  )

/** Attests at the start, and then every minute what came since; a signer or a database that is away is asked again. */
export function startAttesting(app: AddressProver): { stop(): Promise<void> } {
  let hasFailed = false
  let isStopped = false
  const look = () =>
    isStopped
      ? Promise.resolve()
      : attestAccounts(app).then(
          (accounts) => {
            hasFailed = false
            if (accounts > 0) app.telemetry.log.info('addresses_attested', { accounts })
          },
          (error: unknown) => {
            // Once per outage.
            if (!hasFailed) app.telemetry.log.warn('addresses_not_attested', {}, error)
            hasFailed = true
          },
        )
  let running = look()
  const timer = setInterval(() => (running = running.then(look)), LOOK_EVERY_MS)
  return {
    async stop() {
      isStopped = true
      clearInterval(timer)
      await running
    },
  }
}
