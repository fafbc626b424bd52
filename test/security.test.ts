import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CLAIMS, SECURITY_ROWS } from './security-rows.ts'
import type { SourceMutant } from './source-mutants.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const SECTION = 'Attackers'
const evidence = read('docs/evidence/security.md')
const testsIn = (some: string): string[] => [...new Set([...some.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, path]) => path!))] // prettier-ignore
const mechanisms = [...Object.values(SECURITY_ROWS).flatMap((row) => row.mechanisms), ...CLAIMS]

/** The rows of the tables of a page, by section: the cells of each. */
function tablesOf(page: string): Map<string, string[][]> {
  const sections = page.split('\n## ').slice(1)
  const rowsOf = (section: string) => section.split('\n').filter((line) => line.startsWith('|')).slice(2) // prettier-ignore
  const cellsOf = (row: string) => row.split('|').slice(1, -1).map((cell) => cell.trim()) // prettier-ignore
  return new Map(sections.map((section) => [section.split('\n')[0]!, rowsOf(section).map(cellsOf)]))
}

/** Each attacker of the evidence, and the test files of its row. */
const rows = new Map(
  tablesOf(evidence)
    .get(SECTION)!
    .map(([attacker, tests]) => [attacker!, testsIn(tests!)]),
)

test('each test that the evidence names is there, by its whole path, and has a test in it', () => {
  const named = testsIn(evidence)
  assert.ok(named.length > 50, String(named.length))
  const missing = named.filter((path) => !existsSync(join(root, path)))
  assert.deepEqual(missing, [])
  const empty = named.filter((path) => !/\b(?:test|mutantsOf)\(/.test(read(path)))
  assert.deepEqual(empty, [])
})

test('each claim of the evidence names its tests', () => {
  const tables = [...tablesOf(evidence)].filter(([, [row]]) => row?.length === 2)
  assert.ok(tables.length >= 8, String(tables.length))
  const without = tables.flatMap(([, claims]) => claims.filter(([, tests]) => testsIn(tests!).length === 0))
  assert.deepEqual(without, [])
})

test('the signer’s own SECURITY.md names tests of the evidence only', () => {
  const named = testsIn(read('src/signer/SECURITY.md'))
  assert.ok(named.length > 5, String(named.length))
  assert.deepEqual(named.filter((path) => !testsIn(evidence).includes(path)), []) // prettier-ignore
})

test('each attacker names test files; of each a test is named that is there, and a mechanism that one of them holds', () => {
  const said = tablesOf(read('SECURITY.md')).get(SECTION)!
  assert.ok(rows.size >= 12, String(rows.size))
  assert.deepEqual(said.map(([attacker]) => attacker), [...rows.keys()]) // prettier-ignore
  assert.deepEqual([...rows.keys()], Object.keys(SECURITY_ROWS))
  for (const [stolen, files] of rows) {
    const { tests, mechanisms } = SECURITY_ROWS[stolen]!
    assert.deepEqual(Object.keys(tests).toSorted(), files.toSorted(), stolen)
    for (const [file, name] of Object.entries(tests)) assert.ok(isTestOf(file, name), `${file} has no test “${name}”`)
    assert.ok(mechanisms.length > 0, stolen)
    for (const mutant of mechanisms) assert.ok(files.includes(testOf(mutant)) || testsIn(evidence).includes(testOf(mutant)), mutant[0]) // prettier-ignore
  }
})

test('each mechanism stands in the source once, as it is to be switched off, and its test is named in the evidence', () => {
  for (const mutant of mechanisms) {
    const [what, file, from, to, , name = '.'] = mutant
    assert.equal(read(join('src', file)).split(from).length, 2, `${what}: ${from} is in ${file} once`)
    assert.notEqual(from, to, what)
    assert.ok(
      testsIn(evidence).includes(testOf(mutant)),
      `${what}: docs/evidence/security.md does not name ${testOf(mutant)}`,
    )
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
