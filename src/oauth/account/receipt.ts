import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../../app.ts'
import { wholeIn } from '../../digits.ts'
import { amountHtml } from '../../http/amount.ts'
import { sendPage, textsOf, timeHtml } from '../../http/page.ts'
import { fromHex } from '../../hex.ts'
import { OWN_CLIENT, type Hex } from '../../ids.ts'
import type { Texts } from '../../texts/en.ts'
import { PageError } from '../../texts/page-error.ts'
import { peopleOf } from '../../users/names.ts'
import { ownSignIn } from '../first-party.ts'
import { chainName } from '../page-context.ts'
import { picture } from '../pages.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import { calledText, failedStates, kindOf, stateBadge, transferAmount, ZERO_ADDRESS } from './entries.ts'
import { smallSign } from './body.ts'
import type { PictureOf } from './pictures.ts'
import type { AccountOwner, AccountSlices, ActivityEntry, SentTransaction, ShownTransfer } from './slices.ts'
import { inTabs } from './tabs.ts'

/** Registers the page of one transaction: what moved, between whom, its state and its cost. */
export function receiptPage(
  server: FastifyInstance,
  app: App,
  { door, slices, pictureOf }: { door: AccountDoor; slices: AccountSlices; pictureOf: PictureOf },
): void {
  /** GET /account/receipt: `network` with `id` of a write, or with `block` and `hash` of anything else. */
  server.get<{ Querystring: Record<string, unknown> }>('/account/receipt', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const chainId = wholeIn(request.query.network) ?? 0
    const entry = app.networks.has(chainId) ? await find(visitor.user, chainId, request.query) : null
    if (entry === null) throw new PageError('not_found', ({ codes }) => codes.not_found[1])
    const recipient = entry.transfers.find(({ direction }) => direction === 'OUT')?.otherAddress
    const people = recipient === undefined ? null : await peopleOf(app, [fromHex(recipient)])
    const page = receiptBody(words, {
      entry,
      network: chainName(app, words, chainId),
      signs: entry.transfers.map((one) => smallSign(pictureOf(chainId, one.token), kindOf(one))),
      // Only of recipients that the user chose: a sender must not learn who looks at a receipt.
      imageSrc: people?.get(recipient!.toLowerCase() as Hex)?.imageSrc ?? null,
    })
    const seconds = entry.sent === null ? null : secondsToNextLook(entry.sent, app.clock.wall())
    return sendPage(reply, 200, {
      words,
      title: titleOf(words, entry),
      ...inTabs(words, 'activity'),
      hasScript: app.authOrigin,
      ...(seconds === null ? {} : { live: { seconds, path: '/account/receipt' } }),
      body: `${await door.noticeFor(visitor, words)}${page}`,
    })
  })

  async function find(
    owner: AccountOwner,
    chainId: number,
    { id, block, hash }: Record<string, unknown>,
  ): Promise<ActivityEntry | null> {
    if (typeof id === 'string') return (await slices.sending?.look(owner, chainId, id)) ?? null
    const blockNumber = wholeIn(block)
    if (blockNumber === null || typeof hash !== 'string' || !/^0x[\da-f]{64}$/.test(hash)) return null
    return slices.readReceipt(owner, chainId, { blockNumber, hash: hash as Hex })
  }
}

/**
 * Returns the seconds until the page of a transaction updates itself, more the longer it takes; null once it is mined or
 * has ended.
 * @param now  milliseconds since 1970
 */
export const secondsToNextLook = (
  { state, sentAt }: Pick<SentTransaction, 'state' | 'sentAt'>,
  now: number,
): number | null =>
  state === 'SUBMITTED' ? Math.min(60, Math.max(3, Math.round((now - sentAt.getTime()) / 10_000))) : null

const titleOf = (words: Texts, { sent, transfers: [first] }: ActivityEntry): string =>
  first === undefined || (sent !== null && failedStates.has(sent.state))
    ? words.wallet.doneTitle
    : first.direction === 'IN'
      ? words.wallet.receivedTitle
      : words.send.sentTitle

type ReceiptParts = {
  entry: ActivityEntry
  network: string
  /** HTML before the amount of each transfer */
  signs: string[]
  /** picture of the recipient */
  imageSrc: string | null
}

/** Renders one transaction: its amounts first, then between whom, and the rest as names and values. */
export function receiptBody(words: Texts, { entry, network, signs, imageSrc }: ReceiptParts): string {
  const { sent, transfers, at } = entry
  const { send: texts, activity } = words
  const [first] = transfers
  const state = sent?.state ?? 'MINED'
  const fee = sent === null ? first?.fee : (sent.fee ?? undefined)
  const explorerUrl = sent?.explorerUrl ?? first?.explorerUrl
  const application = sent === null || sent.clientId === OWN_CLIENT ? null : (sent.application ?? activity.unknown)
  return html`
    <h1>${titleOf(words, entry)}</h1>
    <section class="card stack" data-part="receipt" aria-live="polite">
      <p class="headline">
        !${
          transfers.length === 0
            ? html`<b class="name">${calledText(words, sent!)}</b>`
            : transfers.map((one, index) => html`<b>!${signs[index] ?? ''}!${transferAmount(words, one)}</b>`).join('')
        }
      </p>
      <dl class="facts">
        !${transfers.length > 1 ? '' : transfers.map((one) => partyHtml(words, one, imageSrc)).join('')}
        <dt>${texts.state}</dt>
        <dd>
          !${stateBadge(words, sent) === '' ? html`<span class="badge good">${words.account.states[state]}</span>` : stateBadge(words, sent)}
        </dd>
        <dt>${texts.time}</dt>
        <dd>!${timeHtml(words, at)}</dd>
        <dt>${activity.network}</dt>
        <dd>${network}</dd>
        !${
          fee === undefined
            ? ''
            : html`<dt>${activity.fee}</dt>
                <dd>!${amountHtml(words, fee)}</dd>`
        }
        !${
          application === null
            ? ''
            : html`<dt>${activity.application}</dt>
                <dd>${application}</dd>`
        }
      </dl>
      !${state === 'SUBMITTED' ? html`<p class="muted"><small>${words.wallet.updates}</small></p>` : ''}
      !${explorerUrl === undefined ? '' : html`<p class="go"><a href="${explorerUrl}">${texts.explorer}</a></p>`}
    </section>
    <a class="button quiet" href="/account/activity">${words.activity.title}</a>
  `
}

/** Renders the other side of a transfer: picture, name and the whole address. */
function partyHtml(
  words: Texts,
  { direction, other, otherAddress, coinKind }: ShownTransfer,
  imageSrc: string | null,
): string {
  if ((coinKind !== undefined && coinKind !== 'INTERNAL') || other === ZERO_ADDRESS) return ''
  const name = direction === 'SELF' ? words.send.myself : other === otherAddress ? null : other
  return html`<dt>${direction === 'IN' ? words.wallet.from : words.send.to}</dt>
    <dd>
      !${name === null ? '' : html`<span class="row who">!${direction === 'OUT' ? picture(imageSrc, 'avatar') : ''}<b>${name}</b></span>`}<span
        class="mono"
        >${otherAddress}</span
      >
    </dd>`
}
