import { html } from 'ghtml'
import type { ApprovalQuestion, ApprovalState } from '../../approvals/decide.ts'
import { rich, timeHtml } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import type { Rich } from '../../texts/rich.ts'
import { form, smallSign } from '../account/body.ts'
import type { Simulated } from '../account/slices.ts'
import { picture } from '../pages.ts'
import type { Described } from './describe.ts'
import type { Names } from './names.ts'
import type { Move } from './read-call.ts'
import { endOf, moveText, sentenceOf, tokenText, withItem } from './sentence.ts'

/** Milliseconds for which the button to approve waits after the page appears. */
const WAITS_MS = 700

/** The requesting application; `hosts`: hosts of its registered URIs. */
export type Asker = { name: string; logoUri: string | null; hosts: string[]; origins: string[] }

type Shown = {
  approval: ApprovalQuestion
  asker: Asker
  described: Described
  /** result of the simulation of calls; null if there is none */
  simulated: Simulated | null
  names: Names
  /** path of a token's picture; null if it has none */
  pictureOf: (token: string | null) => string | null
  address: string
  network: string
  /** value of the form field `shown`: only the displayed request is approved */
  mark: string
  csrf: string
  /** the user signed in recently */
  isFresh: boolean
  canApprove: boolean
}

type KnownThings = Pick<Shown, 'names' | 'pictureOf'>

/** Renders a request that waits: its effect, the application, the amounts and the warnings. Returns escaped HTML. */
export function approvalBody(words: Texts, shown: Shown): string {
  const { described, simulated, names, pictureOf, asker, approval, address, network, csrf, mark, isFresh, canApprove } =
    shown
  const texts = words.approvals
  const path = `/account/approvals/${approval.id}`
  // If the effect is unknown, the raw data is the only information.
  const isOpen = described.moves.length + described.count === 0 && described.text === null
  const approve = html`<button class="button" data-waits="${String(WAITS_MS)}">${texts.approve}</button>`
  return html`
    <div class="card stack">
      <p class="muted">${texts.title}</p>
      <h1>!${rich(sentenceOf(words, names, described))}</h1>
      !${askerHtml(words, approval, asker)}
      <hr />
      !${
        described.text === null
          ? ''
          : html`<h2>${texts.textIs}</h2>
              !${scrolling(texts.textIs, described.text)}
              <p class="muted">
                <small>!${described.sentence === 'text' ? html`${texts.textHint} ` : ''}${texts.rawHint}</small>
              </p>`
      }
      !${described.sentence === 'order' ? html`<p>${texts.orderHint}</p>` : ''}
      !${stepsHtml(words, { names, pictureOf }, described)}
      <dl class="facts stacked">
        !${described.contract === null ? '' : fact(texts.contract, addressHtml(words, names, described.contract))}
        !${described.sentence === 'order' && !described.warnings.includes('recipient') ? fact(texts.returns, html`${texts.returnsUnknown}`) : ''}
        !${described.count === 0 || simulated === null || simulated.isReverted ? '' : fact(texts.expected, changesHtml(words, { names, pictureOf }, simulated))}
        !${fact(texts.account, html`<span class="mono">${address}</span>`)} !${fact(texts.network, html`${network}`)}
      </dl>
      !${described.count === 0 ? '' : noteOfSimulation(texts, simulated)}
      !${warningsOf(names, described)
        .map((one) => html`<p class="danger">${texts.warnings[one]}</p>`)
        .join('')}
      !${described.moves.some(({ token }) => token !== null && names.token(token)?.isSpam === true) ? html`<p class="danger">${words.account.spamHint}</p>` : ''}
      <details !${isOpen ? 'open' : ''}>
        <summary>${texts.raw}</summary>
        <div class="stack tight">
          !${scrolling(texts.raw, described.raw)}
          <p class="muted"><small>${texts.rawHint}</small></p>
        </div>
      </details>
      !${canApprove ? form(`${path}/approve`, csrf, { shown: mark }, approve) : html`<p class="danger">${texts.unreadable}</p>`}
      !${form(`${path}/deny`, csrf, {}, html`<button class="button quiet">${texts.deny}</button>`)}
      <p class="muted">
        <small
          >${texts.final} !${canApprove && !isFresh ? html`${texts.signInFirst} ` : ''}${texts.expiresAt}
          !${timeHtml(words, approval.expiresAt)}.</small
        >
      </p>
    </div>
  `
}

/** Renders a request whose content cannot be read: it can only be denied. */
export function unreadableBody(words: Texts, { approval, asker, csrf }: Pick<Shown, 'approval' | 'asker' | 'csrf'>) {
  const texts = words.approvals
  return html`
    <div class="card stack">
      <h1>${texts.unreadable}</h1>
      !${askerHtml(words, approval, asker)}
      !${form(`/account/approvals/${approval.id}/deny`, csrf, {}, html`<button class="button">${texts.deny}</button>`)}
    </div>
  `
}

const fact = (name: string, value: string): string =>
  html`<dt>${name}</dt>
    <dd>!${value}</dd>`

/** Renders long text in a scrolling box that the keyboard can reach. */
const scrolling = (label: string, text: string): string =>
  html`<pre tabindex="0" role="group" aria-label="${label}">${text}</pre>`

function askerHtml(words: Texts, { createdAt, askedFrom }: ApprovalQuestion, { name, logoUri, hosts }: Asker): string {
  const texts = words.approvals
  return html`
    <div class="row">
      !${picture(logoUri, 'logo')}
      <p>
        <span class="muted">${texts.askedBy}</span><br /><b>${name}</b
        >!${hosts.length === 0 ? '' : html`<br />${hosts.join(', ')}`}<br /><small class="muted"
          >!${timeHtml(words, createdAt)}!${askedFrom === null ? '' : html` · ${texts.askedFrom} ${askedFrom}`}</small
        >
      </p>
    </div>
  `
}

/** Returns the warnings. The id of a collectible, however large, is not an unlimited amount. */
const warningsOf = (names: Names, { warnings, moves }: Described): Described['warnings'] =>
  moves.some((move) => ['unlimited', 'all'].includes(withItem(names, move).amount))
    ? warnings
    : warnings.filter((one) => one !== 'unlimited')

/** Renders what each step moves or calls. Several steps are numbered. */
function stepsHtml(words: Texts, known: KnownThings, { steps }: Described): string {
  const texts = words.approvals
  return steps
    .map(({ moves, unknown }, index) => {
      if (moves.length === 0 && unknown === null) return ''
      const heading = steps.length === 1 ? '' : html`<h2>${texts.step(index + 1, steps.length)}</h2>`
      const call = unknown === null ? '' : fact(texts.contract, html`${texts.callOf(unknown.selector)}<br />!${addressHtml(words, known.names, unknown.to)}`) // prettier-ignore
      return html`!${heading}
        <dl class="facts stacked">!${movesHtml(words, known, moves)}!${call}</dl>`
    })
    .join('')
}

/** Renders moves and their recipients. A recipient of several consecutive moves is named once. */
function movesHtml(words: Texts, { names, pictureOf }: KnownThings, moves: readonly Move[]): string {
  const texts = words.approvals
  return moves
    .map((one, index) => {
      const move = withItem(names, one)
      const isLastTo = moves[index + 1]?.to !== move.to || moves[index + 1]?.kind !== move.kind
      const [what, who] = headingsOf(texts, move)
      const hasEnd = move.kind === 'allows' ? move.amount !== '0' : move.until !== null
      const until = hasEnd ? untilHtml(words, move) : ''
      return html`!${fact(what, html`!${smallSign(pictureOf(move.token))}<b>${move.amount === '0' && move.kind === 'allows' ? tokenText(words, names, move.token) : moveText(words, names, move)}</b>!${tokenNote(words, names, move)}`)}!${until}!${isLastTo ? fact(who, addressHtml(words, names, move.to)) : ''}`
    })
    .join('')
}

function headingsOf(texts: Texts['approvals'], { kind, amount }: Move): [what: string, who: string] {
  if (kind === 'pays') return [texts.leaves, texts.recipient]
  return [amount === '0' ? texts.mayNoLongerTake : texts.mayTake, texts.spender]
}

function untilHtml(words: Texts, move: Move): string {
  const end = endOf([move])
  return fact(words.approvals.until, end === null ? html`${words.approvals.forever}` : timeHtml(words, end))
}

/** Renders the simulated gains and losses of the account, one line per asset. */
function changesHtml(words: Texts, { names, pictureOf }: KnownThings, { changes, omitted }: Simulated): string {
  const texts = words.approvals
  const lines = changes.map(({ token, item, amount }) => {
    const size = String(amount < 0n ? -amount : amount)
    const move = {
      kind: 'pays' as const,
      token,
      amount: size,
      item: item === null ? null : String(item),
      to: '',
      until: null,
    }
    return html`!${smallSign(pictureOf(token))}<b>${amount < 0n ? '−' : '+'} ${moveText(words, names, move)}</b
      >!${tokenNote(words, names, move)}`
  })
  if (lines.length === 0) return html`${texts.expectedNothing}`
  return [...lines, ...(omitted === 0 ? [] : [html`${texts.expectedMore(omitted)}`])].join('<br />')
}

function noteOfSimulation(texts: Texts['approvals'], simulated: Simulated | null): string {
  if (simulated === null) return html`<p class="danger">${texts.notSimulated}</p>`
  if (simulated.isReverted) return html`<p class="danger">${texts.wouldFail}</p>`
  return html`<p class="muted"><small>${texts.expectedHint}</small></p>`
}

/** Renders the contract of a token, with a badge if its name looks like spam. */
function tokenNote(words: Texts, names: Names, { token }: Move): string {
  if (token === null) return ''
  const spam =
    names.token(token)?.isSpam === true
      ? html` <span class="badge danger" title="${words.account.spamHint}">${words.account.spam}</span>`
      : ''
  return html`!${spam}<br /><small class="muted"
      >${words.approvals.tokenContract} <span class="mono">${token}</span></small
    >`
}

/** Renders a recipient or spender: the user's name if there is one, and always the whole address. */
function addressHtml(words: Texts, names: Names, address: string): string {
  const user = names.user(address)
  const isNew = names.isDealtWith(address) === false
  return html`!${user === null ? '' : html`<b>${user}</b><br />`}<span class="mono">${address}</span
    >!${isNew ? html`<br /><span class="danger">${words.approvals.neverUsed}</span>` : ''}`
}

type Decided = { approval: ApprovalQuestion; state: Exclude<ApprovalState, 'waiting'>; asker: Asker }

/** Renders a request that was decided or has expired. The script reports the state to the opener window. */
export function decidedBody(words: Texts, { approval, state, asker }: Decided): string {
  const { title, hint } = outcomeOf(words, state, asker)
  return html`<div
    class="card stack"
    data-approval="${approval.id}"
    data-state="${state}"
    data-origins="${JSON.stringify(asker.origins)}"
  >
    <h1>${title}</h1>
    <p>${hint}</p>
    <p class="go"><a href="/account/approvals">${words.approvals.inbox}</a></p>
  </div>`
}

export function outcomeOf(
  { approvals: texts }: Texts,
  state: Exclude<ApprovalState, 'waiting'>,
  { name }: Pick<Asker, 'name'>,
): { title: string; hint: string } {
  switch (state) {
    case 'approved':
      return { title: texts.approvedTitle, hint: texts.approvedHint(name) }
    case 'used':
      return { title: texts.usedTitle, hint: texts.usedHint }
    case 'denied':
      return { title: texts.deniedTitle, hint: texts.deniedHint }
    default:
      return { title: texts.expiredTitle, hint: texts.expiredHint }
  }
}

/** A line of the inbox; `sentence`: null if the content cannot be read. */
export type ListedRequest = { approval: ApprovalQuestion; asker: Asker; sentence: Rich | null; network: string }

/** Renders the inbox: open requests, then decided ones. @param now  milliseconds since 1970 */
export function inboxBody(words: Texts, listed: ListedRequest[], now: number): string {
  const texts = words.approvals
  const waiting = listed.filter(({ approval }) => approval.state === 'waiting')
  const decided = listed.filter(({ approval }) => approval.state !== 'waiting')
  return html`
    <h1>${texts.inbox}</h1>
    <p class="muted">${texts.inboxHint}</p>
    <section class="card stack">
      <h2>${texts.waiting}</h2>
      !${
        waiting.length === 0
          ? html`<p class="muted">${texts.nothingWaits}</p>`
          : html`<ul class="rows">
              !${waiting.map((one) => waitingItem(words, one, now)).join('')}
            </ul>`
      }
    </section>
    !${
      decided.length === 0
        ? ''
        : html`<section class="card stack">
            <h2>${texts.decided}</h2>
            <ul class="rows">
              !${decided.map((one) => decidedItem(words, one)).join('')}
            </ul>
          </section>`
    }
    <p class="go"><a href="/account">${words.account.back}</a></p>
  `
}

const sentenceHtml = (words: Texts, sentence: Rich | null): string =>
  sentence === null ? html`${words.approvals.unreadable}` : rich(sentence)

const plainOf = ({ approvals }: Texts, sentence: Rich | null): string =>
  sentence === null
    ? approvals.unreadable
    : sentence.map((part) => (typeof part === 'string' ? part : part.strong)).join('')

function waitingItem(words: Texts, { approval, asker, sentence, network }: ListedRequest, now: number): string {
  const texts = words.approvals
  const minutes = Math.max(1, Math.ceil((approval.expiresAt.getTime() - now) / 60_000))
  return html`<li class="row spread">
    <p>
      !${sentenceHtml(words, sentence)}<br /><small class="muted"
        >${asker.name} · ${network} · ${texts.minutesLeft(minutes)}</small
      >
    </p>
    <a
      class="button small"
      href="/account/approvals/${approval.id}"
      aria-label="${`${texts.look}: ${plainOf(words, sentence)}`}"
      >${texts.look}</a
    >
  </li>`
}

function decidedItem(words: Texts, { approval, asker, sentence, network }: ListedRequest): string {
  const state = approval.state as Exclude<ApprovalState, 'waiting'>
  const at = approval.decidedAt ?? approval.expiresAt
  const tone = state === 'approved' || state === 'used' ? 'badge good' : 'badge'
  return html`<li>
    <p>!${sentenceHtml(words, sentence)} <span class="${tone}">${words.approvals.states[state]}</span></p>
    <p class="muted"><small>${asker.name} · ${network} · !${timeHtml(words, at)}</small></p>
  </li>`
}
