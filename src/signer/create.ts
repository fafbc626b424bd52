import { readCreateAccountRequest } from './request.ts'
import { Refusal } from './refusal.ts'
import { hex, type Inside } from './sign.ts'
import type { Hex } from './wire.ts'

const ACCOUNTS_FIRST = -1

/**
 * Verb `createAccount`: the user's account, made if there is none. It is a record of the ledger like a signature:
 * a store that lost it would otherwise make a second address for the same user without anyone noticing.
 * Errors: bad_request, key_damaged.
 */
export async function createAccount(inside: Inside, request: unknown): Promise<{ address: Hex }> {
  const { keys, ledger, group, now } = inside
  const { userId } = readCreateAccountRequest(request)
  // An account that is found is one that was committed: jobs run inside the open transaction and nothing between.
  const known = keys.ofUser(userId)
  if (known !== null) return { address: hex(known.address) }
  return group(ACCOUNTS_FIRST, () => {
    const account = keys.ofUser(userId) ?? make(userId)
    return { address: hex(account.address) }
  })

  function make(userId: string) {
    if (ledger.hasAccount(userId)) {
      throw new Refusal('key_damaged', 'The key of this user’s account is missing. Restore it from a backup.')
    }
    const account = keys.create(userId)
    ledger.append({ at: now(), kind: 'account', userId, address: account.address, rule: 'one-account-per-user' })
    return account
  }
}
