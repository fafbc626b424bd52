import { globSync } from 'node:fs'
import { ROOT } from './copy.ts'
import { suite } from './suite.ts'

/** Files that are mutated together and the test files for them. `only` lists the ids of the mutants to try, if not all. */
export type Folder = { name: string; files: string[]; tests: string[]; only?: string[] }

type Patterns = { files: string[]; tests: string[] }
/** Writes that sponsors pay for, from what is packed to what it cost. */
const SPONSORED = [
  ...['bind-operation', 'bring-delegation', 'carriers', 'change', 'count-operations', 'delegation', 'gas-budget', 'list-own'],
  ...['operation-gas', 'outer-gas', 'pack', 'prepare-operation', 'read-operation', 'refused-operation', 'rehearse-operation'],
  ...['reconcile-operation', 'send-operation', 'sequences', 'settle-operations', 'settle-top-ups', 'tend-operations', 'top-up', 'top-up-needs', 'withdraw'],
] // prettier-ignore

const FOLDERS: Record<string, Patterns> = {
  'src/follower': { files: ['src/follower/*.ts'], tests: ['src/follower/*.test.ts'] },
  // What an account signs for sponsors, byte by byte, on both sides of the socket, and what is dispatched of it.
  'src/gas': {
    files: [
      'src/gas/{authorization,calibur,dispatch,events,gas-operation,operation,packed-operation,rehearse,transaction,words}.ts',
      'src/signer/*/{cancel-outer,gas-limits,operation-ledger,operation-request,sign-operation,sign-outer,unattended,verify-operations}.ts',
    ],
    tests: [
      'src/gas/*.test.ts',
      'src/signer/*/{calibur,cancel-outers,gas-limits,operation-policy,operations,outers,unattended,verify-operations}.test.ts',
    ],
  },
  'src/history': { files: ['src/history/*.ts'], tests: ['src/history/*.test.ts', 'src/cli/history.test.ts'] },
  'src/signer': {
    files: [
      'src/signer/*/{authority,deks,heads,judge,ledger,macs,meters,pipeline,record,restore-keys,rotation,sign,sponsor,top-up,tree,wrapping}.ts',
    ],
    tests: ['src/signer/!(kek|policy)/*.test.ts', 'src/signer/*.test.ts'],
  },
  'src/signer/kek': { files: ['src/signer/kek/*.ts'], tests: ['src/signer/kek/*.test.ts'] },
  'sponsored writes': {
    files: SPONSORED.map((name) => `src/transactions/*/${name}.ts`),
    tests: [
      'src/transactions/*/{operation*,gas-budget,settle-top-ups,top-up*,withdraw,calibur,sponsor*,read-operation,reconcile*,restore*,strangers*,lost-tail*}.test.ts',
    ],
  },
  'src/transactions': {
    files: ['src/transactions/**/*.ts'],
    tests: ['src/transactions/**/*.test.ts', 'src/contracts/*.test.ts'],
  },
}

/** @throws Error for an unknown name, and if a pattern of the folder finds no file */
export function folderOf(name: string): Folder {
  if (name === 'suite') return suite()
  const found = FOLDERS[name]
  if (found === undefined) throw new Error(`There is nothing to mutate called "${name}": ${folderNames.join(', ')}.`)
  return {
    name,
    files: filesOf(found.files).filter((file) => !file.endsWith('.test.ts')),
    tests: filesOf(found.tests),
  }
}

/** @throws Error if a pattern, or one of its names in braces, finds no file */
export const filesOf = (patterns: string[]): string[] =>
  patterns
    .flatMap(alternatives)
    .flatMap((pattern) => {
      const files = globSync(pattern, { cwd: ROOT })
      if (files.length === 0) throw new Error(`${pattern} finds no file (test/mutation/folders.ts)`)
      return files
    })
    .toSorted()

/** Expands the names in braces. */
function alternatives(pattern: string): string[] {
  const [, before, names, after] = /^(.*?)\{(.*?)\}(.*)$/.exec(pattern) ?? []
  return names === undefined ? [pattern] : names.split(',').flatMap((name) => alternatives(`${before}${name}${after}`))
}

export const folderNames = Object.keys(FOLDERS)
