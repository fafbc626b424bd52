import { html } from 'ghtml'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { fromHex } from '../hex.ts'
import { listAllowed } from '../oauth/account/allowed.ts'
import { listSessions } from '../oauth/sessions.ts'
import { listAccountTransactions } from '../operator/account-transactions.ts'
import { highestRole, includesRole, type ConsoleRole } from '../operator/operators.ts'
import { spentOfBudget } from '../store/sponsor-budget.ts'
import type { Texts } from '../texts/en.ts'
import { findNamed } from '../users/find.ts'
import { readPerson } from '../users/people.ts'
import type { Person } from '../users/wire.ts'
import { actionForm } from './act.ts'
import { nothingThere, type ConsoleDoor, type ConsoleVisit } from './door.ts'
import {
  applicationPath,
  card,
  doneHtml,
  facts,
  linkTo,
  mono,
  nextLink,
  table,
  time,
  transactionPath,
  userPath,
} from './layout.ts'

const ROWS = 25
/** Applications whose gas is summed up, on one page. */
const MAX_APPLICATIONS = 20

/** Registers GET /console/users/:userId: `network`, `cursor`. */
export function userPage(app: App, door: ConsoleDoor): void {
  door.page('/console/users/:userId', async (visit) => {
    const { words, params, query } = visit
    const texts = words.console.user
    const asked = (params.userId ?? '').replaceAll('\0', '')
    const named = await findNamed(app.db, asked)
    if (named === null) throw nothingThere()
    const { userId, accountId } = named
    const [person, role, stopped, applications, sessions, key, transactions] = await Promise.all([
      readPerson(app, userId).catch((error: unknown) => {
        // A sponsor is an account without a user.
        if (error instanceof AppError && error.code === 'not_found') return null
        throw error
      }),
      highestRole(app.db, app.sealKeys, accountId),
      app.db.selectFrom('stopped_lanes').select(['chain_id', 'nonce', 'resume_asked_at']).where('sender', '=', fromHex(named.stored.address)).execute(), // prettier-ignore
      listAllowed(app, { accountId, userId }),
      listSessions(app.db, userId),
      keyRequest(app, words, userId),
      transactionsHtml(app, visit, userId),
    ])
    const frozen = person?.frozenAt ?? null
    const mayLockOut = role === null || includesRole(visit.role, role)
    const forms = [
      ...(frozen !== null
        ? [actionForm(visit, 'unfreeze', userId)]
        : mayLockOut
          ? [actionForm(visit, 'freeze', userId)]
          : []),
      ...(mayLockOut ? [actionForm(visit, 'sign-out', userId)] : []),
      ...(stopped.length === 0 ? [] : [actionForm(visit, 'resume-account', userId)]),
      ...(key.isOpen ? [actionForm(visit, 'cancel-export', userId)] : []),
    ].join('')
    const browsers = sessions.map(({ browser, system, signedInAt }) => [
      html`${[browser ?? words.console.unknown, system ?? ''].filter((one) => one !== '').join(', ')}`,
      time(words, signedInAt),
    ])
    const title = texts.title(userId)
    const limits = await Promise.all(
      applications.slice(0, MAX_APPLICATIONS).map((one) => limitOf(app, one.clientId, accountId)),
    )
    const allowed = applications
      .slice(0, MAX_APPLICATIONS)
      .map(({ clientId, name, permissions }, index) => [
        linkTo(applicationPath(clientId), name),
        html`${permissions.join(' ')}`,
        html`${limits[index]!}`,
      ])
    const body = html`!${doneHtml(words, query.done)}
    !${card(title, `${personHtml(words, { person, key: key.said, role })}${stopped.map(({ chain_id: chainId, nonce }) => html`<p class="danger">${texts.stopped(String(nonce), String(chainId))}</p>`).join('')}`, 'h1')}
    !${forms === '' ? '' : card(texts.acts, forms)}
    !${person === null ? '' : card(texts.identities, identitiesHtml(words, person))}
    !${card(texts.applications, table(words, [words.console.application.name, texts.permissions, texts.limits], allowed, texts.applications))}
    !${transactions} !${card(texts.browsers, table(words, [texts.browsers, texts.signedIn], browsers, texts.browsers))}`
    return { place: 'other', title, body }
  })
}

function personHtml(
  words: Texts,
  { person, key, role }: { person: Person | null; key: string; role: ConsoleRole | null },
): string {
  const texts = words.console.user
  if (person === null) return ''
  const { address, createdAt, frozenAt, exportedAt } = person
  const when = (at: string | null) => (at === null ? html`${texts.no}` : time(words, at))
  return facts([
    [texts.address, address === null ? html`<span class="danger">${texts.notAttested}</span>` : mono(address)],
    [texts.created, time(words, createdAt)],
    [words.console.operators.role, role === null ? null : html`${words.console.roles[role]}`],
    [texts.frozen, frozenAt === null ? html`${texts.no}` : html`<span class="badge danger">!${when(frozenAt)}</span>`],
    [texts.exported, when(exportedAt)],
    [texts.export, key],
  ])
}

function identitiesHtml(words: Texts, { identities }: Person): string {
  const texts = words.console.user
  const rows = identities.map(({ userId, username, email, signedInAt }) => [
    mono(userId),
    html`${username}`,
    html`${email ?? ''}`,
    signedInAt === null ? html`${texts.never}` : time(words, signedInAt),
  ])
  return table(
    words,
    [words.console.operators.userId, texts.username, texts.email, texts.signedIn],
    rows,
    texts.identities,
  )
}

/** Reads the state of a key request from the signer. */
async function keyRequest(
  { signer, telemetry }: App,
  words: Texts,
  userId: string,
): Promise<{ isOpen: boolean; said: string }> {
  const texts = words.console.user
  try {
    const { state, readyAt } = await signer.keyExport({ userId })
    if (state === 'none') return { isOpen: false, said: html`${texts.no}` }
    const from = readyAt === null ? '' : new Date(readyAt).toISOString()
    return { isOpen: true, said: html`<span class="danger">${texts.readyAt(from)}</span>` }
  } catch (error) {
    telemetry.log.warn('key_export_unreadable', {}, error)
    return { isOpen: false, said: html`<span class="muted">${texts.signerDown}</span>` }
  }
}

/** Returns the wei that sponsors paid for a user in the last day, and the limit; empty without a budget. */
async function limitOf({ db }: App, clientId: string, accountId: string): Promise<string> {
  const row = await db
    .selectFrom('applications')
    .select('sponsor_per_user')
    .where('client_id', '=', clientId)
    .executeTakeFirst()
  if (row === undefined || row.sponsor_per_user === null) return ''
  return `${await spentOfBudget(db, clientId, accountId)} / ${row.sponsor_per_user} wei`
}

async function transactionsHtml(app: App, { words, query }: ConsoleVisit, userId: string): Promise<string> {
  const texts = words.console.user
  const labels = words.console.transaction
  const networks = await app.db.selectFrom('networks').select('name').orderBy('name').execute()
  const network = networks.find(({ name }) => name === query.network)?.name ?? networks[0]?.name
  if (network === undefined) return ''
  const { transactions, nextCursor } = await listAccountTransactions(app.db, {
    userId,
    network,
    limit: ROWS,
    cursor: query.cursor,
  })
  const rows = transactions.map(({ id, state, clientId, to, sentAt }) => [
    linkTo(transactionPath(id), id),
    html`${state}`,
    html`${clientId}`,
    mono(to),
    time(words, sentAt),
  ])
  const others = networks.map(({ name }) =>
    name === network ? html`<b>${name}</b>` : linkTo(`${userPath(userId)}?network=${encodeURIComponent(name)}`, name),
  )
  const title = texts.transactions(network)
  return card(
    title,
    `${networks.length < 2 ? '' : html`<nav class="trail" aria-label="${labels.network}">!${others.join('')}</nav>`}${table(words, ['Id', labels.state, labels.application, labels.to, texts.sent], rows, title)}${nextLink(words, userPath(userId), nextCursor === null ? null : { network, cursor: nextCursor })}`,
  )
}
