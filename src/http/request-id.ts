import type { IncomingMessage } from 'node:http'
import { newRequestId } from '../ids.ts'

const REQUEST_ID = /^[A-Za-z0-9-]{8,64}$/

/** Returns the request id that the client sent, if it is well-formed, else a new one. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : newRequestId()
}
