import type { App } from '../app.ts'
import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { readVerifierKey, type Verifier } from '../signer-wire/verifier.ts'
import { attestedText, type AttestedAddress } from '../signer-wire/wire.ts'
import { slot } from '../state.ts'
import { fromHex, toHex } from '../hex.ts'

/** An address from the database. It must not be shown or used before `provenAddress` has checked it. */
export type StoredAddress = {
  userId: string
  /** 20 bytes, lower-case */
  address: Hex
  /** 64 bytes; null: missing */
  attestation: Uint8Array | null
}

type ProofState = {
  /** the signer's identity, fixed for the life of the process: a signer with another one is rejected until a restart */
  identity: Verifier | null
  /** Identity from the database, used while the signer is unavailable. `askedAt`: last attempt to reach the signer */
  kept: { identity: Verifier; askedAt: number } | null
  asking: Promise<Verifier> | null
  /** by user id: address and attestation that were checked */
  proven: BoundedMap<string, string>
  /** by user id: addresses that the signer reported */
  said: BoundedMap<string, Hex>
  /** by user id: when the signer reported that it has no account */
  unknown: BoundedMap<string, number>
  /** requests to the signer in the current minute, counted once all accounts are attested */
  asked: { since: number; times: number }
  isDone: boolean
  lookedAt: number
}

const MAX_PROVEN = 100_000
const MAX_SAID = 10_000
/** milliseconds for which the identity in the database is used before the signer is asked again */
const KEPT_MS = 10_000
/** milliseconds between two checks whether all accounts are attested; no more checks once they are */
const LOOK_MS = 1_000
/** milliseconds for which an account unknown to the signer is not asked for again */
const UNKNOWN_MS = 60_000
/** requests to the signer per minute once all accounts are attested, so that missing rows cannot keep it busy */
const MAX_ASKED = 300

/** Data that is needed to verify an address. */
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
 * Returns the address of a user after checking its attestation: the signer's signature over user and address. Someone
 * who can write to the database cannot forge it. A checked attestation is cached.
 * If the stored attestation is missing or wrong, asks the signer. Once all accounts are attested, it asks at most 300
 * times a minute.
 * @throws address_not_proven  if the signer has another address, or none, or was asked too often
 * @throws signer_unavailable  if the signer's identity is still unknown, or only the signer could prove this address
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
 * Returns whether a stored attestation proves an address, for names beside addresses: a page omits a name rather than
 * fail. The signer is not asked for a missing attestation.
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

/** Returns whether the stored attestation of an address is valid. @throws signer_unavailable */
async function isByStoredWord(app: AddressProver, stored: StoredAddress): Promise<boolean> {
  const { userId, address, attestation } = stored
  if (attestation === null) return false
  const state = states.of(app)
  const mark = address + Buffer.from(attestation).toString('latin1')
  if (state.proven.get(userId) === mark) return true
  if (!isAttested(await attestingIdentity(app), stored)) return false
  // Cache only what the signer's own identity proves: an attacker with write access may have replaced the stored
  // identity.
  if (state.identity !== null) state.proven.set(userId, mark)
  return true
}

function tellFalse({ telemetry }: AddressProver, { userId, address }: StoredAddress): void {
  telemetry.addressesNotProven.inc()
  telemetry.log.error('address_not_proven', { userId, address })
}

/** Returns whether an identity signed this user and this address. Costs 0.1 ms. */
export const isAttested = (by: Verifier, { attestation, ...said }: StoredAddress): boolean =>
  attestation !== null && by.isSigned(attestedText(by.origin, said), attestation)

/**
 * Converts an attestation of the signer to its stored form. Checks it, so that nothing invalid is stored.
 * @throws address_not_proven
 */
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
 * Returns the identity whose attestations are trusted: SIGNER_KEY if it is set, else the signer's. While the signer is
 * unavailable, returns the identity stored with its last head, and asks the signer again every 10 s.
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

/** Returns whether an identity has attested all accounts. */
export async function hasAttestedAll(db: App['db'], { origin }: Verifier): Promise<boolean> {
  const row = await db.selectFrom('accounts_attested').select('origin').executeTakeFirst()
  return row?.origin === origin
}

/**
 * Asks the signer for an address. Returns null if it has no account of this user, had none a minute ago, or was asked
 * too often.
 */
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

/** Converts a row of `accounts` to a stored address. */
export const storedAddressOf = (row: {
  user_id: string
  address: Uint8Array
  attestation: Uint8Array | null
}): StoredAddress => ({
  userId: row.user_id,
  address: toHex(row.address),
  attestation: row.attestation,
})
