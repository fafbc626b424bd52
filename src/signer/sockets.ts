import { Refusal } from './refusal.ts'
import type { Handlers } from './socket.ts'
import { VERBS, type Verb } from '../signer-wire/wire.ts'

/** The verbs of SIGNER_SOCKET beside a SIGNER_AUTH_SOCKET. */
export const ofApi = (handlers: Handlers): Handlers => only(handlers, 'api', 'SIGNER_AUTH_SOCKET')

/** The verbs of SIGNER_AUTH_SOCKET. */
export const ofAuth = (handlers: Handlers): Handlers => only(handlers, 'auth', 'SIGNER_SOCKET')

/** Refused by name: anyone who has the wrong socket is told so, and can do nothing else there. */
function only(handlers: Handlers, side: 'api' | 'auth', other: string): Handlers {
  const served = Object.entries(handlers).map(([verb, handle]) => [
    verb,
    [side, 'both'].includes(VERBS[verb as Verb].of)
      ? handle
      : () => {
          throw new Refusal('bad_request', `${verb} is available only on ${other}.`)
        },
  ])
  return Object.fromEntries(served) as Handlers
}
