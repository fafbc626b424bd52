import { html } from 'ghtml'
import type { ErrorCode } from '../errors.ts'
import { ends, rich } from '../http/page.ts'
import type { Texts } from '../texts/en.ts'
import { isGoogle, providerIcon } from './federation/provider-icons.ts'
import type { ProviderSettings } from './federation/providers.ts'
import { SPENDS } from './scopes.ts'

/** The hosted pages. Each function returns the body of one as escaped HTML. Their texts are in src/texts. */

type Chooser = {
  uid: string
  csrf: string
  /** display names of the application that asks; null for our own pages */
  client: { application: string; network: string; logoUri: string | null } | null
  providers: ProviderSettings[]
  /** why a signed-in user must sign in again; null if no reason is shown */
  why: string | null
}

/** Renders the choice of an identity provider: one button each. */
export function chooserBody({ chooser: words }: Texts, { uid, csrf, client, providers, why }: Chooser): string {
  return html`
    <div class="card stack">
      <div class="stack tight">
        !${picture(client?.logoUri ?? null, 'logo')}
        <h1>${client === null ? words.ownTitle : words.title(client.application)}</h1>
        <p class="muted">
          ${words.hint}!${client === null ? '' : ` ${rich(words.worksOn(client.application, client.network))}`}
        </p>
      </div>
      !${why === null ? '' : html`<p class="notice">${why}</p>`}
      <ul class="providers">
        !${providers.map((provider) => html`<li>!${providerForm(words, { uid, csrf, provider })}</li>`).join('')}
      </ul>
      !${providers.some(({ isDevelopment }) => isDevelopment) ? html`<p class="notice">${words.development}</p>` : ''}
    </div>
    <form method="post" action="/login/${uid}/cancel">
      <input type="hidden" name="csrf" value="${csrf}" />
      <button class="button quiet">${client === null ? words.cancel : words.cancelTo(client.application)}</button>
    </form>
  `
}

function providerForm(
  words: Texts['chooser'],
  { uid, csrf, provider }: { uid: string; csrf: string; provider: ProviderSettings },
): string {
  return html`
    <form method="post" action="/login/${uid}/${provider.name}">
      <input type="hidden" name="csrf" value="${csrf}" />
      <button class="!${isGoogle(provider) ? 'button google' : 'button'}">
        !${providerIcon(provider)}<span>${words.continueWith(provider.label)}</span>!${provider.isDevelopment ? html`<span class="badge">DEV</span>` : ''}
      </button>
    </form>
  `
}

type Consent = {
  uid: string
  csrf: string
  application: string
  /** https address of the application's picture */
  logoUri: string | null
  network: string
  /** nothing on this network is worth money */
  isTest: boolean
  username: string
  provider: string
  imageSrc: string | null
  address: string
  scopes: string[]
  /** scopes that are already allowed */
  known: ReadonlySet<string>
  /** consent is not remembered, because the application cannot prove its identity */
  isAskedEachTime: boolean
  /** the operator's name, if the application is the operator's own; otherwise null */
  operator: string | null
}

/** Renders the question whether an application may use the account, in everyday words. */
export function consentBody(words: Texts, asked: Consent): string {
  const { uid, csrf, application, logoUri, network, isTest, username, provider, imageSrc, address, known } = asked
  const { consent } = words
  const { operator } = asked
  // For the operator's own application, spending is listed like other permissions.
  const isWarned = operator === null && asked.scopes.includes(SPENDS)
  const grants = asked.scopes.filter(
    (scope) => !(isWarned && scope === SPENDS) && meaningOf(words, scope) !== undefined,
  )
  const news = (scope: string): string =>
    known.size > 0 && !known.has(scope) ? html` <span class="badge">${consent.isNew}</span>` : ''
  return html`
    <div class="card stack">
      <div class="row">
        !${picture(logoUri, 'logo')}
        <h1>${operator === null ? consent.question(application) : consent.ownQuestion(application)}</h1>
      </div>
      !${operator === null ? '' : html`<p>${consent.ownHint(application, operator)}</p>`}
      <div class="row">
        !${picture(imageSrc, 'avatar')}
        <div class="stack tight">
          <p><b>${username}</b> <span class="badge">${provider}</span></p>
          <p class="muted mono" title="${address}">${ends(address)}</p>
        </div>
      </div>
      <hr />
      <p>!${rich(consent.willBeAble(application, network))}</p>
      <ul class="grants">
        <li>${consent.always}</li>
        !${grants.map((scope) => html`<li>${meaningOf(words, scope)!}!${news(scope)}</li>`).join('')}
      </ul>
      !${
        isWarned
          ? html`<div class="spends !${isTest ? 'calm' : ''}">
              <p><strong>${consent.spends(application)}</strong>!${news(SPENDS)}</p>
              <p>${isTest ? consent.spendsTest : consent.spendsHint(application)}</p>
            </div>`
          : ''
      }
      <form class="stack tight" method="post" action="/consent/${uid}">
        <input type="hidden" name="csrf" value="${csrf}" />
        <button class="button" name="answer" value="allow">
          ${operator === null ? consent.allow : consent.ownAllow}
        </button>
        <button class="button quiet" name="answer" value="deny">${consent.deny}</button>
        <button class="button quiet" name="answer" value="switch">${consent.switch}</button>
      </form>
    </div>
    <p class="muted">
      <small
        >${consent.never(application)} ${asked.isAskedEachTime ? consent.eachTime : consent.until}
        <a href="/account">${consent.where}</a></small
      >
    </p>
  `
}

/** Renders a picture from another host, without a referrer. If it does not load, a blank area remains. */
export const picture = (src: string | null, kind: 'avatar' | 'logo'): string =>
  src === null
    ? ''
    : html`<img class="${kind}" src="${src}" alt="" width="48" height="48" referrerpolicy="no-referrer" />`

/** Returns a permission in everyday words; undefined if users are not asked about it. */
export const meaningOf = ({ meanings }: Texts, scope: string): string | undefined =>
  Object.hasOwn(meanings, scope) ? meanings[scope] : undefined

/** Renders an error: what happened, what to do next, and the stable code. */
export function errorBody(words: Texts, { code, title, help, detail, back }: ErrorParts): string {
  return html`
    <div class="card stack">
      <h1>${title}</h1>
      <p>${detail ?? help}</p>
      !${detail === null || back !== undefined ? '' : html`<p class="muted">${help}</p>`}
      !${back === undefined ? '' : html`<a class="button" href="${back.href}">${back.text}</a>`}
      <p class="muted">
        <small>${words.refused.code} <code>${code}</code></small>
      </p>
    </div>
  `
}

/**
 * Renders a bad request of an application that must not be redirected. The application's developer reads this; its user
 * goes back.
 * @param of         the kind of request
 * @param detail     for the developer, in English
 * @param addresses  the sent and the registered redirect addresses; in development, if the address is the problem
 */
export function badRequestBody({ refused }: Texts, { of, error, detail, addresses = null }: BadRequest): string {
  const words = refused[of]
  return html`
    <div class="card stack">
      <h1>${words.title}</h1>
      <p>${words.hint}</p>
      <p class="danger">!${detail === null ? html`${refused.malformed}` : html`<span lang="en">${detail}</span>`}</p>
      !${
        addresses === null
          ? ''
          : html`<dl class="facts" lang="en">
              <dt>Sent</dt>
              <dd class="mono">${addresses.sent}</dd>
              <dt>Registered</dt>
              <dd class="mono">!${addresses.registered.map((one) => html`${one}`).join('<br />')}</dd>
            </dl>`
      }
      <p class="muted">
        <small>${refused.code} <code>${error}</code></small>
      </p>
    </div>
  `
}

type BadRequest = {
  of: 'badSignIn' | 'badSignOut'
  error: string
  detail: string | null
  addresses?: { sent: string; registered: string[] } | null
}

export type ErrorParts = {
  code: ErrorCode
  title: string
  help: string
  /** a sentence about this case; null: `help` is shown instead */
  detail: string | null
  back?: { href: string; text: string }
}

/**
 * Renders the question whether to sign out.
 * @param form  the library's form with its own CSRF token; our buttons belong to it by its id
 */
export function signOutBody(
  { leaving: words }: Texts,
  { application, form }: { application: string | null; form: string },
): string {
  return html`
    <div class="card stack">
      <div class="stack tight">
        <h1>${words.question}</h1>
        <p class="muted">${application === null ? words.here : words.stillHere(application)}</p>
      </div>
      <button class="button" form="op.logoutForm" name="logout" value="yes">${words.yes}</button>
      <button class="button quiet" form="op.logoutForm">${words.no}</button>
      !${form}
    </div>
  `
}

/** Renders the page after a sign-out. */
export function signedOutBody({ leaving: words }: Texts, { application }: { application: string | null }): string {
  return html`
    <div class="card stack">
      <h1>${application === null ? words.done : words.doneOf(application)}</h1>
      <p class="muted">${words.close}</p>
    </div>
  `
}
