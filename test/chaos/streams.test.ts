// tier: all, because it starts two servers, and kills one of them
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { openJudge } from '../../bench/stream-reader.ts'
import { testCluster } from '../kit/database.ts'

test('the judge of a stream notices what is lost, what comes twice, and what comes too late', () => {
  const judge = (...numbers: number[]) => {
    const { note, verdict } = openJudge({ numbers: [3, 5, 7, 9] })
    for (const number of numbers) note(number)
    const { lost, twice } = verdict()
    return [lost, twice]
  }
  assert.deepEqual(judge(3, 5, 7, 9), [0, 0])
  assert.deepEqual(judge(3, 7, 9), [1, 0])
  assert.deepEqual(judge(3, 5, 7), [1, 0])
  assert.deepEqual(judge(), [4, 0])
  assert.deepEqual(judge(3, 5, 5, 7, 9), [0, 1])
  assert.deepEqual(judge(3, 7, 5, 9), [1, 1])
  assert.deepEqual(judge(3, 5, 7, 8, 9), [0, 1])
})

/** The long form: `npm run bench:streams`. */
test(
  'streams that are cut, and whose server is killed, go on at another server: nothing is lost and nothing comes twice',
  { skip: testCluster === null && 'needs TEST_DATABASE_URL', timeout: 240_000 },
  async (t) => {
    const file = fileURLToPath(new URL('../../bench/streams.ts', import.meta.url))
    const small = ['--streams=60', '--applications=2', '--cuts=12', '--rate=200', '--seconds=6']
    const { stdout } = await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', file, ...small], { timeout: 200_000 }) // prettier-ignore
    t.diagnostic(stdout)
    assert.match(stdout, /^12 cuts: 11 connections, 1 SIGKILL and 0 SIGTERM of a server; \d\d+ resumptions/m)
    assert.match(stdout, /^0 lost, 0 twice$/m)
    const [, facts, events] = /^(\d+) facts in .*, (\d+) events read/m.exec(stdout)!.map(Number)
    assert.ok(facts! > 500 && events! > facts! * 10)
  },
)
