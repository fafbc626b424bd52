import { html } from 'ghtml'
import { describeError, type ErrorCode } from '../errors.ts'
import type { ProviderSettings } from './providers.ts'

/** Texts of the hosted pages; each function returns the inside of a page, escaped. */

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
  return html`
    <div class="card stack">
      <div class="stack tight">
        <h1>Sign in to ${application}</h1>
        <p class="muted">
          with an account you already
          have.!${network === null ? '' : html` ${application} works on the network <b>${network}</b>.`}
        </p>
      </div>
      <ul class="providers">
        !${providers.map((provider) => html`<li>!${providerForm({ uid, csrf, provider })}</li>`).join('')}
      </ul>
      !${
        providers.some(({ isDevelopment }) => isDevelopment)
          ? html`<p class="notice">
              This is a development installation: anyone can sign in as anyone. Nothing here is worth anything.
            </p>`
          : ''
      }
    </div>
    <form method="post" action="/login/${uid}/cancel">
      <input type="hidden" name="csrf" value="${csrf}" />
      <button class="button quiet">${network === null ? 'Cancel' : `Cancel and go back to ${application}`}</button>
    </form>
  `
}

function providerForm({ uid, csrf, provider }: { uid: string; csrf: string; provider: ProviderSettings }): string {
  return html`
    <form method="post" action="/login/${uid}/${provider.name}">
      <input type="hidden" name="csrf" value="${csrf}" />
      <button class="button">
        <span>Continue with ${provider.label}</span
        >!${provider.isDevelopment ? html`<span class="badge">DEV</span>` : ''}
      </button>
    </form>
  `
}

type Consent = {
  uid: string
  csrf: string
  application: string
  network: string
  username: string
  provider: string
  imageSrc: string | null
  address: string
  scopes: string[]
  /** scopes that were allowed before */
  known: ReadonlySet<string>
}

/** May this application do this? In words of everyday. */
export function consentBody({
  uid,
  csrf,
  application,
  network,
  username,
  provider,
  imageSrc,
  address,
  scopes,
  known,
}: Consent): string {
  const asked = scopes.filter((scope) => scope in meanings)
  const mayWrite = scopes.includes('contracts:write')
  return html`
    <div class="card stack">
      <h1>Allow ${application} to use your account?</h1>
      <div class="row">
        !${imageSrc === null ? '' : html`<img class="avatar" src="${imageSrc}" alt="" width="48" height="48" referrerpolicy="no-referrer" />`}
        <div class="stack tight">
          <p><b>${username}</b> <span class="badge">${provider}</span></p>
          <p class="muted mono" title="${address}">${address.slice(0, 8)}…${address.slice(-6)}</p>
        </div>
      </div>
      <hr />
      <p>On the network <b>${network}</b>, ${application} will be able to</p>
      <ul class="grants">
        <li>know your name, your picture and your account’s address</li>
        !${asked.map((scope) => html`<li>${meanings[scope]!}!${known.size > 0 && !known.has(scope) ? html` <span class="badge">new</span>` : ''}</li>`).join('')}
      </ul>
      !${
        mayWrite
          ? html`<p class="notice">
              Transactions are sent in your name, without asking you each time. Allow this only if you trust
              ${application}.
            </p>`
          : ''
      }
      <form class="stack tight" method="post" action="/consent/${uid}">
        <input type="hidden" name="csrf" value="${csrf}" />
        <button class="button" name="answer" value="allow">Allow</button>
        <button class="button quiet" name="answer" value="deny">Do not allow</button>
      </form>
    </div>
    <p class="muted">
      <small>${application} never gets your keys or your password. You are asked again only if it wants more.</small>
    </p>
  `
}

const meanings: Record<string, string> = {
  email: 'know your e-mail address',
  'wallet:read': 'see your balances and your transfers',
  'contracts:read': 'read data from contracts',
  'contracts:write': 'send transactions and spend from your account',
  'users:directory': 'see the public profiles of other people who use it',
}

/** One permission in everyday words, for tests and other pages. */
export const meaningOf = (scope: string): string | undefined => meanings[scope]

/** A refusal as a page: what happened, what to do, the stable code for whoever helps. */
export function errorBody({ code, detail, back }: ErrorParts): string {
  const { title, help } = describeError(code)
  return html`
    <div class="card stack">
      <h1>${title}</h1>
      <p>${detail ?? help}</p>
      !${detail === null || back !== undefined ? '' : html`<p class="muted">${help}</p>`}
      !${back === undefined ? '' : html`<a class="button" href="${back.href}">${back.text}</a>`}
      <p class="muted">
        <small>Code: <code>${code}</code></small>
      </p>
    </div>
  `
}

/** A request of an application that cannot even be answered by a redirect: its developer reads this, its user goes back. */
export function badRequestBody({ error, detail }: { error: string; detail: string | null }): string {
  return html`
    <div class="card stack">
      <h1>This sign-in cannot begin</h1>
      <p>The application asked for it in a way that is not accepted. Go back to it, and tell its developer:</p>
      <p class="danger">${detail ?? 'The request is malformed.'}</p>
      <p class="muted">
        <small>Code: <code>${error}</code></small>
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
  return html`
    <div class="card stack">
      <div class="stack tight">
        <h1>Sign out?</h1>
        <p class="muted">
          ${application === null ? 'You stay signed in on this device until you sign out.' : `${application} has signed you out. You are still signed in here, so the next sign-in would not ask who you are.`}
        </p>
      </div>
      <button class="button" form="op.logoutForm" name="logout" value="yes">Sign out here too</button>
      <button class="button quiet" form="op.logoutForm">Stay signed in</button>
      !${form}
    </div>
  `
}

export function signedOutBody({ application }: { application: string | null }): string {
  return html`
    <div class="card stack">
      <h1>${application === null ? 'You are signed out' : `You are signed out of ${application}`}</h1>
      <p class="muted">You can close this page.</p>
    </div>
  `
}
