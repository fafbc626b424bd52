import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { IMPATIENT } from './kit/until.ts'

/** Of long lists the suite tries one of so many mistakes, and looks that all fit their source; `SOURCE_MUTANTS=all` tries every one. */
export const ONE_OF = 4
const EVERY = process.env.SOURCE_MUTANTS === 'all'

/** A change of one place of a file of a folder of `src`, and the test file there that has to notice, in tests of these names. */
export type SourceMutant = [what: string, file: string, from: string, to: string, by: string, test?: string]

/**
 * Each in a copy of the sources, where the same tests pass without it.
 * @param slice  the folder of `src` by whose paths they are named
 * @param oneOf  how many of the list stand for one that the suite tries
 */
export function mutantsOf(name: string, mutants: readonly SourceMutant[], slice = 'signer', oneOf = 1): void {
  suite(name, { concurrency: false }, () => {
    const root = fileURLToPath(new URL('..', import.meta.url))
    let folder: string
    before(() => {
      folder = mkdtempSync(join(tmpdir(), `${slice.replaceAll('/', '-')}-mutants-`))
      for (const name of ['src', 'test', 'docs', 'contracts', 'package.json'])
        cpSync(join(root, name), join(folder, name), { recursive: true })
      for (const name of ['node_modules', 'migrations', 'runtime']) symlinkSync(join(root, name), join(folder, name))
    })
    after(() => rmSync(folder, { recursive: true }))

    const run = (by: string, only: string, settings: Record<string, string> = {}) => {
      const { NODE_TEST_CONTEXT: _, ...surroundings } = process.env
      const env = { ...surroundings, ...settings }
      const file = join(folder, `src/${slice}/${by}.test.ts`)
      return spawnSync(process.execPath, ['--test', `--test-name-pattern=${only}`, file], { env, encoding: 'utf8' })
    }
    /** tests that pass in the copy without any mistake, by file and name */
    const sound = new Set<string>()

    for (const [index, [what, file, from, to, by, only = '.']] of mutants.entries())
      test(`${what}: noticed by ${by}.test.ts`, () => {
        const path = join(folder, 'src', slice, file)
        const text = readFileSync(path, 'utf8')
        assert.equal(text.split(from).length, 2, `${from} is in ${file} once`)
        if (!EVERY && index % oneOf !== 0) return
        if (!sound.has(`${by} ${only}`)) {
          const { status, stdout } = run(by, only)
          assert.ok(status === 0 && !/^ℹ tests 0$/m.test(stdout), `without the mistake: ${stdout.slice(-2_000)}`)
          sound.add(`${by} ${only}`)
        }
        writeFileSync(
          path,
          text.replace(from, () => to),
        )
        try {
          const { status, stdout } = run(by, only, IMPATIENT)
          assert.equal(status, 1, 'no test failed')
          // A program that does not load is no mutant: then the file fails, and none of its tests.
          assert.doesNotMatch(stdout, /^✖ \S+\.test\.ts/m)
        } finally {
          writeFileSync(path, text)
        }
      })
  })
}
