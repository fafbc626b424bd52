import { html } from 'ghtml'
import { amountHtml } from '../../http/amount.ts'
import type { Hex } from '../../ids.ts'
import type { Texts } from '../../texts/en.ts'
import { assetSign, collectibleName, coverageHtml, isListed, spamBadge, spamLast } from './body.ts'
import { entriesHtml } from './entries.ts'
import { picture } from '../pages.ts'
import type { PictureOf } from './pictures.ts'
import type { CoinCoverage, ActivityEntry, ShownBalance, ShownCollectible } from './slices.ts'

/** The shown data of an account on one network; null for data that could not be read. */
export type OnNetwork = {
  chainId: number
  network: string
  balances: ShownBalance[] | null
  collectibles: ShownCollectible[]
  activity: ActivityEntry[] | null
  /** null if native currency cannot be read now */
  coverage: CoinCoverage | null
}

type Overview = {
  networks: OnNetwork[]
  /** HTML at the top of the page */
  notices: string
  canSend: boolean
  username: string
  imageSrc: string | null
  pictureOf: PictureOf
}

/** Renders what an account holds on each network, and what happened last. */
export function overviewBody(
  words: Texts,
  { networks, notices, canSend, username, imageSrc, pictureOf }: Overview,
): string {
  return html`
    !${notices}
    <div class="row spread">
      <h1>${words.account.title}</h1>
      <div class="row who">
        !${picture(imageSrc, 'avatar')}
        <p><b>${username}</b></p>
      </div>
    </div>
    <div class="actions">
      !${canSend ? html`<a class="button" href="/account/send">${words.send.title}</a>` : ''}
      <a class="button quiet" href="/account/receive">${words.wallet.receiveTitle}</a>
    </div>
    !${networks.map((one) => networkCard(words, one, pictureOf)).join('')}
  `
}

function networkCard(
  words: Texts,
  { chainId, network, balances, collectibles, activity, coverage }: OnNetwork,
  pictureOf: PictureOf,
): string {
  const texts = words.account
  const { native, tokens, pieces } = sorted(balances ?? [], collectibles)
  return html`
    <section class="card stack" aria-label="${network}" data-part="balance-${String(chainId)}">
      <h2>${network}</h2>
      !${balances === null ? html`<p class="muted">${texts.unreadable}</p>` : ''}
      !${native
        .map(
          (one) =>
            html`<p class="headline">
              <small class="muted">${words.wallet.available}</small><b>!${amountHtml(words, one)}</b>
            </p>`,
        )
        .join('')}
      !${
        tokens.length === 0
          ? ''
          : html`<ul class="assets">
              !${tokens.map((one) => tokenItem(words, one, pictureOf(chainId, one.token))).join('')}
            </ul>`
      }
      !${
        pieces.length === 0
          ? ''
          : html`<h3>${texts.collectibles}</h3>
              <ul class="assets">
                !${pieces.map((one) => pieceItem(words, one, pictureOf(chainId, one.token))).join('')}
              </ul>`
      }
    </section>
    <section class="card stack" aria-label="${words.wallet.latest}">
      <h2>${words.wallet.latest}</h2>
      !${
        activity === null
          ? html`<p class="muted">${texts.unreadable}</p>`
          : activity.length === 0
            ? html`<p class="muted">${words.wallet.nothingYet}</p>`
            : entriesHtml(
                words,
                activity.map((entry) => ({ chainId, entry })),
                { name: `activity-${chainId}`, pictureOf },
              )
      }
      !${activity === null || isListed(coverage) ? '' : coverageHtml(words, coverage)}
      <p class="go"><a href="/account/activity?network=${String(chainId)}">${texts.showAll}</a></p>
    </section>
  `
}

type Piece = { token: Hex | null; name: string; id: string | null; count: bigint; isSpam: boolean }

/**
 * Sorts balances into native currency, tokens and collectibles. The balance of a collection counts its items: it is
 * shown only if none of them is listed.
 */
function sorted(
  balances: ShownBalance[],
  collectibles: ShownCollectible[],
): { native: ShownBalance[]; tokens: ShownBalance[]; pieces: Piece[] } {
  const listed = new Set(collectibles.map(({ token }) => token.toLowerCase()))
  const isItem = ({ token, isCollection }: ShownBalance): boolean => isCollection || (token !== null && listed.has(token.toLowerCase())) // prettier-ignore
  const collections = balances
    .filter((one) => isItem(one) && !listed.has(one.token!.toLowerCase()))
    .map(({ token, name, symbol, value, isSpam }) => ({ token, name: name || symbol, id: null, count: value, isSpam }))
  const items = collectibles.map((one) => ({ token: one.token, name: collectibleName(one), id: String(one.tokenId), count: one.count, isSpam: one.isSpam })) // prettier-ignore
  return {
    native: balances.filter(({ token }) => token === null),
    tokens: spamLast(balances.filter((one) => one.token !== null && !isItem(one))),
    pieces: spamLast([...items, ...collections]),
  }
}

const tokenItem = (words: Texts, balance: ShownBalance, picture: string | null): string =>
  html`<li>
    !${assetSign(balance.symbol, { picture })}<span
      >${balance.name === '' ? balance.symbol : balance.name}!${spamBadge(words, balance)}</span
    ><span>!${amountHtml(words, balance)}</span>
  </li>`

const pieceItem = (words: Texts, { name, id, count, isSpam }: Piece, picture: string | null): string =>
  html`<li>
    !${assetSign(name, { picture, kind: 'item' })}<span !${id === null ? '' : html`title="${id}"`}
      >${name}!${spamBadge(words, { isSpam })}</span
    ><span>!${count > 1n ? html`<span class="badge">× ${String(count)}</span>` : ''}</span>
  </li>`
