// tier: all, because it repeats a proof at length
import { test } from 'node:test'
import { world } from '../../../test/world.ts'
import { writeWithLostAnswers } from './many-writes.ts'

test('of 1,000 writes whose answers get lost three times in ten, each is exactly one transaction', async (t) => {
  const here = await world()
  t.after(() => here.close())
  await writeWithLostAnswers(here, { count: 1_000, seed: 7 })
})
