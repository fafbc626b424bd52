import { globSync } from 'node:fs'
import { ROOT } from './copy.ts'

/**
 * What is mutated together: files, and the test files that answer for them.
 * `together`: test files that run in one process, in this order, where they share what they start. Starting it is most of
 * what a file costs. The others run alone: they want a world of their own.
 */
export type Folder = { name: string; files: string[]; tests: string[]; together: string[][] }

type Patterns = { files: string[]; tests: string[]; together?: string[][] }
/** Writes that sponsors pay for, from what is packed to what it cost. */
const SPONSORED = [
  ...['bind-operation', 'bring-delegation', 'cancel-operation', 'carriers', 'count-operations', 'delegation', 'gas-budget', 'list-own'],
  ...['operation-answer', 'operation-gas', 'outer-gas', 'pack', 'prepare-operation', 'read-operation', 'refused-operation', 'rehearse-operation'],
  ...['restore-operation', 'send-operation', 'sequences', 'settle-operations', 'settle-top-ups', 'tend-operations', 'top-up', 'top-up-needs', 'withdraw'],
] // prettier-ignore
const inTransactions = (name: string): string => `src/transactions/${name}.test.ts`

const FOLDERS: Record<string, Patterns> = {
  'src/follower': { files: ['src/follower/*.ts'], tests: ['src/follower/*.test.ts'] },
  // What an account signs for sponsors, byte by byte, on both sides of the socket, and what is dispatched of it.
  'src/gas': {
    files: [
      'src/gas/{authorization,calibur,dispatch,events,gas-operation,operation,packed-operation,rehearse,transaction,words}.ts',
      'src/signer/{cancel-outer,gas-limits,operation-ledger,operation-request,sign-operation,sign-outer,unattended,verify-operations}.ts',
    ],
    tests: [
      'src/gas/*.test.ts',
      'src/signer/{calibur,cancel-outers,gas-limits,operation-policy,operations,outers,unattended,verify-operations}.test.ts',
    ],
  },
  'src/history': { files: ['src/history/*.ts'], tests: ['src/history/*.test.ts', 'src/cli/history.test.ts'] },
  'src/signer': {
    files: [
      'src/signer/{deks,heads,judge,ledger,macs,meters,record,restore-keys,rotation,sign,sponsor,top-up,tree,wrapping}.ts',
    ],
    tests: ['src/signer/*.test.ts'],
  },
  'src/signer/kek': { files: ['src/signer/kek/*.ts'], tests: ['src/signer/kek/*.test.ts'] },
  'sponsored writes': {
    files: SPONSORED.map((name) => `src/transactions/${name}.ts`),
    tests: [
      'src/transactions/{operation*,gas-budget,settle-top-ups,top-up*,withdraw,calibur,sponsor*,read-operation,restore*,strangers*,list*,lost-tail*}.test.ts',
    ],
  },
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
