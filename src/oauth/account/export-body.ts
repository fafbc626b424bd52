import { html } from 'ghtml'
import type { KeyExport } from '../../signer-wire/wire.ts'
import type { Texts } from '../../texts/en.ts'
import { hoursText, timeText } from '../../texts/time.ts'
import { form } from './body.ts'

type ExportPage = {
  state: KeyExport
  /** the server and the signer allow it */
  isOffered: boolean
  /** the user signed in recently */
  isFresh: boolean
  csrf: string
  userId: string
  address: string
  /** where the browser signs in again */
  signInAgain: string
}

/** Renders the state of a key export. Returns HTML, escaped. */
export function exportBody(words: Texts, page: ExportPage): string {
  const texts = words.exporting
  const { state, isOffered, csrf } = page
  const cancel = form(
    '/account/export/cancel',
    csrf,
    {},
    html`<button class="button quiet danger">${texts.cancel}</button>`,
  )
  return html`
    <div class="card stack">
      <h1>${texts.title}</h1>
      !${state.exportedAt === null ? '' : html`<p class="notice">${texts.exported(at(words, state.exportedAt))}</p>`}
      !${state.state === 'none' ? (isOffered ? asking(words, page) : html`<p>${texts.off}</p>`) : ''}
      !${state.state === 'waiting' ? html`<p>${texts.waiting(at(words, state.askedAt!), at(words, state.readyAt!))}</p>` : ''}
      !${state.state === 'ready' ? taking(words, page) : ''}
      !${
        state.state === 'none'
          ? ''
          : html`<div class="stack" id="until-taken">
              <p class="muted">${texts.notYou}</p>
              !${cancel}
            </div>`
      }
      <p class="go"><a href="/account">${words.account.back}</a></p>
    </div>
  `
}

/** Renders the notice on every account page while there is an export to cancel. */
export function exportNotice(words: Texts, { state, readyAt }: KeyExport): string {
  if (state === 'none') return ''
  const texts = words.exporting
  return html`<p class="danger" role="status">
    ${state === 'ready' ? texts.noticeReady : texts.noticeWaiting(at(words, readyAt!))}
    <a href="/account/export">${texts.noticeLink}</a>
  </p>`
}

function asking(words: Texts, { state, csrf }: ExportPage): string {
  const texts = words.exporting
  const hours = Math.max(1, Math.ceil((state.delaySeconds ?? 0) / 3_600))
  return html`
    <p>${texts.whatItIs}</p>
    <p class="danger">${texts.danger}</p>
    <p>${texts.delay(hoursText(words, hours))}</p>
    !${form('/account/export/ask', csrf, {}, html`<button class="button">${texts.ask}</button>`)}
  `
}

function taking(words: Texts, { state, isFresh, csrf, userId, address, signInAgain }: ExportPage): string {
  const texts = words.exporting
  const until = html`<p>${texts.ready(at(words, state.lapsesAt!))}</p>`
  if (!isFresh) return html`!${until}<a class="button" href="${signInAgain}">${texts.signInAgain}</a>`
  const field = (id: string, label: string, hint: string): string =>
    html`<div class="field">
      <label for="${id}">${label}</label>
      <input
        id="${id}"
        type="password"
        autocomplete="new-password"
        minlength="12"
        required
        aria-describedby="${id}-hint"
      />
      <small class="hint" id="${id}-hint">${hint}</small>
    </div>`
  // The form has no method and its fields have no names: nothing typed here can be sent by the browser.
  return html`
    !${until}
    <p class="notice" id="needs-script">${texts.needsScript}</p>
    <form
      class="stack"
      id="export"
      data-csrf="${csrf}"
      data-request="${state.id!}"
      data-user="${userId}"
      data-address="${address}"
      data-differ="${texts.differ}"
      data-short="${texts.tooShort}"
      data-working="${texts.working}"
      data-done="${texts.done}"
      data-failed="${texts.failed}"
      data-old="${texts.tooOld}"
      data-wrong="${texts.wrongKey}"
      hidden
    >
      !${field('password', texts.password, texts.passwordHint)} !${field('again', texts.again, texts.againHint)}
      <p class="notice" id="export-state" role="status" hidden></p>
      <button class="button">${texts.download}</button>
    </form>
  `
}

const at = (words: Texts, time: number): string => timeText(words, new Date(time))
