import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose'
import { sql } from 'kysely'
import { approvalRequests, known, ROUTER } from '../../../test/approval-requests.ts'
import { openBrowser, textOf, type Page } from '../../../test/kit/browser.ts'
import { addressOf, rehearse, type Rehearsal } from '../../../test/rehearsal.ts'
import { reseal } from '../../../test/reseal.ts'
import { askApproval } from '../../approvals/ask.ts'
import type { ApprovalQuestion, ApprovalState } from '../../approvals/decide.ts'
import { fromHex } from '../../hex.ts'
import { accountIdOf } from '../../ids.ts'
import { readMessage, digestOf } from '../../messages/message.ts'
import { approvalDigest, APPROVAL_TOKEN_TYPE } from '../../signer-wire/approval.ts'
import { EXPORT_AUDIENCE } from '../../signer-wire/wire.ts'
import type { ApprovalContent } from '../../store/column-values.ts'
import { en } from '../../texts/en.ts'
import { nothing } from '../oauth.ts'
import { shownOf } from './approvals.ts'

const texts = en.approvals
const CHAIN = 31_337
const PERMIT2 = '0x000000000022d473030f116ddee9f6b43ac78ba3'
/** A call of Permit2: it allows ROUTER to take of a token until a time. */
const permit2Approval = (until: bigint): string =>
  `0x87517c45${[ROUTER, ROUTER, 1n, until].map((one) => BigInt(one).toString(16).padStart(64, '0')).join('')}`

let world: Rehearsal
before(async () => {
  world = await rehearse({ slices: { ...nothing, readKnown: async () => known } })
  await openBrowser(world.origin).signIn('/account', 'bob')
})
after(() => world.close())

type Browser = ReturnType<typeof openBrowser>

const requestsOf = (username: string) =>
  approvalRequests({ address: addressOf(`DEV-${username}`), bob: addressOf('DEV-bob') }, Math.floor(Date.now() / 1_000))

let asked = 0
/** Asks a user to approve something, as the API does. */
async function ask(username: string, content: ApprovalContent = requestsOf(username).allowance!): Promise<string> {
  asked += 1
  const caller = { accountId: accountIdOf('DEV', username), clientId: 'demo', chainId: CHAIN }
  const question = {
    caller,
    intentId: `sig_${username}_${asked}`,
    content,
    requestHash: null,
    rule: 'built-in',
    askedFrom: '203.0.113.7',
  }
  return (await askApproval(world.app, question)).link.id
}

const pathOf = (id: string): string => `/account/approvals/${id}`
const rowOf = (id: string) =>
  world.app.db.selectFrom('approvals').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const stateOf = async (id: string) => {
  const { state, token } = await rowOf(id)
  return [state, token === null]
}

/** A user who has signed in on the way to a request. */
async function visit(username: string, id: string): Promise<{ browser: Browser; page: Page }> {
  const browser = openBrowser(world.origin)
  return { browser, page: await browser.signIn(pathOf(id), username) }
}

const growOld = async (seconds: number) => {
  await sql`update oauth_records set payload = jsonb_set(payload, '{loginTs}', to_jsonb(((payload->>'loginTs')::bigint - ${seconds}::int))) where kind = 'Session' and payload ? 'loginTs'`.execute(world.app.db) // prettier-ignore
  await reseal(world.app)
}

test('a user signs in, reads what happens and who asks, and approves: the token is for exactly what was shown', async () => {
  const content = requestsOf('amy').allowance!
  const id = await ask('amy', content)
  const { browser, page } = await visit('amy', id)
  assert.equal(page.url.pathname, pathOf(id))
  const shown = textOf(page.text)
  const order = ['Allow 0x1f9840…01F984 to take up to 50 USDC', texts.askedBy, 'Demo application', 'demo.example', '203.0.113.7', texts.mayTake, texts.spender, texts.neverUsed, texts.warnings.long, texts.raw, texts.approve, texts.deny] // prettier-ignore
  const places = order.map((one) => shown.replaceAll(' ', '').indexOf(one.replaceAll(' ', '')))
  assert.ok(
    places.every((place, index) => place >= 0 && place > (places[index - 1] ?? -1)),
    `${places.join()} ${shown}`,
  )
  const csp = page.headers.get('content-security-policy') ?? ''
  assert.match(csp, /frame-ancestors 'none'/)
  assert.match(csp, /script-src \S+copy\.js \S+approve\.js$/)
  const done = await browser.submit(page, '/approve')
  assert.deepEqual([done.status, done.url.pathname], [200, pathOf(id)])
  assert.match(textOf(done.text), new RegExp(`${texts.approvedTitle} ${texts.approvedHint('Demo application')}`))
  const { token } = await rowOf(id)
  const { payload, protectedHeader } = await jwtVerify(
    token!,
    createLocalJWKSet(world.app.tokenKeys as JSONWebKeySet),
    {
      issuer: `${world.origin}/oauth`,
      audience: EXPORT_AUDIENCE,
      typ: APPROVAL_TOKEN_TYPE,
      algorithms: ['ES256'],
    },
  )
  assert.ok('message' in content)
  const digest = digestOf(readMessage({ typedData: content.message.content })).toString('hex')
  const { iat, exp, jti, ...claims } = payload
  assert.deepEqual(claims, {
    iss: `${world.origin}/oauth`,
    aud: EXPORT_AUDIENCE,
    sub: 'DEV-amy',
    client_id: 'demo',
    chain_id: CHAIN,
    intent: (await rowOf(id)).intent_id,
    digest: approvalDigest({ chainId: CHAIN, from: addressOf('DEV-amy'), content: { message: `0x${digest}` } }),
  })
  assert.equal(exp! - iat!, 60)
  assert.match(jti!, /^[\da-f-]{36}$/)
  assert.ok(decodeProtectedHeader(token!).kid === protectedHeader.kid)
  // Neither the token nor its content is on a page or in the log.
  assert.ok(![done.text, JSON.stringify(world.logged)].some((one) => one.includes(token!)))
})

test('every kind of request is a page, and calls are approved by what they call', async () => {
  const id = await ask('ben', requestsOf('ben').batch!)
  const { browser, page } = await visit('ben', id)
  const steps = [texts.step(1, 2), texts.mayTake, texts.step(2, 2), texts.callOf('0xdeadbeef'), texts.account]
  const places = steps.map((one) => textOf(page.text).indexOf(one))
  assert.deepEqual([places.includes(-1), places], [false, places.toSorted((a, b) => a - b)])
  for (const [name, content] of Object.entries(requestsOf('ben'))) {
    const one = await browser.go(pathOf(await ask('ben', content)))
    assert.equal(one.status, 200, name)
    assert.match(one.text, /data-waits/, name)
  }
  await browser.submit(page, '/approve')
  const { token, content } = await rowOf(id)
  assert.ok('calls' in content)
  const digest = approvalDigest({ chainId: CHAIN, from: addressOf('DEV-ben'), content })
  assert.equal(JSON.parse(Buffer.from(token!.split('.')[1]!, 'base64url').toString()).digest, digest)
})

test('a decision is made once: a form that comes again changes nothing', async () => {
  const id = await ask('cas')
  const { browser, page } = await visit('cas', id)
  assert.equal((await browser.submit(page, '/deny')).status, 200)
  assert.deepEqual(await stateOf(id), ['denied', true])
  for (const action of ['/approve', '/deny']) {
    const again = await browser.submit(page, action)
    assert.equal(again.status, 409)
    assert.match(textOf(again.text), new RegExp(texts.deniedTitle))
  }
  assert.deepEqual(await stateOf(id), ['denied', true])
  const second = await ask('cas')
  const shown = await visit('cas', second)
  const answers = await Promise.all([1, 2, 3, 4].map(() => shown.browser.submit(shown.page, '/approve')))
  assert.equal(answers.filter(({ status }) => status === 200).length, 1)
  const { token } = await rowOf(second)
  assert.equal((await shown.browser.submit(shown.page, '/deny')).status, 409)
  assert.equal((await rowOf(second)).token, token)
})

test('without our form, or with that of another user, nothing is decided', async () => {
  const id = await ask('dan')
  const { browser, page } = await visit('dan', id)
  const other = await visit('eve', await ask('eve'))
  const csrfOf = ({ text }: Page): string => /name="csrf" value="([^"]*)"/.exec(text)![1]!
  const shown = /name="shown" value="([^"]*)"/.exec(page.text)![1]!
  const post = (by: Browser, action: string, fields: Record<string, string>) =>
    by.go(`${pathOf(id)}/${action}`, { method: 'POST', body: new URLSearchParams(fields) })
  for (const action of ['approve', 'deny']) {
    assert.equal((await post(browser, action, { shown })).status, 400)
    assert.equal((await post(browser, action, { shown, csrf: csrfOf(other.page) })).status, 400)
    const foreign = await post(other.browser, action, { shown, csrf: csrfOf(other.page) })
    assert.equal(foreign.status, 404)
    assert.match(textOf(foreign.text), new RegExp(texts.otherTitle))
    const stranger = await post(openBrowser(world.origin), action, { shown, csrf: csrfOf(page) })
    assert.match(stranger.url.pathname, /^\/login\//)
  }
  assert.deepEqual(await stateOf(id), ['waiting', true])
})

test('another account sees nothing of a request, and an id that is none is a plain page', async () => {
  const id = await ask('fay')
  const { page, browser } = await visit('gil', id)
  assert.equal(page.status, 404)
  assert.match(textOf(page.text), new RegExp(texts.otherTitle))
  assert.ok(!['USDC', 'Demo application', ROUTER, '203.0.113.7'].some((one) => page.text.includes(one)))
  for (const none of ['apr_none', 'x'.repeat(100), '%2e%2e', '%00']) {
    const missing = await browser.go(`/account/approvals/${none}`)
    assert.deepEqual([missing.status, /USDC/.test(missing.text)], [404, false], none)
  }
})

test('an old sign-in approves nothing before the user signs in again, and comes back to the request', async () => {
  const id = await ask('hal')
  const { browser, page } = await visit('hal', id)
  await growOld(901)
  const old = await browser.go(pathOf(id))
  assert.match(textOf(old.text), new RegExp(texts.signInFirst))
  const chooser = await browser.submit(page, '/approve')
  assert.match(chooser.url.pathname, /^\/login\//)
  assert.match(textOf(chooser.text), new RegExp(en.chooser.why.approve))
  assert.deepEqual(await stateOf(id), ['waiting', true])
  const back = await browser.signIn(chooser.url.href, 'hal')
  assert.equal(back.url.pathname, pathOf(id))
  assert.equal((await browser.submit(back, '/approve')).status, 200)
  assert.deepEqual(await stateOf(id), ['approved', false])
  // Denying only forbids.
  const second = await ask('hal')
  await growOld(901)
  await browser.submit(await browser.go(pathOf(second)), '/deny')
  assert.deepEqual(await stateOf(second), ['denied', true])
})

test('a sign-in comes back to our own pages only', async () => {
  const browser = openBrowser(world.origin)
  await browser.signIn('/account', 'ivy')
  const places = ['approval.//evil.example', 'approve.../../x', 'approval.a/b', 'approval.', 'approve.a?b', 'https://evil.example', 'approval.a\n'] // prettier-ignore
  for (const state of places) {
    const { url } = await browser.go(`/account/signed-in?${new URLSearchParams({ state }).toString()}`)
    assert.equal(url.href, `${world.origin}/account`, state)
  }
})

test('an expired request is approved and denied by nobody', async () => {
  const id = await ask('jan')
  const { browser, page } = await visit('jan', id)
  await world.app.db
    .updateTable('approvals')
    .set({ expires_at: new Date(Date.now() - 1_000) })
    .where('id', '=', id)
    .execute()
  for (const action of ['/approve', '/deny']) {
    const late = await browser.submit(page, action)
    assert.equal(late.status, 409)
    assert.match(textOf(late.text), new RegExp(texts.expiredTitle))
  }
  assert.equal((await browser.go(pathOf(id))).status, 200)
  assert.deepEqual(await stateOf(id), ['waiting', true])
})

test('what was changed in the database after it was shown is not approved', async () => {
  const { payment } = requestsOf('kim')
  const changes = [
    { content: JSON.stringify(payment) },
    { intent_id: 'sig_of_something_else' },
    { client_id: 'another' },
    { chain_id: 1 },
  ]
  const browser = openBrowser(world.origin)
  await browser.signIn('/account', 'kim')
  for (const change of changes) {
    const id = await ask('kim')
    const page = await browser.go(pathOf(id))
    await world.app.db.updateTable('approvals').set(change).where('id', '=', id).execute()
    const refused = await browser.submit(page, '/approve')
    assert.equal(refused.status, 409, JSON.stringify(change))
    assert.match(textOf(refused.text), new RegExp(texts.changedTitle))
    assert.deepEqual(await stateOf(id), ['waiting', true])
  }
  // A request that somebody moved to another account is about that account’s address: nothing that its user signs.
  const moved = await ask('lou', requestsOf('lou').payment)
  await world.app.db
    .updateTable('approvals')
    .set({ account_id: accountIdOf('DEV', 'kim') })
    .where('id', '=', moved)
    .execute()
  assert.doesNotMatch((await browser.go(pathOf(moved))).text, /USDC/)
})

test('what cannot be read, or is for a deleted or suspended application, is only denied', async () => {
  const broken = await ask('mia', { message: { kind: 'typedData', content: '{"types":1}' } })
  const { browser, page } = await visit('mia', broken)
  assert.match(textOf(page.text), new RegExp(texts.unreadable))
  assert.ok(!page.text.includes('/approve"'))
  await browser.submit(page, '/deny')
  assert.deepEqual(await stateOf(broken), ['denied', true])
  const orphan = await ask('mia')
  await world.app.db.updateTable('approvals').set({ client_id: 'deleted' }).where('id', '=', orphan).execute()
  const shown = await browser.go(pathOf(orphan))
  assert.match(textOf(shown.text), new RegExp(texts.unknownApplication))
  assert.ok(!shown.text.includes(`${pathOf(orphan)}/approve"`))
})

test('whatever a row contains, its page, the inbox and the account page respond, and the user can deny it', async () => {
  const { allowance, coins } = requestsOf('nat')
  assert.ok('message' in allowance! && 'calls' in coins!)
  const [typed, [call]] = [allowance.message.content, coins.calls]
  const { types, ...rest } = JSON.parse(typed)
  const details = [{ name: 'details', type: 'PermitDetails[]' }]
  const batch = { ...rest, types: { ...types, PermitBatch: [...details, ...types.PermitSingle.slice(1)] }, primaryType: 'PermitBatch' } // prettier-ignore
  delete batch.types.PermitSingle
  const message = (content: unknown, kind = 'typedData') => ({ message: { kind, content } })
  const withDetails = (of: { message: object }, one: unknown) => message(JSON.stringify({ ...of, message: { ...of.message, details: one } })) // prettier-ignore
  const ending = (expiration: bigint) => ({ ...rest.message.details, expiration: String(expiration) })
  const forever = withDetails({ ...rest, types }, ending(2n ** 48n - 1n))
  const rows: unknown[] = [
    forever,
    withDetails({ ...rest, types }, ending(8_640_000_000_001n)),
    withDetails(batch, []),
    withDetails(batch, [ending(1n), ending(2n ** 48n - 1n)]),
    { calls: [{ ...call!, to: PERMIT2, data: permit2Approval(2n ** 48n - 1n) }] },
    ...['null', '[]', '{}', '7', '{', ''].map((text) => message(text)),
    ...[null, 7, {}].map((content) => message(content)),
    ...['text', 'bytes', 'nothing', '__proto__'].map((kind) => message(7, kind)),
    ...[null, 7, 'x', [null], [{}], [], [{ ...call!, value: 'x' }], [{ ...call!, value: -1 }], [{ ...call!, to: '0x' }], [{ ...call!, data: null }]].map((calls) => ({ calls })), // prettier-ignore
    ...[null, 7, 'x', [], {}, { message: null }, { message: {}, calls: [] }],
  ]
  // A page has a rate limit for each user.
  for (let group = 0; rows.length > 0; group++) {
    const user = `nat${group}`
    const browser = openBrowser(world.origin)
    await browser.signIn('/account', user)
    const asked: string[] = []
    for (const row of rows.splice(0, 12)) {
      const id = await ask(user, row as ApprovalContent)
      asked.push(id)
      const page = await browser.go(pathOf(id))
      assert.equal(page.status, 200, JSON.stringify(row))
      assert.ok(page.text.includes(`${pathOf(id)}/deny"`), JSON.stringify(row))
      if (row === forever) assert.match(textOf(page.text), /with no end date/)
    }
    const [id] = asked as [string]
    assert.equal((await browser.submit(await browser.go(pathOf(id)), '/deny')).status, 200)
    assert.deepEqual(await stateOf(id), ['denied', true])
    for (const path of ['/account/approvals', '/account']) assert.equal((await browser.go(path)).status, 200, path)
  }
})

test('a frozen account approves nothing and denies', async () => {
  const id = await ask('ned')
  const { browser, page } = await visit('ned', id)
  await world.app.db.updateTable('accounts').set({ frozen_at: new Date() }).where('user_id', '=', 'DEV-ned').execute()
  assert.equal((await browser.submit(page, '/approve')).status, 403)
  assert.deepEqual(await stateOf(id), ['waiting', true])
  await browser.submit(page, '/deny')
  assert.deepEqual(await stateOf(id), ['denied', true])
})

test('the inbox lists what waits and what was decided, newest first, and the account page counts what waits', async () => {
  const browser = openBrowser(world.origin)
  const empty = await browser.signIn('/account/approvals', 'ona')
  assert.equal(empty.url.pathname, '/account/approvals')
  assert.match(textOf(empty.text), new RegExp(texts.nothingWaits))
  const { payment, text, other } = requestsOf('ona')
  const first = await ask('ona', payment)
  await browser.submit(await browser.go(pathOf(first)), '/approve')
  await ask('ona', text)
  const last = await ask('ona', other)
  await ask('pia')
  const inbox = textOf((await browser.go('/account/approvals')).text)
  const sentences = ['Sign data that this service does not understand', 'Sign this text', texts.decided, 'Pay 5 USDC to “bob” (0x', texts.states.approved] // prettier-ignore
  const places = sentences.map((one) => inbox.replaceAll(' ', '').indexOf(one.replaceAll(' ', '')))
  assert.ok(
    places.every((place, index) => place >= 0 && place > (places[index - 1] ?? -1)),
    inbox,
  )
  assert.match(inbox, /Demo application · \S.* · 30 min left/)
  assert.match(textOf((await browser.go('/account')).text), new RegExp(texts.link(2)))
  await browser.submit(await browser.go(pathOf(last)), '/deny')
  assert.match(textOf((await browser.go('/account')).text), new RegExp(texts.link(1)))
})

test('an application that asks often pushes no other one out of the inbox', () => {
  const at = new Date()
  const question = (clientId: string, id: string, state: ApprovalState = 'waiting'): ApprovalQuestion => ({
    ...{ id, clientId, state, intentId: id, accountId: '', chainId: CHAIN, content: { calls: [] }, rule: '' },
    ...{ askedFrom: null, createdAt: at, expiresAt: at, decidedAt: null },
  })
  const many = (clientId: string, length: number, state?: ApprovalState) =>
    Array.from({ length }, (_, index) => question(clientId, `${clientId} ${index}`, state))
  const listed = shownOf([
    ...many('loud', 200),
    ...many('shop', 3),
    ...many('loud', 40, 'denied'),
    question('bank', 'bank 0'),
  ])
  const counted = (clientId: string, state: ApprovalState) =>
    listed.filter((one) => one.clientId === clientId && one.state === state).length
  assert.deepEqual([counted('loud', 'waiting'), counted('shop', 'waiting'), counted('bank', 'waiting'), counted('loud', 'denied')], [26, 3, 1, 30]) // prettier-ignore
  assert.deepEqual(listed.slice(0, 30).map(({ id }) => id), [...many('loud', 26), ...many('shop', 3), question('bank', 'bank 0')].map(({ id }) => id)) // prettier-ignore
})

test('a user’s name stands for an address that the signer attests, and for no other', async () => {
  const id = await ask('quin', requestsOf('quin').coins)
  const { browser, page } = await visit('quin', id)
  assert.match(textOf(page.text), /Pay 1\.5 ETH to “bob” \(0x/)
  const forged = addressOf('DEV-nobody-of-ours')
  await world.app.db
    .updateTable('accounts')
    .set({ address: fromHex(forged) })
    .where('user_id', '=', 'DEV-amy')
    .execute()
  const second = await ask('quin', { calls: [{ to: forged, value: '1', data: '0x' }] })
  assert.doesNotMatch(textOf((await browser.go(pathOf(second))).text), /amy/)
})
