import { html } from 'ghtml'
import { amountHtml, amountText } from '../../http/amount.ts'
import { rich } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { form, collectibleName } from './body.ts'
import type { ShownBalance, TransferForm, ShownCollectible, Rehearsed } from './slices.ts'

/** One thing that can be sent; `value` is what the form sends for it. */
export type AssetChoice = { value: string; network: string } & (
  | { balance: ShownBalance }
  | { collectible: ShownCollectible }
)
export type Typed = { asset: string; to: string; provider: string; amount: string }

type SendForm = {
  csrf: string
  choices: AssetChoice[]
  providers: { value: string; title: string }[]
  typed: Typed
  error: { title: string; help: string; detail: string | null } | null
}

/** Renders the form for asset, recipient and amount. */
export function sendBody(words: Texts, { csrf, choices, providers, typed, error }: SendForm): string {
  const texts = words.send
  if (choices.length === 0)
    return html`<div class="card stack">
      <h1>${texts.title}</h1>
      <p>${texts.nothing}</p>
      <a class="button" href="/account/receive">${words.wallet.receiveTitle}</a>
    </div>`
  const networks = [...new Set(choices.map(({ network }) => network))]
  const options = networks.map(
    (network) =>
      html`<optgroup label="${network}">
        !${choices
          .filter((choice) => choice.network === network)
          .map((choice) => option(choice.value, titleOf(words, choice), typed.asset))
          .join('')}
      </optgroup>`,
  )
  const fields = html`
    <div class="field">
      <label for="asset">${texts.asset}</label>
      <select id="asset" name="asset">
        !${options.join('')}
      </select>
    </div>
    <div class="field">
      <label for="to">${texts.to}</label>
      <input
        id="to"
        name="to"
        value="${typed.to}"
        maxlength="300"
        required
        autocomplete="off"
        autocapitalize="none"
        spellcheck="false"
        aria-describedby="to-hint"
      />
      <small class="hint" id="to-hint">${texts.toHint}</small>
    </div>
    !${
      providers.length === 1
        ? html`<input type="hidden" name="provider" value="${providers[0]!.value}" />`
        : html`<div class="field">
            <label for="provider">${texts.provider}</label>
            <select id="provider" name="provider">
              !${providers.map(({ value, title }) => option(value, title, typed.provider)).join('')}
            </select>
          </div>`
    }
    <div class="field">
      <label for="amount">${texts.amount}</label>
      <input
        id="amount"
        name="amount"
        value="${typed.amount}"
        maxlength="200"
        inputmode="decimal"
        autocomplete="off"
        aria-describedby="amount-hint"
      />
      <small class="hint" id="amount-hint">${texts.amountHint}</small>
    </div>
    <button class="button">${texts.next}</button>
  `
  return html`<div class="card stack">
    <h1>${texts.title}</h1>
    !${error === null ? '' : html`<div class="danger stack tight" role="alert"><b>${error.title}</b><span>${error.detail ?? error.help}</span></div>`}
    !${form('/account/send', csrf, {}, fields)}
  </div>`
}

const option = (value: string, title: string, chosen: string): string =>
  html`<option value="${value}" !${value === chosen ? 'selected' : ''}>${title}</option>`

function titleOf(words: Texts, choice: AssetChoice): string {
  if ('collectible' in choice)
    return `${collectibleName(choice.collectible)}${choice.collectible.count > 1n ? ` × ${choice.collectible.count}` : ''}`
  const { name, symbol } = choice.balance
  return `${name || symbol} · ${amountText(words, choice.balance).short} ${symbol}`
}

type Confirm = {
  csrf: string
  /** the idempotency key of this transfer */
  key: string
  network: string
  asset: string
  /** the transfer to send, with usernames resolved */
  order: Pick<TransferForm, 'amount' | 'toAddress' | 'toUserId'>
  /** as it was typed; null for a single collectible */
  amount: { value: bigint; decimals: number } | null
  found: Rehearsed
  isSelf: boolean
}

/** Renders the transfer in words, to be confirmed. */
export function confirmBody(words: Texts, parts: Confirm): string {
  const { csrf, key, network, asset, order, amount, found, isSelf } = parts
  const texts = words.send
  const { thing, fee, recipient } = found
  const [, tokenType, , tokenId] = asset.split(':')
  const id = tokenId === undefined || tokenId === '' ? '' : ` #${tokenId}`
  const what = `${thing.symbol || thing.name}${id}`
  const counted =
    amount === null || (tokenType === 'ERC1155' && amount.value === 1n)
      ? what
      : `${amountText(words, amount).full} ${what}`
  const { address, userId, name } = recipient
  const who = isSelf ? texts.myself : (name ?? userId ?? address ?? '')
  const rest = html`
    <button class="button">${texts.confirm}</button>
    <a class="button quiet" href="/account/send?${new URLSearchParams({ asset }).toString()}">${texts.change}</a>
  `
  return html`<div class="card stack">
    <h1>${texts.confirmTitle}</h1>
    <p class="large">!${rich(texts.sentence(counted.trim(), who, network))}</p>
    !${address === null ? html`<p class="notice">${texts.stranger(userId ?? '')}</p>` : ''}
    <dl class="facts">
      !${
        address === null
          ? ''
          : html`<dt>${texts.address}</dt>
              <dd class="mono">${address}</dd>`
      }
      <dt>${texts.fee}</dt>
      <dd>!${amountHtml(words, fee)}</dd>
    </dl>
    <div class="spends">
      <p><strong>${texts.final}</strong></p>
    </div>
    !${form('/account/send/confirm', csrf, { key, asset, ...order }, rest)}
  </div>`
}

/**
 * Renders a transfer that a rule requires the user to approve: a link to that page, and the form that sends the transfer
 * after the approval, with the same key.
 */
export function unapprovedBody(
  words: Texts,
  { csrf, id, fields, help }: { csrf: string; id: string; fields: Record<string, string>; help: string },
): string {
  return html`<div class="card stack">
    <h1>${words.approvals.title}</h1>
    <p>${help}</p>
    <a class="button" href="/account/approvals/${encodeURIComponent(id)}" target="_blank" rel="noopener"
      >${words.approvals.title}</a
    >
    !${form('/account/send/confirm', csrf, fields, html`<button class="button quiet">${words.send.confirm}</button>`)}
  </div>`
}
