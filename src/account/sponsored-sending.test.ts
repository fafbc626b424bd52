// tier: all, because it starts a service with sponsors
import assert from 'node:assert/strict'
import { after, before, test, type TestContext } from 'node:test'
import { assertUser, verifyAccessToken } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import type { Sender } from '../oauth/account/slices.ts'
import { updateNetwork } from '../applications/change-network.ts'
import { openBrowser, textOf } from '../../test/kit/browser.ts'
import { withWall } from '../../test/kit/clock.ts'
import { spentOfPages } from '../store/sponsor-budget.ts'
import { until } from '../../test/kit/until.ts'
import { world, type Person, type World } from '../../test/world.ts'
import { accountSending } from './sending.ts'

const NATIVE = '31337:NATIVE::'
const BALANCE = 1_234_567_891_234_567_891n
let here: World
before(async () => void (here = await world({ NETWORK_GAS: 'sponsor' })))
after(() => here.close())

const coins = async (address: string): Promise<bigint> =>
  BigInt(await here.rpc<Hex>('eth_getBalance', address, 'latest'))

async function saver(name: string): Promise<Person> {
  const person = await here.person(name)
  await here.rpc('anvil_setBalance', person.address, `0x${BALANCE.toString(16)}`)
  return person
}

/** Opens sending for a user who is the caller of an application with a gas budget. */
async function budgeted({ token, userId }: Person) {
  const caller = await verifyAccessToken(here.app, token)
  assertUser(caller)
  const sender: Sender = { accountId: caller.accountId, userId: caller.userId, address: caller.address, sessionUid: 'session' } // prettier-ignore
  assert.equal(caller.userId, userId)
  return { sender, sending: accountSending(here.app, () => Promise.resolve(caller), new Map()) }
}

test('where a sponsor pays, the fee is 0, the whole balance can be sent, and the account pays nothing', async () => {
  const person = await saver('sponsored-saver')
  const { sender, sending } = await budgeted(person)
  const order = { tokenType: 'NATIVE', amount: '1.234567891234567891', toAddress: here.bob.address } as const
  const { fee } = await sending.rehearse(sender, 31_337, order)
  assert.equal(fee.value, 0n)
  const before = await coins(here.bob.address)
  await sending.send(sender, 31_337, order, crypto.randomUUID())
  await until('it is mined', async () => (await coins(here.bob.address)) === before + BALANCE)
  assert.equal(await coins(person.address), 0n)
})

const FORM = `/account/send?${new URLSearchParams({ asset: NATIVE }).toString()}`
async function sendTab(name: string) {
  const browser = openBrowser(here.facts.origin)
  await browser.signIn('/account', name)
  await until('the balance is listed', async () => textOf((await browser.go(FORM)).text).includes('1.23'))
  return browser
}

/** Sets the gas budget of the account pages as the operator does, and lets every process read it. */
async function setPagesBudget(t: TestContext, amounts: { pagesPerUser: string | null; pagesPerDay: string | null }) {
  const { app } = here
  await updateNetwork(app.db, here.app.config.NETWORK_NAME, amounts)
  const late = app.clock.wall() - Date.now() + 10_000
  app.clock = withWall(() => Date.now() + late)
  t.after(() => updateNetwork(app.db, here.app.config.NETWORK_NAME, { pagesPerUser: ONE_COIN, pagesPerDay: ONE_COIN }))
}
const ONE_COIN = String(10n ** 18n)

test('without a gas budget of the account pages, the form says before it is filled that it sends nothing, and nothing is sent', async (t) => {
  const person = await saver('unsponsored-saver')
  const browser = await sendTab('unsponsored-saver')
  const form = await browser.go(FORM)
  assert.match(form.text, /action="\/account\/send"/)
  await setPagesBudget(t, { pagesPerUser: null, pagesPerDay: null })
  for (const page of [await browser.go(FORM), await browser.go('/account/send')]) {
    assert.match(textOf(page.text), /Sending from this page is not set up .* you can still receive/)
    assert.doesNotMatch(page.text, /action="\/account\/send"/)
  }
  // A form from before the budget was removed.
  for (const filled of [{ amount: '', max: '1' }, { amount: '0.1' }] as Record<string, string>[]) {
    const page = await browser.submit(form, '/account/send', { to: here.bob.address, ...filled })
    assert.equal(page.status, 403)
    assert.match(textOf(page.text), /The operator of this service pays network fees here, but not for this transfer/)
    assert.doesNotMatch(page.text, /application’s support|action="\/account\/send\/confirm"/)
  }
  assert.equal(await coins(person.address), BALANCE)
})

test('with a gas budget, the account pages send, and the cost counts in that budget; what exceeds it is not sent', async (t) => {
  const person = await saver('paged-saver')
  const browser = await sendTab('paged-saver')
  await setPagesBudget(t, { pagesPerUser: String(10n ** 16n), pagesPerDay: String(10n ** 17n) })
  const send = async () =>
    browser.submit(await browser.go(FORM), '/account/send', { to: here.bob.address, amount: '0.25' })
  const sent = await browser.submit(await send(), '/account/send/confirm')
  assert.equal(sent.status, 200)
  await until('it is mined', async () => (await coins(person.address)) === BALANCE - 25n * 10n ** 16n)
  const spent = await spentOfPages(here.app.db, 31_337)
  assert.ok(spent > 0n && spent <= 10n ** 16n, String(spent))
  await setPagesBudget(t, { pagesPerUser: '1', pagesPerDay: '1' })
  const refused = await send()
  assert.equal(refused.status, 403)
  assert.match(textOf(refused.text), /not for this transfer/)
})
