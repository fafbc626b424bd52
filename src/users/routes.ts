/**
 * users: users, their accounts and their identities.
 * Owns: identities, profiles, freezing, accounts created before a first sign-in, read access (`authorize.ts`), the
 *   signer's attestations of addresses, and a copy of the wrapped keys.
 * Does not own: signing in (`oauth/`), keys in the clear (`signer/`), what an application may do (`applications/`,
 *   `oauth/consents.ts`).
 * Tables: accounts, accounts_attested, identities, wrapped_data_keys, wrapped_keys, wrapped_keys_copied.
 */

import type { FastifyInstance } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { linkNext } from '../http/cursor.ts'
import { openLimit, spend } from '../http/limits.ts'
import { findByName, listUsers, refuse } from './directory.ts'
import { readMe, readUser } from './read.ts'
import * as wire from './wire.ts'

/** Maximum names that one user may search per minute: enough to send to someone, too few to read a directory. */
const NAMES_PER_MINUTE = 10

/** Registers the routes of the signed-in user and of an application's users. */
export function users(server: FastifyInstance, app: App): void {
  const limit = openLimit({
    name: 'directory',
    perSecond: NAMES_PER_MINUTE / 60,
    burst: NAMES_PER_MINUTE,
    now: () => app.clock.wall(),
  })

  /**
   * GET /v1/users: with `users:directory`, users of the application by their name; for machines with `users:read`, all
   * of them, in pages. Errors: invalid_request, invalid_cursor, rate_limited.
   */
  server.get<{ Querystring: Static<typeof wire.UsersQuery> }>(
    '/v1/users',
    { schema: wire.listUsers, config: { scope: 'users:directory', machineScope: 'users:read' } },
    async ({ reader, query }, reply) => {
      const { username, provider, limit: asked, cursor } = query
      if (reader.kind !== 'machine') {
        if (username === undefined) throw refuse('username', 'A user can find others only by exact name.')
        if (asked !== undefined || cursor !== undefined) throw refuse('limit', 'A search by name has no pages.')
        if (app.config.RATE_LIMITS === 'on') spend(limit, reader.accountId, reply)
        return findByName(app, reader, { username, provider })
      }
      if (username !== undefined || provider !== undefined)
        throw refuse('username', 'An application token lists all users and accepts no name.')
      const page = await listUsers(app, reader, { limit: Number(asked ?? '50'), cursor })
      linkNext(reply, app, { path: '/v1/users', query: { limit: asked ?? '50' }, cursor: page.nextCursor })
      return page.users
    },
  )

  /**
   * GET /v1/users/:userId: needs `wallet:read`; for other users of the application also `users:directory`; for machines
   * `users:read`. Errors: forbidden_user, invalid_user_id.
   */
  server.get<{ Params: { userId: string } }>(
    '/v1/users/:userId',
    { schema: wire.readUser, config: { scope: 'wallet:read', machineScope: 'users:read' } },
    (request) => readUser(app, request.reader, request.params),
  )

  /** GET /v1/me: any token of this service. */
  server.get('/v1/me', { schema: wire.readMe, config: { scope: 'any' } }, (request) => readMe(app, request.caller))
}
