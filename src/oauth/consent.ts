import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { PageError } from '../texts/page-error.ts'
import { isTestNetwork } from '../texts/network-names.ts'
import { noteUser } from '../applications/registry.ts'
import { sendPage } from '../http/page.ts'
import { findUser, provenUser, userWire, type User } from '../users/find.ts'
import { ifProven } from '../users/proven-identity.ts'
import { cameByOf, stillHolds } from './came-by.ts'
import { addConsent, readConsent } from './consents.ts'
import { deniedCookie } from './denied.ts'
import { isOpenToOthers, keyOf, saveGrant } from './grants.ts'
import {
  applicationAt,
  begunAgain,
  finish,
  formOf,
  otherPerson,
  parameterOf,
  readInteraction,
  textsAt,
  type Interaction,
} from './interactions.ts'
import { consentBody } from './pages.ts'
import { questionsOf, SPENDS } from './scopes.ts'
import type { Secrets } from './secrets.ts'
import { isFresh } from './sessions.ts'
import { chainName } from './page-context.ts'

type ConsentParams = { uid: string }

/** Registers the page that asks whether an application may use the account, and the handler of the answer. */
export function consentPages(
  server: FastifyInstance,
  app: App,
  { provider, secrets }: { provider: Provider; secrets: Secrets },
): void {
  /** GET /consent/:uid */
  server.get<{ Params: ConsentParams }>('/consent/:uid', hidden, async (request, reply) => {
    const interaction = await current(request, reply)
    const application = await applicationAt(app, interaction)
    const user = await userAt(interaction)
    const { uid } = interaction
    const known = await readConsent(app, { accountId: user.accountId, clientId: application.clientId }, application)
    const { username, address, imageSrc } = userWire(await provenUser(app, user))
    const words = textsAt(interaction, request)
    // With a redirect URI that any program can receive, another program could impersonate the operator's.
    const isOwn = application.isFirstParty === true && !isOpen(application, interaction)
    const body = consentBody(words, {
      uid,
      csrf: secrets.csrfToken(uid),
      application: application.name,
      logoUri: application.logoUri,
      network: chainName(app, words, application.chainId),
      isTest: isTestNetwork(application.chainId),
      username,
      provider: user.provider,
      imageSrc,
      address,
      scopes: questionsOf(scopesOf(interaction), application),
      known,
      isAskedEachTime: isOpen(application, interaction) && keyIn(interaction) === undefined,
      operator: isOwn ? server.brand.name : null,
    })
    const { title, ownTitle } = words.consent
    return sendPage(reply, 200, { words, title: (isOwn ? ownTitle : title)(application.name), body })
  })

  /**
   * POST /consent/:uid: `answer` is allow, switch or deny. `switch` lets another user sign in. After `deny` the
   * application receives `access_denied`, and its next request asks which account to use.
   */
  server.post<{ Params: ConsentParams }>('/consent/:uid', hidden, async (request, reply) => {
    const interaction = await current(request, reply)
    const { csrf, answer } = formOf(request)
    if (!secrets.isCsrfTokenRight(interaction.uid, csrf))
      throw new PageError('sign_in_refused', ({ refused }) => refused.notOurForm)
    if (answer === 'switch') return reply.redirect(otherPerson(interaction), 303)
    if (answer !== 'allow') {
      const next = await finish(interaction, { error: 'access_denied', error_description: 'the user denied access' })
      const cookie = deniedCookie(app.authOrigin, parameterOf(interaction, 'client_id') ?? '')
      return reply.header('set-cookie', cookie).redirect(next, 303)
    }
    const application = await applicationAt(app, interaction)
    const { accountId, userId } = await userAt(interaction)
    const { clientId } = application
    const scopes = scopesOf(interaction)
    // The sign-in may have become too old while the page was open.
    if (scopes.includes(SPENDS) && !(await isRecent(interaction)))
      return reply.redirect(await begunAgain(interaction), 303)
    const key = isOpen(application, interaction) ? keyIn(interaction) : undefined
    await addConsent(app, { accountId, clientId, permissions: questionsOf(scopes, application), key, application })
    await noteUser(app.db, { clientId, accountId })
    const grant = await saveGrant(app, provider, {
      userId,
      clientId,
      scopes,
      identity: cameByOf(interaction.session)?.identity,
    })
    return reply.redirect(await finish(interaction, { consent: { grantId: grant.jti } }), 303)
  })

  const current = (request: FastifyRequest<{ Params: ConsentParams }>, reply: FastifyReply): Promise<Interaction> =>
    readInteraction(app, provider, {
      request: request.raw,
      response: reply.raw,
      uid: request.params.uid,
      name: 'consent',
    })

  async function isRecent({ session }: Interaction): Promise<boolean> {
    const found = session === undefined ? undefined : await provider.Session.findByUid(session.uid)
    return isFresh(found?.loginTs, app.clock)
  }

  async function userAt({ session }: Interaction): Promise<User> {
    const user = session === undefined ? null : await ifProven(findUser(app, session.accountId))
    if (user === null || !(await stillHolds(app, user, cameByOf(session))))
      throw new PageError('sign_in_expired', ({ refused }) => refused.signedOut)
    return user
  }
}

/** Returns the requested scopes; `resolveScopes` has limited them to the application's permissions. */
const scopesOf = (interaction: Interaction): string[] =>
  (parameterOf(interaction, 'scope') ?? '').split(' ').filter((scope) => scope !== '')

const isOpen = (application: Application, interaction: Interaction): boolean =>
  isOpenToOthers(application, parameterOf(interaction, 'redirect_uri') ?? '')

const keyIn = (interaction: Interaction): string | undefined => keyOf(parameterOf(interaction, 'dpop_jkt'))

const hidden = { schema: { hide: true } }
