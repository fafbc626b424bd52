import { readObject } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import type { Decoded } from '../rlp.ts'
import { bytes, readRlp } from './fields.ts'

/**
 * Returns the number of an account's mined transactions at a block, proven against the block's state root. A false
 * number would need a second preimage of Keccak-256.
 * @param stateRoot  of a header whose hash was checked
 * @param answer  response to `eth_getProof` for the account at that block
 * @returns 0 for an account that is not in the state
 * @throws InvalidResponse  if the proof does not lead from the root to the account, or to its place
 * Source: EIP-1186; Ethereum yellow paper, appendix D
 */
export function provenCount(stateRoot: Hex, address: Hex, answer: unknown): bigint {
  const { accountProof } = readObject(answer, 'a proof')
  if (!Array.isArray(accountProof)) throw new InvalidResponse('the proof holds no nodes')
  const nodes = accountProof.map(bytes)
  const path = [...keccak(bytes(address))].flatMap((byte) => [byte >> 4, byte & 15])
  const value = walk({ nodes, next: 0 }, bytes(stateRoot), path)
  if (value === null) return 0n
  const account = readRlp(value)
  const nonce = Array.isArray(account) && account.length === 4 ? account[0] : null
  if (!Buffer.isBuffer(nonce) || nonce.length > 8) throw new InvalidResponse('the proof holds no account')
  return nonce.length === 0 ? 0n : BigInt(`0x${nonce.toString('hex')}`)
}

/** @returns the value at the path; null if the trie has none */
function walk(proof: { nodes: Buffer[]; next: number }, reference: Decoded, path: number[]): Buffer | null {
  const node = resolve(proof, reference)
  if (node.length === 17) {
    if (path.length === 0) throw new InvalidResponse('the proof ends too early')
    const child = node[path[0]!]!
    return child.length === 0 ? null : walk(proof, child, path.slice(1))
  }
  const [prefix, below] = node as [Decoded, Decoded]
  if (node.length !== 2 || !Buffer.isBuffer(prefix) || prefix.length === 0)
    throw new InvalidResponse('a node of the proof is malformed')
  const nibbles = [...prefix].flatMap((byte) => [byte >> 4, byte & 15])
  const [flag] = nibbles
  const own = nibbles.slice(flag! % 2 === 1 ? 1 : 2)
  if (own.some((nibble, index) => path[index] !== nibble)) return null
  const rest = path.slice(own.length)
  if (flag! < 2) return walk(proof, below, rest)
  if (rest.length > 0 || !Buffer.isBuffer(below)) throw new InvalidResponse('a leaf of the proof is none')
  return below
}

/** A node shorter than 32 bytes is embedded in its parent; a longer one is the next of the proof, by its hash. */
function resolve(proof: { nodes: Buffer[]; next: number }, reference: Decoded): Decoded[] {
  if (Array.isArray(reference)) return reference
  const node = proof.nodes[proof.next++]
  if (node === undefined || !keccak(node).equals(reference))
    throw new InvalidResponse('the proof does not lead to the account')
  const decoded = readRlp(node)
  if (!Array.isArray(decoded)) throw new InvalidResponse('a node of the proof is malformed')
  return decoded
}
