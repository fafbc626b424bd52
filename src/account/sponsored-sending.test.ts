// tier: all, because it starts a service with sponsors
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertUser, verifyAccessToken } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import type { Sender } from '../oauth/account/slices.ts'
import { openBrowser, textOf, type Page } from '../../test/kit/browser.ts'
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

test('the account pages have no gas budget: where only sponsors pay, they say so, and send nothing', async () => {
  const person = await saver('unsponsored-saver')
  const browser = openBrowser(here.facts.origin)
  await browser.signIn('/account', 'unsponsored-saver')
  const path = `/account/send?${new URLSearchParams({ asset: NATIVE }).toString()}`
  const refused = (page: Page) => {
    assert.equal(page.status, 403)
    assert.match(textOf(page.text), /The network fee for this is not covered\. Nothing was sent\./)
    assert.doesNotMatch(page.text, /action="\/account\/send\/confirm"/)
  }
  await until('the balance is listed', async () => textOf((await browser.go(path)).text).includes('1.23'))
  const form = await browser.go(path)
  refused(await browser.submit(form, '/account/send', { to: here.bob.address, amount: '', max: '1' }))
  refused(await browser.submit(form, '/account/send', { to: here.bob.address, amount: '0.1' }))
  assert.equal(await coins(person.address), BALANCE)
})
