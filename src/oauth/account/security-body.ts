import { html } from 'ghtml'
import { timeHtml } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { timeText } from '../../texts/time.ts'
import type { Identity } from '../../users/identities.ts'
import { bindsCode, type ProviderSettings } from '../federation/providers.ts'
import { picture } from '../pages.ts'
import type { ListedSession } from '../sessions.ts'
import { form } from './body.ts'

export type SecurityParts = {
  words: Texts
  csrf: string
  username: string
  provider: string
  imageSrc: string | null
  identities: Identity[]
  providers: ProviderSettings[]
  sessions: ListedSession[]
  /** uid of the session of this browser */
  session: string
  canExport: boolean
}

/** Renders who the user is, where they are signed in, and what they can do with the account itself. */
export function securityBody(parts: SecurityParts): string {
  const { words, csrf, username, provider, imageSrc, session, canExport } = parts
  return html`
    <h1>${words.wallet.securityTitle}</h1>
    <section class="card row spread" aria-label="${username}">
      <div class="row who">
        !${picture(imageSrc, 'avatar')}
        <p><b>${username}</b> <span class="badge">${provider}</span></p>
      </div>
      !${form('/account/sessions/end', csrf, { uid: session }, html`<button class="button quiet">${words.wallet.thisDevice}</button>`)}
    </section>
    !${sessionsCard(parts)} !${identitiesCard(parts)}
    <section class="card stack tight">
      <h2>${words.wallet.records}</h2>
      <ul class="links">
        <li><a href="/account/signatures">${words.signatures.link}</a></li>
        <li><a href="/account/data.json" download>${words.account.data}</a></li>
        !${canExport ? html`<li><a href="/account/export">${words.exporting.title}</a></li>` : ''}
        <li><a class="danger" href="/account/erase">${words.account.erase}</a></li>
      </ul>
    </section>
  `
}

function identitiesCard({ words, csrf, identities, providers }: SecurityParts): string {
  const texts = words.account
  const item = ({ userId, provider, username, isFirst }: Identity): string =>
    html`<li class="row spread">
      <p>
        ${username}
        <span class="badge">${provider}</span
        >!${isFirst ? html` <span class="badge good">${texts.firstIdentity}</span>` : ''}
      </p>
      !${isFirst ? '' : form('/account/identities/remove', csrf, { identity: userId }, html`<button class="button quiet danger" aria-label="${`${texts.remove}: ${username} (${provider})`}">${texts.remove}</button>`)}
    </li>`
  return html`
    <section class="card stack">
      <h2>${texts.identities}</h2>
      <p class="muted">${texts.identitiesHint}</p>
      <ul class="rows">
        !${identities.map(item).join('')}
      </ul>
      !${providers
        .filter(bindsCode)
        .map(({ name, label }) =>
          form(
            '/account/identities/add',
            csrf,
            { provider: name },
            html`<button class="button quiet">${texts.add(label)}</button>`,
          ),
        )
        .join('')}
      !${providers
        .filter((one) => !bindsCode(one))
        .map(({ label }) => html`<p class="muted"><small>${words.refused.cannotLink(label)}</small></p>`)
        .join('')}
    </section>
  `
}

function sessionsCard({ words, csrf, sessions, session }: SecurityParts): string {
  const texts = words.account
  const item = ({ uid, signedInAt, browser, system }: ListedSession): string => {
    const where =
      browser !== null && system !== null
        ? texts.browserOn(browser, system)
        : (browser ?? system ?? texts.unknownBrowser)
    const time = timeText(words, signedInAt)
    // The label begins with the text of the button, for speech input (WCAG 2.5.3).
    const label = `${texts.signOut}: ${where}, ${texts.since(time)}`
    return html`<li class="row spread">
      <p>
        <b>${where}</b
        >!${uid === session ? html` <span class="badge good">${texts.thisBrowser}</span>` : ''}<br /><small
          class="muted"
          >!${sinceHtml(words, signedInAt)}</small
        >
      </p>
      !${form('/account/sessions/end', csrf, { uid }, html`<button class="button quiet" aria-label="${label}">${texts.signOut}</button>`)}
    </li>`
  }
  return html`
    <section class="card stack">
      <h2>${texts.sessions}</h2>
      <p class="muted">${texts.sessionsHint}</p>
      <ul class="rows">
        !${sessions.map(item).join('')}
      </ul>
      !${sessions.length < 2 ? '' : form('/account/sessions/end-others', csrf, {}, html`<button class="button quiet">${texts.signOutOthers}</button>`)}
      !${form('/account/sessions/end-everywhere', csrf, {}, html`<button class="button quiet danger">${texts.signOutEverywhere}</button>`)}
    </section>
  `
}

/** Renders a time as an element within its sentence, so that it can be shown in the reader's zone. */
function sinceHtml(words: Texts, time: Date): string {
  const [before, after] = words.account.since('\0').split('\0') as [string, string]
  return html`${before}!${timeHtml(words, time)}${after}`
}
