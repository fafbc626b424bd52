import { checksumAddress } from '../digits.ts'
import { parseAbi } from '../abi/parse.ts'
import type { Chain } from '../chain/network.ts'
import type { Caller } from '../http/bearer.ts'
import type { AccountOwner, SentTransaction } from '../oauth/account/slices.ts'
import type { OwnTransaction } from '../transactions/read/list-own.ts'

/** Returns a transaction as the page shows it. */
export function sentOf({ decimals, symbol, explorer }: Chain, own: OwnTransaction): SentTransaction {
  const { id, clientId, application, state, hash, to, value, fee, sentAt } = own
  return {
    id,
    clientId,
    application,
    state,
    called: calledBy(own),
    to: checksumAddress(to),
    value: { value, decimals, symbol },
    fee: fee === null ? null : { value: fee, decimals, symbol },
    explorerUrl: explorer.tx(hash),
    sentAt,
  }
}

/** Returns the name of the called function, or `0x…` if the caller gave no ABI; null for a call without data. */
function calledBy({ abi, hasData }: OwnTransaction): string | null {
  if (!hasData) return null
  if (abi === '') return '0x…'
  try {
    return parseAbi(abi).function.name
  } catch {
    // This program cannot parse the ABI, although the one that sent the transaction could.
    return '0x…'
  }
}

/** Returns the user as the caller of functions that only read. */
export const callerOf = (owner: AccountOwner, chainId: number): Caller => ({
  ...owner,
  chainId,
  clientId: '',
  scopes: new Set(),
  grantId: '',
  tokenId: '',
  expiresAt: 0,
  token: '',
})
