/**
 * approvals: questions to users about requests of applications.
 * Owns: the questions, one at a time for each signature or write; the decisions, and the approval tokens for the signer.
 * Does not own: which requests need an approval (`signer/`), the page and the approval token (`oauth/approvals/`).
 * Tables: approvals.
 */

import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { approvalUrl } from './ask.ts'
import { readApproval } from './decide.ts'
import * as wire from './wire.ts'

/** Registers the route that returns a user's decision to the application. */
export function approvals(server: FastifyInstance, app: App): void {
  /** GET /v1/approvals/:id: any scope. Errors: not_found. */
  server.get<{ Params: Static<typeof wire.IdParam> }>(
    '/v1/approvals/:id',
    { schema: wire.one, config: { scope: 'any', admission: 'status' } },
    (request) => readOwnApproval(app, request.caller, request.params),
  )
}

/** @throws not_found  if this user has no question with this id of this application */
async function readOwnApproval(app: App, caller: Caller, { id }: { id: string }): Promise<wire.WireApproval> {
  const approval = await readApproval(app, id)
  if (approval === null || approval.accountId !== caller.accountId || approval.clientId !== caller.clientId)
    throw new AppError('not_found', 'This application has asked its user no question with this id. Check the id.')
  const { state, rule, createdAt, expiresAt, decidedAt } = approval
  return {
    id,
    state,
    url: approvalUrl(app, id),
    rule,
    createdAt: createdAt.toISOString(),
    expiresAt: expiresAt.toISOString(),
    decidedAt: decidedAt?.toISOString() ?? null,
  }
}
