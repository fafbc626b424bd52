/**
 * oauth/approvals: the pages on which users approve or deny requests.
 * Owns: the description of a request, computed from its parsed content, and the approval token.
 * Does not own: the table and its states (`approvals/`), the effect of messages (`messages/`), sign-in and forms
 *   (`oauth/account/access.ts`).
 * Start with `describe.ts`, then `body.ts`.
 */

import { readFileSync } from 'node:fs'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../../app.ts'
import { decide, listApprovals, readApproval, type ApprovalQuestion } from '../../approvals/decide.ts'
import type { Application } from '../../applications/application.ts'
import { fromHex } from '../../hex.ts'
import { OWN_CLIENT, isId } from '../../ids.ts'
import { checksumAddress } from '../../digits.ts'
import { asset } from '../../http/asset.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import { MessageInvalid } from '../../messages/message.ts'
import type { Texts } from '../../texts/en.ts'
import type { ProvenUser } from '../../users/find.ts'
import { assertChangeable } from '../../users/freeze.ts'
import { hidden, leaveFor, type AccountDoor } from '../account/access.ts'
import { shortBody } from '../account/body.ts'
import type { AccountSlices, Simulated } from '../account/slices.ts'
import { inTabs } from '../account/tabs.ts'
import { findClient, ownSignIn } from '../first-party.ts'
import type { PrivateKeys } from '../keys.ts'
import { chainName } from '../page-context.ts'
import { domainsOf, webOriginsOf } from '../scopes.ts'
import { provenVisitor, type Visitor } from '../sessions.ts'
import { approvalToken } from './approval-token.ts'
import {
  approvalBody,
  decidedBody,
  inboxBody,
  outcomeOf,
  unreadableBody,
  type Asker,
  type ListedRequest,
} from './body.ts'
import type { PictureOf } from '../account/pictures.ts'
import { describe, shownMark, type Described } from './describe.ts'
import { readNames, type Names } from './names.ts'
import { sentenceOf } from './sentence.ts'

type ApprovalPageContext = { door: AccountDoor; slices: AccountSlices; keys: PrivateKeys; pictureOf: PictureOf }

/** Registers the pages on which users approve or deny requests. They work without JavaScript. */
export function approvalPages(
  server: FastifyInstance,
  app: App,
  { door, slices, keys, pictureOf }: ApprovalPageContext,
): void {
  server.get(SCRIPT.route, hidden, (_request, reply) =>
    reply
      .header('content-type', SCRIPT.type)
      .header('cache-control', 'public, max-age=31536000, immutable')
      .header('x-content-type-options', 'nosniff')
      .send(SCRIPT.content),
  )

  /** GET /account/approvals: the inbox, with open requests and the last decided ones. */
  server.get('/account/approvals', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'approvals' }))
    const words = textsOf(request)
    const approvals = shownOf(await listApprovals(app, visitor.user.accountId))
    const listed = await listedOf(words, visitor.user, approvals)
    const body = `${await door.noticeFor(visitor, words)}${inboxBody(words, listed, app.clock.wall())}`
    return sendPage(reply, 200, {
      words,
      title: words.approvals.inbox,
      ...inTabs(words, 'applications'),
      hasScript: app.authOrigin,
      body,
    })
  })

  /** GET /account/approvals/:id: an open request of this user, or its outcome. */
  server.get<{ Params: { id: string } }>('/account/approvals/:id', hidden, async (request, reply) => {
    const { id } = request.params
    const visitor = await door.arrive(request, reply)
    if (visitor === null)
      return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: isId(id) ? `approval.${id}` : 'approvals' }))
    const words = textsOf(request)
    const approval = await ownApproval(request, reply, visitor, id)
    if (approval === null) return reply
    if (approval.state !== 'waiting') return showDecided(reply, words, approval, 200)
    const { described, asker, isApprovable } = await readAsked(words, approval, visitor.user)
    const csrf = door.csrfOf(visitor)
    const notice = await door.noticeFor(visitor, words)
    const simulated = await simulate(approval, described, visitor.user)
    const names = await readNames(
      app,
      slices,
      visitor.user,
      approval.chainId,
      described === null ? [] : [described],
      simulated,
    )
    const readable = orUnreadable(approval, () =>
      described === null
        ? null
        : approvalBody(words, {
            ...{ approval, asker, described, simulated, names, csrf, address: checksumAddress(visitor.user.address) },
            pictureOf: (token) => pictureOf(approval.chainId, token),
            network: chainName(app, words, approval.chainId),
            mark: shownMark(approval, described),
            isFresh: door.isFresh(visitor),
            canApprove: isApprovable,
          }),
    )
    return sendPage(reply, 200, {
      words,
      title: words.approvals.title,
      hasScript: app.authOrigin,
      ...(readable === null ? {} : { script: SCRIPT }),
      body: `${notice}${readable ?? unreadableBody(words, { approval, asker, csrf })}`,
    })
  })

  /** POST /account/approvals/:id/approve: `shown` is the mark of the displayed request. Needs a recent sign-in. */
  door.actFresh(
    '/account/approvals/:id/approve',
    async ({ visitor, form, request, reply }) => {
      const approval = await ownApproval(request, reply, visitor, idOf(request))
      if (approval === null) return reply
      const words = textsOf(request)
      if (approval.state !== 'waiting') return showDecided(reply, words, approval, 409)
      const { user } = await provenVisitor(app, visitor)
      await assertChangeable(app.db, user.accountId)
      const { described, isApprovable } = await readAsked(words, approval, user)
      if (described === null || !isApprovable || shownMark(approval, described) !== form.shown)
        return showChanged(reply, words, approval)
      const { id, accountId } = approval
      const token = await approvalToken(app, keys, { userId: user.userId, approval, digest: described.digest })
      if (await decide(app, { id, accountId, decision: 'approved', token })) {
        app.telemetry.log.info('approval_decided', { id, decision: 'approved' })
        return here(id)
      }
      return showDecidedNow(reply, words, approval)
    },
    (request) => `approve.${idOf(request)}`,
  )

  /** POST /account/approvals/:id/deny: needs no recent sign-in, because a denial only forbids. */
  door.act('/account/approvals/:id/deny', async ({ visitor, request, reply }) => {
    const approval = await ownApproval(request, reply, visitor, idOf(request))
    if (approval === null) return reply
    const { id, accountId } = approval
    if (await decide(app, { id, accountId, decision: 'denied', token: null })) {
      app.telemetry.log.info('approval_decided', { id, decision: 'denied' })
      return here(id)
    }
    return showDecidedNow(reply, textsOf(request), approval)
  })

  const here = (id: string): URL => new URL(`/account/approvals/${id}`, app.authOrigin)
  const idOf = (request: FastifyRequest): string => (request.params as { id: string }).id

  /** Returns a request of this user. Otherwise it sends a page with the reason, and returns null. */
  async function ownApproval(
    request: FastifyRequest,
    reply: FastifyReply,
    { user }: Visitor,
    id: string,
  ): Promise<ApprovalQuestion | null> {
    const { approvals: texts, ...words } = textsOf(request)
    const approval = await readApproval(app, id)
    if (approval?.accountId === user.accountId) return approval
    const [title, hint, next] =
      approval === null
        ? [texts.missingTitle, texts.missingHint, { href: '/account/approvals', text: texts.inbox }]
        : [
            texts.otherTitle,
            texts.otherHint,
            { href: ownSignIn(app.authOrigin, { comesBackTo: `approve.${id}` }), text: texts.otherSignIn },
          ]
    sendPage(reply, 404, { words: { ...words, approvals: texts }, title, body: shortBody(title, hint, next) })
    return null
  }

  /** Reads the application and the content of a request; `described`: null if the content is not valid for this account and network. */
  async function readAsked(
    words: Texts,
    approval: ApprovalQuestion,
    { address }: ProvenUser,
  ): Promise<DescribedRequest> {
    const { chainId, clientId, content } = approval
    const application = await findClient(app, clientId)
    const asker = askerOf(words, application)
    const facts = { address: fromHex(address), chainId, at: app.clock.wall(), domains: asker.hosts }
    const isOfNetwork = application?.clientId === OWN_CLIENT || application?.chainId === chainId
    const isServed = application !== null && !application.isSuspended && isOfNetwork
    const described = orUnreadable(approval, () => describe(content, facts))
    return { asker, described, isApprovable: isServed && described?.isApprovable === true }
  }

  /** Simulates the calls of a request; null if it has none, or the simulation fails. */
  async function simulate(
    { chainId, content }: ApprovalQuestion,
    described: Described | null,
    user: ProvenUser,
  ): Promise<Simulated | null> {
    if (described === null || !('calls' in content)) return null
    return slices.simulate(user, chainId, content.calls).catch((error: unknown) => {
      app.telemetry.log.warn('account_unreadable', { chainId }, error)
      return null
    })
  }

  /**
   * Runs work on a request; null if its content cannot be shown. So the page and the inbox respond whatever a row contains, and the
   * user can deny it. An error other than MessageInvalid is a bug, or the row was not written by this service.
   */
  function orUnreadable<T>({ id }: ApprovalQuestion, work: () => T): T | null {
    try {
      return work()
    } catch (error) {
      // The error can quote the content, which is private to the user.
      if (!(error instanceof MessageInvalid)) app.telemetry.log.warn('approval_unreadable', { id })
      return null
    }
  }

  /** Describes requests for the inbox, with one look-up of names per network. */
  async function listedOf(
    words: Texts,
    user: ProvenUser,
    approvals: readonly ApprovalQuestion[],
  ): Promise<ListedRequest[]> {
    const asked = await Promise.all(
      approvals.map(async (approval) => ({ approval, ...(await readAsked(words, approval, user)) })),
    )
    const chainIds = [...new Set(approvals.map(({ chainId }) => chainId))]
    const names = await Promise.all(
      chainIds.map(async (chainId): Promise<[number, Names]> => {
        const described = asked.flatMap((one) =>
          one.approval.chainId === chainId && one.described !== null ? [one.described] : [],
        )
        return [chainId, await readNames(app, slices, user, chainId, described)]
      }),
    )
    const namesAt = new Map(names)
    return asked.map(({ approval, asker, described }) => ({
      approval,
      asker,
      sentence: described && orUnreadable(approval, () => sentenceOf(words, namesAt.get(approval.chainId)!, described)),
      network: chainName(app, words, approval.chainId),
    }))
  }

  async function showDecided(
    reply: FastifyReply,
    words: Texts,
    approval: ApprovalQuestion,
    status: number,
  ): Promise<FastifyReply> {
    const asker = askerOf(words, await findClient(app, approval.clientId))
    const state = approval.state === 'waiting' ? 'expired' : approval.state
    const { title } = outcomeOf(words, state, asker)
    const body = decidedBody(words, { approval, state, asker })
    return sendPage(reply, status, { words, title, hasScript: app.authOrigin, script: SCRIPT, body })
  }

  /** Shows the outcome of a request that was decided elsewhere, or has expired. */
  async function showDecidedNow(reply: FastifyReply, words: Texts, approval: ApprovalQuestion): Promise<FastifyReply> {
    return showDecided(reply, words, (await readApproval(app, approval.id)) ?? approval, 409)
  }

  function showChanged(
    reply: FastifyReply,
    { approvals: texts, ...words }: Texts,
    { id }: ApprovalQuestion,
  ): FastifyReply {
    const next = { href: `/account/approvals/${id}`, text: texts.lookAgain }
    const body = shortBody(texts.changedTitle, texts.changedHint, next)
    return sendPage(reply, 409, { words: { ...words, approvals: texts }, title: texts.changedTitle, body })
  }
}

/** Maximum number of requests in each part of the inbox. */
const MAX_LISTED = 30

/** Returns the questions that the inbox lists, newest first: open ones, and the last of the others. */
export function shownOf(approvals: readonly ApprovalQuestion[]): ApprovalQuestion[] {
  const [waiting, others] = [true, false].map((one) => approvals.filter(({ state }) => (state === 'waiting') === one))
  return [...fairlyCut(waiting!), ...others!.slice(0, MAX_LISTED)]
}

/** Shortens a list fairly: each application gets the same number of entries, if it has as many. */
function fairlyCut(waiting: readonly ApprovalQuestion[]): ApprovalQuestion[] {
  const seen = new Map<string, number>()
  const turns = waiting.map((approval) => {
    const turn = seen.get(approval.clientId) ?? 0
    seen.set(approval.clientId, turn + 1)
    return { approval, turn }
  })
  const first = new Set(turns.toSorted((a, b) => a.turn - b.turn).slice(0, MAX_LISTED))
  return turns.filter((one) => first.has(one)).map(({ approval }) => approval)
}

type DescribedRequest = { asker: Asker; described: Described | null; isApprovable: boolean }

function askerOf({ approvals }: Texts, application: Application | null): Asker {
  if (application === null) return { name: approvals.unknownApplication, logoUri: null, hosts: [], origins: [] }
  const { name, logoUri } = application
  return { name, logoUri, hosts: domainsOf(application), origins: webOriginsOf(application) }
}

const SCRIPT = asset(
  '/assets/approve.js',
  'text/javascript; charset=utf-8',
  readFileSync(new URL('approve.js', import.meta.url), 'utf8'),
)
