import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { age, keep } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { AppError } from '../../errors.ts'
import { readTransaction } from '../read/read.ts'

let world: Sponsored
before(async () => {
  world = await sponsored()
})
after(() => world?.close())

test('a nonce of a sponsor that the signer did not sign for holds up what is behind it for seconds, not for half a minute', async () => {
  const { first } = world
  const writer = await world.poor('behind')
  const { signer } = first.app
  first.app.signer = {
    ...signer,
    signOuter: () => Promise.reject(new AppError('signer_unavailable', 'The signer is away.')),
  }
  await assert.rejects(world.add(first, writer, 1, 'behind'))
  first.app.signer = signer
  await age(first.app, 3)
  const { answer } = await world.add(first, writer, 1, 'behind')
  await world.mine()
  assert.equal((await readTransaction(first.app, writer, answer.id)).state, 'SUBMITTED')
  await age(first.app, 6)
  await keep(world)
  await world.mine()
  assert.equal((await readTransaction(first.app, writer, answer.id)).state, 'MINED')
  assert.equal(await world.countOf(writer), 1n)
})
