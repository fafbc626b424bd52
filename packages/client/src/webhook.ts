import type { FeedEvent } from './wire.ts'

/** Headers of a webhook: those of a `Request`, or of Node.js. */
type WebhookHeaders = Headers | Record<string, string | string[] | undefined>

/** A webhook as a server received it. `body` has to be the bytes or the text as they arrived, not parsed JSON. */
export type ReceivedWebhook = { headers: WebhookHeaders; body: string | Uint8Array }

export type VerifyWebhookOptions = {
  /** maximum age and maximum time ahead, in seconds; 300 if absent */
  toleranceSeconds?: number
  /** milliseconds since 1970; the current time if absent */
  now?: number
}

/** A webhook that did not come from the service, or is too old. Respond with status 400 and do nothing. */
export class InvalidWebhook extends Error {
  override readonly name = 'InvalidWebhook'
}

/**
 * Checks the signature and the time of a webhook. Respond with a 2xx status only after its effect is stored; the same event can
 * come again.
 * @param secret  `whsec_…`; several while a secret is being replaced
 * @throws InvalidWebhook
 * Source: Standard Webhooks 1.0
 */
export async function verifyWebhook(
  received: ReceivedWebhook | Request,
  secret: string | readonly string[],
  { toleranceSeconds = 300, now = Date.now() }: VerifyWebhookOptions = {},
): Promise<FeedEvent> {
  const body = received instanceof Request ? new Uint8Array(await received.arrayBuffer()) : received.body
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
  const id = headerOf(received.headers, 'webhook-id')
  const at = headerOf(received.headers, 'webhook-timestamp')
  const signed = headerOf(received.headers, 'webhook-signature')
  if (!/^\d{1,12}$/.test(at)) throw new InvalidWebhook('The webhook has no valid time.')
  if (Math.abs(now / 1_000 - Number(at)) > toleranceSeconds)
    throw new InvalidWebhook('The webhook is too old, or from the future.')
  const prefix = new TextEncoder().encode(`${id}.${at}.`)
  const content = new Uint8Array(prefix.length + bytes.length)
  content.set(prefix)
  content.set(bytes, prefix.length)
  const signatures = signed
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => bytesOf(one.slice(3)))
  for (const one of typeof secret === 'string' ? [secret] : secret) {
    const key = await crypto.subtle.importKey('raw', keyOf(one), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
    for (const signature of signatures)
      // Compares in constant time.
      if (signature !== null && (await crypto.subtle.verify('HMAC', key, signature, content)))
        return JSON.parse(new TextDecoder().decode(bytes)) as FeedEvent
  }
  throw new InvalidWebhook('No signature of the webhook is valid.')
}

function headerOf(headers: WebhookHeaders, name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1]
  const text = Array.isArray(value) ? value[0] : value
  if (text === undefined || text === null || text === '') throw new InvalidWebhook(`The header ${name} is missing.`)
  return text
}

function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  const key = bytesOf(secret.replace(/^whsec_/, ''))
  if (key === null || key.length === 0) throw new TypeError('The secret of a webhook is whsec_ and base64.')
  return key
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(base64), (character) => character.codePointAt(0)!)
  } catch {
    return null
  }
}
