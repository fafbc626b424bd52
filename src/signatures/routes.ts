/**
 * signatures: messages that users sign for applications.
 * Owns: the requests and their idempotency keys, the signatures, their lists, and the check of anyone's signature.
 * Does not own: what a message means (`messages/`), whether it is signed (`signer/`), approvals of users (`approvals/`).
 * Start with `sign.ts`.
 * Tables: signatures.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { underDeadline } from '../deadline.ts'
import { AppError } from '../errors.ts'
import { chainOf } from '../http/caller.ts'
import { linkNext } from '../http/cursor.ts'
import { readIdempotencyKey } from '../http/idempotency-key.ts'
import { readContent, type Content } from './content.ts'
import { listSignatures, readSignature } from './list.ts'
import { rehearseSignature, signMessage } from './sign.ts'
import { verifySignature } from './verify.ts'
import * as wire from './wire.ts'

/** Routes that sign. Each is the scope of its idempotency keys. */
const MESSAGE_ROUTE = '/v1/signatures/message'
const TYPED_DATA_ROUTE = '/v1/signatures/typed-data'

/** milliseconds after which a request that the signer has not begun is rejected */
const SIGN_MS = 20_000

/** Registers the routes that sign messages, verify signatures, and list the caller's own. */
export function signatures(server: FastifyInstance, app: App): void {
  /**
   * POST /v1/signatures/message: scope `messages:sign`. Errors: invalid_message, approval_required, approval_denied,
   * policy_denied.
   */
  server.post<{ Body: Static<typeof wire.MessageRequest> }>(
    MESSAGE_ROUTE,
    { schema: wire.message, config: { scope: 'messages:sign', hasUniqueNames: true } },
    (request, reply) => respond(app, request, reply, readContent(request.body)),
  )

  /**
   * POST /v1/signatures/typed-data: scope `messages:sign`, and `contracts:write` if the message moves tokens. Errors:
   * invalid_typed_data, insufficient_scope, approval_required, approval_denied, policy_denied.
   */
  server.post<{ Body: Static<typeof wire.TypedDataRequest> }>(
    TYPED_DATA_ROUTE,
    { schema: wire.typedData, config: { scope: 'messages:sign', hasUniqueNames: true } },
    (request, reply) => respond(app, request, reply, readContent(request.body)),
  )

  /** POST /v1/signatures/verify: any scope. Errors: invalid_address, invalid_message, invalid_typed_data, chain_unavailable. */
  server.post<{ Body: Static<typeof wire.VerifyRequest> }>(
    '/v1/signatures/verify',
    { schema: wire.verify, config: { scope: 'any', hasUniqueNames: true } },
    ({ caller, body }) => verifySignature(app, caller, { ...body, ...readContent(body) }),
  )

  /** GET /v1/signatures: scope `wallet:read`. Errors: invalid_cursor. */
  server.get<{ Querystring: Static<typeof wire.ListQuery> }>(
    '/v1/signatures',
    { schema: wire.list, config: { scope: 'wallet:read', admission: 'status' } },
    async (request, reply) => {
      const { limit = '50', cursor } = request.query
      const page = await listSignatures(app, request.caller, { limit: Number(limit), cursor })
      linkNext(reply, app, { path: '/v1/signatures', query: { limit }, cursor: page.nextCursor })
      return page.signatures
    },
  )

  /** GET /v1/signatures/:id: scope `wallet:read`. Errors: not_found. */
  server.get<{ Params: Static<typeof wire.IdParam> }>(
    '/v1/signatures/:id',
    { schema: wire.one, config: { scope: 'wallet:read', admission: 'status' } },
    (request) => readSignature(app, request.caller, request.params.id),
  )
}

/** Returns whether a rejected request costs no quota: it asked the user nothing, or the question was already open. */
const isFree = (error: unknown): boolean =>
  error instanceof AppError &&
  (error.code === 'rate_limited' || (error.code === 'approval_required' && !error.asksAnew))

/**
 * Signs, or performs a dry run. A repeat gets a header and costs no quota. A question to the user costs as much as a signature;
 * asking again costs nothing.
 * @throws idempotency_key_invalid, and the errors of `signMessage`
 */
async function respond(
  app: App,
  request: FastifyRequest<{ Body: { dryRun?: boolean; reference?: string } }>,
  reply: FastifyReply,
  content: Content,
): Promise<wire.SignAnswer | wire.SignDryRunAnswer> {
  const { caller, body, headers, ip, routeOptions } = request
  // Networks that are not served get no signatures.
  chainOf(app, caller)
  const key = readIdempotencyKey(headers)
  if (body.dryRun === true) return rehearseSignature(app, caller, content)
  const idempotency = key === undefined ? null : { route: routeOptions.url!, key }
  const asked = { ...content, idempotency, reference: body.reference ?? null, askedFrom: ip }
  const signing = underDeadline(app.clock.ticks() + SIGN_MS, () => signMessage(app, caller, asked))
  const { answer, isReplay } = await signing.catch((error: unknown) => {
    if (isFree(error)) request.quotaCharge?.giveBack()
    throw error
  })
  if (!isReplay) return answer
  request.quotaCharge?.giveBack()
  reply.header('idempotent-replayed', 'true')
  return answer
}
