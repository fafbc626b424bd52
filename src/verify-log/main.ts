/**
 * verify-log: verifies the signer’s log, without code of the signer.
 * Owns: its own parsing of records, the tree, heads, MACs and proofs, based on docs/reference/signing-log.md alone.
 * Does not own: the rules about signatures, which `chatelaine signer verify` also checks.
 * Imports only Node.js modules, so these two files can be read and run alone.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { parseArgs } from 'node:util'
import {
  continues,
  growTree,
  hashOf,
  includes,
  isMac,
  macKeys,
  readCheckpoint,
  type Checkpoint,
  type LogRecord,
  type WrappedDek,
} from './log.ts'

const USAGE = `Usage: verify-log STORE [--checkpoint FILE]… [--key KEY] [--kek-file FILE]
       verify-log --checkpoint FILE --checkpoint FILE --proof FILE [--key KEY]
       verify-log --proof FILE [--key KEY]`

/** PRAGMA user_version of the store that docs/reference/signing-log.md describes. */
const SCHEMA = 1

/** 0: everything checked is correct; 1: something is not; 2: it could not be checked */
type Code = 0 | 1 | 2

type LogArguments = {
  store: string | undefined
  checkpoints: string[]
  key: string | null
  kekFile: string | null
  proof: string | null
}

/** Verifies a log, a proof between checkpoints, or a proof of a signature. @returns the exit code; results go to `say`, one line each */
export function verifyLog(args: string[], say: (line: string) => void): Code {
  try {
    const asked = readArguments(args)
    const faults: string[] = []
    const checkpoints = asked.checkpoints.map((file) => {
      const checkpoint = readCheckpoint(readFileSync(file, 'utf8'), asked.key)
      if (checkpoint.isSigned === false) faults.push(`${file} is not signed by the key.`)
      return checkpoint
    })
    if (asked.key === null && checkpoints.length > 0)
      say('Signatures were not checked. Give --key, from a source other than the log itself.')
    if (asked.proof !== null && checkpoints.length === 0) checkSignature(asked, faults, say)
    else if (asked.store === undefined) checkProof(asked, checkpoints, faults, say)
    else checkStore(asked, checkpoints, faults, say)
    for (const fault of faults) say(fault)
    say(faults.length === 0 ? 'The checked parts of the log are intact.' : 'The log is DAMAGED.')
    return faults.length === 0 ? 0 : 1
  } catch (error) {
    say(`The log could not be checked: ${error instanceof Error ? error.message : String(error)}`)
    return 2
  }
}

function readArguments(args: string[]): LogArguments {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      checkpoint: { type: 'string', multiple: true, default: [] },
      key: { type: 'string' },
      'kek-file': { type: 'string' },
      proof: { type: 'string' },
    },
  })
  const isProof = values.proof !== undefined
  if (positionals.length !== (isProof ? 0 : 1) || (isProof && ![0, 2].includes(values.checkpoint.length)))
    throw new Error(USAGE)
  const { checkpoint: checkpoints, key = null, 'kek-file': kekFile = null, proof = null } = values
  return { store: positionals[0], checkpoints, key, kekFile, proof }
}

/**
 * Checks the proof between two heads. If a log shows different histories to different readers, no proof leads from one history's
 * head to the other's.
 */
function checkProof({ proof }: LogArguments, heads: Checkpoint[], faults: string[], say: (line: string) => void): void {
  const [first, second] = heads.toSorted((a, b) => a.size - b.size) as [Checkpoint, Checkpoint]
  const { proof: hashes } = JSON.parse(readFileSync(proof!, 'utf8')) as { proof?: unknown }
  if (!Array.isArray(hashes) || !hashes.every((one) => typeof one === 'string' && /^[0-9a-f]{64}$/.test(one)))
    throw new Error('the proof is not {"proof": [hashes of 64 hexadecimal digits]}')
  if (first.origin !== second.origin) faults.push('The checkpoints belong to different logs.')
  if (
    !continues(
      first,
      second,
      (hashes as string[]).map((one) => Buffer.from(one, 'hex')),
    )
  )
    faults.push(`The checkpoint of ${second.size} records does not continue the checkpoint of ${first.size}.`)
  else say(`The checkpoint of ${second.size} records continues the checkpoint of ${first.size}.`)
}

/** Checks the proof of one signature, from `/v1/me/signatures` or the account page: the head that comes with it covers its record. */
function checkSignature({ proof, key }: LogArguments, faults: string[], say: (line: string) => void): void {
  const given = JSON.parse(readFileSync(proof!, 'utf8')) as { proof?: unknown; record?: unknown; leaf?: unknown; path?: unknown; head?: unknown } // prettier-ignore
  const { record, leaf, path, head } = typeof given.proof === 'object' && given.proof !== null ? (given.proof as typeof given) : given // prettier-ignore
  const isHash = (one: unknown): one is string => typeof one === 'string' && /^[0-9a-f]{64}$/.test(one)
  if (
    !Number.isSafeInteger(record) ||
    !isHash(leaf) ||
    !Array.isArray(path) ||
    !path.every(isHash) ||
    typeof head !== 'string'
  )
    // prettier-ignore
    throw new Error('the file is not a proof of a signature with record, leaf, path and head')
  const checkpoint = readCheckpoint(head, key)
  if (key === null) say('The signature of the head was not checked. Give --key, from a source other than the log itself.') // prettier-ignore
  if (checkpoint.isSigned === false) faults.push('The head is not signed by the key.')
  const found = { record: record as number, leaf: Buffer.from(leaf, 'hex'), path: path.map((one) => Buffer.from(one, 'hex')) } // prettier-ignore
  if (!includes(checkpoint, found)) faults.push(`Record ${String(record)} is not in the log of ${checkpoint.size} records.`)
  else say(`Record ${String(record)} is in the log of ${checkpoint.size} records, root ${checkpoint.root.toString('base64')}.`) // prettier-ignore
}

function checkStore(
  { store, key, kekFile }: LogArguments,
  checkpoints: Checkpoint[],
  faults: string[],
  say: (line: string) => void,
): void {
  const file = store!.endsWith('.sqlite') ? store! : join(store!, 'signer.sqlite')
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    // Reads one state of the store, even while a signer writes to it.
    db.exec('BEGIN')
    const { schema } = db.prepare('SELECT user_version AS schema FROM pragma_user_version').get() as { schema: number }
    if (schema !== SCHEMA)
      throw new Error(`the store has schema ${schema}, and this version reads only schema ${SCHEMA}`)
    const wrapped = db.prepare('SELECT epoch, wrapped FROM deks').all() as WrappedDek[]
    const macs = kekFile === null ? null : macKeys(readFileSync(kekFile), wrapped)
    if (macs?.size === 0) faults.push('The store has no data key, so no MAC could be checked.')
    const own = db.prepare(`SELECT note FROM heads WHERE which = 'newest'`).get() as { note: string } | undefined
    const newest = own === undefined ? null : readCheckpoint(own.note, key)
    if (newest === null) faults.push('The store has no signed head.')
    else if (newest.isSigned === false) faults.push('The newest head in the store is not signed by the key.')
    const heads = [...checkpoints, ...(newest === null ? [] : [newest])]
    const tree = growTree()
    const found = readRecords(db, { tree, heads, macs, faults })
    for (const head of heads.filter(({ size }) => size > tree.size()))
      faults.push(`A checkpoint of ${head.size} records is ahead of the log, which has ${tree.size()}.`)
    if (newest !== null && newest.size !== tree.size())
      faults.push(`The log has ${tree.size()} records, and its newest head ${newest.size}.`)
    const end = db.prepare('SELECT count, record FROM ledger_head').get() as
      | { count: number; record: Uint8Array }
      | undefined
    if (end === undefined || end.count !== tree.size() || !found.last.equals(Buffer.from(end.record)))
      faults.push('The log does not end at its head record.')
    say(`${tree.size()} records, root ${tree.root().toString('base64')}; ${checkpoints.length} checkpoints compared.`)
    if (key === null && checkpoints.length === 0) say('Signatures were not checked. Give --key, from a source other than the log itself.') // prettier-ignore
    say(macs === null ? 'MACs were not checked. Give --kek-file.' : `MACs of ${found.maced} records checked.`)
  } finally {
    db.close()
  }
}

type RecordReading = {
  tree: ReturnType<typeof growTree>
  heads: Checkpoint[]
  macs: Map<number, Buffer> | null
  faults: string[]
}

/** Reads the records along the hash chain and grows the tree; reports faults by record. */
function readRecords(db: DatabaseSync, { tree, heads, macs, faults }: RecordReading): { last: Buffer; maced: number } {
  let last: Buffer = Buffer.alloc(32)
  let maced = 0
  compare()
  for (const row of db.prepare('SELECT * FROM ledger ORDER BY seq').iterate() as Iterable<LogRecord>) {
    const record = Buffer.from(row.record as Uint8Array)
    const mac = row.mac as Uint8Array | null
    if (row.seq !== tree.size() + 1) faults.push(`Record ${tree.size() + 1} is missing.`)
    else if (!hashOf(last, row).equals(record)) faults.push(`Record ${row.seq} does not have the hash of its fields.`)
    const seq = row.seq as number
    if (mac === null || mac.length === 0) faults.push(`Record ${seq} has no MAC.`)
    else if (macs !== null && !isMac(macs, record, mac))
      faults.push(`Record ${seq} was not written by this signer: its MAC is invalid.`)
    else maced += 1
    tree.add(record)
    last = record
    compare()
  }
  return { last, maced }

  function compare(): void {
    for (const head of heads)
      if (head.size === tree.size() && !head.root.equals(tree.root()))
        faults.push(`The first ${head.size} records do not match the checkpoint of that size.`)
  }
}

if (import.meta.main) process.exitCode = verifyLog(process.argv.slice(2), (line) => process.stdout.write(`${line}\n`))
