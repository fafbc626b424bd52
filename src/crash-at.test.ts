import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openCrashPoints } from './crash-at.ts'

/** Signals to this process, told instead of sent. */
function signals(t: TestContext): unknown[] {
  const sent: unknown[] = []
  t.mock.method(process, 'kill', (pid: number, signal: unknown) => {
    assert.equal(pid, process.pid)
    return sent.push(signal) > 0
  })
  return sent
}

test('a process is killed at the point that was asked for, the first time or a later one, and at no other', (t) => {
  const sent = signals(t)
  const once = openCrashPoints('after-store')
  const third = openCrashPoints('after-store:3')
  const never = openCrashPoints('')
  for (const point of ['after-bind', 'after-store']) never(point)
  once('after-bind')
  assert.deepEqual(sent, [])
  once('after-store')
  assert.deepEqual(sent, ['SIGKILL'])
  for (let times = 0; times < 2; times++) third('after-store')
  assert.equal(sent.length, 1)
  third('after-store')
  assert.equal(sent.length, 2)
})

test('another signal stops it instead, and a running process is given its point by a file', (t) => {
  const sent = signals(t)
  openCrashPoints('after-bind:1:SIGSTOP')('after-bind')
  assert.deepEqual(sent, ['SIGSTOP'])
  const folder = mkdtempSync(join(tmpdir(), 'crash-at-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'point')
  writeFileSync(file, '')
  const reach = openCrashPoints(`@${file}`)
  reach('after-sign')
  writeFileSync(file, 'after-sign:2')
  reach('after-sign')
  assert.equal(sent.length, 1)
  reach('after-sign')
  assert.deepEqual(sent, ['SIGSTOP', 'SIGKILL'])
})
