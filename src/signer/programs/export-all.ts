import { randomUUID } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { readArguments } from './arguments.ts'
import { askOperator } from './ask-operator.ts'
import type { GivenKeys } from '../export/bulk.ts'
import { keyPairOf, newKeyPair } from '../export/hpke.ts'

/** The format name in the first line of a file of keys. */
export const KEYS_FORMAT = 'chatelaine keys 1'

export type Ask = <T>(question: { verb: string; request: object }) => Promise<T>

/**
 * Exports all keys of a running signer, encrypted to a recipient, one per line (docs/operate/runbooks/move-installation.md). The
 * ledger has the record of a key before its line is written.
 * @param recipient  public key, base64url
 */
export async function exportAll(
  recipient: string,
  { ask, write }: { ask: Ask; write: (line: object) => void },
): Promise<{ exported: number; refused: GivenKeys['refused'] }> {
  const batch = randomUUID()
  write({ format: KEYS_FORMAT, batch, recipient })
  const refused: GivenKeys['refused'] = []
  let exported = 0
  for (let after = 0; ;) {
    const page = await ask<GivenKeys>({ verb: 'exportKeys', request: { recipient, batch, after } })
    for (const key of page.keys) write(key)
    exported += page.keys.length
    refused.push(...page.refused)
    if (page.isEnd) break
    after = page.through
  }
  write({ end: { keys: exported } })
  return { exported, refused }
}

/** Runs `export-all FILE --to-recipient KEY`, or `recipient-key FILE`, which creates the key pair for it. */
async function main(): Promise<number> {
  const { positionals, values } = readArguments({
    allowPositionals: true,
    options: { 'to-recipient': { type: 'string' } },
  })
  const [verb, file] = positionals
  if (file === undefined) throw new Error('give a file to create')
  if (verb === 'recipient-key') {
    const pair = newKeyPair()
    const secret = Buffer.concat([Buffer.alloc(32), pair.getPrivateKey()]).subarray(-32)
    writeFileSync(file, secret, { flag: 'wx', mode: 0o600, flush: true })
    process.stdout.write(`${keyPairOf(readFileSync(file)).getPublicKey('base64url')}\n`)
    return 0
  }
  const recipient = values['to-recipient']
  if (recipient === undefined)
    throw new Error('--to-recipient is missing: give the public key that `chatelaine signer recipient-key` printed')
  const into = openSync(file, 'wx', 0o600)
  const write = (line: object): void => void writeSync(into, `${JSON.stringify(line)}\n`)
  const { exported, refused } = await exportAll(recipient, { ask: askOperator, write })
  fsyncSync(into)
  closeSync(into)
  for (const { userId, reason } of refused) process.stdout.write(`rejected  ${userId}: ${reason}\n`)
  process.stdout.write(`${exported} keys exported, ${refused.length} rejected.\n`)
  return refused.length === 0 ? 0 : 1
}

if (import.meta.main) {
  process.exitCode = await main().catch((error: unknown) => {
    process.stderr.write(`${(error as Error).message}\n`)
    return 1
  })
}
