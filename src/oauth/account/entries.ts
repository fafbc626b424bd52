import { html } from 'ghtml'
import { OWN_CLIENT } from '../../ids.ts'
import { amountHtml } from '../../http/amount.ts'
import { ends, timeHtml } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { shortId, smallSign } from './body.ts'
import type { PictureOf } from './pictures.ts'
import type { ActivityEntry, SentTransaction, ShownTransfer } from './slices.ts'

/** The address that created tokens come from and destroyed tokens go to. Source: ERC-20, ERC-721, ERC-1155 */
export const ZERO_ADDRESS = `0x${'0'.repeat(40)}`

/** Renders entries of the activity as a list, each with a link to its receipt. @param name  of the part that updates */
export const entriesHtml = (
  words: Texts,
  entries: { chainId: number; entry: ActivityEntry }[],
  { name, pictureOf }: { name: string; pictureOf: PictureOf },
): string =>
  html`<ul class="rows entries" data-part="${name}">
    !${entries.map(({ chainId, entry }) => entryItem(words, { chainId, entry, pictureOf })).join('')}
  </ul>`

/** Returns whether an entry waits for a block. */
export const isPending = ({ sent }: ActivityEntry): boolean => sent?.state === 'SUBMITTED'

function entryItem(
  words: Texts,
  { chainId, entry, pictureOf }: { chainId: number; entry: ActivityEntry; pictureOf: PictureOf },
): string {
  const { at, sent, transfers } = entry
  const { activity } = words
  const [first] = transfers
  const isFailed = sent !== null && failedStates.has(sent.state)
  const who = first === undefined ? calledText(words, sent!) : partyText(words, first)
  const by = sent === null || sent.clientId === OWN_CLIENT ? [] : [html`${sent.application ?? activity.unknown}`]
  const isContract = first?.coinKind === 'INTERNAL'
  const facts = [...by, timeHtml(words, at), ...(isContract ? [html`${words.native.internal}`] : [])]
  const href = receiptOf(chainId, entry)
  return html`<li class="entry">
    <span class="coin" aria-hidden="true">${signs[first?.direction ?? 'SELF']}</span>
    <p>!${href === null ? html`<b>${who}</b>` : html`<a href="${href}">${who}</a>`}!${stateBadge(words, sent)}</p>
    <p class="${isFailed ? 'muted' : ''}">
      !${transfers.map((one) => html`<b>!${smallSign(pictureOf(chainId, one.token), kindOf(one))}!${transferAmount(words, one)}</b>`).join('<br />')}
    </p>
    <small class="muted"
      >!${facts.join(' · ')}!${feesOf(words, entry)
        .map((fee) => html`<span class="roomy"> · !${fee}</span>`)
        .join('')}</small
    >
  </li>`
}

const signs = { IN: '↓', OUT: '↑', SELF: '•' }
/** States of a write that moved nothing. */
export const failedStates: ReadonlySet<SentTransaction['state']> = new Set([
  'REVERTED',
  'FAILED',
  'REPLACED',
  'CANCELLED',
])

/** Returns the address of an entry's receipt; null if nothing identifies it. */
function receiptOf(chainId: number, { sent, transfers: [first] }: ActivityEntry): string | null {
  const network = String(chainId)
  if (sent !== null) return `/account/receipt?${new URLSearchParams({ network, id: sent.id }).toString()}`
  const place = first?.place ?? null
  if (place === null) return null
  const { blockNumber, hash } = place
  return `/account/receipt?${new URLSearchParams({ network, block: String(blockNumber), hash }).toString()}`
}

/** Returns the fee as a fact of an entry: of a write, or of a transfer that says so itself. */
function feesOf(words: Texts, { sent, transfers: [first] }: ActivityEntry): string[] {
  const fee = sent === null ? first?.fee : (sent.fee ?? undefined)
  return fee === undefined || fee.value === 0n ? [] : [html`${words.activity.fee}: !${amountHtml(words, fee)}`]
}

/** Renders the state of a write, if it is not simply done. */
export function stateBadge(words: Texts, sent: SentTransaction | null): string {
  if (sent === null || sent.state === 'MINED' || sent.state === 'FINALIZED') return ''
  const kind = failedStates.has(sent.state) ? 'danger' : 'pending'
  return html` <span class="badge ${kind}">${words.account.states[sent.state]}</span>`
}

/** Says from or to whom a transfer went. */
function partyText(words: Texts, { direction, other, coinKind }: ShownTransfer): string {
  const { account: texts, native } = words
  if (coinKind !== undefined && coinKind !== 'INTERNAL')
    return { FEE: native.feeAlone, MINT: native.minted, WITHDRAWAL: native.unstaked, REWARD: native.reward }[coinKind]
  if (other === ZERO_ADDRESS && coinKind === undefined)
    return { IN: texts.created, OUT: texts.destroyed, SELF: texts.toMyself }[direction]
  return { IN: texts.received(other), OUT: texts.sent(other), SELF: texts.toMyself }[direction]
}

/** Names the function that a write called, for writes without transfers. */
export const calledText = (words: Texts, { called, to }: SentTransaction): string =>
  called === null ? words.activity.transferred(ends(to)) : words.activity.called(called, ends(to))

/** Returns the kind of the sign of what a transfer moved. */
export const kindOf = ({ tokenId }: ShownTransfer): 'item' | '' => (tokenId === null ? '' : 'item')

/** Renders the amount of a transfer with its sign. */
export function transferAmount(words: Texts, { direction, amount, tokenId }: ShownTransfer): string {
  const sign = { IN: '+', OUT: '−', SELF: '' }[direction]
  const id = tokenId === null ? '' : html` <span title="${tokenId}">#${shortId(tokenId)}</span>`
  return html`!${amountHtml(words, amount, sign)}!${id}`
}
