import { html } from 'ghtml'
import type { ErrorCode } from '../errors.ts'
import type { ProviderSettings } from './providers.ts'
import { texts, type Rich } from './texts.ts'

/** The hosted pages; each function returns the inside of one, escaped. What they say is in texts.ts. */

type Chooser = {
  uid: string
  csrf: string
  application: string
  /** null for our own pages */
  network: string | null
  providers: ProviderSettings[]
}

/** Who vouches for you? One button per provider. */
export function chooserBody({ uid, csrf, application, network, providers }: Chooser): string {
  const words = texts.chooser
  return html`
    <div class="card stack">
      <div class="stack tight">
        <h1>${words.title(application)}</h1>
        <p class="muted">${words.hint}!${network === null ? '' : ` ${rich(words.worksOn(application, network))}`}</p>
      </div>
      <ul class="providers">
        !${providers.map((provider) => html`<li>!${providerForm({ uid, csrf, provider })}</li>`).join('')}
      </ul>
      !${providers.some(({ isDevelopment }) => isDevelopment) ? html`<p class="notice">${words.development}</p>` : ''}
    </div>
    <form method="post" action="/login/${uid}/cancel">
      <input type="hidden" name="csrf" value="${csrf}" />
      <button class="button quiet">${network === null ? words.cancel : words.cancelTo(application)}</button>
    </form>
  `
}

/** A sentence with its emphasised parts. */
const rich = (parts: Rich): string =>
  parts.map((part) => (typeof part === 'string' ? html`${part}` : html`<b>${part.strong}</b>`)).join('')

function providerForm({ uid, csrf, provider }: { uid: string; csrf: string; provider: ProviderSettings }): string {
  return html`
    <form method="post" action="/login/${uid}/${provider.name}">
      <input type="hidden" name="csrf" value="${csrf}" />
      <button class="button">
        <span>${texts.chooser.continueWith(provider.label)}</span
        >!${provider.isDevelopment ? html`<span class="badge">DEV</span>` : ''}
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
  username: string
  provider: string
  imageSrc: string | null
  address: string
  scopes: string[]
  /** scopes that were allowed before */
  known: ReadonlySet<string>
  /** nothing is remembered: the application cannot prove that it is itself */
  isAskedEachTime: boolean
}

/** May this application do this? In words of everyday. */
export function consentBody({
  uid,
  csrf,
  application,
  logoUri,
  network,
  username,
  provider,
  imageSrc,
  address,
  scopes,
  known,
  isAskedEachTime,
}: Consent): string {
  const words = texts.consent
  const asked = scopes.filter((scope) => meaningOf(scope) !== undefined)
  const mayWrite = scopes.includes('contracts:write')
  return html`
    <div class="card stack">
      <div class="row">
        !${logoUri === null ? '' : html`<img class="avatar" src="${logoUri}" alt="" width="48" height="48" referrerpolicy="no-referrer" />`}
        <h1>${words.question(application)}</h1>
      </div>
      <div class="row">
        !${imageSrc === null ? '' : html`<img class="avatar" src="${imageSrc}" alt="" width="48" height="48" referrerpolicy="no-referrer" />`}
        <div class="stack tight">
          <p><b>${username}</b> <span class="badge">${provider}</span></p>
          <p class="muted mono" title="${address}">${address.slice(0, 8)}…${address.slice(-6)}</p>
        </div>
      </div>
      <hr />
      <p>!${rich(words.willBeAble(application, network))}</p>
      <ul class="grants">
        <li>${words.always}</li>
        !${asked.map((scope) => html`<li>${meaningOf(scope)!}!${known.size > 0 && !known.has(scope) ? html` <span class="badge">${words.isNew}</span>` : ''}</li>`).join('')}
      </ul>
      !${mayWrite ? html`<p class="notice">${words.warning(application)}</p>` : ''}
      <form class="stack tight" method="post" action="/consent/${uid}">
        <input type="hidden" name="csrf" value="${csrf}" />
        <button class="button" name="answer" value="allow">${words.allow}</button>
        <button class="button quiet" name="answer" value="deny">${words.deny}</button>
      </form>
    </div>
    <p class="muted">
      <small>${isAskedEachTime ? words.eachTime(application) : words.never(application)}</small>
    </p>
  `
}

/** One permission in everyday words; undefined for what people are not asked about. */
export const meaningOf = (scope: string): string | undefined =>
  Object.hasOwn(texts.meanings, scope) ? texts.meanings[scope] : undefined

/** A refusal as a page: what happened, what to do, the stable code for whoever helps. */
export function errorBody({ code, detail, back }: ErrorParts): string {
  const words = texts.refused
  const help = words.help(code)
  return html`
    <div class="card stack">
      <h1>${words.title(code)}</h1>
      <p>${detail ?? help}</p>
      !${detail === null || back !== undefined ? '' : html`<p class="muted">${help}</p>`}
      !${back === undefined ? '' : html`<a class="button" href="${back.href}">${back.text}</a>`}
      <p class="muted">
        <small>${words.code} <code>${code}</code></small>
      </p>
    </div>
  `
}

/** A request of an application that cannot even be answered by a redirect: its developer reads this, its user goes back. */
export function badRequestBody({
  words,
  error,
  detail,
}: {
  words: (typeof texts.refused)['badSignIn']
  error: string
  detail: string | null
}): string {
  return html`
    <div class="card stack">
      <h1>${words.title}</h1>
      <p>${words.hint}</p>
      <p class="danger">${detail ?? texts.refused.malformed}</p>
      <p class="muted">
        <small>${texts.refused.code} <code>${error}</code></small>
      </p>
    </div>
  `
}

export type ErrorParts = {
  code: ErrorCode
  /** a sentence about this case; null for the general one */
  detail: string | null
  back?: { href: string; text: string }
}

/** @param form  the library's form with its own CSRF token; our buttons belong to it by its id */
export function signOutBody({ application, form }: { application: string | null; form: string }): string {
  const words = texts.leaving
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

export function signedOutBody({ application }: { application: string | null }): string {
  const words = texts.leaving
  return html`
    <div class="card stack">
      <h1>${application === null ? words.done : words.doneOf(application)}</h1>
      <p class="muted">${words.close}</p>
    </div>
  `
}
