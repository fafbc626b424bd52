import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { readMe, readUser } from './read.ts'
import * as wire from './wire.ts'

/** The signed-in user. */
export function users(server: FastifyInstance, app: App): void {
  /** GET /v1/users/:userId: scope `wallet:read`, machines `users:read`. Errors: forbidden_user, invalid_user_id. */
  server.get<{ Params: { userId: string } }>(
    '/v1/users/:userId',
    { schema: wire.readUser, config: { scope: 'wallet:read', machineScope: 'users:read' } },
    (request) => readUser(app, request.reader, request.params),
  )

  /** GET /v1/me: any token of this service. */
  server.get('/v1/me', { schema: wire.readMe, config: { scope: 'any' } }, (request) => readMe(app, request.caller))
}
