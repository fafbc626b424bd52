import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CLAIMS, SECURITY_ROWS } from './security-rows.ts'
import type { SourceMutant } from './source-mutants.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const text = read('SECURITY.md')
const testsIn = (some: string): string[] => [...new Set([...some.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, path]) => path!))] // prettier-ignore
const mechanisms = [...Object.values(SECURITY_ROWS).flatMap((row) => row.mechanisms), ...CLAIMS]

/** Rows of “What a thief gets”: what is stolen, and the test files that the row names. */
function rowsOf(security: string): Map<string, string[]> {
  const [, section = ''] = /\n## What a thief gets\n([^]*?)\n## /.exec(security) ?? []
  const rows = section.split('\n').filter((line) => line.startsWith('|')).slice(2) // prettier-ignore
  return new Map(rows.map((row) => [row.split('|')[1]!.trim(), testsIn(row.split('|').at(-2)!)]))
}

test('each test that SECURITY.md names is there, by its whole path, and has a test in it', () => {
  const named = testsIn(text)
  assert.ok(named.length > 50, String(named.length))
  const missing = named.filter((path) => !existsSync(join(root, path)))
  assert.deepEqual(missing, [])
  const empty = named.filter((path) => !/\b(?:test|mutantsOf)\(/.test(read(path)))
  assert.deepEqual(empty, [])
})

test('the signer’s own SECURITY.md names tests of the table only', () => {
  const named = testsIn(read('src/signer/SECURITY.md'))
  assert.ok(named.length > 5, String(named.length))
  assert.deepEqual(named.filter((path) => !testsIn(text).includes(path)), []) // prettier-ignore
})

test('each row of what a thief gets names test files; of each a test is named that is there, and a mechanism that one of them holds', () => {
  const rows = rowsOf(text)
  assert.ok(rows.size >= 12, String(rows.size))
  assert.deepEqual([...rows.keys()], Object.keys(SECURITY_ROWS))
  for (const [stolen, files] of rows) {
    const { tests, mechanisms } = SECURITY_ROWS[stolen]!
    assert.deepEqual(Object.keys(tests).toSorted(), files.toSorted(), stolen)
    for (const [file, name] of Object.entries(tests)) assert.ok(isTestOf(file, name), `${file} has no test “${name}”`)
    assert.ok(mechanisms.length > 0, stolen)
    for (const mutant of mechanisms) assert.ok(files.includes(testOf(mutant)) || testsIn(text).includes(testOf(mutant)), mutant[0]) // prettier-ignore
  }
})

test('each mechanism stands in the source once, as it is to be switched off, and its test is named in SECURITY.md', () => {
  for (const mutant of mechanisms) {
    const [what, file, from, to, , name = '.'] = mutant
    assert.equal(read(join('src', file)).split(from).length, 2, `${what}: ${from} is in ${file} once`)
    assert.notEqual(from, to, what)
    assert.ok(testsIn(text).includes(testOf(mutant)), `${what}: SECURITY.md does not name ${testOf(mutant)}`)
    assert.ok(name === '.' || isTestOf(testOf(mutant), name), `${testOf(mutant)} has no test “${name}”`)
  }
})

const testOf = ([, , , , by]: SourceMutant): string => `src/${by}.test.ts`
/** Whether a file has a test whose name, in quotes, holds this; where it is put together, what is between its parts is left out. */
const isTestOf = (file: string, name: string): boolean =>
  [...read(file).matchAll(/(['"`])((?:(?!\1).)+)\1/g)].some(
    ([, , quoted]) =>
    quoted!.replaceAll(/\$\{[^}]*\}/g, 'x').includes(name) || quoted!.replaceAll(/\$\{[^}]*\}/g, 'lowered').includes(name), // prettier-ignore
  )
