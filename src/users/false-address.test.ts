import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openBrowser } from '../../test/kit/browser.ts'
import { world, type World } from '../../test/world.ts'
import { verifyAccessToken } from '../http/bearer.ts'
import { pregenerate } from '../users/pregenerate.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { attestAccounts } from './attest.ts'

let here: World
before(async () => {
  here = await world()
})
after(() => here.close())

test('a false deposit address in the database is shown nowhere, and nobody’s money goes there', async () => {
  const { app, alice, bob, facts } = here
  const carol = await here.person('carol')
  await attestAccounts(app)
  const browser = openBrowser(facts.origin)
  await browser.signIn('/account', 'carol')
  assert.match((await browser.go('/account/receive')).text, new RegExp(carol.address, 'i'))
  const thief = '66'.repeat(20)
  await app.db
    .updateTable('accounts')
    .set({ address: Buffer.from(thief, 'hex') })
    .where('user_id', '=', carol.userId)
    .execute()
  const answers: Record<string, { status: number; text: string }> = {}
  const ask = async (name: string, asking: Promise<{ status: number; body?: unknown; text?: string }>) => {
    const { status, body, text } = await asking
    answers[name] = { status, text: text ?? JSON.stringify(body) }
  }
  const pay = (to: object, path = '/v1/tokens/transfers') =>
    alice.post(path, { tokenType: 'NATIVE', amount: '0.001', ...to })
  await ask('to her id', pay({ toUserId: carol.userId }))
  await ask('to her name', pay({ toUserProviderType: 'DEV', toUserUsername: 'carol' }))
  await ask('userinfo', carol.get('/oauth/me'))
  for (const path of ['/account', '/account/receive', '/account/activity', '/account/send', '/account/data.json'])
    await ask(path, browser.go(path))
  for (const [name, { status, text }] of Object.entries(answers)) {
    assert.equal(status, 503, `${name}: ${status} ${text.slice(0, 300)}`)
    assert.doesNotMatch(text, new RegExp(thief, 'i'), name)
  }
  assert.match(answers['to her name']!.text, /"code":"address_not_proven"/)

  // A process that has not seen the token yet.
  const fresh = { ...app, state: openState() }
  const notProven = { code: 'address_not_proven' }
  await assert.rejects(verifyAccessToken(fresh, carol.token), notProven)
  await assert.rejects(pregenerate(fresh, { provider: 'DEV', providerUserId: 'carol' }), notProven)
  await assert.rejects(here.person('carol'), notProven)
  assert.equal((await verifyAccessToken(fresh, bob.token)).kind, undefined)

  // What she had before is what this process remembers of her token, and not what the database says now.
  const { body } = await carol.get('/v1/me')
  assert.equal(body.address, carol.address)
  assert.equal(Number(await here.rpc<string>('eth_getBalance', `0x${thief}`, 'latest')), 0)
  await app.db
    .updateTable('accounts')
    .set({ address: fromHex(carol.address.toLowerCase() as `0x${string}`) })
    .where('user_id', '=', carol.userId)
    .execute()
  assert.equal((await pay({ toUserId: carol.userId })).status, 200)
})
