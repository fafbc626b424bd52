import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { provenAddress, storedAddressOf, type StoredAddress } from '../http/proven-address.ts'
import { accountIdOf, parseUserId, SPONSOR_PROVIDER, userIdOf, type Hex, type UserId } from '../ids.ts'
import { fromHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { prepared } from '../store/prepared.ts'
import { cleanProfile, type Profile } from './profile.ts'
import { assertIdentity, type StoredIdentity } from './proven-identity.ts'
import { storeWrappedKey } from './wrapped-keys.ts'

export type SignedIn = { userId: UserId; accountId: string; address: Hex; isNew: boolean }

/** How long a sign-in waits for the first funds of a new account, milliseconds. */
const FAUCET_PATIENCE_MS = 5_000

/**
 * The account of someone whom an identity provider vouches for; made at the first sign-in. Found by provider and
 * subject, by nothing else. Name, picture and e-mail follow the provider at each sign-in; a name stays when the
 * provider gives none: Apple gives it once.
 *
 * Two first sign-ins at once give one account: its id and its key are functions of the identity, and the rows are
 * inserted only where there are none. The account is stored before this returns, so nobody sees an unsaved address.
 * @throws identity_not_proven, address_not_proven, signer_unavailable, database_unavailable
 */
export async function signIn(
  app: Pick<App, 'clock' | 'db' | 'signer' | 'chains' | 'telemetry' | 'state' | 'sealKeys'>,
  said: Profile,
): Promise<SignedIn> {
  const { db, signer } = app
  assert(said.provider !== SPONSOR_PROVIDER, 'no identity provider has the name of sponsors')
  const profile = { ...cleanProfile(said), isNamed: said.username !== null }
  const known = await refresh(db, profile)
  if (known !== null) return { ...(await proven(app, known)), isNew: false }

  const userId = userIdOf(profile.provider, profile.subject)
  const { address, wrapped, attestation, isNew: isKeyNew } = await signer.createAccount({ userId })
  // In a second place before anyone can be told the address.
  await storeWrappedKey(db, wrapped)
  const isNew = await insertAccount(db, { userId, address, attestation, username: profile.username, isKeyNew })
  const stored = await refresh(db, profile)
  assert(stored !== null, 'an identity is there after it was inserted')
  const signedIn = await proven(app, stored)
  if (isNew) await giveFirstCoins(app, signedIn.address)
  return { ...signedIn, isNew }
}

type StoredSignIn = { userId: UserId; accountId: string; stored: StoredAddress; identity: StoredIdentity }

/**
 * Whose identity the database leads to another's account does not sign in, nor whose account it gives another address or made up.
 * @throws identity_not_proven, address_not_proven
 */
async function proven(
  app: Parameters<typeof signIn>[0],
  { userId, accountId, stored, identity }: StoredSignIn,
): Promise<Omit<SignedIn, 'isNew'>> {
  assertIdentity(app, identity)
  return { userId, accountId, address: await provenAddress(app, stored) }
}

type Named = Required<Profile> & { username: string; isNamed: boolean }

/** Writes what the provider says now over what it said before; null when the identity is not known yet. */
async function refresh(
  db: Db,
  { provider, subject, username, imageSrc, email, emailVerified, isNamed, isPartial }: Named,
): Promise<StoredSignIn | null> {
  const staysPicture = isPartial && imageSrc === null
  const staysEmail = isPartial && email === null
  const { rows } = await sql<StoredIdentity & { address: Uint8Array; attestation: Uint8Array | null }>`${prepared}
    update identities set username = coalesce(${isNamed ? username : null}, identities.username),
      image_src = case when ${staysPicture} then image_src else ${imageSrc} end,
      email = case when ${staysEmail} then email else ${email} end,
      email_verified = case when ${staysEmail} then email_verified else ${emailVerified} end, signed_in_at = now()
    from accounts
    where accounts.account_id = identities.account_id and provider = ${provider} and subject = ${subject}
    returning accounts.account_id, accounts.user_id, accounts.address, accounts.attestation,
      identities.provider, identities.subject, identities.seal`.execute(db)
  const [row] = rows
  return row === undefined
    ? null
    : { userId: row.user_id, accountId: row.account_id, stored: storedAddressOf(row), identity: row }
}

/**
 * An account and the identity that it is made for, where they are not there: by one statement, since the identity of an account that
 * is there without it could be linked to another one. Where it leads to another, none is made.
 * @param username  of the identity, where it is made
 * @param isKeyNew  the signer made the key for this row: an address that no one was told before has no transfers from before
 * @returns whether this call made the account
 */
export async function insertAccount(
  db: Db,
  {
    userId,
    address,
    attestation,
    username,
    isKeyNew = false,
  }: { userId: UserId; address: Hex; attestation?: Hex | undefined; username?: string; isKeyNew?: boolean | undefined },
): Promise<boolean> {
  const first = parseUserId(userId)
  assert(first !== null, 'an account is made for an identity')
  const { provider, subject } = first
  const accountId = accountIdOf(provider, subject)
  const proof = attestation === undefined ? null : fromHex(attestation)
  const account = sql`${accountId}::uuid, ${userId}::text, ${fromHex(address)}::bytea, ${proof}::bytea, ${isKeyNew}::boolean`
  const columns = sql`account_id, user_id, address, attestation, is_key_new`
  // A sponsor is no person: without an identity it is in no list of people, and nobody can send to it or sign in to it by name.
  const insert =
    provider === SPONSOR_PROVIDER
      ? sql`insert into accounts (${columns}) values (${account}) on conflict do nothing returning account_id`
      : // Linked meanwhile, the identity leads to another account: one of its own would be nobody's. Who links it waits here, or has it.
        sql`with first as (
              insert into identities (provider, subject, account_id, username)
              values (${provider}, ${subject}, ${accountId}, ${username ?? subject})
              on conflict do nothing returning account_id)
            insert into accounts (${columns}) select ${account}
            where exists (select from first) or exists (
              select from identities where provider = ${provider} and subject = ${subject} and account_id = ${accountId}::uuid)
            on conflict do nothing returning account_id`
  const { rows } = await insert.execute(db)
  return rows.length > 0
}

/** On development networks. Waited for, so that a first write works immediately; its failure never stops a sign-in. */
async function giveFirstCoins(
  { chains, clock, telemetry }: Pick<App, 'chains' | 'clock' | 'telemetry'>,
  address: Hex,
): Promise<void> {
  const gifts = [...chains.values()].map(async ({ chainId, faucet, gas }) => {
    // There a sponsor pays for each write.
    if (gas !== 'self') return
    try {
      await faucet?.(address)
    } catch (error) {
      telemetry.log.warn('faucet_failed', { chainId, address }, error)
    }
  })
  const { promise: patience, resolve } = Promise.withResolvers<void>()
  const timer = clock.after(FAUCET_PATIENCE_MS, resolve)
  await Promise.race([Promise.all(gifts), patience])
  timer.cancel()
}
