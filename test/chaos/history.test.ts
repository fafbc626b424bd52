import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { testCluster, testDatabase, type TestDatabase } from '../database.ts'
import seeds from './history-seeds.json' with { type: 'json' }
import { runHistory } from './history-run.ts'

const COUNT = 20
/** Those that found something once, and as many others as make twenty. */
const FOUND = seeds.map(({ seed }) => seed)
const OTHERS = Array.from({ length: COUNT }, (_, index) => index + 1).filter((seed) => !FOUND.includes(seed))
const SEEDS = [...FOUND, ...OTHERS].slice(0, COUNT)

// Two processes on one database: the embedded one lets a single process in.
suite(
  'whatever chain and node do, and whenever the follower is killed',
  { skip: testCluster === null && 'needs PostgreSQL: set TEST_DATABASE_URL' },
  () => {
    let database: TestDatabase
    before(async () => {
      database = await testDatabase()
    })
    after(() => database?.close())

    for (const seed of SEEDS) {
      test(`the tables equal an index of the final chain from scratch (seed ${seed})`, async () => {
        const { problem } = await runHistory(seed, { db: database.db, url: database.url! })
        assert.equal(problem, null)
      })
    }
  },
)
