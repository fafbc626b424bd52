import { bringsPeople } from '../applications/issuers.ts'
import { checksumAddress } from '../digits.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { isKnownAddress, provenAddress, storedAddressOf, type AddressProver } from '../http/proven-address.ts'
import { isApplicationProvider, userIdOf, type Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { findOwner, owners } from '../users/find.ts'
import { assertIdentity, isIdentityProven } from '../users/proven-identity.ts'
import type { Addressee } from './order.ts'
import type { Recipient } from './wire.ts'

/**
 * Patterns of user ids by provider; null if they cannot be checked, undefined if this installation does not have the
 * provider.
 */
export type SubjectForms = { get(provider: string): SubjectForm | Promise<SubjectForm> }
type SubjectForm = RegExp | null | undefined

/** An identity for which an account can be created in advance. */
export type Stranger = { provider: string; subject: string }

/**
 * Returns the recipient's address, or the identity of a recipient without an account.
 * @throws unknown_recipient, identity_not_proven, address_not_proven
 */
export async function findRecipient(
  app: AddressProver,
  caller: Pick<Caller, 'clientId'>,
  to: Addressee,
  forms: SubjectForms,
): Promise<{ address: Hex } | { stranger: Stranger }> {
  if (to.by === 'address') return { address: to.address }
  const isOwn = isApplicationProvider(to.provider) && (await bringsPeople(app.db, caller.clientId, to.provider))
  // Users of another application's identity provider are visible only to that application: nobody else learns whether
  // they exist.
  if (isApplicationProvider(to.provider) && !isOwn)
    throw unknown(to, 'This application has no identity provider with this name. Nothing was sent. Check the provider.')
  if (to.by === 'name') return { address: await findByName(app, to) }
  const { provider, subject } = to
  const known = await findOwner(app, userIdOf(provider, subject))
  if (known !== null) return { address: await provenAddress(app, known.stored) }
  if (!isOwn) refuseUnreachable(to, await forms.get(provider))
  return { stranger: { provider, subject } }
}

/** Rejects an identity that can never sign in: funds sent to its account would be lost. */
function refuseUnreachable(to: Addressee & { by: 'userId' }, form: SubjectForm): void {
  if (form === undefined)
    throw unknown(
      to,
      `This installation has no identity provider ${to.provider}. Nothing was sent. Check the provider.`,
    )
  if (form === null)
    throw unknown(
      to,
      `No user with this id has signed in, and ids of ${to.provider} cannot be checked. Nothing was sent. Ask the recipient to sign in first.`,
    )
  if (!form.test(to.subject))
    throw unknown(to, `This is not a user id of ${to.provider}. Nothing was sent. Check the user id.`)
}

/**
 * Finds the one user with a name. No user and two users give the same error: names change hands, so a name of two users
 * is ambiguous.
 */
async function findByName(app: AddressProver, to: Addressee & { by: 'name' }): Promise<Hex> {
  // PostgreSQL rejects NUL, and no name includes it.
  const canBe = !to.username.includes('\0') && to.username.isWellFormed()
  const found = canBe ? await named(app.db, to).limit(2).execute() : []
  const [one] = found
  if (one === undefined || found.length > 1)
    throw unknown(
      to,
      `No signed-in user, or more than one, has this name at ${to.provider}. Nothing was sent. Use a user id or an address.`,
    )
  assertIdentity(app, one)
  return provenAddress(app, storedAddressOf(one))
}

/** Uses the index of names. A name is that of the last sign-in; before a sign-in there is none. */
const named = (db: Db, { provider, username }: Addressee & { by: 'name' }) =>
  owners(db)
    .distinctOn('account.user_id')
    .where('identity.username', '=', username)
    .where('identity.provider', '=', provider)
    .where('identity.signed_in_at', 'is not', null)

function unknown(to: Addressee, detail: string): AppError {
  const pointer = to.by === 'name' ? '/toUserUsername' : '/toUserId'
  return new AppError('unknown_recipient', detail, { errors: [{ pointer, code: 'unknown', detail }] })
}

/**
 * Returns the recipient of a transfer as the request named it, without anything else that is known of the user.
 * @param address  from the transaction; null if there is none
 */
export async function showRecipient(app: AddressProver, to: Addressee, address: Hex | null): Promise<Recipient> {
  const shown = address === null ? null : checksumAddress(address.toLowerCase())
  if (to.by === 'address') return { userId: null, address: shown, hasSignedIn: null }
  if (address === null && to.by === 'userId')
    return { userId: userIdOf(to.provider, to.subject), address: null, hasSignedIn: false }
  const row = await owners(app.db)
    .select('identity.signed_in_at')
    .where('account.address', '=', fromHex(address!))
    .where('identity.provider', '=', to.provider)
    .$if(to.by === 'name', (query) =>
      query.where('identity.username', '=', (to as Addressee & { by: 'name' }).username),
    )
    .$if(to.by === 'userId', (query) =>
      query.where('identity.subject', '=', (to as Addressee & { by: 'userId' }).subject),
    )
    .executeTakeFirst()
  // An identity that only the database links to this address is not shown.
  const isTheirs =
    row !== undefined && isIdentityProven(app.sealKeys, row) && (await isKnownAddress(app, storedAddressOf(row)))
  const identity = isTheirs ? row : undefined
  const subject = to.by === 'userId' ? to.subject : identity?.subject
  return {
    userId: subject === undefined ? null : userIdOf(to.provider, subject),
    address: shown,
    hasSignedIn: identity === undefined ? null : identity.signed_in_at !== null,
  }
}
