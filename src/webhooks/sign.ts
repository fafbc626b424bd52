import { createHmac, randomBytes } from 'node:crypto'

/** Makes a secret: 32 random bytes. Source: Standard Webhooks, symmetric secrets */
export const newSigningSecret = (): Buffer => randomBytes(32)

/** Formats a secret as its holder gets it. */
export const showSecret = (secret: Uint8Array): string => `whsec_${Buffer.from(secret).toString('base64')}`

/**
 * Returns the headers by which a server verifies a delivery. Each secret gives one signature.
 * @param at  seconds since 1970
 * Source: Standard Webhooks 1.0, signature scheme v1
 */
export function signatureHeaders(
  secrets: readonly Uint8Array[],
  { id, at, body }: { id: string; at: number; body: string },
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const signed = secrets.map(
    (secret) => `v1,${createHmac('sha256', secret).update(`${id}.${at}.${body}`).digest('base64')}`,
  )
  return { 'webhook-id': id, 'webhook-timestamp': String(at), 'webhook-signature': signed.join(' ') }
}
