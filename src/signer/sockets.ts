import { Refusal } from './refusal.ts'
import type { Handlers } from './socket.ts'
import type { Verb } from './wire.ts'

/** What the program that answers applications asks: signatures for tokens that it is shown, and what was signed. */
const OF_API = new Set<Verb>([
  'greeting',
  'prove',
  'sign',
  'check',
  'signOperation',
  'checkOperation',
  'signOuter',
  'cancelOuter',
  'recall',
  'recallSince',
  'attest',
  'signatures',
  'health',
])
/** What the authorization server asks: accounts and their keys, a person's own among them, and that tokens are no longer good. It has nothing signed. */
const OF_AUTH = new Set<Verb>(['greeting', 'prove', 'createAccount', 'attest', 'signatures', 'wrapped', 'revocations', 'askKey', 'cancelKey', 'takeKey', 'keyExport', 'exported', 'heldElsewhere', 'keyExports', 'health']) // prettier-ignore

/** The verbs of SIGNER_SOCKET beside a SIGNER_AUTH_SOCKET. */
export const ofApi = (handlers: Handlers): Handlers => only(handlers, OF_API, 'SIGNER_AUTH_SOCKET')

/** The verbs of SIGNER_AUTH_SOCKET. */
export const ofAuth = (handlers: Handlers): Handlers => only(handlers, OF_AUTH, 'SIGNER_SOCKET')

/** Refused by name: anyone who has the wrong socket is told so, and can do nothing else there. */
function only(handlers: Handlers, verbs: ReadonlySet<Verb>, other: string): Handlers {
  const served = Object.entries(handlers).map(([verb, handle]) => [
    verb,
    verbs.has(verb as Verb)
      ? handle
      : () => {
          throw new Refusal('bad_request', `${verb} is asked on ${other} only.`)
        },
  ])
  return Object.fromEntries(served) as Handlers
}
