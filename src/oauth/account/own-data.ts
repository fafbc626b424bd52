import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { App } from '../../app.ts'
import { listAllApprovals, type ApprovalQuestion } from '../../approvals/decide.ts'
import type { Amount } from '../../http/amount.ts'
import { textsOf } from '../../http/page.ts'
import { userWire, type ProvenUser } from '../../users/find.ts'
import { listIdentities } from '../../users/identities.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import type { AccountSlices, CoinCoverage, Listed, NativeRecord, ShownTransfer, SentTransaction } from './slices.ts'
import { listAllowed } from './allowed.ts'
import { ownSignIn } from '../first-party.ts'
import { listSessions } from '../sessions.ts'
import { chainName } from '../page-context.ts'

/** Rows of one read: no more of a long list are in memory at a time. */
const PAGE = 25

/** Registers the file with the data that this installation stores about a user. */
export function ownDataFile(
  server: FastifyInstance,
  app: App,
  { door, slices }: { door: AccountDoor; slices: AccountSlices },
): void {
  /**
   * GET /account/data.json: profile, identities, applications, browsers, and for every served network the transactions,
   * signed messages, approvals, transfers and payments. Amounts are decimal texts in the smallest unit. After a failure the file ends early, so it
   * is not valid JSON.
   * - `payments`: native currency as the page lists it.
   * - `native`: all native currency entries of the history, complete as far as `nativeCoverage` says.
   */
  server.get('/account/data.json', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const { user } = visitor
    const words = textsOf(request)
    const [applications, identities, sessions] = await Promise.all([
      listAllowed(app, user),
      listIdentities(app.db, user),
      listSessions(app.db, user.userId),
    ])
    const { email, emailVerified } = user
    const person = {
      writtenAt: new Date(app.clock.wall()),
      user: { ...userWire(user), email, emailVerified },
      identities: identities.map(({ userId, provider, subject, username }) => ({
        id: userId,
        provider,
        subject,
        username,
      })),
      applications: applications.map(({ signIns: _signIns, ...allowed }) => allowed), // prettier-ignore
      browsers: sessions.map(({ browser, system, signedInAt }) => ({ browser, system, signedInAt })),
    }
    const networks = [...app.networks.keys()].map((chainId) => ({ chainId, network: chainName(app, words, chainId) }))
    return reply
      .header('cache-control', 'no-store')
      .header('content-disposition', 'attachment; filename="account-data.json"')
      .type('application/json; charset=utf-8')
      .send(Readable.from(ownDataText({ ...slices, ...approvals(app) }, user, person, networks)))
  })
}

type ApprovalReads = {
  readApprovals: (owner: { accountId: string }, chainId: number, page: PageOfList) => Promise<Listed<ApprovalQuestion>>
}

const approvals = (app: App): ApprovalReads => ({
  readApprovals: ({ accountId }, chainId, page) => listAllApprovals(app, { accountId, chainId }, page),
})

/** Yields the file in pieces. Lists are read page by page while it is written. */
export async function* ownDataText(
  slices: AccountSlices & ApprovalReads,
  user: ProvenUser,
  person: object,
  networks: { chainId: number; network: string }[],
): AsyncGenerator<string> {
  yield `${JSON.stringify(person).slice(0, -1)},"networks":[`
  for (const [index, network] of networks.entries()) {
    const { chainId } = network
    yield `${index === 0 ? '' : ','}${JSON.stringify(network).slice(0, -1)},"transactions":[`
    yield* rows((page) => slices.readSent(user, chainId, { ...page, clientId: null }), sentWire)
    yield '],"messages":['
    yield* rows((page) => slices.readMessages(user, chainId, page), asIs)
    yield '],"approvals":['
    yield* rows((page) => slices.readApprovals(user, chainId, page), approvalWire)
    yield '],"transfers":['
    yield* rows(
      (page) => slices.readTransfers(user, chainId, { ...page, direction: 'all', includesSpam: true }),
      transferWire,
    )
    yield '],"payments":['
    yield* rows((page) => slices.readNativeTransfers(user, chainId, { ...page, direction: 'all' }), transferWire)
    yield '],"native":['
    let coverage: CoinCoverage = { from: null, internalFrom: null }
    yield* rows(async (page) => {
      const listed = await slices.readNativeEntries(user, chainId, page)
      coverage = listed.coverage
      return listed
    }, nativeWire)
    yield `],"nativeCoverage":${JSON.stringify(coverage)}}`
  }
  yield ']}\n'
}

type PageOfList = { limit: number; cursor?: string | undefined }
type ReadPage<T> = (page: PageOfList) => Promise<Listed<T>>

async function* rows<T>(read: ReadPage<T>, wire: (entry: T) => object): AsyncGenerator<string> {
  let isFirst = true
  for (let cursor: string | undefined, isMore = true; isMore;) {
    const { entries, nextCursor } = await read({ limit: PAGE, cursor })
    const text = entries.map((entry) => JSON.stringify(wire(entry))).join()
    if (text !== '') yield isFirst ? text : `,${text}`
    isFirst &&= text === ''
    isMore = nextCursor !== null
    cursor = nextCursor ?? undefined
  }
}

const asIs = (entry: object): object => entry
const approvalWire = ({ accountId: _accountId, ...question }: ApprovalQuestion): object => question
const sentWire = ({ value, fee, ...rest }: SentTransaction): object => ({
  ...rest,
  value: amountWire(value),
  fee: fee === null ? null : amountWire(fee),
})
const transferWire = ({ amount, fee, ...rest }: ShownTransfer): object => ({
  ...rest,
  amount: amountWire(amount),
  ...(fee === undefined ? {} : { fee: amountWire(fee) }),
})
const nativeWire = ({ amount, ...rest }: NativeRecord): object => ({ ...rest, amount: amountWire(amount) })
const amountWire = ({ value, decimals, symbol }: Amount): object => ({ value: String(value), decimals, symbol })
