import { globSync } from 'node:fs'
import { ROOT } from './copy.ts'

/**
 * What is mutated together: files, and the test files that answer for them.
 * `together`: test files that run in one process, in this order, where they share what they start. Starting it is most of
 * what a file costs. The others run alone: they want a world of their own.
 */
export type Folder = { name: string; files: string[]; tests: string[]; together: string[][] }

type Patterns = { files: string[]; tests: string[]; together?: string[][] }
const inTransactions = (name: string): string => `src/transactions/${name}.test.ts`

const FOLDERS: Record<string, Patterns> = {
  'src/follower': { files: ['src/follower/*.ts'], tests: ['src/follower/*.test.ts'] },
  'src/history': { files: ['src/history/*.ts'], tests: ['src/history/*.test.ts', 'src/cli/history.test.ts'] },
  'src/signer': {
    files: [
      'src/signer/{deks,heads,judge,ledger,macs,meters,record,restore-keys,rotation,sign,sponsor,top-up,tree,wrapping}.ts',
    ],
    tests: ['src/signer/*.test.ts'],
  },
  'src/signer/kek': { files: ['src/signer/kek/*.ts'], tests: ['src/signer/kek/*.test.ts'] },
  'src/transactions': {
    files: ['src/transactions/*.ts'],
    tests: ['src/transactions/*.test.ts', 'src/contracts/*.test.ts'],
    together: [
      ['settle', 'follow', 'send', 'used', 'resume', 'key', 'group', 'lost-tail-order', 'nonsense', 'proof'].map(inTransactions), // prettier-ignore
      ['lost-tail', 'lost-tail-races'].map(inTransactions),
    ],
  },
}

/** @throws Error for a name that is none of them */
export function folderOf(name: string): Folder {
  const found = FOLDERS[name]
  if (found === undefined) throw new Error(`There is nothing to mutate called "${name}": ${folderNames.join(', ')}.`)
  const all = (patterns: string[]) => globSync(patterns, { cwd: ROOT }).toSorted()
  return {
    name,
    files: all(found.files).filter((file) => !file.endsWith('.test.ts')),
    tests: all(found.tests),
    together: found.together ?? [],
  }
}

export const folderNames = Object.keys(FOLDERS)
