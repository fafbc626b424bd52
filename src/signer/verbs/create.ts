import { toHex } from '../../hex.ts'
import { attestationOf } from './attest.ts'
import { readCreateAccountRequest } from '../request.ts'
import { Refusal } from '../refusal.ts'
import type { Inside } from './pipeline.ts'
import type { Verbs } from '../../signer-wire/wire.ts'
import { toWrapped } from './wrapped.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

const ACCOUNTS_FIRST = -1

/**
 * Handles the verb `createAccount`: returns the user's account and creates it if there is none. Records a new account
 * in the ledger like a signature. Otherwise a store that lost the account would silently create a second address for
 * the same user. Errors: bad_request, key_damaged.
 */
export async function createAccount(inside: Inside, request: unknown): Promise<Verbs['createAccount']['answer']> {
  const { keys, ledger, group, now, identity } = inside
  const { userId } = readCreateAccountRequest(request)
  // An account found here is committed, because jobs run inside the open transaction, and nothing else runs in between.
  const known = keys.ofUser(userId)
  if (known !== null) return answer(known, { isNew: false })
  // Do not wait for the master key. Until the next data key exists, the newest one wraps more accounts than its limit.
  keys.prepare()
  return group(ACCOUNTS_FIRST, () => {
    const found = keys.ofUser(userId)
    return found === null ? answer(make(userId), { isNew: true }) : answer(found, { isNew: false })
  })

  function answer(account: KeptAccount, { isNew }: { isNew: boolean }) {
    const attestation = attestationOf(identity, keys, account)
    return { address: toHex(account.address), wrapped: toWrapped(keys, account), attestation, isNew }
  }

  function make(userId: string) {
    if (ledger.hasAccount(userId)) {
      throw new Refusal('key_damaged', 'The signer has lost the key of this account. Restore the key from a backup.')
    }
    const account = keys.create(userId)
    ledger.append({ at: now(), kind: 'account', userId, address: account.address, rule: 'one-account-per-user' })
    return account
  }
}
