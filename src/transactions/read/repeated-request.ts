import type { App } from '../../app.ts'
import type { Caller } from '../../http/bearer.ts'
import { toBound, type Intent } from '../intent.ts'
import { findKey } from '../key.ts'
import { toOperation } from '../operation.ts'
import { toHex } from '../../hex.ts'

/**
 * What a request with this key has sent, so that a repeat neither looks it up nor asks it anew: the name of a recipient may be
 * someone else's by now. Null when nothing was sent: what is signed then is what this request says.
 * @throws idempotency_key_reused, idempotency_in_flight
 */
export async function findBegun(
  app: Pick<App, 'clock' | 'db'>,
  { accountId, clientId }: Pick<Caller, 'accountId' | 'clientId'>,
  { key, route, requestHash }: { key: string; route: string; requestHash: Uint8Array },
): Promise<Intent | null> {
  const known = await findKey(app, {
    scope: { accountId, clientId, route, key },
    requestHash: Buffer.from(requestHash),
  })
  // No ABI is kept beside what is called.
  const rest = { abi: '', fn: null, errors: [] }
  if (!('told' in known)) return null
  const { told } = known
  if (told.sequence === undefined) {
    const { to, value, data } = toBound(told)
    return { to, value, data, ...rest }
  }
  const { to, value, data } = toOperation(told).calls[0]!
  return { to: toHex(to), value, data: toHex(data), ...rest }
}
