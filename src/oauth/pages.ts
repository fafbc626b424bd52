import { html } from 'ghtml'
import type { ErrorCode } from '../errors.ts'
import { rich } from '../http/page.ts'
import type { Texts } from '../texts/en.ts'
import { isGoogle, providerIcon } from './federation/provider-icons.ts'
import type { ProviderSettings } from './federation/providers.ts'
import { SPENDS } from './scopes.ts'

/** The hosted pages; each function returns the inside of one, escaped. What they say is in src/texts. */

type Chooser = {
  uid: string
  csrf: string
  /** who wants to know, by the names that people read; null for our own pages */
  client: { application: string; network: string; logoUri: string | null } | null
  providers: ProviderSettings[]
  /** why someone who is signed in signs in again; null where that needs no word */
  why: string | null
}

/** Who vouches for you? One button per provider. */
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
  /** nothing there is worth money */
  isTest: boolean
  username: string
  provider: string
  imageSrc: string | null
  address: string
  scopes: string[]
  /** scopes that were allowed before */
  known: ReadonlySet<string>
  /** nothing is remembered: the application cannot prove that it is itself */
  isAskedEachTime: boolean
  /** whose application it is, where it is the operator's own; null for another */
  operator: string | null
}

/** May this application do this? In words of everyday. */
export function consentBody(words: Texts, asked: Consent): string {
  const { uid, csrf, application, logoUri, network, isTest, username, provider, imageSrc, address, known } = asked
  const { consent } = words
  const { operator } = asked
  // Of the operator's own, spending is a permission like the others.
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
          <p class="muted mono" title="${address}">${address.slice(0, 8)}…${address.slice(-6)}</p>
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
          ? html`<div class="spends">
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

/** A picture from elsewhere, which is not told who looks; one that does not load leaves a quiet patch. */
export const picture = (src: string | null, kind: 'avatar' | 'logo'): string =>
  src === null
    ? ''
    : html`<img class="${kind}" src="${src}" alt="" width="48" height="48" referrerpolicy="no-referrer" />`

/** One permission in everyday words; undefined for what people are not asked about. */
export const meaningOf = ({ meanings }: Texts, scope: string): string | undefined =>
  Object.hasOwn(meanings, scope) ? meanings[scope] : undefined

/** A refusal as a page: what happened, what to do, the stable code for anyone who helps. */
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
 * A request of an application that cannot even be answered by a redirect: its developer reads this, its user goes back.
 * @param of         which kind of request
 * @param detail     for the developer, in English
 * @param addresses  where it wanted to lead, and where it may: in development, where the address is why
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
  /** a sentence about this case; null for the general one */
  detail: string | null
  back?: { href: string; text: string }
}

/** @param form  the library's form with its own CSRF token; our buttons belong to it by its id */
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

export function signedOutBody({ leaving: words }: Texts, { application }: { application: string | null }): string {
  return html`
    <div class="card stack">
      <h1>${application === null ? words.done : words.doneOf(application)}</h1>
      <p class="muted">${words.close}</p>
    </div>
  `
}
