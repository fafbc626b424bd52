import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../../app.ts'
import { countWaiting } from '../../approvals/decide.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { timeText } from '../../texts/time.ts'
import { readExported } from '../../users/exported.ts'
import { userWire, type ProvenUser } from '../../users/find.ts'
import { readFreezable } from '../../users/freeze.ts'
import { ownSignIn } from '../first-party.ts'
import { chainName } from '../page-context.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import { doneHtml } from './body.ts'
import { overviewBody, type OnNetwork } from './overview-body.ts'
import { isPending } from './entries.ts'
import type { PictureOf } from './pictures.ts'
import type { AccountSlices } from './slices.ts'
import { inTabs } from './tabs.ts'

/** Rows of the latest activity. All rows are on `/account/activity`. */
const FEW = 5
/** Seconds until a list with a pending entry updates itself. */
export const SECONDS_TO_NEXT_LOOK = 5

/** Registers the first page of the account: what it holds, and what happened last. */
export function overviewPage(
  server: FastifyInstance,
  app: App,
  { door, slices, pictureOf }: { door: AccountDoor; slices: AccountSlices; pictureOf: PictureOf },
): void {
  /** GET /account: the overview; without a session, it redirects to a sign-in. */
  server.get<{ Querystring: Record<string, unknown> }>(
    '/account',
    { ...hidden, config: { admission: 'read' } },
    async (request, reply) => {
      const visitor = await door.arrive(request, reply)
      if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
      const { user } = visitor
      const words = textsOf(request)
      const [networks, { frozenAt }, notice, exportedAt, waiting] = await Promise.all([
        Promise.all([...app.networks.keys()].map((chainId) => lookAt(words, user, chainId))),
        readFreezable(app.db, user.userId),
        door.noticeFor(visitor, words),
        readExported(app.db, user.accountId),
        countWaiting(app, user.accountId),
      ])
      const isFrozen = frozenAt !== null
      const notices = noticesHtml(words, { isFrozen, waiting, exportedAt })
      const body = overviewBody(words, {
        networks,
        notices: `${notice}${doneHtml(words, request.query)}${notices}`,
        ...userWire(user),
        pictureOf,
        canSend: slices.sending !== null && !isFrozen,
      })
      const hasPending = networks.some(({ activity }) => activity?.some(isPending) === true)
      return sendPage(reply, 200, {
        words,
        title: words.account.title,
        ...inTabs(words, 'balance'),
        hasScript: app.authOrigin,
        ...(hasPending ? { live: { seconds: SECONDS_TO_NEXT_LOOK, path: '/account' } } : {}),
        body,
      })
    },
  )

  /** Reads an account on one network. A read that fails is shown as unavailable, and logged. */
  async function lookAt(words: Texts, user: ProvenUser, chainId: number): Promise<OnNetwork> {
    const failed = (error: unknown): null => {
      app.telemetry.log.warn('account_unreadable', { chainId }, error)
      return null
    }
    const [balances, collectibles, activity] = await Promise.all([
      slices.readBalances(user, chainId).catch(failed),
      slices.readCollectibles(user, chainId).catch(failed),
      slices.readActivity(user, chainId, { limit: FEW, direction: 'all', clientId: null }).catch(failed),
    ])
    return {
      chainId,
      network: chainName(app, words, chainId),
      balances,
      collectibles: collectibles ?? [],
      activity: activity?.entries ?? null,
      coverage: activity?.coverage ?? null,
    }
  }
}

type Notices = { isFrozen: boolean; waiting: number; exportedAt: Date | null }

/**
 * Renders what the user must know before anything else. @param waiting  number of requests that wait for approval
 * @param exportedAt  when the key was exported; null: never
 */
export function noticesHtml(words: Texts, { isFrozen, waiting, exportedAt }: Notices): string {
  const [frozen, whatItMeans] = words.codes.account_frozen
  return html`
    !${isFrozen ? html`<div class="danger stack tight"><b>${frozen}</b><span>${whatItMeans}</span></div>` : ''}
    !${waiting === 0 ? '' : html`<p class="notice go" role="status"><a href="/account/approvals">${words.approvals.link(waiting)}</a></p>`}
    !${exportedAt === null ? '' : html`<p class="notice">${words.exporting.exported(timeText(words, exportedAt))}</p>`}
  `
}
