import { html } from 'ghtml'
import type { App } from '../app.ts'
import { checksumAddress } from '../digits.ts'
import { toHex } from '../hex.ts'
import { toOperation } from '../transactions/operation.ts'
import { inOrder } from '../transactions/read/transitions.ts'
import { decodedCall } from './calls.ts'
import { readRules } from './signer-rules.ts'
import type { ConsoleContent, ConsoleVisit } from './door.ts'
import {
  applicationPath,
  card,
  facts,
  linkTo,
  long,
  mono,
  table,
  time,
  transactionPath,
  unknownHtml,
  userPath,
} from './layout.ts'

/** Builds the page of an operation, which a sponsor sends; null if there is none with this id. */
export async function operationContent(app: App, { words }: ConsoleVisit, id: string): Promise<ConsoleContent | null> {
  const { db } = app
  const row = await db.selectFrom('operations').selectAll().where('id', '=', id.replaceAll('\0', '')).executeTakeFirst()
  if (row === undefined) return null
  const texts = words.console.transaction
  const account = await db.selectFrom('accounts').select('user_id').where('account_id', '=', row.account_id).executeTakeFirst() // prettier-ignore
  const rules = account === undefined ? null : await readRules(app, { userId: account.user_id, intentId: row.id })
  const title = texts.title(row.id)
  const calls = toOperation(row).calls.map(({ to, value, data }) => {
    // The ABI is that of a single call.
    const call = decodedCall(row.abi, toHex(data))
    return [
      mono(checksumAddress(toHex(to))),
      html`${value} wei`,
      call === null
        ? long(toHex(data).slice(0, 200))
        : html`<code>${call.signature}</code
            >!${call.args.map((arg) => html`<br /><span class="mono long">${arg.slice(0, 500)}</span>`).join('')}`,
    ]
  })
  const revert = row.revert as { reason?: string } | null
  const transitions = inOrder(row.transitions).map(({ state, at, blockNumber }) => [
    html`${state}`,
    time(words, at),
    blockNumber === undefined ? '' : html`${blockNumber}`,
  ])
  const body = html`!${card(
    title,
    `${facts([
      [texts.state, html`${row.state}!${row.is_final ? html` <span class="badge good">${texts.isFinal}</span>` : ''}`],
      [texts.user, account === undefined ? null : linkTo(userPath(account.user_id), account.user_id)],
      [texts.application, linkTo(applicationPath(row.client_id), row.client_id)],
      [texts.signedBy, rules === null ? html`<span class="muted">${texts.signerDown}</span>` : [...rules.values()].map(mono).join(' ') || unknownHtml(words)], // prettier-ignore
      [texts.block, row.block_number === null ? null : html`${row.block_number}`],
      [texts.reference, row.reference === null ? null : long(row.reference)],
      [texts.revert, revert === null ? null : html`<span class="danger">${revert.reason ?? ''}</span>`],
    ])}${row.outer_id === null ? '' : html`<p>!${linkTo(transactionPath(row.outer_id), texts.carrier(row.outer_id))}</p>`}${html`<p class="muted">${texts.sponsored}</p>`}`,
    'h1',
  )}
  !${card(texts.call, table(words, [texts.to, texts.value, texts.call], calls, texts.call))}
  !${card(texts.timeline, table(words, [texts.state, words.console.audit.at, texts.block], transitions, texts.timeline))}`
  return { place: 'other', title, body }
}
