// tier: all, because it kills processes and nodes under load
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { testCluster } from '../kit/database.ts'
import { PATIENCE_MS } from '../kit/until.ts'
import { embeddedHome, openHome, type Home } from './history-home.ts'
import seeds from './history-seeds.json' with { type: 'json' }
import { runHistory } from './history-run.ts'

const COUNT = 10
/** Those that found something once, and as many others as make ten. */
const FOUND = seeds.map(({ seed }) => seed)
const OTHERS = Array.from({ length: COUNT }, (_, index) => index + 1).filter((seed) => !FOUND.includes(seed))
const SEEDS = [...FOUND, ...OTHERS].slice(0, COUNT)
/** A start of the embedded database takes seconds: a strict life, one that is not, and a development chain. */
const EMBEDDED_SEEDS = [1, 2, 4]

for (const [where, open, some] of [
  ['two processes on PostgreSQL', openHome, testCluster === null ? [] : SEEDS],
  ['one process on the embedded database', embeddedHome, EMBEDDED_SEEDS],
] as const)
  suite(
    `whatever chain and node do, and whenever the follower is killed: ${where}`,
    { skip: some.length === 0 },
    () => {
      let home: Home
      before(async () => {
        home = await open()
      })
      after(() => home?.close())

      for (const seed of some) {
        test(`the tables equal an index of the final chain from scratch (seed ${seed})`, async () => {
          const { problem } = await runHistory(seed, home, { boundMs: PATIENCE_MS })
          assert.equal(problem, null)
        })
      }
    },
  )
