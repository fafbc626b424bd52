import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { toppingUp, type ToppingUp } from '../../test/topping-up.ts'
import { until } from '../../test/kit/until.ts'
import { AppError } from '../errors.ts'
import { fromHex } from '../hex.ts'
import { SignerRefused } from '../signer-wire/client.ts'
import { raiseLowest } from '../transactions/lanes/raise.ts'
import { readEvents } from './read.ts'
import { sequence } from './sequence.ts'

/** What sponsors do for an application's writes is in no feed: they are no users. */
let world: ToppingUp
before(async () => {
  world = await toppingUp()
  // Before the first token: a process knows the permissions of an application for seconds.
  await sql`update applications set permissions = permissions || '["events:read"]'`.execute(world.db)
})
after(() => world?.close())

async function told(): Promise<string[]> {
  while ((await sequence(world.db)) > 0);
  const { events } = await readEvents(world.first.app, { clientId: 'demo', accountId: null }, { after: null, types: null, limit: 1_000 }) // prettier-ignore
  return events.map(({ type, userId }) => `${type} ${userId}`)
}

test('a top-up has no events, neither its limit at the signer nor its wait for funds', async () => {
  const { first, db, house, rpc } = world
  const ann = await world.poor('topped-up')
  const cause = new SignerRefused('policy_denied', '', { rule: 'top-up-per-user', resetsAt: '2031-01-01T00:00:00.000Z' }) // prettier-ignore
  const denied = new AppError('policy_denied', 'It is used up.', { cause })
  await world.withSigner(
    ({ check }) => ({
      check: (request) => (request.from === house.address ? Promise.reject(denied) : check(request)),
    }),
    () => assert.rejects(world.send(ann), { code: 'gas_budget_exhausted' }),
  )
  const writing = world.send(ann, 'key')
  await until('the top-up is signed', async () => {
    const { rows } = await sql`select 1 from transactions where sender = ${fromHex(house.address)}::bytea and state = 'SUBMITTED'`.execute(db) // prettier-ignore
    return rows.length === 1
  })
  const held = await rpc<string>('eth_getBalance', house.address, 'latest')
  await rpc('anvil_setBalance', house.address, '0x7')
  await sql`update attempts set created_at = now() - interval '25 seconds', created_block = null`.execute(db)
  await raiseLowest(first.app, first.chain)
  const { rows: waits } = await sql<{ trouble: string }>`select trouble from waits`.execute(db)
  assert.deepEqual(
    waits.map(({ trouble }) => trouble),
    ['insufficient_funds'],
  )
  await rpc('anvil_setBalance', house.address, held)
  await world.recovering(writing)
  await world.mine()
  assert.deepEqual((await told()).slice(0, 2), [
    'transaction.submitted DEV-topped-up',
    'transaction.mined DEV-topped-up',
  ])
  assert.deepEqual(
    (await told()).filter((one) => !one.endsWith(' DEV-topped-up')),
    [],
  )
})
