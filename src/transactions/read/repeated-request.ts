import type { App } from '../../app.ts'
import { askedApproval } from '../../approvals/ask.ts'
import type { Caller } from '../../http/bearer.ts'
import { toBound, type Intent } from '../intent.ts'
import { findKey } from '../key.ts'
import { toOperation } from '../operation.ts'
import { toHex } from '../../hex.ts'

/**
 * Returns the intent that an earlier request with this key has sent, or asked its user about. A retry then does not
 * resolve the recipient again, whose name may have passed to another user. If null, this request's content is signed.
 * @returns `isTold`: the intent was sent, and the retry only returns the response
 * @throws idempotency_key_reused, idempotency_in_flight, approval_denied
 */
export async function findBegun(
  app: Pick<App, 'clock' | 'db'>,
  { accountId, clientId }: Pick<Caller, 'accountId' | 'clientId'>,
  { key, route, requestHash }: { key: string; route: string; requestHash: Uint8Array },
): Promise<{ intent: Intent; isTold: boolean } | null> {
  const known = await findKey(app, {
    scope: { accountId, clientId, route, key },
    requestHash: Buffer.from(requestHash),
  })
  // The ABI is not needed to repeat a response.
  const rest = { abi: '', fn: null, errors: [] }
  if ('free' in known) {
    const asked = await askedApproval(app, known.free)
    if (asked === null || !('calls' in asked.content) || asked.requestHash?.equals(requestHash) !== true) return null
    const { to, value, data } = asked.content.calls[0]!
    return { intent: { to, value: BigInt(value), data, ...rest }, isTold: false }
  }
  if (!('told' in known)) return null
  const { told } = known
  if (told.sequence === undefined) {
    const { to, value, data } = toBound(told)
    return { intent: { to, value, data, ...rest }, isTold: true }
  }
  const { to, value, data } = toOperation(told).calls[0]!
  return { intent: { to: toHex(to), value, data: toHex(data), ...rest }, isTold: true }
}
