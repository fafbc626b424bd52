import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mutate, type Mutant } from './mutants.ts'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** What tests read of the tree; installed packages are linked. */
const COPIED = [
  'src',
  'test',
  'scripts',
  'migrations',
  'contracts',
  'docs',
  'bench',
  'e2e',
  'package.json',
  'tsconfig.json',
]
const LINKED = ['node_modules', 'runtime']

/** A folder whose files may be mutated. */
export type Copy = {
  folder: string
  /** Writes a mutant of a file, runs `work`, and puts the file back. */
  withMutant<T>(mutant: Mutant, work: () => Promise<T>): Promise<T>
}

/** A copy of the whole tree: the working tree itself is never mutated. */
export type TreeCopy = Copy & {
  /** of every file that a test file may depend on: all of them but other test files */
  digestFor: (test: string) => string
  remove(): void
}

export function copyTree(): TreeCopy {
  const folder = mkdtempSync(join(tmpdir(), 'mutants-'))
  for (const name of COPIED) cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(folder, name))
  return {
    ...copyAt(folder),
    digestFor: (test) => digestOf(folder, test),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export function copyAt(folder: string): Copy {
  return {
    folder,
    async withMutant(mutant, work) {
      const path = join(folder, mutant.file)
      const text = readFileSync(path, 'utf8')
      writeFileSync(path, mutate(text, mutant))
      try {
        return await work()
      } finally {
        writeFileSync(path, text)
      }
    },
  }
}

function digestOf(folder: string, test: string): string {
  const digest = createHash('sha256')
  for (const name of ['src', 'test', 'migrations', 'contracts']) {
    for (const file of readdirSync(join(folder, name), { recursive: true, encoding: 'utf8' }).toSorted()) {
      const path = join(folder, name, file)
      const isOther = file.endsWith('.test.ts') && `${name}/${file}` !== test
      if (isOther || file.startsWith('mutation/') || !statSync(path).isFile()) continue
      digest.update(`${name}/${file}\n`).update(readFileSync(path))
    }
  }
  return digest.digest('hex').slice(0, 16)
}
