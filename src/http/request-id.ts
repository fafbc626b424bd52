import type { IncomingMessage } from 'node:http'
import { newRequestId } from '../ids.ts'

const REQUEST_ID = /^[A-Za-z0-9-]{8,64}$/

/** The id that a client gave its request, or one of ours. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : newRequestId()
}
