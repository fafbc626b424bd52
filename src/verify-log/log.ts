import { createDecipheriv, createHash, createHmac, createPublicKey, hkdfSync, verify } from 'node:crypto'

/** The fields that a record's hash covers, in this order (docs/reference/signing-log.md). */
const FIELDS = [
  ...['seq', 'at', 'kind', 'user_id', 'address', 'chain_id', 'nonce', 'intent_id', 'effect', 'fee_type', 'max_fee'],
  ...[
    'priority_fee',
    'gas',
    'hash',
    'raw',
    'rule',
    'client_id',
    'token_id',
    'request_hash',
    'evidence',
    'policy',
    'spent',
  ],
]

export type LogRecord = Record<string, Uint8Array | string | number | null>

const sha256 = (...parts: Uint8Array[]): Buffer => {
  const digest = createHash('sha256')
  for (const part of parts) digest.update(part)
  return digest.digest()
}

/** Encodes fields: each has a length, 4 bytes big-endian, and that many bytes; null is the length 2^32 - 1 without bytes. */
function encode(values: (Uint8Array | string | number | null)[]): Buffer {
  return Buffer.concat(
    values.map((value) => {
      if (value === null) return Buffer.from('ffffffff', 'hex')
      const bytes = value instanceof Uint8Array ? value : Buffer.from(String(value), 'utf8')
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.length)
      return Buffer.concat([length, bytes])
    }),
  )
}

/** Computes the hash of a record that follows another. */
export const hashOf = (before: Uint8Array, record: LogRecord): Buffer =>
  sha256(encode(['chatelaine ledger 1', before, ...FIELDS.map((field) => record[field]!)]))

/** Grows the Merkle tree record by record, and returns its root at the current size. Source: RFC 9162 §2.1.1 */
export function growTree() {
  const peaks: { leaves: number; hash: Buffer }[] = []
  let size = 0
  return {
    size: () => size,
    add(record: Uint8Array): void {
      size += 1
      let top = { leaves: 1, hash: sha256(Buffer.of(0), record) }
      while (peaks.at(-1)?.leaves === top.leaves) {
        const left = peaks.pop()!
        top = { leaves: left.leaves * 2, hash: sha256(Buffer.of(1), left.hash, top.hash) }
      }
      peaks.push(top)
    },
    root(): Buffer {
      if (peaks.length === 0) return sha256()
      return peaks.map(({ hash }) => hash).reduceRight((right, left) => sha256(Buffer.of(1), left, right))
    },
  }
}

export type Checkpoint = { origin: string; size: number; root: Buffer; isSigned: boolean | null }

/**
 * Parses a signed note (C2SP signed-note) whose text is a checkpoint (C2SP tlog-checkpoint).
 * @param key  the log's verifier key, `name+id+base64`; null: signatures are not verified
 * @throws Error  if it is not a checkpoint, or the key has another form
 */
export function readCheckpoint(note: string, key: string | null): Checkpoint {
  const end = note.indexOf('\n\n')
  const text = note.slice(0, end + 1)
  const [origin, size, root] = text.split('\n')
  if (end < 0 || !/^(0|[1-9]\d{0,15})$/.test(size ?? '') || !/^[A-Za-z0-9+/]{43}=$/.test(root ?? ''))
    throw new Error('a checkpoint has a name, a size, a root and an empty line before its signatures')
  return {
    origin: origin!,
    size: Number(size),
    root: Buffer.from(root!, 'base64'),
    isSigned: key === null ? null : isSignedBy(text, note.slice(end + 2).split('\n'), readKey(key), origin!),
  }
}

type VerifierKey = { name: string; id: string; bytes: Buffer }

/** Parses a verifier key. @throws Error  if it is not an Ed25519 key in that form */
function readKey(text: string): VerifierKey {
  const [, name, id, base64] = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)$/.exec(text.trim()) ?? []
  const bytes = Buffer.from(base64 ?? '', 'base64')
  if (name === undefined || bytes.length !== 33 || bytes[0] !== 1) throw new Error('the key is not name+id+base64')
  const named = sha256(Buffer.from(`${name}\n`, 'utf8'), bytes)
    .subarray(0, 4)
    .toString('hex')
  if (named !== id) throw new Error('the key does not have the id that is in its text')
  return { name, id: named, bytes: bytes.subarray(1) }
}

function isSignedBy(text: string, lines: string[], { name, id, bytes }: VerifierKey, origin: string): boolean {
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), bytes])
  const key = createPublicKey({ key: spki, format: 'der', type: 'spki' })
  return lines.some((line) => {
    const [dash, who, base64] = line.split(' ')
    const signed = Buffer.from(base64 ?? '', 'base64')
    if (dash !== '—' || who !== name || name !== origin || signed.subarray(0, 4).toString('hex') !== id) return false
    return verify(null, Buffer.from(text, 'utf8'), key, signed.subarray(4))
  })
}

/** Returns whether the second tree begins with the first. Source: RFC 9162 §2.1.4.2 */
export function continues(first: Checkpoint, second: Checkpoint, proof: Buffer[]): boolean {
  if (first.size > second.size) return false
  if (first.size === second.size) return proof.length === 0 && first.root.equals(second.root)
  if (first.size === 0) return proof.length === 0
  if (proof.length === 0) return false
  const nodes = Number.isInteger(Math.log2(first.size)) ? [first.root, ...proof] : proof
  const half = (value: number) => Math.floor(value / 2)
  let [low, high] = [first.size - 1, second.size - 1]
  for (; low % 2 === 1; low = half(low)) high = half(high)
  let [older, newer] = [nodes[0]!, nodes[0]!]
  for (const node of nodes.slice(1)) {
    if (high === 0) return false
    if (low % 2 === 1 || low === high) {
      older = sha256(Buffer.of(1), node, older)
      newer = sha256(Buffer.of(1), node, newer)
      for (; low % 2 === 0 && low !== 0; low = half(low)) high = half(high)
    } else newer = sha256(Buffer.of(1), newer, node)
    ;[low, high] = [half(low), half(high)]
  }
  return high === 0 && older.equals(first.root) && newer.equals(second.root)
}

/** Returns whether a record, numbered from 1, is in the log of a checkpoint. Source: RFC 9162 §2.1.3.2 */
export function includes(
  { size, root }: Pick<Checkpoint, 'size' | 'root'>,
  { record, leaf, path }: { record: number; leaf: Buffer; path: Buffer[] },
): boolean {
  if (record < 1 || record > size) return false
  const half = (value: number) => Math.floor(value / 2)
  let [index, last] = [record - 1, size - 1]
  let hash = sha256(Buffer.of(0), leaf)
  for (const node of path) {
    if (last === 0) return false
    if (index % 2 === 1 || index === last) {
      hash = sha256(Buffer.of(1), node, hash)
      for (; index % 2 === 0 && index !== 0; index = half(index)) last = half(last)
    } else hash = sha256(Buffer.of(1), hash, node)
    ;[index, last] = [half(index), half(last)]
  }
  return last === 0 && hash.equals(root)
}

/** A data key as stored: wrapped by the master key. */
export type WrappedDek = { epoch: number; wrapped: Uint8Array }

/**
 * Derives the MAC keys of a store, by epoch.
 * @param master  32 bytes
 * @throws Error  if it is not the store's master key
 */
export function macKeys(master: Uint8Array, wrapped: WrappedDek[]): Map<number, Buffer> {
  return new Map(
    wrapped.map(({ epoch, wrapped: bytes }) => {
      const decipher = createDecipheriv('aes-256-gcm', master, bytes.subarray(0, 12), { authTagLength: 16 })
      decipher.setAAD(encode(['chatelaine data key 1', epoch])).setAuthTag(bytes.subarray(12, 28))
      try {
        const key = Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()])
        return [epoch, Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), 'chatelaine ledger mac 1', 32))]
      } catch (cause) {
        throw new Error('the master key is not the one of this store', { cause })
      }
    }),
  )
}

/** Verifies a MAC: 4 bytes of epoch, then HMAC-SHA-256 of the record's hash. */
export function isMac(keys: Map<number, Buffer>, record: Uint8Array, mac: Uint8Array): boolean {
  const key = mac.length === 36 ? keys.get(Buffer.from(mac).readUInt32BE()) : undefined
  return (
    key !== undefined &&
    createHmac('sha256', key)
      .update(record)
      .digest()
      .equals(Buffer.from(mac.subarray(4)))
  )
}
