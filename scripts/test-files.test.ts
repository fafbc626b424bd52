import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { affectedBy, askingOf, atOnce, batchesOf, hasTierLine, readWeights, testFiles, tierOf } from './test-files.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** CPU seconds above which a file of the default tier has to say why it is there. */
const MAX_DEFAULT_SECONDS = 6

test('no file of the default tier takes more than six seconds of CPU without a reason', () => {
  const heavy = Object.entries(readWeights()).filter(([, seconds]) => seconds > MAX_DEFAULT_SECONDS)
  const files = testFiles()
  const unexplained = heavy.filter(([file]) => files.includes(file) && tierOf(file) === 'default' && !hasTierLine(file))
  assert.deepEqual(unexplained, [])
})

test('a file that opens nothing is a unit; what it reaches through other test files counts, and its own line most', (t) => {
  const place = project(t, {
    'test/kit/database.ts': '',
    'test/spawned.ts': `import { spawn } from 'node:child_process'`,
    'test/pure.ts': `import type { App } from '../src/app.ts'`,
    'src/app.ts': `import { spawn } from 'node:child_process'`,
    'src/unit.test.ts': `import { x } from '../test/pure.ts'`,
    'src/slice.test.ts': `import { testDatabase } from '../test/kit/database.ts'`,
    'src/starts.test.ts': `import { start } from '../test/spawned.ts'`,
    'src/storm.test.ts': `// tier: all, because it repeats a race a thousand times\nimport '../test/kit/database.ts'`,
    'src/dear.test.ts': `// tier: default, because every write passes here\nimport '../test/kit/database.ts'`,
  })
  assert.deepEqual(
    testFiles(place).map((file) => `${file} ${tierOf(file, place)}`),
    [
      'src/dear.test.ts default',
      'src/slice.test.ts default',
      'src/starts.test.ts default',
      'src/storm.test.ts all',
      'src/unit.test.ts unit',
    ],
  )
})

test('files of one equipment share a process, up to a weight; a file that says so, and one of the slow tier, has its own', (t) => {
  const asks = `import '../test/kit/database.ts'`
  const place = project(t, {
    'test/kit/database.ts': '',
    'test/writing.ts': asks,
    'src/a.test.ts': asks,
    'src/b.test.ts': asks,
    'src/c.test.ts': asks,
    'src/unit.test.ts': '',
    'src/writes.test.ts': `import '../test/writing.ts'`,
    'src/alone.test.ts': `// alone, because it replaces the global fetch\n${asks}`,
    'src/slow.test.ts': `// tier: all, because it starts the program\n${asks}`,
  })
  const weights = { 'src/a.test.ts': 15, 'src/b.test.ts': 10, 'src/c.test.ts': 4 }
  const batches = batchesOf(testFiles(place), weights, place)
  assert.deepEqual(
    batches.map(({ files }) => files),
    [
      ['src/a.test.ts'],
      ['src/b.test.ts', 'src/c.test.ts'],
      ['src/alone.test.ts'],
      ['src/slow.test.ts'],
      ['src/unit.test.ts'],
      ['src/writes.test.ts'],
    ],
  )
})

test('a change affects the files that lead to it, and all of them where no import says', (t) => {
  const place = project(t, {
    'src/money.ts': '',
    'src/store/migrate.ts': '',
    'test/kit/database.ts': `import '../../src/store/migrate.ts'`,
    'src/money.test.ts': `import './money.ts'`,
    'src/stored.test.ts': `import '../test/kit/database.ts'`,
  })
  const affected = (...changed: string[]) => affectedBy(changed, testFiles(place), place)
  assert.deepEqual(affected('src/money.ts'), ['src/money.test.ts'])
  assert.deepEqual(affected('migrations/0001_initial.sql'), ['src/stored.test.ts'])
  assert.deepEqual(affected('package.json'), ['src/money.test.ts', 'src/stored.test.ts'])
  assert.deepEqual(affected('LICENSE'), [])
  rmSync(join(place, 'src/money.ts'))
  assert.deepEqual(affected('src/money.ts'), ['src/money.test.ts'], 'who imports what is gone fails')
})

test('a variable of the suite’s database is read in one file, so that who reaches it is who asks', () => {
  const readers = globSync(['src/**/*.ts', 'test/**/*.ts', 'e2e/**/*.ts', 'scripts/**/*.{ts,mjs}'], {
    cwd: root,
    exclude: ['**/node_modules', '**/*.test.ts'],
  }).filter((file) => /env(?:\.|\[')TEST_DATABASE_/.test(readFileSync(join(root, file), 'utf8')))
  // The long forms of the proofs are started by their own commands and by no test file.
  assert.deepEqual(readers.toSorted(), ['test/chaos/proof.ts', 'test/kit/database.ts'])
})

test('what asks the suite’s database is found by imports, over several files, and by the scripts a file starts', (t) => {
  const place = project(t, {
    'test/kit/database.ts': '',
    'test/world.ts': `import { testDatabase } from './kit/database.ts'`,
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

test('every test file that git knows is one that the suite finds', () => {
  const anywhere = globSync('**/*.test.ts', { cwd: root, exclude: ['**/node_modules', 'tmp/**'] }).toSorted()
  assert.deepEqual(testFiles().toSorted(), anywhere)
})

test('four batches run side by side on two cores, fewer where memory is short, and never more than nine', () => {
  const GIGABYTE = 2 ** 30
  const at = (cores: number, gigabytes: number) => atOnce(cores, gigabytes * GIGABYTE)
  assert.deepEqual([at(1, 8), at(2, 8), at(2, 2), at(2, 0.5), at(64, 256)], [2, 4, 2, 2, 9])
})

test('a run fails with a test, with an error that nobody catches, with a file that cannot be read, dies, ends untold or leaves its process changed, and with nothing else', (t) => {
  const place = project(t, {
    'good.test.ts': `import { test } from 'node:test'\ntest('good', () => {})`,
    'open.test.ts': `import { test } from 'node:test'\ntest('leaves a timer', () => void setInterval(() => {}, 60_000))`,
    'bad.test.ts': `import { test } from 'node:test'\ntest('bad', () => { throw new Error('bad') })`,
    'stray.test.ts': `import { test } from 'node:test'\ntest('stray', () => void Promise.reject(new Error('stray')))`,
    'unreadable.test.ts': `import './nowhere.ts'`,
    'untold.test.ts': `import { test } from 'node:test'\ntest('untold', () => process.exit(0))`,
    'changed.test.ts': `import { test } from 'node:test'\ntest('changed', () => void (process.env.LEFT = 'behind'))`,
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
  assert.match(good.stdout, /^2 files in 1 processes: \d+ s, \d+ s of CPU/m)
  for (const name of ['bad', 'stray', 'unreadable', 'untold', 'changed', 'dies']) {
    const { status, stdout } = run('good', name)
    assert.equal(status, 1, stdout)
    assert.match(stdout, new RegExp(`${name}\\.test\\.ts|unit-1`), stdout)
  }
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
