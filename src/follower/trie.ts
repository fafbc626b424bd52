import { keccak } from '../keccak.ts'
import { encodeRlp, type Rlp } from '../rlp.ts'

type TrieLeaf = { nibbles: number[]; value: Buffer }

/**
 * Returns the root of the Merkle-Patricia trie of a list, by which a block commits to its transactions and receipts.
 * Keys are the RLP of the index. Source: Ethereum yellow paper, appendix D
 */
export function listRoot(values: readonly Buffer[]): Buffer {
  const leaves = values.map((value, index) => ({ nibbles: nibblesOf(encodeRlp(index)), value }))
  return keccak(leaves.length === 0 ? encodeRlp(Buffer.alloc(0)) : encodeNode(leaves, 0))
}

/** Encodes the node over all leaves that share their first `depth` nibbles. */
function encodeNode(leaves: TrieLeaf[], depth: number): Buffer {
  const [first] = leaves
  if (leaves.length === 1) return encodeRlp([compact(first!.nibbles.slice(depth), true), first!.value])
  const shared = sharedNibbles(leaves, depth)
  if (shared > 0) {
    const path = compact(first!.nibbles.slice(depth, depth + shared), false)
    return encodeRlp([path, referTo(encodeNode(leaves, depth + shared))])
  }
  const children = Array.from({ length: 16 }, (_, nibble): Rlp => {
    const below = leaves.filter(({ nibbles }) => nibbles[depth] === nibble)
    return below.length === 0 ? Buffer.alloc(0) : referTo(encodeNode(below, depth + 1))
  })
  // No key of a list is a prefix of another, so no branch has a value of its own.
  return encodeRlp([...children, Buffer.alloc(0)])
}

/** A node shorter than 32 bytes is embedded in its parent; a longer one is referred to by its hash. */
const referTo = (node: Buffer): Rlp => (node.length < 32 ? { encoded: node } : keccak(node))

function sharedNibbles(leaves: TrieLeaf[], depth: number): number {
  const { nibbles } = leaves[0]!
  let shared = 0
  while (
    depth + shared < nibbles.length &&
    leaves.every((leaf) => leaf.nibbles[depth + shared] === nibbles[depth + shared])
  )
    shared++
  return shared
}

/** Hex-prefix encoding: a nibble with the kind of node and the parity of the path's length, then the path. */
function compact(nibbles: number[], isLeaf: boolean): Buffer {
  const flag = isLeaf ? 2 : 0
  const path = nibbles.length % 2 === 1 ? [flag + 1, ...nibbles] : [flag, 0, ...nibbles]
  return Buffer.from(Array.from({ length: path.length / 2 }, (_, at) => path[at * 2]! * 16 + path[at * 2 + 1]!))
}

const nibblesOf = (bytes: Buffer): number[] => [...bytes].flatMap((byte) => [byte >> 4, byte & 15])
