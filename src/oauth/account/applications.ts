import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../../app.ts'
import { countWaiting } from '../../approvals/decide.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { ownSignIn } from '../first-party.ts'
import { chainName } from '../page-context.ts'
import { meaningOf } from '../pages.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import { listAllowed, revokeAllowed, type AllowedApplication } from './allowed.ts'
import { doneHtml, form } from './body.ts'
import { inTabs } from './tabs.ts'

/** Registers the page of the applications with access, and the form that revokes it. */
export function applicationsPage(server: FastifyInstance, app: App, { door }: { door: AccountDoor }): void {
  /** GET /account/applications */
  server.get<{ Querystring: Record<string, unknown> }>('/account/applications', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const { accountId, userId } = visitor.user
    const [allowed, waiting] = await Promise.all([
      listAllowed(app, { accountId, userId }),
      countWaiting(app, accountId),
    ])
    const page = applicationsBody(words, {
      csrf: door.csrfOf(visitor),
      waiting,
      applications: allowed.map((one) => ({ ...one, network: chainName(app, words, one.chainId) })),
    })
    const { applications: title } = words.account
    const body = `${await door.noticeFor(visitor, words)}${doneHtml(words, request.query)}${page}`
    return sendPage(reply, 200, { words, title, ...inTabs(words, 'applications'), hasScript: app.authOrigin, body })
  })

  /** POST /account/applications/revoke: `clientId`. */
  door.act('/account/applications/revoke', async ({ visitor: { user }, form: sent }) => {
    await revokeAllowed(app, user, sent.clientId ?? '')
    return 'revoked'
  })
}

type ShownApplication = AllowedApplication & { network: string }
type Applications = { csrf: string; waiting: number; applications: ShownApplication[] }

/** Renders what each application may do. @param waiting  number of requests that wait for the user’s approval */
export function applicationsBody(words: Texts, { csrf, waiting, applications }: Applications): string {
  const texts = words.account
  return html`
    <h1>${texts.applications}</h1>
    <p><a href="/account/approvals">${waiting === 0 ? words.approvals.inbox : words.approvals.link(waiting)}</a></p>
    !${
      applications.length === 0
        ? html`<section class="card"><p class="muted">${texts.noApplications}</p></section>`
        : applications.map((one) => applicationCard(words, csrf, one)).join('')
    }
  `
}

function applicationCard(
  words: Texts,
  csrf: string,
  { clientId, name, network, permissions, signIns }: ShownApplication,
): string {
  const texts = words.account
  const meanings = permissions.map((permission) => meaningOf(words, permission))
  const may = [words.consent.always, ...meanings.filter((meaning) => meaning !== undefined)]
  return html`<section class="card stack" aria-label="${name}">
    <div class="row spread">
      <h2>${name}</h2>
      <span class="badge">${network}</span>
    </div>
    <ul class="grants">
      !${may.map((meaning) => html`<li>${meaning}</li>`).join('')}
    </ul>
    <div class="row spread">
      <p class="muted"><small>${texts.signIns(signIns)}</small></p>
      !${form('/account/applications/revoke', csrf, { clientId }, html`<button class="button quiet danger" aria-label="${`${texts.revoke}: ${name}`}">${texts.revoke}</button>`)}
    </div>
  </section>`
}
