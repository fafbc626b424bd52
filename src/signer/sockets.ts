import { Refusal } from './refusal.ts'
import type { Handlers } from './socket.ts'
import { VERBS, type Verb } from '../signer-wire/wire.ts'

/** Returns the verbs of SIGNER_SOCKET if SIGNER_AUTH_SOCKET is set. */
export const ofApi = (handlers: Handlers): Handlers => only(handlers, 'api', 'SIGNER_AUTH_SOCKET')

/** Returns the verbs of SIGNER_AUTH_SOCKET. */
export const ofAuth = (handlers: Handlers): Handlers => only(handlers, 'auth', 'SIGNER_SOCKET')

/** Rejects the verbs of the other socket and names it, so that a misconfigured caller sees the cause. */
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
