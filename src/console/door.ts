import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { openLimit, spend } from '../http/limits.ts'
import { sendPage, textsOf } from '../http/page.ts'
import type { UserId } from '../ids.ts'
import { ownSignIn } from '../oauth/first-party.ts'
import { formOf } from '../oauth/interactions.ts'
import type { SignedInParts } from '../oauth/oauth.ts'
import { isFresh, readVisitor } from '../oauth/sessions.ts'
import { readRole, type ConsoleRole } from '../operator/operators.ts'
import type { Texts } from '../texts/en.ts'
import { PageError } from '../texts/page-error.ts'
import { consoleBody, type PlaceInConsole } from './layout.ts'

/** Page views and actions of one operator, per second and at once. */
const PER_SECOND = 5
const BURST = 60
/** Maximum age of a sign-in, in seconds, for sensitive actions. */
const FRESH_SECONDS = 300

/** An operator and their request. `userId`: the identity that signed in, under which actions are recorded. */
export type ConsoleVisit = {
  userId: UserId
  role: ConsoleRole
  words: Texts
  csrf: string
  query: Record<string, string | undefined>
  params: Record<string, string>
  reply: FastifyReply
}

export type ConsoleContent = { place: PlaceInConsole; title: string; body: string }
type ConsoleForm = Record<string, string | undefined>
/** `path`: where a page comes back to after a sign-in */
type PostedVisit = ConsoleVisit & { form: ConsoleForm; requireFresh(path: string): boolean }

/** The entry to every page of the console. Without a role, its pages do not exist. */
export type ConsoleDoor = {
  /** Registers a page that any role may read. */
  page(path: string, draw: (visit: ConsoleVisit) => Promise<ConsoleContent>): void
  /** Registers a form. `work` returns a path to redirect to, or a page. */
  post(
    path: string,
    work: (visit: PostedVisit) => Promise<string | ConsoleContent>,
    options?: { maxBytes: number },
  ): void
}

/** Opens the entry: it finds the operator by the session, and reads the role from the database at each request. */
export function openConsoleDoor(server: FastifyInstance, app: App, { provider, secrets }: SignedInParts): ConsoleDoor {
  const { authOrigin: origin } = app
  const limit = openLimit({ name: 'console', perSecond: PER_SECOND, burst: BURST, now: () => app.clock.wall() })
  const purposeOf = (sessionUid: string): string => `console ${sessionUid}`

  /** Returns null for a visitor without a session. @throws not_found for a user without a role */
  async function arrive(request: FastifyRequest, reply: FastifyReply) {
    const visitor = await readVisitor(app, provider, request, reply)
    if (visitor === null) return null
    if (app.config.RATE_LIMITS === 'on') spend(limit, visitor.user.accountId, reply)
    const words = textsOf(request)
    // The identity that signed in, and no other one of the account: linking an identity gives it no role.
    const userId = visitor.cameBy?.identity ?? null
    const role = userId === null ? null : await readRole(app, userId)
    if (userId === null || role === null) throw new PageError('not_found', ({ missing }) => missing.hint)
    request.backLink = { href: '/console', text: words.console.back, words }
    const visit: ConsoleVisit = {
      userId,
      role,
      words,
      csrf: secrets.csrfToken(purposeOf(visitor.sessionUid)),
      query: textsIn(request.query),
      params: request.params as Record<string, string>,
      reply,
    }
    return { visit, visitor }
  }

  const show = (
    { words, reply, userId, role, query }: ConsoleVisit,
    { place, title, body }: ConsoleContent,
  ): FastifyReply =>
    sendPage(reply, 200, {
      words,
      title,
      layout: 'wide',
      hasScript: origin,
      body: consoleBody(words, { userId, role, place, body, search: query.q ?? '' }),
    })

  return {
    page(path, draw) {
      // An operator looks when there is load.
      server.get(path, { schema: { hide: true }, config: { admission: 'vital' } }, async (request, reply) => {
        const arrived = await arrive(request, reply)
        if (arrived === null) return leave(reply, ownSignIn(origin, { comesBackTo: `open.${pathOf(request)}` }))
        return show(arrived.visit, await draw(arrived.visit))
      })
    },
    post(path, work, options) {
      const limited = options === undefined ? {} : { bodyLimit: options.maxBytes }
      const route = { schema: { hide: true }, config: { admission: 'vital' as const }, ...limited }
      server.post(path, route, async (request, reply) => {
        const arrived = await arrive(request, reply)
        if (arrived === null) return leave(reply, '/console')
        const { visit, visitor } = arrived
        const form = formOf(request)
        if (!secrets.isCsrfTokenRight(purposeOf(visitor.sessionUid), form.csrf))
          throw new PageError('sign_in_refused', ({ refused }) => refused.notOurForm)
        let signIn: string | null = null
        const requireFresh = (back: string): boolean => {
          if (isFresh(visitor.signedInAt, app.clock, FRESH_SECONDS)) return true
          signIn = ownSignIn(origin, { comesBackTo: `act.${back}` })
          return false
        }
        const outcome = await work({ ...visit, form, requireFresh })
        if (typeof outcome !== 'string') return show(visit, outcome)
        return leave(reply, signIn ?? outcome)
      })
    },
  }
}

const leave = (reply: FastifyReply, href: string): FastifyReply =>
  reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer').redirect(href, 303)

const pathOf = ({ url }: FastifyRequest): string => url.split('?', 1)[0]!

/** Returns the parameters that are given once. PostgreSQL rejects NUL. */
function textsIn(query: unknown): Record<string, string | undefined> {
  const entries = Object.entries(query as Record<string, unknown>)
  return Object.fromEntries(
    entries.filter(
      (pair): pair is [string, string] =>
        typeof pair[1] === 'string' && !pair[1].includes('\0') && pair[1].isWellFormed(),
    ),
  )
}

/** Returns the error for a page about something that does not exist. */
export const nothingThere = (): AppError => new PageError('not_found', ({ console: words }) => words.search.none)
