import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openTelemetry } from '../telemetry.ts'
import { LOG_EVENTS } from './log-events.ts'
import { metricsReference, writtenEvents } from './log-reference.ts'

test('every event that is written to a log is explained, and none that is not', () => {
  const written = writtenEvents()
  assert.ok(written.size > 150, `${written.size} events`)
  assert.deepEqual([...written.keys()].toSorted(), Object.keys(LOG_EVENTS).toSorted())
  for (const [event, { levels }] of written) assert.ok(levels.size > 0, event)
  for (const [event, meaning] of Object.entries(LOG_EVENTS)) assert.match(meaning, /^[A-Z`].{10,160}\.$/, event)
})

test('every call of a log is one whose event is found', () => {
  const src = join(import.meta.dirname, '..')
  const unread: string[] = []
  for (const file of globSync('**/*.ts', { cwd: src })) {
    if (file.endsWith('.test.ts') || file === 'cli/log-reference.ts') continue
    const text = readFileSync(join(src, file), 'utf8')
    for (const [call, name] of text.matchAll(
      /(?<!reply\.)\blog(?:\??\.(?:debug|info|warn|error)|\[[^\n]*?\])\(\s*([^,)]*)/g,
    )) {
      const events = [...name!.matchAll(/'([a-z]\w*)'/g)].map(([, event]) => event!)
      if (events.length === 0 || events.some((event) => !(event in LOG_EVENTS))) unread.push(`${file}: ${call}`)
    }
  }
  assert.deepEqual(unread, [])
})

test('every metric is explained with its labels', async () => {
  const page = await metricsReference()
  const { registry, ...telemetry } = openTelemetry('test', 'silent')
  const { log: _, ...metrics } = telemetry
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  assert.equal(rows.length, Object.keys(metrics).length)
  assert.equal(rows.length, (await registry.getMetricsAsJSON()).length)
  for (const row of rows)
    assert.match(row, /^\| `[a-z_]+` \| (counter|gauge|histogram) \| (`[a-z_]+` ?)*\s*\| \S.{8,} \|$/)
})
