import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
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
const LINKED = ['node_modules', 'runtime', 'e2e/foreign/node_modules']

/** A folder whose files may be mutated. */
export type Copy = {
  folder: string
  /** Writes a mutant of a file, runs `work`, and puts the file back. */
  withMutant<T>(mutant: Mutant, work: () => Promise<T>): Promise<T>
}

/** A copy of the whole tree: the working tree itself is never mutated. */
export type TreeCopy = Copy & {
  /** of these files and of what all tests share */
  digestFor: (files: readonly string[]) => string
  remove(): void
}

export function copyTree(): TreeCopy {
  const folder = mkdtempSync(join(tmpdir(), 'mutants-'))
  for (const name of COPIED)
    cpSync(join(ROOT, name), join(folder, name), {
      recursive: true,
      filter: (path) => basename(path) !== 'node_modules',
    })
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(folder, name))
  return {
    ...copyAt(folder),
    digestFor: (files) => digestOf(folder, files),
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

function digestOf(folder: string, files: readonly string[]): string {
  const shared = readdirSync(join(folder, 'test')).map((name) => `test/${name}`)
  const digest = createHash('sha256')
  for (const file of [...files, ...shared].toSorted()) {
    const path = join(folder, file)
    if (statSync(path).isFile()) digest.update(`${file}\n`).update(readFileSync(path))
  }
  return digest.digest('hex').slice(0, 16)
}
