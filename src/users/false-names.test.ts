import assert from 'node:assert/strict'
import { test } from 'node:test'
import { appLike } from '../../test/opened.ts'
import { until } from '../../test/kit/until.ts'
import { world } from '../../test/world.ts'
import { accountIdOf } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { listPayments } from '../transactions/read/list-own.ts'
import { showRecipient } from '../transfers/recipient.ts'
import { attestAccounts } from './attest.ts'

test('no name of another person stands beside an address: swapped in the database, an address has none', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const { app, alice, facts } = here
  const [carol, dave] = [await here.person('carol'), await here.person('dave')]
  await attestAccounts(app)
  const { status, body } = await alice.post('/v1/tokens/transfers', { tokenType: 'NATIVE', amount: '0.001', toUserId: carol.userId }) // prettier-ignore
  assert.equal(status, 200, JSON.stringify(body))
  // Returns the names that another process without memory would show.
  const shown = async () => {
    const fresh = appLike(app)
    const of = { accountId: accountIdOf('DEV', 'alice'), chainId: facts.chainId, address: alice.address.toLowerCase() as `0x${string}` } // prettier-ignore
    const { entries } = await listPayments(fresh, of, { limit: 5, direction: 'out' })
    const address = carol.address.toLowerCase() as `0x${string}`
    const { hasSignedIn } = await showRecipient(fresh, { by: 'userId', provider: 'DEV', subject: 'dave' }, address)
    return [entries.map(({ name }) => name), hasSignedIn]
  }
  // Users who signed in by a page have a name; here it is their id.
  await until('it is mined', async () => (await shown())[0]!.toString() === 'carol')
  assert.deepEqual(await shown(), [['carol'], null])
  const set = (userId: string, address: string) =>
    app.db.updateTable('accounts').set({ address: fromHex(address.toLowerCase() as `0x${string}`) }).where('user_id', '=', userId).execute() // prettier-ignore
  await set(carol.userId, `0x${'77'.repeat(20)}`)
  await set(dave.userId, carol.address)
  const before = (await app.telemetry.addressesNotProven.get()).values[0]!.value
  assert.deepEqual(await shown(), [[null], null])
  assert.ok((await app.telemetry.addressesNotProven.get()).values[0]!.value > before)
  await app.db.updateTable('accounts').set({ attestation: null }).where('user_id', '=', dave.userId).execute()
  assert.deepEqual(await shown(), [[null], null])
})

test('what came in on one network is not among the payments of another', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const { app, alice, facts } = here
  const carol = await here.person('carol')
  const { status, body } = await alice.post('/v1/tokens/transfers', { tokenType: 'NATIVE', amount: '0.001', toUserId: carol.userId }) // prettier-ignore
  assert.equal(status, 200, JSON.stringify(body))
  const received = async (chainId: number) => {
    const of = {
      accountId: accountIdOf('DEV', 'carol'),
      chainId,
      address: carol.address.toLowerCase() as `0x${string}`,
    }
    return (await listPayments(app, of, { limit: 5, direction: 'in' })).entries.map(({ hash }) => hash)
  }
  await until('it is mined', async () => (await received(facts.chainId)).length === 1)
  assert.deepEqual(await received(facts.chainId + 1), [])
})
