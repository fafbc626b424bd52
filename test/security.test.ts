import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '..')
const text = readFileSync(join(root, 'SECURITY.md'), 'utf8')
const testsIn = (some: string): string[] => [...some.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, path]) => path!)

test('each test that SECURITY.md names is there, by its whole path, and has a test in it', () => {
  const named = testsIn(text)
  assert.ok(named.length > 50, String(named.length))
  const missing = named.filter((path) => !existsSync(join(root, path)))
  assert.deepEqual(missing, [])
  const empty = named.filter((path) => !/\btest\(/.test(readFileSync(join(root, path), 'utf8')))
  assert.deepEqual(empty, [])
})

test('each row of what a thief gets names tests', () => {
  const [, section = ''] = /\n## What a thief gets\n([^]*?)\n## /.exec(text) ?? []
  const rows = section.split('\n').filter((line) => line.startsWith('|')).slice(2) // prettier-ignore
  assert.equal(rows.length, 12)
  for (const row of rows) assert.ok(testsIn(row.split('|').at(-2)!).length > 0, row)
})
