import type { App } from '../app.ts'
import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { readVerifierKey, type Verifier } from '../signer-wire/verifier.ts'
import { attestedText, type AttestedAddress } from '../signer-wire/wire.ts'
import { slot } from '../state.ts'
import { fromHex, toHex } from '../hex.ts'

/** An address as the database has it. Nobody is shown it and nothing goes there before `provenAddress`. */
export type StoredAddress = {
  userId: string
  /** 20 bytes, lower-case */
  address: Hex
  /** 64 bytes; null: someone took it away */
  attestation: Uint8Array | null
}

type ProofState = {
  /** of the process's whole life: a signer with another one is refused until all servers were stopped */
  identity: Verifier | null
  /** what the database says that it is, and when the signer was asked last and was away */
  kept: { identity: Verifier; askedAt: number } | null
  asking: Promise<Verifier> | null
  /** by user id: address and attestation that were checked */
  proven: BoundedMap<string, string>
  /** by user id: addresses that the signer was asked for and said */
  said: BoundedMap<string, Hex>
  /** by user id: when the signer was asked and had no account of theirs */
  unknown: BoundedMap<string, number>
  /** questions of a minute, since when all are attested */
  asked: { since: number; times: number }
  isDone: boolean
  lookedAt: number
}

const MAX_PROVEN = 100_000
const MAX_SAID = 10_000
/** milliseconds that the database's word counts before the signer is asked again */
const KEPT_MS = 10_000
/** milliseconds between two looks at whether all are attested; never again once they are */
const LOOK_MS = 1_000
/** for so long nobody is asked again for what the signer did not have */
const UNKNOWN_MS = 60_000
/** questions a minute once all are attested: what the database lacks then keeps the signer from nothing else */
const MAX_ASKED = 300

/** What it takes to prove whose account it is, and its address. */
export type AddressProver = Pick<App, 'clock' | 'db' | 'signer' | 'telemetry' | 'state' | 'sealKeys'>

const states = slot('proven addresses', (): ProofState => ({
  identity: null,
  kept: null,
  asking: null,
  proven: new BoundedMap(MAX_PROVEN),
  said: new BoundedMap(MAX_SAID),
  unknown: new BoundedMap(MAX_SAID),
  asked: { since: Number.NEGATIVE_INFINITY, times: 0 },
  isDone: false,
  lookedAt: Number.NEGATIVE_INFINITY,
}))

/**
 * The address of a user, once the signer's word for it was checked: its signature over user and address, which one who can write
 * to the database cannot make. One that was checked is remembered with its signature, so that a read costs a look-up. The signer is
 * asked for what is missing: while all are being attested by its identity, whenever it is; then a bounded number of times.
 * @throws address_not_proven  when it is another than the signer's, or nothing says that it is the signer's
 * @throws signer_unavailable  only where the signer's identity was never heard, or nobody else can say whether the address is right
 */
export async function provenAddress(app: AddressProver, stored: StoredAddress): Promise<Hex> {
  const { userId, address } = stored
  if (await isByStoredWord(app, stored)) return address
  const isBounded = await areAllAttested(app, await attestingIdentity(app))
  if ((await saidBySigner(app, { userId, isBounded })) === address) return address
  tellFalse(app, stored)
  throw new AppError('address_not_proven', 'The address stored for this user does not match the address that the signer attests. Nothing was returned or sent. An operator must inspect the database.') // prettier-ignore
}

/**
 * Whether it is known that an address is a user's: for names beside addresses, which a page does without rather than fail. Nobody is
 * asked for what is missing.
 */
export async function isKnownAddress(app: AddressProver, stored: StoredAddress): Promise<boolean> {
  if (stored.attestation === null) return false
  try {
    if (await isByStoredWord(app, stored)) return true
  } catch (error) {
    if (error instanceof AppError && error.code === 'signer_unavailable') return false
    throw error
  }
  tellFalse(app, stored)
  return false
}

/** Whether the attestation that is stored beside an address is right. @throws signer_unavailable */
async function isByStoredWord(app: AddressProver, stored: StoredAddress): Promise<boolean> {
  const { userId, address, attestation } = stored
  if (attestation === null) return false
  const state = states.of(app)
  const mark = address + Buffer.from(attestation).toString('latin1')
  if (state.proven.get(userId) === mark) return true
  if (!isAttested(await attestingIdentity(app), stored)) return false
  // By the signer's own identity alone: who can write to the database may have written the one that is kept there.
  if (state.identity !== null) state.proven.set(userId, mark)
  return true
}

function tellFalse({ telemetry }: AddressProver, { userId, address }: StoredAddress): void {
  telemetry.addressesNotProven.inc()
  telemetry.log.error('address_not_proven', { userId, address })
}

/** Whether an attestation is the identity's, of this user and this address. Costs 0.1 ms. */
export const isAttested = (by: Verifier, { attestation, ...said }: StoredAddress): boolean =>
  attestation !== null && by.isSigned(attestedText(by.origin, said), attestation)

/** What the signer answered, as it is stored; checked here, so that nothing is stored that would be refused. */
export function toStored(identity: Verifier, { userId, address, attestation }: AttestedAddress): StoredAddress {
  const stored = { userId, address: address.toLowerCase() as Hex, attestation: fromHex(attestation) }
  if (!isAttested(identity, stored))
    throw new AppError(
      'address_not_proven',
      'The signer attests addresses with the key of another signer. Nothing was returned or sent. An operator must inspect the signer.',
    )
  return stored
}

/**
 * The identity whose attestations are believed: SIGNER_KEY, else the signer's, which agrees to the head that was kept; and while it is away
 * the one that was kept with that head, which is asked for again until the signer has said its own.
 * @throws signer_unavailable
 */
export async function attestingIdentity(app: AddressProver): Promise<Verifier> {
  const state = states.of(app)
  if (state.identity !== null) return state.identity
  if (state.kept !== null && app.clock.ticks() - state.kept.askedAt < KEPT_MS) return state.kept.identity
  state.asking ??= askIdentity(app, state).finally(() => (state.asking = null))
  return state.asking
}

async function askIdentity({ clock, db, signer }: AddressProver, state: ProofState): Promise<Verifier> {
  state.kept = null
  try {
    return (state.identity = toIdentity(await signer.identity()))
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'signer_unavailable') throw error
    const row = await db.selectFrom('signing_log_head').select(['origin', 'key']).executeTakeFirst()
    if (row === undefined || row.key === null) throw error
    const identity = toIdentity(row.key)
    if (identity.origin !== row.origin) throw error
    state.kept = { identity, askedAt: clock.ticks() }
    return identity
  }
}

function toIdentity(text: string): Verifier {
  const read = readVerifierKey(text)
  if (read === null)
    throw new AppError(
      'signer_unavailable',
      'The key of the signer cannot be read. Nothing was returned or sent. Retry.',
    )
  return read
}

async function areAllAttested(app: AddressProver, identity: Verifier): Promise<boolean> {
  const state = states.of(app)
  const now = app.clock.ticks()
  if (state.isDone || now - state.lookedAt < LOOK_MS) return state.isDone
  state.lookedAt = now
  state.isDone = await hasAttestedAll(app.db, identity)
  return state.isDone
}

/** Whether an identity went through all accounts. */
export async function hasAttestedAll(db: App['db'], { origin }: Verifier): Promise<boolean> {
  const row = await db.selectFrom('accounts_attested').select('origin').executeTakeFirst()
  return row?.origin === origin
}

/** null where the signer has no account of this user, had none a minute ago, or was asked too often */
async function saidBySigner(
  app: AddressProver,
  { userId, isBounded }: { userId: string; isBounded: boolean },
): Promise<Hex | null> {
  const state = states.of(app)
  const known = state.said.get(userId)
  if (known !== undefined) return known
  const now = app.clock.ticks()
  if (isBounded) {
    if (now - (state.unknown.get(userId) ?? Number.NEGATIVE_INFINITY) < UNKNOWN_MS) return null
    if (now - state.asked.since >= UNKNOWN_MS) state.asked = { since: now, times: 0 }
    if (state.asked.times >= MAX_ASKED) return null
    state.asked.times += 1
  }
  const { attested } = await app.signer.attest({ userIds: [userId] })
  const [one] = attested
  if (one === undefined) {
    state.unknown.set(userId, now)
    return null
  }
  const { address } = toStored(await attestingIdentity(app), one)
  state.said.set(userId, address)
  return address
}

/** A row of `accounts` as a stored address. */
export const storedAddressOf = (row: {
  user_id: string
  address: Uint8Array
  attestation: Uint8Array | null
}): StoredAddress => ({
  userId: row.user_id,
  address: toHex(row.address),
  attestation: row.attestation,
})
