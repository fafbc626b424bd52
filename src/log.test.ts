import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

/** Lines that a script wrote with `log`, each with what it says of the time left out. */
function linesOf(script: string, least = 'debug'): Record<string, unknown>[] {
  const module = JSON.stringify(new URL('log.ts', import.meta.url).href)
  const whole = `const { openLog } = await import(${module}); const log = openLog('test', '${least}'); ${script}`
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', whole], { encoding: 'utf8' })
  return stderr
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const { time, ...rest } = JSON.parse(line) as { time: string }
      assert.match(time, /^\d{4}-\d\d-\d\dT[\d:.]{12}Z$/)
      return rest
    })
}

test('a line says level, time, program, its fields and the event, as those who read the logs of Node expect', () => {
  const script = `log.info('one', { a: 1, text: 'x"\\n', whole: 10n, none: null, absent: undefined }); log.error('two')`
  assert.deepEqual(linesOf(script), [
    { level: 30, program: 'test', a: 1, text: 'x"\n', whole: '10', none: null, msg: 'one' },
    { level: 50, program: 'test', msg: 'two' },
  ])
})

test('nothing below the level is written, and nothing at all when it is silent', () => {
  const script = `for (const level of ['debug', 'info', 'warn', 'error']) log[level](level)`
  const events = (least: string) => linesOf(script, least).map(({ msg }) => msg)
  assert.deepEqual(events('warn'), ['warn', 'error'])
  assert.deepEqual(events('silent'), [])
})

test('an error is told without its own fields, and without what could be a secret', () => {
  const secret = 'c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA'
  const script = `
    const error = new TypeError('to https://user:word@host/key with eyJhbGciOi.eyJzdWIi.c2ln and ${secret}', { cause: new Error('${secret}') })
    error.config = { password: '${secret}' }
    log.warn('failed', {}, Object.assign(error, { code: 'E_OURS' }))`
  const [line] = linesOf(script)
  assert.ok(!JSON.stringify(line).includes(secret))
  const { name, code, message, cause } = (line as { error: Record<string, unknown> }).error
  assert.deepEqual([name, code, message], ['TypeError', 'E_OURS', 'to [url] with [token] and [redacted]'])
  assert.equal((cause as { message: string }).message, '[redacted]')
})

test('more than a pipe holds arrives whole, for a reader that is slow', () => {
  const lines = linesOf(`for (let n = 0; n < 3_000; n++) log.info('line', { n, text: 'x'.repeat(100) })`)
  assert.deepEqual(lines.map(({ n }) => n), Array.from({ length: 3_000 }, (_, n) => n)) // prettier-ignore
})
