import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'

/** A change of one place of a file of a folder of `src`, and the test file there that has to notice, in tests of these names. */
export type SourceMutant = [what: string, file: string, from: string, to: string, by: string, test?: string]

/**
 * Each in a copy of the sources: the test fails as a test does, or nobody would have noticed.
 * @param slice  the folder of `src` by whose paths they are named
 * @param failure  how a test says that it noticed
 */
export function mutantsOf(
  name: string,
  mutants: readonly SourceMutant[],
  slice = 'signer',
  failure = /AssertionError/,
): void {
  suite(name, { concurrency: false }, () => {
    const root = fileURLToPath(new URL('..', import.meta.url))
    let folder: string
    before(() => {
      folder = mkdtempSync(join(tmpdir(), `${slice}-mutants-`))
      for (const name of ['src', 'test', 'docs', 'contracts', 'package.json'])
        cpSync(join(root, name), join(folder, name), { recursive: true })
      for (const name of ['node_modules', 'migrations', 'runtime']) symlinkSync(join(root, name), join(folder, name))
    })
    after(() => rmSync(folder, { recursive: true }))

    for (const [what, file, from, to, by, only = '.'] of mutants)
      test(`${what}: noticed by ${by}.test.ts`, () => {
        const path = join(folder, 'src', slice, file)
        const text = readFileSync(path, 'utf8')
        assert.equal(text.split(from).length, 2, `${from} is in ${file} once`)
        writeFileSync(
          path,
          text.replace(from, () => to),
        )
        try {
          const { NODE_TEST_CONTEXT: _, ...env } = process.env
          const run = spawnSync(process.execPath, ['--test', `--test-name-pattern=${only}`, join(folder, `src/${slice}/${by}.test.ts`)], { env, encoding: 'utf8' }) // prettier-ignore
          assert.equal(run.status, 1, 'no test failed')
          // A program that does not load is no mutant.
          assert.match(run.stdout, failure, run.stdout.slice(-2_000))
        } finally {
          writeFileSync(path, text)
        }
      })
  })
}
