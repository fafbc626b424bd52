import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { feedConsumer, type FeedConsumer } from '../../test/feed-consumer.ts'
import { rememberWithBlocks, replay } from '../../test/lost-tail.ts'
import { randomOf } from '../../test/random.ts'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { cancelTransaction, speedUpTransaction } from '../transactions/lanes/change.ts'
import { readTransaction } from '../transactions/read/read.ts'

/** `LOST_TAILS=1000` is the long form. */
const ROUNDS = Number(process.env.LOST_TAILS ?? 4)
const WRITERS = 3

let world: Writing
let consumer: FeedConsumer
before(async () => {
  world = await writing()
  consumer = await feedConsumer(world.first.app)
})
after(() => world.close())

test(
  'a database that lost its tail and was replayed gives events the same ids: who knows ids has each effect once',
  { timeout: 900_000 + ROUNDS * 5_000 },
  async (t) => {
    const below = randomOf(44)
    const writers: Writer[] = []
    for (let index = 0; index < WRITERS; index++) writers.push(await world.writer(`tail-${index}`))
    let repeated = 0
    for (let round = 0; round < ROUNDS; round++) {
      // What the copy has: everything, or everything but the last block.
      const isMined = below(2) === 0
      const written: { writer: Writer; id: string }[] = []
      const write = async (writer: Writer): Promise<void> => {
        const { answer } = await world.add(world.first, writer)
        written.push({ writer, id: answer.id })
      }
      await write(writers[0]!)
      if (isMined) await world.mine()
      const goBack = await rememberWithBlocks(world)
      for (const writer of writers.slice(1)) await write(writer)
      const { writer, id } = written[below(written.length)]!
      const change = below(3)
      if (change === 0) await speedUpTransaction(world.first.app, writer, id).catch(() => {})
      if (change === 1) await cancelTransaction(world.first.app, writer, id).catch(() => {})
      await world.mine()
      if (below(2) === 0) await world.mine()
      await consumer.read()
      const known = new Map(written.map((one) => [one.id, consumer.idsOf(one.id)]))

      await goBack()
      await replay(world.first)
      await world.followed()
      await consumer.read()
      for (const one of written) {
        assert.deepEqual(consumer.idsOf(one.id), known.get(one.id), `round ${round}: an event came under another id`)
        assert.equal(consumer.effectsOf(one.id), 1, `round ${round}`)
        const { state } = await readTransaction(world.first.app, one.writer, one.id)
        assert.equal(consumer.outcomeOf(one.id), state === 'FINALIZED' ? 'mined' : state.toLowerCase())
      }
      repeated = consumer.repeated()
    }
    assert.ok(repeated >= ROUNDS, 'the feed had nothing twice')
    t.diagnostic(`${ROUNDS} lost tails, ${repeated} events came again under the id that was known`)
  },
)
