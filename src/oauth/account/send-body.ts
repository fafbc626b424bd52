import { html } from 'ghtml'
import { amountHtml, amountText } from '../../http/amount.ts'
import { rich } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { assetSign, form, collectibleName } from './body.ts'
import { picture } from '../pages.ts'
import type { ShownBalance, TransferForm, ShownCollectible, Rehearsed } from './slices.ts'

/** One thing of the account; `value` is what the form sends for it. `isOpen`: this page can send it. */
export type AssetChoice = { value: string; network: string; picture: string | null; isOpen: boolean } & (
  | { balance: ShownBalance }
  | { collectible: ShownCollectible }
)
export type Typed = { asset: string; to: string; provider: string; amount: string }

type SendForm = {
  csrf: string
  choice: AssetChoice
  /** whether another asset can be chosen */
  hasOthers: boolean
  providers: { value: string; title: string }[]
  typed: Typed
  error: ShownError | null
}
type ShownError = { title: string; help: string; detail: string | null }

const errorHtml = (error: ShownError | null): string =>
  error === null
    ? ''
    : html`<div class="danger stack tight" role="alert">
        <b>${error.title}</b><span>${error.detail ?? error.help}</span>
      </div>`

/** Renders the choice of an asset: each leads to its own form. */
export function assetsBody(
  words: Texts,
  { choices, error }: { choices: AssetChoice[]; error: ShownError | null },
): string {
  const texts = words.send
  const networks = [...new Set(choices.map(({ network }) => network))]
  return html`
    <h1>${texts.title}</h1>
    !${errorHtml(error)}
    !${
      choices.length === 0
        ? html`<div class="card stack">
            <p>${texts.nothing}</p>
            <a class="button" href="/account/receive">${words.wallet.receiveTitle}</a>
          </div>`
        : ''
    }
    !${networks
      .map(
        (network) =>
          html`<section class="card stack" aria-label="${network}">
            <h2>${network}</h2>
            !${choices.every((choice) => choice.network !== network || choice.isOpen) ? '' : notSetUpHtml(words, network)}
            <ul class="assets">
              !${choices
                .filter((choice) => choice.network === network)
                .map(
                  (choice) =>
                    html`<li>!${signOf(choice)}!${linkedName(choice)}<span>!${heldHtml(words, choice)}</span></li>`,
                )
                .join('')}
            </ul>
          </section>`,
      )
      .join('')}
  `
}

/** Renders the form for one asset: recipient and, unless it is a single collectible, amount. */
export function sendBody(words: Texts, { csrf, choice, hasOthers, providers, typed, error }: SendForm): string {
  const texts = words.send
  // The Enter key presses the first button of a form: it must not be the one for the maximum.
  const fields = html`
    <button class="default" tabindex="-1" aria-hidden="true">${texts.next}</button>
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
    !${isSingle(choice) ? '' : amountField(words, typed)}
    <button class="button">${texts.next}</button>
  `
  return html`
    <h1>${texts.title}</h1>
    <div class="card stack">
      !${errorHtml(error)}
      <ul class="assets">
        <li>
          !${signOf(choice)}<span><b>${nameOf(choice)}</b><br /><small class="muted">${choice.network}</small></span
          ><span>!${heldHtml(words, choice)}</span>
        </li>
      </ul>
      !${hasOthers ? html`<p class="go"><a href="/account/send">${words.wallet.otherAsset}</a></p>` : ''}
      !${choice.isOpen ? form('/account/send', csrf, { asset: choice.value }, fields) : notSetUpHtml(words, choice.network)}
    </div>
  `
}

const linkedName = (choice: AssetChoice): string =>
  choice.isOpen
    ? html`<a href="/account/send?${new URLSearchParams({ asset: choice.value }).toString()}">${nameOf(choice)}</a>`
    : html`<span>${nameOf(choice)}</span>`

/** Says before anything is typed that this page sends nothing on a network. */
const notSetUpHtml = ({ send: texts }: Texts, network: string): string =>
  html`<p class="notice"><b>${texts.notSetUp}</b><br />${texts.notSetUpHint(network)}</p>`

const amountField = ({ send: texts, wallet }: Texts, typed: Typed): string =>
  html`<div class="field">
    <label for="amount">${texts.amount}</label>
    <div class="row nowrap">
      <input
        id="amount"
        name="amount"
        value="${typed.amount}"
        maxlength="200"
        inputmode="decimal"
        autocomplete="off"
        aria-describedby="amount-hint"
      /><button class="button quiet small" name="max" value="1" formnovalidate>${wallet.max}</button>
    </div>
    <small class="hint" id="amount-hint">${texts.amountHint}</small>
  </div>`

const isSingle = (choice: AssetChoice): boolean => 'collectible' in choice && choice.collectible.tokenType === 'ERC721'

const nameOf = (choice: AssetChoice): string =>
  'collectible' in choice ? collectibleName(choice.collectible) : choice.balance.name || choice.balance.symbol

const signOf = (choice: AssetChoice): string =>
  'collectible' in choice
    ? assetSign(nameOf(choice), { picture: choice.picture, kind: 'item' })
    : assetSign(choice.balance.symbol, { picture: choice.picture })

function heldHtml(words: Texts, choice: AssetChoice): string {
  if ('balance' in choice) return amountHtml(words, choice.balance)
  return choice.collectible.count > 1n ? html`<span class="badge">× ${String(choice.collectible.count)}</span>` : ''
}

const option = (value: string, title: string, chosen: string): string =>
  html`<option value="${value}" !${value === chosen ? 'selected' : ''}>${title}</option>`

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
  /** picture of the recipient */
  imageSrc: string | null
  isSelf: boolean
}

/** Renders the transfer in words, to be confirmed. */
export function confirmBody(words: Texts, parts: Confirm): string {
  const { csrf, key, network, asset, order, amount, found, imageSrc, isSelf } = parts
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
  return html`<h1>${texts.confirmTitle}</h1>
    <div class="card stack">
      <div class="row who">
        !${picture(imageSrc, 'avatar')}
        <p><b>${who}</b></p>
      </div>
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
        <dd>${`${amountText(words, fee).full} ${fee.symbol}`}</dd>
      </dl>
      <p class="notice">${texts.final}</p>
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
