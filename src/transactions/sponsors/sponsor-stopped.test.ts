import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { age, keep, useElsewhere } from '../../../test/lost-tail.ts'
import { operationsOf } from '../../../test/operation-reads.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import { AppError } from '../../errors.ts'
import { listSponsors } from '../../sponsors/list.ts'
import { sponsorFaults, startWatchingSponsors } from '../../sponsors/watch.ts'
import { startCountingStopped } from '../recovery/count-stopped.ts'
import { listStopped } from '../recovery/resume.ts'

/** The only sponsor of a network, with a nonce that a foreign transaction has used. */
let world: Sponsored
before(async () => {
  world = await sponsored()
})
after(() => world?.close())

const { add, stateOf } = operationsOf(() => world)

/** Returns the operators' view: stop time, checks and metric. */
async function seen() {
  const { app } = world.first
  for (const { round, stop } of [startWatchingSponsors(app), startCountingStopped(app)]) {
    await round()
    await stop()
  }
  const [listed] = (await listSponsors(app)).filter(({ name }) => name === 'HOUSE')
  const text = await app.telemetry.registry.metrics()
  const metrics = [/^sponsor_stopped\{chain_id="31337",sponsor="HOUSE"\} (\d)$/m, /^accounts_stopped\{chain_id="31337"\} (\d)$/m].map((line) => line.exec(text)?.[1]) // prettier-ignore
  return { isListed: listed!.stoppedSince !== null, faults: sponsorFaults(app, 31_337), metrics }
}

test('a sponsor a nonce of which someone else used is told as that, to people and operators, and resumes by itself once that is final', async () => {
  const writer = await world.poor('before-it')
  await add(writer)
  await world.mine()
  assert.deepEqual(await seen(), { isListed: false, faults: [], metrics: ['0', '0'] })
  await useElsewhere(world, { address: world.house.address } as never)
  await world.mine()
  const refused = (error: unknown) =>
    error instanceof AppError && error.code === 'sponsor_stopped' && error.retryAfter === 300
  await assert.rejects(add(writer, 2, 'key'), refused)
  const faults = ['sponsors that are stopped, because someone else used a nonce of them: HOUSE']
  assert.deepEqual(await seen(), { isListed: true, faults, metrics: ['1', '1'] })
  await keep(world)
  await keep(world)
  assert.equal((await listStopped(world.db)).length, 1, 'not before it is final')
  await world.rpc('anvil_mine', '0x60')
  await until('it is resumed', async () => {
    await world.mine()
    await keep(world)
    return (await listStopped(world.db)).length === 0
  })
  assert.deepEqual(await seen(), { isListed: false, faults: [], metrics: ['0', '0'] })
  // The refused request left it bound.
  await age(world.first.app, 5)
  const { answer } = await add(writer, 2, 'key')
  await world.mine()
  assert.match(await stateOf(writer, answer.id), /MINED|FINALIZED/)
  assert.equal(await world.countOf(writer), 3n)
})
