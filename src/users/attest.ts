import {
  attestingIdentity,
  hasAttestedAll,
  isAttested,
  storedAddressOf,
  toStored,
  type AddressProver,
} from '../http/proven-address.ts'
import type { Verifier } from '../signer-wire/verifier.ts'
import { MAX_ATTESTED } from '../signer-wire/wire.ts'
import { slot } from '../state.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { eachMinute } from './each-minute.ts'

/** id below every account id */
const START = '00000000-0000-0000-0000-000000000000'
/** Pages of accounts without an attestation per round, once all accounts were attested. The signer attests them. */
const LATE_PAGES = 10
/** Pages of accounts per round whose attestations are checked: 160 ms a minute. */
const CHECKED_PAGES = 50

/** Account id at which this process stopped, for each kind of round. */
const places = slot('looks at addresses', () => ({ late: START, checked: START }))

/**
 * Makes the signer attest the addresses that its current identity has not attested, and stores the attestations.
 *
 * At first, and after a new signer store, it handles all accounts, page by page in order of account id. Later, each
 * round handles some pages of two kinds:
 * - Without an attestation: it was deleted.
 * - With one of another identity, or a wrong one: the key was restored later (`restore-keys`), or never.
 *
 * If the signer does not confirm an address, the row remains as it is, and is rejected.
 * @returns how many were attested
 * @throws signer_unavailable, database_unavailable
 */
export async function attestAccounts(app: AddressProver): Promise<number> {
  const { db } = app
  const identity = await attestingIdentity(app)
  const isWrong = (row: AccountRow): boolean => !isAttested(identity, storedAddressOf(row))
  if (!(await hasAttestedAll(db, identity))) {
    const attested = await goRound(app, { place: { all: START }, which: 'all', pages: Infinity, of: () => page(db), isWrong }) // prettier-ignore
    await noteAll(db, identity)
    return attested
  }
  const place = places.of(app)
  const missing = () => page(db).where('attestation', 'is', null)
  const others = () => page(db).where('attestation', 'is not', null)
  return (
    (await goRound(app, { place, which: 'late', pages: LATE_PAGES, of: missing, isWrong: () => true })) +
    (await goRound(app, { place, which: 'checked', pages: CHECKED_PAGES, of: others, isWrong }))
  )
}

/**
 * Handles some pages from the end of the previous round. After the last account it continues at the first. Handles each
 * page at most once.
 */
async function goRound<W extends string>(
  app: AddressProver,
  look: {
    place: Record<W, string>
    which: W
    pages: number
    of: () => ReturnType<typeof page>
    isWrong: (row: AccountRow) => boolean
  },
): Promise<number> {
  const { place, which, of } = look
  const began = place[which]
  let attested = 0
  let isRound = false
  for (let left = look.pages; left > 0; left -= 1) {
    const rows = await of().where('account_id', '>', place[which]).execute()
    attested += await attestRows(app, rows.filter(look.isWrong))
    const isEnd = rows.length < MAX_ATTESTED
    place[which] = isEnd ? START : rows.at(-1)!.account_id
    if (isEnd ? isRound || began === START : isRound && place[which] >= began) break
    isRound ||= isEnd
  }
  return attested
}

/** Selects a page by the primary key, or by the index of accounts without an attestation. */
const page = (db: Db) =>
  db
    .selectFrom('accounts')
    .select(['account_id', 'user_id', 'address', 'attestation'])
    .orderBy('account_id')
    .limit(MAX_ATTESTED)

type AccountRow = Awaited<ReturnType<ReturnType<typeof page>['execute']>>[number]

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
    await app.db
      .updateTable('accounts')
      .set({ attestation: right.attestation })
      .where('user_id', '=', userId)
      .where('address', '=', fromHex(right.address))
      .execute()
    done += 1
  }
  return done
}

const noteAll = (db: Db, { origin }: Verifier) =>
  db
    .insertInto('accounts_attested')
    .values({ only_row: 1, origin })
    .onConflict((on) => on.column('only_row').doUpdateSet({ origin }))
    .execute()

/** Attests accounts each minute whose attestation is missing or is of another signer identity. */
export function startAttesting(app: AddressProver): { stop(): Promise<void> } {
  const { log } = app.telemetry
  return eachMinute({
    clock: app.clock,
    work: () => attestAccounts(app),
    done: (accounts) => log.info('addresses_attested', { accounts }),
    failed: (error) => log.warn('addresses_not_attested', {}, error),
  })
}
