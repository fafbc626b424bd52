import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

test('what fails because the database is away is left to the one line that says so; everything else is logged', () => {
  const script = `
    const { openTelemetry } = await import(${JSON.stringify(new URL('telemetry.ts', import.meta.url).href)})
    const { AppError } = await import(${JSON.stringify(new URL('errors.ts', import.meta.url).href)})
    const { log } = openTelemetry('test', 'debug')
    for (let n = 0; n < 1_000; n++) log.warn('round_failed', {}, new AppError('database_unavailable', 'away'))
    log.warn('signer_failed', {}, new AppError('signer_unavailable', 'away'))
    log.warn('database_unavailable', {}, new Error('connection refused'))`
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  const events = stderr.trim().split('\n').map((line) => (JSON.parse(line) as { msg: string }).msg) // prettier-ignore
  assert.deepEqual(events, ['signer_failed', 'database_unavailable'])
})
