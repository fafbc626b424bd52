import { html } from 'ghtml'
import type { App } from '../app.ts'
import { toHex } from '../hex.ts'
import { quantityOf } from '../ids.ts'
import { PageError } from '../texts/page-error.ts'
import type { Texts } from '../texts/en.ts'
import { toBound, type TransactionRow } from '../transactions/intent.ts'
import { callOf } from '../transactions/lanes/prepare.ts'
import { runAgain, type RunAgain } from '../transactions/read/run-again.ts'
import { includesRole } from '../operator/operators.ts'
import { decodedCall } from './calls.ts'
import { nothingThere, type ConsoleDoor, type ConsoleVisit } from './door.ts'
import { card, code, facts, linkTo, mono, table, transactionPath } from './layout.ts'

/** Lowest role: each run makes a node execute two calls. */
const ROLE = 'support'

/** Returns whether a transaction has reverted in a block, and the operator may run it again. */
export const canRunAgain = ({ role }: Pick<ConsoleVisit, 'role'>, row: TransactionRow): boolean =>
  row.state === 'REVERTED' && row.block_number !== null && !row.is_cancel && includesRole(role, ROLE)

/** Renders the form. */
export const runAgainForm = ({ words: { console: texts }, csrf }: ConsoleVisit, id: string): string =>
  html`<form class="stack tight" method="post" action="${transactionPath(id)}/run-again">
    <input type="hidden" name="csrf" value="${csrf}" />
    <p class="muted"><small>${texts.transaction.runAgainHint}</small></p>
    <button class="button quiet">${texts.transaction.runAgain}</button>
  </form>`

/**
 * Registers POST /console/transactions/:id/run-again. It changes nothing, so the audit log does not record it. Its page shows a
 * JSON-RPC request that does the same.
 */
export function registerRunAgain(app: App, door: ConsoleDoor): void {
  door.post('/console/transactions/:id/run-again', async (visit) => {
    const { words, role, params } = visit
    if (!includesRole(role, ROLE)) throw new PageError('insufficient_scope', ({ console: texts }) => texts.notAllowed)
    const id = (params.id ?? '').replaceAll('\0', '')
    const row = await app.db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirst()
    if (row === undefined || !canRunAgain(visit, row)) throw nothingThere()
    const chain = app.chains.get(row.chain_id)
    // A separate authorization server opens no node.
    const runs = chain?.rpc === undefined ? null : await runAgain(chain, row)
    const { transaction: texts } = words.console
    const said = runs === null ? html`<p>${texts.noNode}</p>` : runsHtml(words, row, runs)
    const body = `${said}<p>${code(requestOf(row))}</p><p>${linkTo(transactionPath(id), words.console.back)}</p>`
    return { place: 'other', title: texts.runAgain, body: card(texts.runAgain, body, 'h1') }
  })
}

function runsHtml(words: Texts, row: TransactionRow, runs: RunAgain[]): string {
  const { transaction: texts } = words.console
  const rows = runs.map((run) => [html`${run.block}`, outcomeHtml(words, run)])
  const call = decodedCall(row.abi, toHex(row.data))
  return `${facts([[texts.call, call === null ? null : code(call.signature)], [texts.block, html`${row.block_number!}`]])}${table(words, [texts.afterBlock, texts.outcome], rows, texts.runAgain)}` // prettier-ignore
}

function outcomeHtml({ console: { transaction: texts } }: Texts, run: RunAgain): string {
  if (run.outcome === 'succeeds') return html`<span class="good">${texts.succeeds}</span>`
  if (run.outcome === 'unknown') return html`<span class="muted">${texts.notRun(run.detail)}</span>`
  const { reason, signature, args, data } = run.revert
  const details =
    signature === null ? (data === '0x' ? '' : data.slice(0, 500)) : `${signature} ${JSON.stringify(args)}`
  return html`<span class="danger">${texts.reverts(reason)}</span> !${details === '' ? '' : mono(details)}`
}

/** Returns the JSON-RPC request of the same call, on the state before the block. */
function requestOf(row: TransactionRow): string {
  const bound = toBound(row)
  return JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'eth_call' },
    params: [callOf(bound.from, { ...bound, gas: BigInt(row.gas_limit) }), quantityOf(row.block_number! - 1)],
  })
}
