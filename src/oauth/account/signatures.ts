import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../../app.ts'
import { amountHtml } from '../../http/amount.ts'
import { sendPage, textsOf, timeHtml } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { ownSignIn } from '../first-party.ts'
import { chainName } from '../page-context.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import type { AccountSlices, ShownCall, ShownSignature } from './slices.ts'
import { inTabs } from './tabs.ts'

const CHECK_COMMAND = 'chatelaine verify-log --proof FILE --key KEY'

/**
 * Registers the list of everything that was signed for a user, from the signer's log, page by page, each with its
 * proof.
 */
export function signaturesPage(
  server: FastifyInstance,
  app: App,
  { door, slices }: { door: AccountDoor; slices: AccountSlices },
): void {
  /** GET /account/signatures: `cursor`. Errors: invalid_cursor, overloaded, signer_unavailable. */
  server.get<{ Querystring: Record<string, unknown> }>('/account/signatures', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const cursor = typeof request.query.cursor === 'string' ? request.query.cursor : undefined
    const { entries, nextCursor } = await slices.readSignatures(visitor.user, { cursor })
    const rows = entries.map((one) => signatureItem(words, chainName(app, words, one.chainId), one))
    const listed = signaturesBody(words, { rows, nextCursor, isFirst: cursor === undefined })
    const body = `${await door.noticeFor(visitor, words)}${listed}`
    return sendPage(reply, 200, {
      words,
      title: words.signatures.title,
      ...inTabs(words, 'security'),
      hasScript: app.authOrigin,
      body,
    })
  })
}

export function signatureItem(words: Texts, network: string, one: ShownSignature): string {
  const texts = words.signatures
  const lines = linesOf(words, one).map(
    ({ what, value }) =>
      html`<b>${what}</b>!${value === null || value.value === 0n ? '' : html` · !${amountHtml(words, value)}`}<br />`,
  )
  const facts = [
    ...(one.kind === 'operation' ? [texts.sponsored] : []),
    ...(one.calls.length > 1 ? [texts.together] : []),
    ...(one.kind === 'replace' ? [texts.raised] : []),
  ]
  return html`<li class="stack tight">
    <p>
      !${lines.join('')}
      <span class="badge">${network}</span>
      <small class="muted"
        >!${[timeHtml(words, one.signedAt), ...facts.map((fact) => html`${fact}`)].join(' · ')}</small
      >
    </p>
    <details class="stack tight">
      <summary>${words.wallet.technical}</summary>
      <p class="mono">
        <small
          >!${one.explorerUrl === null ? html`${one.hash}` : html`<a href="${one.explorerUrl}">${one.hash}</a>`}</small
        >
      </p>
      <p class="muted">
        <small>${[...(one.nonce === null ? [] : [texts.nonce(one.nonce)]), texts.proof(one.record)].join(' · ')}</small>
      </p>
      <textarea class="mono" rows="6" readonly aria-label="${texts.proof(one.record)}">${one.proof}</textarea>
    </details>
  </li>`
}

/** Returns a line for each call. */
function linesOf(
  { signatures: texts }: Texts,
  { kind, calls, delegate, message }: ShownSignature,
): { what: string; value: ShownCall['value'] }[] {
  if (delegate !== null) return [{ what: texts.delegated(delegate), value: null }]
  if (message !== null) return [{ what: wordsOf(texts, message), value: null }]
  if (kind === 'cancel') return [{ what: texts.cancelled, value: null }]
  return calls.map(({ called, to, value }) => ({
    what: called === null ? texts.paid(to) : texts.called(called, to),
    value,
  }))
}

function wordsOf(texts: Texts['signatures'], message: NonNullable<ShownSignature['message']>): string {
  const name = texts.messages[message.class]
  return message.text === null ? name : texts.quoted(name, message.text)
}

export function signaturesBody(
  words: Texts,
  { rows, nextCursor, isFirst }: { rows: string[]; nextCursor: string | null; isFirst: boolean },
): string {
  const texts = words.signatures
  return html`
    <h1>${texts.title}</h1>
    <section class="card stack" aria-label="${texts.title}">
      <p>${texts.hint}</p>
      <details class="stack tight">
        <summary>${words.wallet.technical}</summary>
        <p class="muted"><small>${texts.check}</small></p>
        <p class="mono"><small>${CHECK_COMMAND}</small></p>
      </details>
      !${
        rows.length === 0
          ? html`<p class="muted">${words.activity.nothing}</p>`
          : html`<ul class="rows">
              !${rows.join('')}
            </ul>`
      }
      !${
        isFirst && nextCursor === null
          ? ''
          : html`<nav class="row spread go" aria-label="${texts.title}">
              !${isFirst ? '' : html`<a href="/account/signatures">${words.activity.newest}</a>`}
              !${nextCursor === null ? '' : html`<a rel="next" href="/account/signatures?cursor=${encodeURIComponent(nextCursor)}">${words.activity.older}</a>`}
            </nav>`
      }
    </section>
    <p class="go"><a href="/account/security">${words.wallet.securityTitle}</a></p>
  `
}
