// tier: all, because it runs test files in processes of their own
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite, test, type TestContext } from 'node:test'
import { copyAt, copyTree, ROOT } from './copy.ts'
import { filesOf, folderNames, folderOf } from './folders.ts'
import { mutantsOf } from './mutants.ts'
import { reachOf } from './reach.ts'
import { sampleOf, tryMutant } from './run.ts'
import { sqlEdits } from './sql.ts'

const PROGRAM = `
export const larger = (a: number, b: number): number => (a > b ? a : b)
export function count(until: number): number {
  let counted = 0
  while (counted < until) counted += 1
  return counted
}
export const half = (whole: number): number => whole / 2
`
const ITS_TEST = `
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { count, half, larger } from './program.ts'
test('the larger of two', () => assert.deepEqual([larger(2, 1), larger(1, 2)], [2, 2]))
test('counts', () => assert.equal(count(3), 3))
test('never halves', () => assert.equal(typeof half, 'function'))
`

function planted(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'planted-'))
  const tmp = mkdtempSync(join(tmpdir(), 'mut-'))
  t.after(() => [folder, tmp].forEach((path) => rmSync(path, { recursive: true })))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(folder, 'program.ts'), PROGRAM)
  writeFileSync(join(folder, 'program.test.ts'), ITS_TEST)
  return { copy: copyAt(folder), bench: { folder, tmp, env: {}, tidy: async () => {} } }
}

suite('a mutant', { concurrency: false }, () => {
  test('is told apart: killed, killed by time, survived because no caller or no test can tell it, not reached', async (t) => {
    const { copy, bench } = planted(t)
    const reach = [await reachOf(bench, 'program.test.ts', ['program.ts'])]
    const fates = new Map<string, string>()
    for (const mutant of mutantsOf('program.ts', PROGRAM)) {
      const { fate } = await tryMutant(bench, copy, mutant, reach, { leastTimeoutMs: 8_000 })
      fates.set(mutant.change, fate)
    }
    assert.deepEqual(Object.fromEntries(fates), {
      'a > b → true': 'killed',
      'a > b → false': 'killed',
      'a > b → (a >= b)': 'survived',
      '0 → 1': 'survived',
      'counted < until → false': 'killed',
      'counted < until → (counted <= until)': 'killed',
      'counted += 1 → {}': 'timed out',
      'counted += 1 → counted -= 1': 'timed out',
      '1 → 2': 'killed',
      'whole / 2 → (whole * 2)': 'not reached',
      '2 → 3': 'not reached',
    })
  })

  test('of the signer’s rules is killed by their tests, and the working tree keeps its text', async (t) => {
    const copy = copyTree()
    const tmp = mkdtempSync(join(tmpdir(), 'mut-'))
    t.after(() => {
      copy.remove()
      rmSync(tmp, { recursive: true })
    })
    const bench = { folder: copy.folder, tmp, env: {}, tidy: async () => {} }
    const planned = [
      {
        file: 'src/signer/rules/judge.ts',
        change: 'facts.isElsewhere → false',
        test: 'src/signer/rules/judge.test.ts',
      },
      { file: 'src/signer/rules/judge.ts', change: '16 → 17', test: 'src/signer/rules/judge.test.ts' },
      { file: 'src/signer/ledger/ledger.ts', change: 'DISTINCT → ∅', test: 'src/signer/ledger/ledger.test.ts' },
    ]
    for (const { file, change, test: by } of planned) {
      const text = readFileSync(join(ROOT, file), 'utf8')
      const mutant = mutantsOf(file, text).find((one) => one.change === change)
      assert.ok(mutant !== undefined, `${file} has no mutant ${change}`)
      const { fate } = await tryMutant(bench, copy, mutant, [await reachOf(bench, by, [file])])
      assert.equal(fate, 'killed', `${file}: ${change}`)
      assert.equal(readFileSync(join(ROOT, file), 'utf8'), text)
    }
  })
})

test('a statement is mutated where it compares, orders, limits, locks and names a state, not where it sets', () => {
  const text = `update t set a = 1 where b < 5 and c is null and d = 'mined' order by e desc limit $1 for update`
  assert.deepEqual(
    sqlEdits(text, '')
      .toSorted((a, b) => a.start - b.start)
      .map(({ start, end, text: to }) => `${text.slice(start, end)} → ${to}`),
    [
      '1 → 2',
      '< → <=',
      '5 → 6',
      'and → or',
      'is null → is not null',
      'and → or',
      '= → <>',
      `'mined' → '?'`,
      'desc → asc',
      'limit  → limit 1 + ',
      'for update → ',
    ],
  )
})

test('a query builder’s conditions, orders and locks are mutated, its columns are not', () => {
  const text = `const q = (db) => db.selectFrom('t').select('a').where('b', '>=', 3).orderBy('c').forUpdate().execute()\n`
  assert.deepEqual(
    mutantsOf('q.ts', text).map(({ change }) => change),
    [`.where('b', '>=', 3) → ∅`, `'>=' → '>'`, '3 → 4', `.orderBy('c') → ∅`, `∅ → , 'desc'`, '.forUpdate() → ∅'],
  )
})

test('every folder lists files that exist; a pattern that finds no file is an error', () => {
  for (const name of folderNames) assert.ok(folderOf(name).tests.length > 0, name)
  assert.throws(() => filesOf(['src/signer/rules/{judge,no-such-file}.ts']), /no-such-file\.ts finds no file/)
})

test('a seed decides the sample, and its beginning is the smaller sample of the same seed', () => {
  const all = Array.from({ length: 500 }, (_, at) => at)
  const sample = sampleOf(all, 50, 7)
  assert.equal(new Set(sample).size, 50)
  assert.deepEqual(sample, sampleOf(all, 50, 7))
  assert.notDeepEqual(sample, sampleOf(all, 50, 8))
  assert.deepEqual(sample.slice(0, 20), sampleOf(all, 20, 7))
})
