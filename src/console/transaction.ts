import { html } from 'ghtml'
import type { App } from '../app.ts'
import { checksumAddress } from '../digits.ts'
import { toHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import type { TransactionRow } from '../transactions/intent.ts'
import type { TroubleCode } from '../transactions/recovery/trouble.ts'
import { readChange } from '../transactions/recovery/requested-changes.ts'
import { inOrder } from '../transactions/read/transitions.ts'
import { timeText } from '../texts/time.ts'
import type { Texts } from '../texts/en.ts'
import { actionForm } from './act.ts'
import { decodedCall, gwei } from './calls.ts'
import { canRunAgain, registerRunAgain, runAgainForm } from './run-again.ts'
import { readRules } from './signer-rules.ts'
import { nothingThere, type ConsoleContent, type ConsoleDoor, type ConsoleVisit } from './door.ts'
import { operationContent } from './operation.ts'
import {
  applicationPath,
  card,
  doneHtml,
  facts,
  linkTo,
  long,
  mono,
  nativeHtml,
  table,
  time,
  transactionPath as pathOf,
  unknownHtml,
  userPath,
} from './layout.ts'

/** Earlier open nonces that the page of a transaction counts. */
const MAX_EARLIER = 200

/** Columns of attempts that the authorization server may read: all but the signed bytes. */
const ATTEMPT = ['hash', 'max_fee', 'is_cancel', 'created_at', 'broadcast_at', 'queued_nonce'] as const

/** Registers GET /console/transactions/:id, of transactions and operations. */
export function transactionPage(app: App, door: ConsoleDoor): void {
  door.page('/console/transactions/:id', async (visit): Promise<ConsoleContent> => {
    const { id = '' } = visit.params
    const row = await app.db
      .selectFrom('transactions')
      .selectAll()
      .where('id', '=', id.replaceAll('\0', ''))
      .executeTakeFirst()
    const content =
      row === undefined ? await operationContent(app, visit, id) : await transactionContent(app, visit, row)
    if (content === null) throw nothingThere()
    return content
  })
  registerRunAgain(app, door)
}

async function transactionContent(app: App, visit: ConsoleVisit, row: TransactionRow): Promise<ConsoleContent> {
  const { words, query } = visit
  const texts = words.console.transaction
  const around = await readAround(app, row)
  const [rules, attempts, queue, change] = await Promise.all([
    around.userId === null ? null : readRules(app, { userId: around.userId, intentId: row.id }),
    app.db.selectFrom('attempts').select(ATTEMPT).where('transaction_id', '=', row.id).where('chain_id', '=', row.chain_id).orderBy('created_at').execute(), // prettier-ignore
    row.state === 'SUBMITTED' || row.state === 'BOUND' ? queueHtml(app, words, row) : null,
    readChange(row.id)(app.db),
  ])
  const title = texts.title(row.id)
  const isOpen = row.state === 'SUBMITTED'
  const forms = canRunAgain(visit, row)
    ? runAgainForm(visit, row.id)
    : isOpen
      ? `${actionForm(visit, 'speed-up-transaction', row.id)}${row.is_cancel ? '' : actionForm(visit, 'cancel-transaction', row.id)}`
      : ''
  const asked =
    change === null
      ? ''
      : html`<p class="notice">
          ${texts.asked(words.console.acts[`${change.change}-transaction`], change.refusal ?? (change.doneAt === null ? texts.askedOpen : texts.askedDone))}
        </p>`
  const timeline = inOrder(row.transitions).map(({ state, at, blockNumber }) => [
    html`${state}`,
    time(words, at),
    blockNumber === undefined ? '' : html`${blockNumber}`,
  ])
  const tried = attempts.map((one) => [
    mono(toHex(one.hash)),
    html`${one.is_cancel ? texts.kinds.cancel : texts.kinds.write}`,
    html`${gwei(fromWord(one.max_fee))}`,
    rules?.get(toHex(one.hash)) === undefined ? unknownHtml(words) : mono(rules.get(toHex(one.hash))!),
    time(words, one.created_at),
    one.queued_nonce !== null
      ? html`${texts.queued}`
      : one.broadcast_at === null
        ? html`${texts.notConfirmed}`
        : time(words, one.broadcast_at),
  ])
  const body = html`!${doneHtml(words, query.done)}!${asked}
  !${card(title, `${answerHtml(words, row, queue)}${factsHtml(app, words, row, around)}${forms}`, 'h1')}
  !${callCard(words, row)}
  !${card(texts.timeline, table(words, [texts.state, words.console.audit.at, texts.block], timeline, texts.timeline))}
  !${card(texts.attempts, `${table(words, ['Hash', texts.kind, texts.maxFee, texts.signedBy, texts.signedAt, texts.confirmed], tried, texts.attempts)}${html`<p class="muted"><small>${rules === null ? texts.signerDown : texts.rule}</small></p>`}`)}`
  return { place: 'other', title, body }
}

/** Renders what a visitor looks for first: why the write waits, or why it failed. */
function answerHtml(words: Texts, { revert }: Pick<TransactionRow, 'revert'>, queue: string | null): string {
  const texts = words.console.transaction
  if (queue !== null)
    return html`<h2>${texts.queue}</h2>
      !${queue}`
  const reason = (revert as { reason?: string } | null)?.reason
  return reason === undefined ? '' : html`<p class="danger">${texts.revert}: ${reason}</p>`
}

type Around = { userId: string | null; application: string | null; network: string | null }

async function readAround({ db }: App, { account_id, client_id, chain_id }: TransactionRow): Promise<Around> {
  const [account, application, network] = await Promise.all([
    db.selectFrom('accounts').select('user_id').where('account_id', '=', account_id).executeTakeFirst(),
    db.selectFrom('applications').select('name').where('client_id', '=', client_id).executeTakeFirst(),
    db.selectFrom('networks').select('name').where('chain_id', '=', chain_id).executeTakeFirst(),
  ])
  return {
    userId: account?.user_id ?? null,
    application: application?.name ?? null,
    network: network?.name ?? null,
  }
}

function factsHtml(app: App, words: Texts, row: TransactionRow, { userId, application, network }: Around): string {
  const texts = words.console.transaction
  const { gas_used: gas, effective_gas_price: price, block_number: block } = row
  const fee = gas === null || price === null ? null : BigInt(gas) * fromWord(price)
  return facts([
    [texts.state, html`${row.state}!${row.is_final ? html` <span class="badge good">${texts.isFinal}</span>` : ''}`],
    [texts.user, userId === null ? null : linkTo(userPath(userId), userId)],
    [
      texts.application,
      application === null ? html`${row.client_id}` : linkTo(applicationPath(row.client_id), application),
    ],
    [texts.network, html`${network ?? row.chain_id}`],
    ['Hash', row.hash === null ? null : mono(toHex(row.hash))],
    ['Nonce', html`${row.nonce}`],
    [texts.block, block === null ? null : html`${block}`],
    [texts.fee, fee === null ? null : nativeHtml(app, words, row.chain_id, fee)],
    [texts.reference, row.reference === null ? null : long(row.reference)],
  ])
}

function callCard(words: Texts, row: TransactionRow): string {
  const texts = words.console.transaction
  const call = decodedCall(row.abi, toHex(row.data))
  const data = toHex(row.data)
  const revert = row.revert as { reason?: string; signature?: string | null } | null
  return card(
    texts.call,
    facts([
      [texts.to, mono(checksumAddress(toHex(row.target)))],
      [texts.value, html`${fromWord(row.value)} wei`],
      [
        texts.call,
        call === null
          ? null
          : html`<code>${call.signature}</code
              >!${call.args.map((arg) => html`<br /><span class="mono">${arg.slice(0, 500)}</span>`).join('')}`,
      ],
      ['Data', call === null && data !== '0x' ? mono(data.length > 500 ? `${data.slice(0, 500)}…` : data) : null],
      [texts.revert, revert === null ? null : html`<span class="danger">${revert.reason ?? ''}</span>`],
    ]),
  )
}

/** Says what an open write waits for: its account, the writes before it, and the problem that a keeper has recorded. */
async function queueHtml({ db }: App, words: Texts, row: TransactionRow): Promise<string> {
  const texts = words.console.transaction
  const [stopped, wait, open] = await Promise.all([
    db.selectFrom('stopped_lanes').select('created_at').where('chain_id', '=', row.chain_id).where('sender', '=', row.sender).executeTakeFirst(), // prettier-ignore
    db.selectFrom('waits').selectAll().where('chain_id', '=', row.chain_id).where('sender', '=', row.sender).where('nonce', '=', row.nonce).executeTakeFirst(), // prettier-ignore
    db
      .selectFrom('transactions')
      .select(['id', 'nonce'])
      .where('chain_id', '=', row.chain_id)
      .where('sender', '=', row.sender)
      .where('nonce', '<', row.nonce)
      .where('state', 'in', ['BOUND', 'SUBMITTED', 'VACANT'])
      .orderBy('nonce')
      .limit(MAX_EARLIER + 1)
      .execute(),
  ])
  const said = [
    ...(stopped === undefined
      ? []
      : [html`<p class="danger">${texts.stopped(timeText(words, stopped.created_at))}</p>`]),
    ...(open[0] === undefined
      ? []
      : [
          html`<p>
            !${linkTo(pathOf(open[0].id), texts.behind(open.length > MAX_EARLIER ? `${MAX_EARLIER}+` : String(open.length), String(open[0].nonce)))}
          </p>`,
        ]),
    wait === undefined || wait.trouble === null
      ? html`<p class="muted">${texts.noTrouble}</p>`
      : html`<p>${texts.troubles[wait.trouble as TroubleCode]}</p>
          <p class="muted">${texts.trouble(timeText(words, wait.since ?? row.created_at), wait.trouble)}</p>
          !${wait.detail === null ? '' : html`<p class="muted" lang="en">${wait.detail}</p>`}`,
  ]
  return said.join('')
}
