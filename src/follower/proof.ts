import { readObject } from '../chain/answers.ts'
import { BadAnswer } from '../chain/failures.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { bytes } from './fields.ts'

/**
 * How many transactions of an account are mined at a block, proven against the state root of that block: nobody can say
 * another number without a second preimage of Keccak-256.
 * @param stateRoot  of a header whose hash was checked
 * @param answer     of `eth_getProof` for the account at that block
 * @returns          0 for an account that the state does not have
 * @throws BadAnswer when the proof does not lead from the root to the account, or to where it would be
 * Source: EIP-1186; Ethereum yellow paper, appendix D
 */
export function provenCount(stateRoot: Hex, address: Hex, answer: unknown): bigint {
  const { accountProof } = readObject(answer, 'a proof')
  if (!Array.isArray(accountProof)) throw new BadAnswer('the proof holds no nodes')
  const nodes = accountProof.map(bytes)
  const path = [...keccak(bytes(address))].flatMap((byte) => [byte >> 4, byte & 15])
  const value = walk({ nodes, next: 0 }, bytes(stateRoot), path)
  if (value === null) return 0n
  const account = decodeRlp(value)
  const nonce = Array.isArray(account) && account.length === 4 ? account[0] : null
  if (!Buffer.isBuffer(nonce) || nonce.length > 8) throw new BadAnswer('the proof holds no account')
  return nonce.length === 0 ? 0n : BigInt(`0x${nonce.toString('hex')}`)
}

type Item = Buffer | Item[]

/** @returns the value under the path, null when the trie has none there */
function walk(proof: { nodes: Buffer[]; next: number }, reference: Item, path: number[]): Buffer | null {
  const node = resolve(proof, reference)
  if (node.length === 17) {
    if (path.length === 0) throw new BadAnswer('the proof ends too early')
    const child = node[path[0]!]!
    return child.length === 0 ? null : walk(proof, child, path.slice(1))
  }
  const [prefix, below] = node as [Item, Item]
  if (node.length !== 2 || !Buffer.isBuffer(prefix) || prefix.length === 0)
    throw new BadAnswer('a node of the proof is none')
  const nibbles = [...prefix].flatMap((byte) => [byte >> 4, byte & 15])
  const [flag] = nibbles
  const own = nibbles.slice(flag! % 2 === 1 ? 1 : 2)
  if (own.some((nibble, index) => path[index] !== nibble)) return null
  const rest = path.slice(own.length)
  if (flag! < 2) return walk(proof, below, rest)
  if (rest.length > 0 || !Buffer.isBuffer(below)) throw new BadAnswer('a leaf of the proof is none')
  return below
}

/** A node of less than 32 bytes stands in its parent itself, a longer one is the next of the proof, by its hash. */
function resolve(proof: { nodes: Buffer[]; next: number }, reference: Item): Item[] {
  if (Array.isArray(reference)) return reference
  const node = proof.nodes[proof.next++]
  if (node === undefined || !keccak(node).equals(reference))
    throw new BadAnswer('the proof does not lead to the account')
  const decoded = decodeRlp(node)
  if (!Array.isArray(decoded)) throw new BadAnswer('a node of the proof is none')
  return decoded
}

function decodeRlp(all: Buffer): Item {
  const { item, end } = decodeAt(all, 0)
  if (end !== all.length) throw new BadAnswer('a node of the proof has bytes left over')
  return item
}

/** Source: Ethereum yellow paper, appendix B */
function decodeAt(all: Buffer, at: number): { item: Item; end: number } {
  const first = all[at]
  if (first === undefined) throw new BadAnswer('a node of the proof is cut off')
  if (first < 0x80) return { item: all.subarray(at, at + 1), end: at + 1 }
  const isList = first >= 0xc0
  const size = first - (isList ? 0xc0 : 0x80)
  const sizeBytes = size < 56 ? 0 : size - 55
  const start = at + 1 + sizeBytes
  if (start > all.length || sizeBytes > 4) throw new BadAnswer('a node of the proof is cut off')
  const end = start + (sizeBytes === 0 ? size : all.readUIntBE(at + 1, sizeBytes))
  if (end > all.length) throw new BadAnswer('a node of the proof is cut off')
  if (!isList) return { item: all.subarray(start, end), end }
  const items: Item[] = []
  for (let next = start; next < end;) {
    const read = decodeAt(all.subarray(0, end), next)
    items.push(read.item)
    next = read.end
  }
  return { item: items, end }
}
