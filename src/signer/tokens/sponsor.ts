import { Refusal } from '../refusal.ts'

const PREFIX = 'SPONSOR-'

/** Returns whether an account is a sponsor, by its user id, which pays for users' gas. Nobody can sign in as one. */
export const isSponsor = (userId: string): boolean => /^SPONSOR-[A-Z0-9_]{1,32}$/.test(userId)

/** Rejects a token whose user is a sponsor. @throws forbidden_user */
export function assertPerson(userId: string): void {
  if (userId.startsWith(PREFIX))
    throw new Refusal('forbidden_user', 'The signer accepts no access token for a sponsor. Nothing was signed.')
}
