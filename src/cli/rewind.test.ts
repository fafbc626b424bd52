import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../../test/kit/until.ts'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { indexedTo } from '../follower/history-cursor.ts'
import { listActions } from '../operator/actions.ts'
import { readTransaction } from '../transactions/read/read.ts'
import { rewind } from './rewind.ts'

let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const actor = { name: 'mira', via: 'command' } as const
const stateOf = async (writer: Writer, id: string): Promise<string> =>
  (await readTransaction(world.first.app, writer, id)).state
const rewound = (toBlock: number | null = null) => rewind(world.first, actor, toBlock)
const halted = async () => (await indexedTo(world.db, 31_337)).halted

test('a network that stopped below finality is taken back beside its follower, and nothing told is lost', async () => {
  const [one, two] = [await world.writer('early'), await world.writer('late')]
  const { answer: early } = await world.add(world.first, one)
  for (let block = 0; block < 4; block++) await world.mine()
  const { answer: late } = await world.add(world.first, two)
  for (let block = 0; block < 5; block++) await world.mine()
  assert.deepEqual([await stateOf(one, early.id), await stateOf(two, late.id)], ['FINALIZED', 'FINALIZED'])
  await assert.rejects(rewound(), /nothing to rewind: the node has our newest block/)

  await world.rpc('anvil_reorg', 6, [])
  await until('the follower halted', async () => (await halted()) !== null)
  const { finalized_number: finalizedTo } = await world.db
    .selectFrom('cursors')
    .select('finalized_number')
    .executeTakeFirstOrThrow()
  assert.match((await halted())!, new RegExp(`below the finalized block ${finalizedTo}`))
  const { block_number: newest } = await world.db.selectFrom('cursors').select('block_number').executeTakeFirstOrThrow()
  await assert.rejects(rewound(newest), new RegExp(`The chains differ above block ${newest - 6}`))

  assert.deepEqual(await rewound(), { to: newest - 6, transactions: 1 })
  const actions = await listActions(world.db, { limit: 10 })
  assert.deepEqual(
    actions.map(({ actor: by, action, target }) => [by, action, target]),
    [['mira', 'rewind-network', 'devnet']],
  )
  await world.followed()
  assert.equal(await halted(), null)
  assert.deepEqual([await stateOf(one, early.id), await stateOf(two, late.id)], ['FINALIZED', 'SUBMITTED'])
  const keeper = world.first.keeper()
  await keeper.round()
  await keeper.stop()
  for (let block = 0; block < 4; block++) await world.mine()
  await until('it is final again', async () => (await stateOf(two, late.id)) === 'FINALIZED')
  const again = await readTransaction(world.first.app, two, late.id)
  assert.equal(again.hash, late.hash)
  assert.deepEqual([await world.countOf(one), await world.countOf(two)], [1n, 1n])
})
