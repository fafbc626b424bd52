import { hash } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { LedgerDamaged } from '../refusal.ts'

/**
 * The Merkle tree over the ledger's records (RFC 9162 §2.1): leaf n is the hash of record n + 1. A record costs two hashes on
 * average. Only complete subtrees of at least 256 leaves are stored. So a start reads at most 255 records and one row per level,
 * whatever the size.
 */
export type Tree = {
  size: () => number
  root: () => Buffer
  /** appends the next record; inside a transaction */
  append: (record: Uint8Array) => void
  /** the root of the tree at an earlier number of leaves */
  rootAt: (size: number) => Buffer
  /** RFC 9162 §2.1.3.1: proves that leaf `index` is in the tree of `size`; bottom up */
  inclusion: (index: number, size: number) => Buffer[]
  /** RFC 9162 §2.1.4.1: proves that the tree of `to` leaves begins with that of `from` */
  consistency: (from: number, to: number) => Buffer[]
}

/** subtrees of at least 2^8 leaves are stored */
const STORED_LEVEL = 8
const BLOCK = 2 ** STORED_LEVEL

const EMPTY = hash('sha256', Buffer.alloc(0), 'buffer')
const leafOf = (record: Uint8Array): Buffer => hash('sha256', Buffer.concat([Buffer.of(0), record]), 'buffer')
const nodeOf = (left: Buffer, right: Buffer): Buffer =>
  hash('sha256', Buffer.concat([Buffer.of(1), left, right]), 'buffer')

/**
 * Opens the tree over the ledger's records.
 * @param size  number of records
 * @throws LedgerDamaged  if a stored subtree is missing
 */
export function openTree(db: DatabaseSync, size: number): Tree {
  const put = db.prepare('INSERT INTO tree (level, position, hash) VALUES (?, ?, ?)')
  const stored = db.prepare('SELECT hash FROM tree WHERE level = ? AND position = ?')
  const records = db.prepare('SELECT record FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?')
  // By level: the complete subtrees of the tree, one for each bit of its size.
  const peaks: Buffer[] = []
  let count = 0
  open()

  return {
    size: () => count,
    root: () => rootOf(peaks, count),
    append: (record) => add(leafOf(record), (level, position, subtree) => put.run(level, position, subtree)),
    rootAt: (at) => (at === 0 ? EMPTY : reader()(0, at)),
    inclusion: (index, at) => path(index, 0, at, reader()),
    consistency: (from, to) => (from === 0 || from === to ? [] : subproof(from, 0, to, true, reader())),
  }

  function add(leaf: Buffer, keep: (level: number, position: number, subtree: Buffer) => void): void {
    let subtree = leaf
    let level = 0
    // Uses division, because bitwise operators are limited to 32 bits and a size may exceed that.
    for (let rest = count; rest % 2 === 1; rest = (rest - 1) / 2) {
      subtree = nodeOf(peaks[level]!, subtree)
      level += 1
      if (level >= STORED_LEVEL) keep(level, (count + 1) / 2 ** level - 1, subtree)
    }
    peaks[level] = subtree
    count += 1
  }

  function open(): void {
    const blocks = Math.floor(size / BLOCK)
    for (let level = STORED_LEVEL; 2 ** level <= size; level++)
      if (Math.floor(size / 2 ** level) % 2 === 1) peaks[level] = subtreeAt(level, Math.floor(size / 2 ** level) - 1)
    count = blocks * BLOCK
    const rest = records.iterate(count, BLOCK) as Iterable<{ record: Uint8Array }>
    for (const { record } of rest) add(leafOf(record), () => {})
    if (count !== size) throw new LedgerDamaged('The ledger has fewer records than its head says.')
  }

  function subtreeAt(level: number, position: number): Buffer {
    const row = stored.get(level, position) as { hash: Uint8Array } | undefined
    if (row === undefined) throw new LedgerDamaged('A part of the ledger’s tree is missing.')
    return Buffer.from(row.hash)
  }

  /** Returns a function that hashes ranges of leaves; it caches the leaves that it reads. */
  function reader(): HashOf {
    const blocks = new Map<number, Buffer[]>()
    return hashOf

    function hashOf(start: number, end: number): Buffer {
      const width = end - start
      const level = Math.log2(width)
      if (Number.isInteger(level) && level >= STORED_LEVEL) return subtreeAt(level, start / width)
      if (width === 1) return leafAt(start)
      const middle = start + split(width)
      return nodeOf(hashOf(start, middle), hashOf(middle, end))
    }

    function leafAt(index: number): Buffer {
      const block = Math.floor(index / BLOCK)
      if (!blocks.has(block)) {
        const rows = records.all(block * BLOCK, BLOCK) as { record: Uint8Array }[]
        blocks.set(
          block,
          rows.map(({ record }) => leafOf(record)),
        )
      }
      const leaf = blocks.get(block)![index % BLOCK]
      if (leaf === undefined) throw new LedgerDamaged('The ledger has fewer records than its head says.')
      return leaf
    }
  }
}

/** the hash of the leaves from `start` up to but excluding `end` */
type HashOf = (start: number, end: number) => Buffer

function rootOf(peaks: Buffer[], count: number): Buffer {
  let root: Buffer | null = null
  for (let level = 0, rest = count; rest > 0; level++, rest = Math.floor(rest / 2))
    if (rest % 2 === 1) root = root === null ? peaks[level]! : nodeOf(peaks[level]!, root)
  return root ?? EMPTY
}

/** Returns the largest power of two below a width of at least two. */
function split(width: number): number {
  let half = 1
  while (half * 2 < width) half *= 2
  return half
}

function path(index: number, start: number, end: number, hashOf: HashOf): Buffer[] {
  if (end - start === 1) return []
  const middle = start + split(end - start)
  return index < middle
    ? [...path(index, start, middle, hashOf), hashOf(middle, end)]
    : [...path(index, middle, end, hashOf), hashOf(start, middle)]
}

/**
 * Computes a consistency proof within a subtree. `isWhole`: true if the verifier knows the subtree's hash from the
 * older root.
 */
function subproof(from: number, start: number, end: number, isWhole: boolean, hashOf: HashOf): Buffer[] {
  if (from === end) return isWhole ? [] : [hashOf(start, end)]
  const middle = start + split(end - start)
  return from <= middle
    ? [...subproof(from, start, middle, isWhole, hashOf), hashOf(middle, end)]
    : [...subproof(from, middle, end, false, hashOf), hashOf(start, middle)]
}
