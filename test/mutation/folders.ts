import { globSync } from 'node:fs'
import { ROOT } from './copy.ts'

/** What is mutated together: files, and the test files that answer for them. */
export type Folder = { name: string; files: string[]; tests: string[] }

const FOLDERS: Record<string, { files: string[]; tests: string[] }> = {
  'src/follower': { files: ['src/follower/*.ts'], tests: ['src/follower/*.test.ts'] },
  'src/history': { files: ['src/history/*.ts'], tests: ['src/history/*.test.ts', 'src/cli/history.test.ts'] },
  'src/signer': {
    files: ['src/signer/{judge,ledger,sign}.ts'],
    tests: ['src/signer/*.test.ts'],
  },
  'src/transactions': {
    files: ['src/transactions/*.ts'],
    tests: ['src/transactions/*.test.ts', 'src/contracts/*.test.ts'],
  },
}

/** @throws Error for a name that is none of them */
export function folderOf(name: string): Folder {
  const found = FOLDERS[name]
  if (found === undefined) throw new Error(`There is nothing to mutate called "${name}": ${folderNames.join(', ')}.`)
  const all = (patterns: string[]) => globSync(patterns, { cwd: ROOT }).toSorted()
  return { name, files: all(found.files).filter((file) => !file.endsWith('.test.ts')), tests: all(found.tests) }
}

export const folderNames = Object.keys(FOLDERS)
