import { Refusal } from '../refusal.ts'

const PREFIX = 'SPONSOR-'

/** Whether an account is one that pays for people's first writes, by the id of its user: nobody signs in as one. */
export const isSponsor = (userId: string): boolean => /^SPONSOR-[A-Z0-9_]{1,32}$/.test(userId)

/** Of whom a token may be. @throws forbidden_user */
export function assertPerson(userId: string): void {
  if (userId.startsWith(PREFIX))
    throw new Refusal('forbidden_user', 'The signer accepts no access token for a sponsor. Nothing was signed.')
}
