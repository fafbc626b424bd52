import { toHex } from '../../hex.ts'
import type { KeptDek } from '../keys/deks.ts'
import type { Keys } from '../keys/keys.ts'
import { readAfterRequest } from '../request.ts'
import type { WrappedAccount, WrappedDataKey, WrappedKey, WrappedPage } from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/**
 * Maximum keys per answer: a user id takes up to 1,200 bytes of the 524,288 bytes of a frame, and the rest of a key
 * 350.
 */
const MAX_KEYS = 250

/** Handles the verb `wrapped`: returns a page of wrapped keys and data keys for a second copy. Errors: bad_request. */
export function wrappedPage(keys: Keys, request: unknown): WrappedPage {
  const { after } = readAfterRequest(request)
  const { accounts, through } = keys.page(after, MAX_KEYS)
  return {
    keys: accounts.map((account) => toWrappedKey(account, keys.dataKeyOf(account.epoch))),
    dataKeys: keys.dataKeys().map(toWrappedDataKey),
    generation: keys.generation(),
    through,
    isEnd: accounts.length < MAX_KEYS,
  }
}

/** Formats an account's wrapped key, with its data key, for the wire. */
export function toWrapped(keys: Keys, account: KeptAccount): WrappedAccount {
  const dataKey = keys.dataKeyOf(account.epoch)
  return { key: toWrappedKey(account, dataKey), dataKey: toWrappedDataKey(dataKey) }
}

const toWrappedKey = ({ userId, address, version, wrapped, iv, tag }: KeptAccount, { id }: KeptDek): WrappedKey => ({
  userId,
  address: toHex(address),
  version,
  dataKeyId: toHex(id),
  wrapped: toHex(wrapped),
  iv: toHex(iv),
  tag: toHex(tag),
})

const toWrappedDataKey = ({ id, epoch, provider, wrapped, createdAt }: KeptDek): WrappedDataKey => ({
  id: toHex(id),
  epoch,
  provider,
  wrapped: toHex(wrapped),
  createdAt,
})
