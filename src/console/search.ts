import { html } from 'ghtml'
import type { App } from '../app.ts'
import { isWord } from '../digits.ts'
import { fromHex } from '../hex.ts'
import type { Hex } from '../ids.ts'
import { listPeople } from '../users/people.ts'
import type { ConsoleDoor } from './door.ts'
import {
  applicationPath,
  card,
  code,
  linkTo,
  long,
  mono,
  nextLink,
  quoted,
  time,
  transactionPath,
  userPath,
  webhookPath,
} from './layout.ts'

/** Users on a page of results. */
const ROWS = 20
const MAX_TEXT = 200
/** Form of a request id. No table has them: of a successful write, the response has the transaction id as well. */
const REQUEST_ID = /^[A-Za-z0-9-]{8,64}$/

/**
 * Registers GET /console/search: `q`, `cursor`. Each way to search uses an index: ids and hashes of transactions, user ids,
 * addresses, beginnings of usernames and e-mail addresses, client ids, ids of webhooks.
 */
export function searchPage(app: App, door: ConsoleDoor): void {
  door.page('/console/search', async ({ words, query }) => {
    const texts = words.console.search
    const text = (query.q ?? '').trim().slice(0, MAX_TEXT)
    const [ids, people, application, webhook] =
      text === ''
        ? [[], { people: [], nextCursor: null }, undefined, undefined]
        : await Promise.all([
            findTransactions(app, text),
            listPeople(app, { search: text, limit: ROWS, cursor: query.cursor }),
            app.db
              .selectFrom('applications')
              .select(['client_id', 'name'])
              .where('client_id', '=', text)
              .executeTakeFirst(),
            app.db.selectFrom('webhooks').select(['id', 'client_id']).where('id', '=', text).executeTakeFirst(),
          ])
    const transactions = ids.map((id) => html`<li>!${linkTo(transactionPath(id), id)}</li>`)
    const users = people.people.map(
      ({ userId, address, identities, createdAt }) =>
        html`<li>
          !${linkTo(userPath(userId), userId)}
          <span class="muted"
            >${identities.map(({ username, email }) => [username, email].filter((one) => one !== null).join(' ')).join(', ')}
            · ${words.console.user.created} !${time(words, createdAt)}</span
          >
          !${address === null ? '' : long(address)}
        </li>`,
    )
    const list = (title: string, items: string[]) =>
      items.length === 0
        ? ''
        : card(
            title,
            html`<ul class="rows">
              !${items.join('')}
            </ul>`,
          )
    const applications =
      application === undefined
        ? []
        : [
            html`<li>
              !${linkTo(applicationPath(application.client_id), application.name)} !${mono(application.client_id)}
            </li>`,
          ]
    const webhooks =
      webhook === undefined
        ? []
        : [html`<li>!${linkTo(webhookPath(webhook.id), webhook.id)} !${mono(webhook.client_id)}</li>`]
    const found = [
      list(texts.transactions, transactions),
      list(texts.applications, applications),
      list(words.console.nav.webhooks, webhooks),
      list(texts.users, users),
    ].join('')
    const isNothing = found === ''
    const body = html`<h1>${texts.title}</h1>
      !${
        isNothing
          ? card(
              text,
              html`<p>${texts.none}</p>
                !${
                  REQUEST_ID.test(text)
                    ? html`<p>${texts.logCommand}</p>
                        <p>!${code(`journalctl --output cat --grep ${quoted(text)}`)}</p>`
                    : ''
                }`,
            )
          : found
      }
      !${nextLink(words, '/console/search', people.nextCursor === null ? null : { q: text, cursor: people.nextCursor })}`
    return { place: 'other', title: texts.title, body }
  })
}

/** Finds transactions and operations by id, or by the hash of any attempt on any network. */
async function findTransactions({ db }: App, text: string): Promise<string[]> {
  if (isWord(text)) {
    const chains = await db.selectFrom('networks').select('chain_id').execute()
    if (chains.length === 0) return []
    const rows = await db
      .selectFrom('attempts')
      .select('transaction_id')
      .where(
        'chain_id',
        'in',
        chains.map(({ chain_id: chainId }) => chainId),
      )
      .where('hash', '=', fromHex(text.toLowerCase() as Hex))
      .execute()
    return rows.map((row) => row.transaction_id)
  }
  const found = await Promise.all(
    (['transactions', 'operations'] as const).map((table) =>
      db.selectFrom(table).select('id').where('id', '=', text).executeTakeFirst(),
    ),
  )
  return found.flatMap((row) => (row === undefined ? [] : [row.id]))
}
