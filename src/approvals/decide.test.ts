import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { stoppedClock } from '../../test/kit/clock.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { AppError } from '../errors.ts'
import { askApproval, askedApproval } from './ask.ts'
import { decide, listAllApprovals, listApprovals, readApproval } from './decide.ts'
import { deleteOldApprovals, expireApprovals } from './sweep.ts'

let database: TestDatabase
before(async () => void (database = await testDatabase()))
after(() => database.close())

const ALICE = '00000000-0000-8000-8000-000000000001'
const BOB = '00000000-0000-8000-8000-000000000002'
const MINUTE = 60_000

/** An application with a clock of its own that asks about one intent after another. */
function asking(start = Date.now()) {
  const clock = stoppedClock(start)
  const app = { db: database.db, clock, authOrigin: 'https://wallet.example' }
  const ask = (intentId: string, accountId = ALICE, chainId = 1) =>
    askApproval(app, {
      ...{
        caller: { accountId, clientId: 'shop', chainId },
        intentId,
        requestHash: null,
        rule: 'message-approval',
        askedFrom: '192.0.2.1',
      },
      content: { message: { kind: 'text', content: intentId } },
    }).then(({ link }) => link)
  return { app, clock, ask }
}

const approved = { decision: 'approved', token: 'a.b.c' } as const
const denied = { decision: 'denied', token: null } as const
const isDenied = (error: unknown): boolean => error instanceof AppError && error.code === 'approval_denied'

test('of two decisions at once, one takes effect', async () => {
  const { app, ask } = asking()
  for (let round = 0; round < 5; round++) {
    const { id } = await ask(`both ${round}`)
    const of = { id, accountId: ALICE }
    const took = await Promise.all([decide(app, { ...of, ...approved }), decide(app, { ...of, ...denied })])
    assert.deepEqual(took.toSorted(), [false, true])
    const { state } = (await readApproval(app, id))!
    assert.equal(state, took[0] ? 'approved' : 'denied')
  }
})

test('a decision counts until the question expires, and its approval for a minute', async () => {
  const { app, clock, ask } = asking()
  const [late, inTime] = [await ask('late'), await ask('in time')]
  await clock.advance(30 * MINUTE - 1)
  assert.equal(await decide(app, { id: inTime.id, accountId: ALICE, ...approved }), true)
  await clock.advance(1)
  assert.equal(await decide(app, { id: late.id, accountId: ALICE, ...approved }), false)
  assert.equal(await decide(app, { id: late.id, accountId: ALICE, ...denied }), false)
  assert.equal((await askedApproval(app, 'in time'))?.token, 'a.b.c')
  // Asked again while the approval can be shown, it is the same question: the user is not asked twice.
  assert.equal((await ask('in time')).id, inTime.id)
  await clock.advance(MINUTE)
  assert.equal((await askedApproval(app, 'in time'))?.token, null)
  const again = await ask('in time')
  assert.notEqual(again.id, inTime.id)
  assert.equal(await decide(app, { id: again.id, accountId: ALICE, ...denied }), true)
  await clock.advance(365 * 24 * 60 * MINUTE)
  await assert.rejects(ask('in time'), isDenied)
  await assert.rejects(askedApproval(app, 'in time'), isDenied)
})

test('a denial is final whatever was asked under the same intent at the same moment', async () => {
  const { app, ask } = asking()
  const { id } = await ask('raced')
  const row = await app.db.selectFrom('approvals').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  await decide(app, { id, accountId: ALICE, ...denied })
  // What a request that had seen the question before the denial stores.
  await app.db.insertInto('approvals').values({ ...row, id: `${id}-2`, content: JSON.stringify({ message: { kind: 'text', content: 'other' } }), created_at: new Date(row.created_at.getTime() + 1) }).execute() // prettier-ignore
  await assert.rejects(askedApproval(app, 'raced'), isDenied)
  await assert.rejects(ask('raced'), isDenied)
})

test('undecided questions are deleted after a day and approved ones after a week; a denial has no end', async () => {
  const found: unknown[] = []
  for (const days of [0, 2, 8, 400]) {
    const { app, ask } = asking(Date.now() - days * 24 * 60 * MINUTE)
    const [open, yes, no] = [await ask(`open ${days}`), await ask(`yes ${days}`), await ask(`no ${days}`)]
    await decide(app, { id: yes.id, accountId: ALICE, ...approved })
    await decide(app, { id: no.id, accountId: ALICE, ...denied })
    await expireApprovals(asking().app)
    await deleteOldApprovals(app.db, 1_000)
    found.push(await Promise.all([open, yes, no].map(async ({ id }) => (await readApproval(app, id)) !== null)))
  }
  const expected = [[true, true, true], [false, true, true], [false, false, true], [false, false, true]] // prettier-ignore
  assert.deepEqual(found, expected)
})

test('a user’s list has what waits and the last 50, newest first, and the data file has all', async () => {
  const { app, clock, ask } = asking()
  const waiting = await ask('waiting', BOB)
  const ids: string[] = []
  for (let index = 0; index < 60; index++) {
    await clock.advance(1)
    const { id } = await ask(`list ${index}`, BOB)
    await decide(app, { id, accountId: BOB, ...approved })
    ids.unshift(id)
  }
  await ask('of another network', BOB, 5)
  const listed = (await listApprovals(app, BOB)).map(({ id }) => id)
  assert.deepEqual(listed.slice(1), [...ids.slice(0, 49), waiting.id])
  const all: string[] = []
  for (let cursor: string | undefined, isMore = true; isMore; isMore = cursor !== undefined) {
    const page = await listAllApprovals(app, { accountId: BOB, chainId: 1 }, { limit: 25, cursor })
    all.push(...page.entries.map(({ id }) => id))
    cursor = page.nextCursor ?? undefined
  }
  assert.deepEqual(all, [...ids, waiting.id])
})
