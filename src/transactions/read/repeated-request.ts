import type { App } from '../../app.ts'
import type { Caller } from '../../http/bearer.ts'
import { toBound, type Intent } from '../intent.ts'
import { findKey } from '../key.ts'
import { toOperation } from '../operation.ts'
import { toHex } from '../../hex.ts'

/**
 * Returns what a request with this key has sent. A retry then does not resolve the recipient again, whose name may
 * have passed to another user. Null if nothing was sent: then this request's content is signed.
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
  // The ABI is not needed to repeat a response.
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
