// tier: all, because it starts the programs of the benchmarks
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** What a bench prints, made small, on the embedded database. */
async function bench(name: string, args: string[], settings: Record<string, string> = {}): Promise<string> {
  const { TEST_DATABASE_URL: _, ...rest } = process.env
  const file = fileURLToPath(new URL(`../bench/${name}.ts`, import.meta.url))
  const env = { ...rest, ...settings, BENCH_DATABASE: 'embedded' }
  const { stdout } = await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', file, ...args], { env, timeout: 300_000 }) // prettier-ignore
  return stdout
}

// Benches that put a program together by themselves: nothing else would notice that it does not run any more.
test('the bench of the history follows a chain to its end', async () => {
  const told = await bench('history', ['40'], { PARTS: 'ten', ROUNDS: '1' })
  assert.match(told, /^fetch and parse only: \d+ transfers\/s/m)
  assert.match(told, /^ours on the embedded database: \d+ transfers\/s/m)
})

test('the bench of the backfill finds all that its node has', async () => {
  assert.match(
    await bench('backfill', ['300', '3000']),
    /^300 accounts in 1 groups over 3000 blocks: .* 3300 rows, all that there are/,
  )
})

test('the bench of the console measures every list', async () => {
  const told = await bench('console', ['0.001'], { ROUNDS: '2' })
  assert.equal([...told.matchAll(/: p50 [\d.]+ ms, p99 [\d.]+ ms, CPU [\d.]+ ms, PostgreSQL [\d.]+ ms$/gm)].length, 24)
})
