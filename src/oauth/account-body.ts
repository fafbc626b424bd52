import { html } from 'ghtml'
import type { Identity } from '../users/identities.ts'
import type { AllowedApplication } from './allowed.ts'
import { meaningOf } from './pages.ts'
import type { ProviderSettings } from './providers.ts'
import { qrSvg } from './qr.ts'
import type { ListedSession } from './sessions.ts'
import { texts, timeText } from './texts.ts'

export type Holding = { formatted: string; symbol: string; name: string }
export type Movement = {
  direction: 'IN' | 'OUT' | 'SELF'
  /** exact, with its symbol */
  amount: string
  /** a name, or an address */
  other: string
  at: Date
  explorerUrl: string
}
/** A transaction, by whichever application. */
export type Sent = { application: string; state: keyof typeof texts.states; explorerUrl: string; sentAt: Date }
/** What is seen of an account on one network; null where the network does not answer. */
export type OnNetwork = { network: string; holdings: Holding[] | null; movements: Movement[] | null; sent: Sent[] }

export type AccountParts = {
  csrf: string
  username: string
  provider: string
  imageSrc: string | null
  address: string
  networks: OnNetwork[]
  applications: (AllowedApplication & { network: string })[]
  identities: Identity[]
  providers: ProviderSettings[]
  sessions: ListedSession[]
  /** uid of the session of this browser */
  session: string
  /** sentence about what has just been done */
  done: string | null
}

/** Everything a person has here, and what they can do about it. Each function returns HTML, escaped. */
export function accountBody(parts: AccountParts): string {
  const { done } = parts
  return html`
    !${done === null ? '' : html`<p class="notice" role="status">${done}</p>`}
    <h1>${texts.title}</h1>
    <div class="columns">
      <div class="stack">!${personCard(parts)} !${parts.networks.map(networkCard).join('')}</div>
      <div class="stack">!${applicationsCard(parts)} !${identitiesCard(parts)} !${sessionsCard(parts)}</div>
    </div>
    <p><a class="danger" href="/account/erase">${texts.erase}</a></p>
  `
}

function personCard({ csrf, username, provider, imageSrc, address, session }: AccountParts): string {
  return html`
    <section class="card stack">
      <div class="row">
        !${imageSrc === null ? '' : html`<img class="avatar" src="${imageSrc}" alt="" width="48" height="48" referrerpolicy="no-referrer" />`}
        <p><b>${username}</b> <span class="badge">${provider}</span></p>
      </div>
      <div class="field">
        <label for="address">${texts.address}</label>
        <input class="mono" id="address" value="${address}" readonly aria-describedby="address-hint" />
        <small class="hint" id="address-hint">${texts.addressHint}</small>
        <span aria-live="polite"
          ><button class="button quiet" type="button" data-copies="address" data-done="${texts.copied}" hidden>
            ${texts.copy}
          </button></span
        >
      </div>
      !${qrSvg(address, texts.qrLabel)}
      !${form('/account/sessions/end', csrf, { uid: session }, html`<button class="button quiet">${texts.signOut}</button>`)}
    </section>
  `
}

function networkCard({ network, holdings, movements, sent }: OnNetwork): string {
  return html`
    <section class="card stack">
      <h2>${texts.balances(network)}</h2>
      !${
        holdings === null
          ? html`<p class="muted">${texts.unreadable}</p>`
          : html`<dl class="facts">
              !${holdings
                .map(
                  ({ formatted, symbol, name }) =>
                    html`<dt>${name === '' ? symbol : name}</dt>
                      <dd>${formatted} ${symbol}</dd>`,
                )
                .join('')}
            </dl>`
      }
      <h3>${texts.transfers}</h3>
      !${
        movements === null
          ? html`<p class="muted">${texts.unreadable}</p>`
          : movements.length === 0
            ? html`<p class="muted">${texts.noTransfers}</p>`
            : html`<ul class="rows">
                !${movements.map(movementItem).join('')}
              </ul>`
      }
      !${
        sent.length === 0
          ? ''
          : html`<h3>${texts.sentByApplications}</h3>
              <ul class="rows">
                !${sent.map(sentItem).join('')}
              </ul>`
      }
    </section>
  `
}

/** Where tokens come from that did not exist before, and go to that exist no more. Source: ERC-20, ERC-721, ERC-1155 */
const ZERO_ADDRESS = `0x${'0'.repeat(40)}`

function movementItem({ direction, amount, other, at, explorerUrl }: Movement): string {
  const where =
    other === ZERO_ADDRESS
      ? { IN: texts.created, OUT: texts.destroyed, SELF: texts.toMyself }[direction]
      : { IN: texts.received(other), OUT: texts.sent(other), SELF: texts.toMyself }[direction]
  const sign = { IN: '+', OUT: '−', SELF: '' }[direction]
  return html`<li>
    <p><b>${sign}${amount}</b> ${where}</p>
    <p class="muted">
      <small><a href="${explorerUrl}">${timeText(at)}</a></small>
    </p>
  </li>`
}

const sentItem = ({ application, state, explorerUrl, sentAt }: Sent): string =>
  html`<li>
    <p><b>${application}</b> <span class="badge">${texts.states[state]}</span></p>
    <p class="muted">
      <small><a href="${explorerUrl}">${timeText(sentAt)}</a></small>
    </p>
  </li>`

function applicationsCard({ csrf, applications }: AccountParts): string {
  return html`
    <section class="card stack">
      <h2>${texts.applications}</h2>
      !${
        applications.length === 0
          ? html`<p class="muted">${texts.noApplications}</p>`
          : html`<ul class="rows">
              !${applications.map((one) => applicationItem(csrf, one)).join('')}
            </ul>`
      }
    </section>
  `
}

function applicationItem(
  csrf: string,
  { clientId, name, network, permissions, signIns }: AccountParts['applications'][number],
): string {
  const may = [texts.mayAlways, ...permissions.map(meaningOf).filter((meaning) => meaning !== undefined)]
  return html`<li class="stack tight">
    <div class="row spread">
      <p><b>${name}</b> <span class="badge">${network}</span></p>
      !${form('/account/applications/revoke', csrf, { clientId }, html`<button class="button quiet danger" aria-label="${texts.revokeLabel(name)}">${texts.revoke}</button>`)}
    </div>
    <ul class="grants">
      !${may.map((meaning) => html`<li>${meaning}</li>`).join('')}
    </ul>
    <p class="muted"><small>${texts.signIns(signIns)}</small></p>
  </li>`
}

function identitiesCard({ csrf, identities, providers }: AccountParts): string {
  const item = ({ userId, provider, username, isFirst }: Identity): string =>
    html`<li class="row spread">
      <p>
        ${username}
        <span class="badge">${provider}</span
        >!${isFirst ? html` <span class="badge good">${texts.firstIdentity}</span>` : ''}
      </p>
      !${isFirst ? '' : form('/account/identities/remove', csrf, { identity: userId }, html`<button class="button quiet danger" aria-label="${texts.removeLabel(`${username} (${provider})`)}">${texts.remove}</button>`)}
    </li>`
  return html`
    <section class="card stack">
      <h2>${texts.identities}</h2>
      <p class="muted">${texts.identitiesHint} ${texts.firstHint}</p>
      <ul class="rows">
        !${identities.map(item).join('')}
      </ul>
      !${providers.map(({ name, label }) => form('/account/identities/add', csrf, { provider: name }, html`<button class="button quiet">${texts.add(label)}</button>`)).join('')}
    </section>
  `
}

function sessionsCard({ csrf, sessions, session }: AccountParts): string {
  const item = ({ uid, signedInAt }: ListedSession): string => {
    const time = timeText(signedInAt)
    const label = texts.signOutLabel(time)
    return html`<li class="row spread">
      <p>${texts.since(time)}!${uid === session ? html` <span class="badge good">${texts.thisBrowser}</span>` : ''}</p>
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

/** What deleting means, before it is done. */
export function eraseBody({ csrf, firstIdentity }: { csrf: string; firstIdentity: string }): string {
  const list = (lines: string[]): string =>
    html`<ul>
      !${lines.map((line) => html`<li>${line}</li>`).join('')}
    </ul>`
  const rest = html`
    <label class="row"
      ><input type="checkbox" name="sure" value="yes" required /> <span>${texts.eraseSure}</span></label
    >
    <button class="button danger">${texts.eraseDo}</button>
    <a class="button quiet" href="/account">${texts.eraseCancel}</a>
  `
  return html`
    <div class="card stack">
      <h1>${texts.eraseTitle}</h1>
      <h2>${texts.eraseGoesTitle}</h2>
      !${list(texts.eraseGoes)}
      <h2>${texts.eraseStaysTitle}</h2>
      !${list(texts.eraseStays)}
      <p class="notice">${texts.eraseBack(firstIdentity)}</p>
      !${form('/account/erase', csrf, {}, rest)}
    </div>
  `
}

/** One sentence, and at most one thing to do. */
export const shortBody = (title: string, hint: string | null, next: { href: string; text: string } | null): string =>
  html`<div class="card stack">
    <h1>${title}</h1>
    !${hint === null ? '' : html`<p class="muted">${hint}</p>`}
    !${next === null ? '' : html`<a class="button" href="${next.href}">${next.text}</a>`}
  </div>`

function form(action: string, csrf: string, fields: Record<string, string>, rest: string): string {
  const hidden = Object.entries({ csrf, ...fields }).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  )
  return html`<form class="stack tight" method="post" action="${action}">!${hidden.join('')}!${rest}</form>`
}
