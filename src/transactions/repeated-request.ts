import type { App } from '../app.ts'
import type { Caller } from '../http/bearer.ts'
import { toBound, type Intent } from './intent.ts'
import { findKey } from './key.ts'
import { toOperation } from './operation.ts'
import { toHex } from '../store/bytes.ts'

/**
 * What a repeat of a request began before, so that it is neither looked up nor asked anew: the name of a recipient may be
 * someone else's by now. Null when the key is free; a database that went back says so too, and is corrected while
 * sending.
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
  if ('free' in known) return null
  if ('carried' in known || 'uncarried' in known) {
    const [first] = toOperation('carried' in known ? known.carried : known.uncarried).calls
    const { to, value, data } = first!
    return { to: toHex(to), data: toHex(data), value, abi: '', fn: null, errors: [] }
  }
  const { to, data, value } = toBound('told' in known ? known.told : known.unsigned)
  return { to, data, value, abi: '', fn: null, errors: [] }
}
