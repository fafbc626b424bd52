import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { askingOf, keepDurations, LONGEST, longestFirst, readDurations, testFiles, atOnce } from './test-files.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

test('a variable of the suite’s database is read in one file, so that who reaches it is who asks', () => {
  const readers = globSync(['src/**/*.ts', 'test/**/*.ts', 'e2e/**/*.ts', 'scripts/**/*.{ts,mjs}'], {
    cwd: root,
    exclude: ['**/node_modules', '**/*.test.ts'],
  }).filter((file) => /env(?:\.|\[')TEST_DATABASE_/.test(readFileSync(join(root, file), 'utf8')))
  // The long forms of the proofs are started by their own commands and by no test file.
  assert.deepEqual(readers.toSorted(), ['test/chaos/proof.ts', 'test/database.ts'])
})

test('what asks the suite’s database is found by imports, over several files, and by the scripts a file starts', (t) => {
  const place = project(t, {
    'test/database.ts': '',
    'test/world.ts': `import { testDatabase } from './database.ts'`,
    'test/program.ts': `const { world } = await import('../test/world.ts')`,
    'src/a.test.ts': `import {\n  world,\n} from "../test/world.ts"`,
    'src/b.test.ts': `export * from './rehearsal.ts'`,
    'src/rehearsal.ts': `import type { World } from '../test/world.ts'`,
    'src/c.test.ts': `spawn(process.execPath, [new URL('../test/program.ts', import.meta.url)])`,
    'src/d.test.ts': `spawn(process.execPath, ['test/program.ts'], { cwd: root })`,
    'src/e.test.ts': `import { world } from './pure.ts' // '../test/nothing.ts'`,
    'src/pure.ts': `import './e.test.ts'`,
  })
  const asking = askingOf(testFiles(place), place)
  assert.deepEqual(asking, ['src/a.test.ts', 'src/b.test.ts', 'src/c.test.ts', 'src/d.test.ts'])
})

test('of the suite, whatever names the equipment of databases runs on PostgreSQL too', () => {
  const direct = testFiles(root).filter((file) =>
    /from '[^']*\/(?:database|world|writing|rehearsal|history-home)\.ts'/.test(readFileSync(join(root, file), 'utf8')),
  )
  assert.ok(direct.length > 80)
  assert.deepEqual(askingOf(direct, root), direct)
})

test('every test file that git knows is one that the suite finds', () => {
  const anywhere = globSync('**/*.test.ts', { cwd: root, exclude: ['**/node_modules', 'tmp/**'] }).toSorted()
  assert.deepEqual(testFiles(root).toSorted(), anywhere)
})

test('what took longest starts first, then what is known to be long, and every file once', () => {
  const files = ['src/a.test.ts', 'src/b.test.ts', 'src/new.test.ts', LONGEST[0]!]
  const order = longestFirst(files, { 'src/a.test.ts': 90, 'src/b.test.ts': 90_000 })
  assert.deepEqual(order, ['src/b.test.ts', LONGEST[0], 'src/new.test.ts', 'src/a.test.ts'])
  assert.deepEqual(
    LONGEST.filter((file) => !existsSync(join(root, file))),
    [],
  )
})

test('five files run side by side on two cores, fewer where memory is short, and never more than nine', () => {
  const GIGABYTE = 2 ** 30
  assert.deepEqual(
    [
      atOnce(1, 8 * GIGABYTE),
      atOnce(2, 8 * GIGABYTE),
      atOnce(2, 4 * GIGABYTE),
      atOnce(2, GIGABYTE / 2),
      atOnce(64, 256 * GIGABYTE),
    ],
    [3, 5, 4, 2, 9],
  )
})

test('durations are kept beside those of files that did not run', (t) => {
  const place = project(t, {})
  assert.deepEqual(readDurations(place), {})
  keepDurations({ 'src/a.test.ts': 1, 'src/b.test.ts': 2 }, place)
  keepDurations({ 'src/a.test.ts': 3 }, place)
  assert.deepEqual(readDurations(place), { 'src/a.test.ts': 3, 'src/b.test.ts': 2 })
})

test('a run fails with a test, with a file that cannot be read or dies, and with nothing else; the slowest are named', (t) => {
  const place = project(t, {
    'good.test.ts': `import { test } from 'node:test'\ntest('good', () => {})`,
    'open.test.ts': `import { test } from 'node:test'\ntest('leaves a timer', () => void setInterval(() => {}, 60_000))`,
    'bad.test.ts': `import { test } from 'node:test'\ntest('bad', () => { throw new Error('bad') })`,
    'unreadable.test.ts': `import './nowhere.ts'`,
    'dies.test.ts': `import { test } from 'node:test'\ntest('dies', () => process.kill(process.pid, 'SIGKILL'))`,
  })
  const run = (...names: string[]) => {
    // A run inside a test file would be skipped as a circle.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const files = names.map((name) => `${name}.test.ts`)
    const script = join(root, 'scripts', 'test-run.mjs')
    return spawnSync(process.execPath, [script, ...files], { cwd: place, env, encoding: 'utf8' })
  }
  const good = run('good', 'open')
  assert.equal(good.status, 0, good.stdout)
  assert.match(good.stdout, /^ℹ pass 2$/m)
  assert.match(good.stdout, /^2 files in \d+\.\d s\. The slowest:\n +\d+\.\d s {2}(good|open)\.test\.ts$/m)
  for (const name of ['bad', 'unreadable', 'dies']) {
    const { status, stdout } = run('good', name)
    assert.equal(status, 1, stdout)
    assert.match(stdout, /^ℹ pass 1$/m)
    assert.match(stdout, /^ℹ fail 1$/m)
    assert.match(stdout, new RegExp(`^test at ${name}\\.test\\.ts:`, 'm'))
  }
  assert.doesNotMatch(run('good').stdout, /slowest/)
  assert.deepEqual(Object.keys(readDurations(place)).length, 5)
})

function project(t: TestContext, files: Record<string, string>): string {
  const place = mkdtempSync(join(tmpdir(), 'chatelaine-files-'))
  t.after(() => rmSync(place, { recursive: true }))
  for (const [file, content] of Object.entries(files)) {
    mkdirSync(dirname(join(place, file)), { recursive: true })
    writeFileSync(join(place, file), content)
  }
  return place
}
