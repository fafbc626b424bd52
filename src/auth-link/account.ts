import { Agent } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { Type, type Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { bearerToken, type Caller } from '../http/bearer.ts'
import type { AccountOwner, AccountSending, AccountSlices, Sender } from '../oauth/account/slices.ts'
import type { PrivateKeys } from '../oauth/keys.ts'
import { ownCaller, ownToken } from '../oauth/own-token.ts'
import { answerOf, pack } from './connect.ts'

const READS = [
  'readBalances',
  'readCollectibles',
  'readTransfers',
  'readNativeTransfers',
  'readNativeEntries',
  'readSent',
  'readActivity',
  'readReceipt',
  'readKnown',
  'simulate',
  'readMessages',
  'readSignatures',
  'look',
  'sendable',
] as const
const SENDS = ['rehearse', 'send'] as const
type AccountVerb = (typeof READS)[number] | (typeof SENDS)[number]

const Asked = Type.Object({ args: Type.Array(Type.Unknown(), { maxItems: 2 }) }, { additionalProperties: false })

/** A sender, with the caller that their token was verified to be. */
type ProvenSender = Sender & { caller: Caller }
/** Returns the caller for `accountSending`: `serveAccount` has verified the token. */
export const callerAtDoor = async (sender: Sender): Promise<Caller> => (sender as ProvenSender).caller

/**
 * Registers POST /internal/account/:verb: the reads and transfers of the account page in the other program. It needs a
 * token of our own client, which only the authorization server can make, for one user and one minute. Without it, the
 * response is 404.
 */
export function serveAccount(
  server: FastifyInstance,
  app: App,
  slices: AccountSlices & { sending: AccountSending },
): void {
  server.post<{ Params: { verb: string }; Body: Static<typeof Asked> }>(
    '/internal/account/:verb',
    { schema: { hide: true, body: Asked } },
    async (request, reply) => {
      const caller = await ownCaller(app, bearerToken(request)).catch((error: unknown) => {
        throw error instanceof AppError && error.code === 'invalid_token'
          ? new AppError('not_found', 'This route does not exist. Nothing was done.', { cause: error })
          : error
      })
      const { verb } = request.params
      const isRead = (READS as readonly string[]).includes(verb)
      if (!isRead && !((SENDS as readonly string[]).includes(verb) && caller.scopes.has('contracts:write')))
        throw new AppError('not_found', 'This route does not exist. Nothing was done.')
      const { accountId, userId, address, chainId } = caller
      const sender: ProvenSender = { accountId, userId, address, sessionUid: '', caller }
      const verbs = {
        ...slices,
        ...slices.sending,
        readSignatures: (owner: AccountOwner, _chainId: number, page: { cursor?: string }) =>
          slices.readSignatures(owner, page),
      } as unknown as Record<AccountVerb, (...args: unknown[]) => Promise<unknown>>
      const answer = await verbs[verb as AccountVerb](sender, chainId, ...request.body.args)
      return reply.header('cache-control', 'no-store').type('application/json').send(pack(answer))
    },
  )
}

/**
 * Opens the slices of the account page in the authorization server: it requests them from the API at an internal
 * address.
 */
export function accountThrough(app: App, keys: PrivateKeys, apiUrl: string): AccountSlices {
  const { hostname, port } = new URL(apiUrl)
  const agent = new Agent({ keepAlive: true })

  async function ask(
    verb: AccountVerb,
    owner: AccountOwner | Sender,
    chainId: number,
    ...args: unknown[]
  ): Promise<unknown> {
    const isSend = (SENDS as readonly string[]).includes(verb)
    const sessionUid = isSend ? (owner as Sender).sessionUid : null
    const token = await ownToken(app, keys, { userId: owner.userId, sessionUid, chainId })
    const asked = {
      agent,
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: Number(port || 80),
      method: 'POST' as const,
      path: `/internal/account/${verb}`,
      headers: { authorization: `Bearer ${token}` },
    }
    return answerOf(asked, { args }).catch((cause: unknown) => {
      if (cause instanceof AppError) throw cause
      throw new AppError('shutting_down', 'The API did not respond. A write may have been sent. Retry in a moment.', {
        retryAfter: 1,
        cause,
      })
    })
  }
  const verb = (name: AccountVerb) => ask.bind(null, name) as never

  return {
    readBalances: verb('readBalances'),
    readCollectibles: verb('readCollectibles'),
    readTransfers: verb('readTransfers'),
    readNativeTransfers: verb('readNativeTransfers'),
    readNativeEntries: verb('readNativeEntries'),
    readSent: verb('readSent'),
    readActivity: verb('readActivity'),
    readReceipt: verb('readReceipt'),
    readKnown: verb('readKnown'),
    simulate: verb('simulate'),
    readMessages: verb('readMessages'),
    // A token is for one network, but signatures are listed for all.
    readSignatures: async (owner, page) =>
      (await ask('readSignatures', owner, app.networks.keys().next().value ?? 0, page)) as never,
    sending: { rehearse: verb('rehearse'), send: verb('send'), look: verb('look'), sendable: verb('sendable') },
  }
}
