import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { command } from '../../test/kit/command.ts'
import { inPrivate, onSignals } from './shell.ts'

test('commands that run at once in one process each have their own settings, input, answers and exit code', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-run-command-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const names = ['mira', 'vera', 'two words']
  const fileOf = (name: string) => join(folder, `operators of ${name}`)
  const ended = await Promise.all(
    names.map((name) =>
      command({ OPERATOR_TOKEN_FILE: fileOf(name) }, ['operator-token', 'create', '--name', name, '--json']),
    ),
  )
  assert.deepEqual(
    ended.map(({ code, out }) => [code, out === '' ? null : (JSON.parse(out) as { name: string }).name]),
    [[0, 'mira'], [0, 'vera'], [1, null]], // prettier-ignore
  )
  for (const name of ['mira', 'vera'])
    assert.match(readFileSync(fileOf(name), 'utf8'), new RegExp(` ${name} operator\n$`))
  assert.match(ended[2]!.err, /--name must be one word/)
  assert.throws(() => statSync(fileOf('two words')))
})

test('listeners to signals and the mask of files are as before when what needed them has ended', async () => {
  const signals = ['SIGINT', 'SIGTERM'] as const
  const counts = () => signals.map((signal) => process.listenerCount(signal))
  const before = { counts: counts(), mask: process.umask() }
  const stop = onSignals(signals, () => {})
  assert.deepEqual(counts(), before.counts.map((count) => count + 1)) // prettier-ignore
  stop()
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const both = [inPrivate(() => first.promise), inPrivate(() => second.promise)]
  first.resolve()
  await both[0]
  assert.equal(process.umask(), 0o077, 'the other one still makes files')
  second.reject(new Error('it failed'))
  await assert.rejects(both[1]!, /it failed/)
  assert.deepEqual({ counts: counts(), mask: process.umask() }, before)
})
