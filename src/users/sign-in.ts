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

/** Maximum time that a sign-in waits for the first funds of a new account, milliseconds. */
const FAUCET_PATIENCE_MS = 5_000

/**
 * Signs in the user that an identity provider verified; creates their account at the first sign-in. Finds the account
 * by provider and subject only. Updates name, picture and e-mail address from the provider each time, except for a
 * missing name: Apple sends it once.
 *
 * Concurrent first sign-ins yield one account: its id and key are functions of the identity, and existing rows are not
 * replaced. The account is stored before this returns, so no one sees an unsaved address.
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
  // Store the wrapped key before the address is returned to anyone.
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
 * Rejects a sign-in if the database has moved its identity to another account, or if the account's address is not the
 * signer's.
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

/** Updates the stored profile; null if the identity is not known yet. */
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
 * Inserts an account and the identity that it is created for, unless they exist. Uses one statement: without its
 * identity, an account could lose that identity to another account. If the identity belongs to another account, creates
 * none.
 * @param username  of the identity, if it is inserted
 * @param isKeyNew  whether the signer made the key for this row: then the address was unknown and has no past transfers
 * @returns whether this call created the account
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
  // A sponsor has no identity. So no list of users includes it, and nobody can send to it or sign in to it by name.
  const insert =
    provider === SPONSOR_PROVIDER
      ? sql`insert into accounts (${columns}) values (${account}) on conflict do nothing returning account_id`
      : // If the identity was linked concurrently, it leads to another account, and this account would belong to nobody.
        // A concurrent link waits for this statement, or is already stored.
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

/**
 * Requests the first funds on development networks, and waits for them, so that a first write succeeds. A failure never
 * stops a sign-in.
 */
async function giveFirstCoins(
  { chains, clock, telemetry }: Pick<App, 'chains' | 'clock' | 'telemetry'>,
  address: Hex,
): Promise<void> {
  const gifts = [...chains.values()].map(async ({ chainId, faucet, gas }) => {
    // On other networks, a sponsor pays for each write.
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
