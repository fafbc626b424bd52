import { createHash } from 'node:crypto'

/** RFC 9162 as it is written, over a list in memory: what the signer's tree is compared with, and what its proofs lead to. */

const sha256 = (...parts: Uint8Array[]): Buffer => {
  const digest = createHash('sha256')
  for (const part of parts) digest.update(part)
  return digest.digest()
}

const leafHash = (entry: Uint8Array): Buffer => sha256(Buffer.of(0), entry)
const nodeHash = (left: Uint8Array, right: Uint8Array): Buffer => sha256(Buffer.of(1), left, right)

/** §2.1.1 */
export function rootOf(entries: Uint8Array[]): Buffer {
  if (entries.length === 0) return sha256()
  if (entries.length === 1) return leafHash(entries[0]!)
  let k = 1
  while (k * 2 < entries.length) k *= 2
  return nodeHash(rootOf(entries.slice(0, k)), rootOf(entries.slice(k)))
}

/** §2.1.3.2 */
export function isIncluded(
  entry: Uint8Array,
  { index, size, root, proof }: { index: number; size: number; root: Buffer; proof: Buffer[] },
): boolean {
  if (index >= size) return false
  let [fn, sn, r] = [index, size - 1, leafHash(entry)]
  for (const p of proof) {
    if (sn === 0) return false
    if (fn % 2 === 1 || fn === sn) {
      r = nodeHash(p, r)
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)]
    } else r = nodeHash(r, p)
    ;[fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)]
  }
  return sn === 0 && r.equals(root)
}

type Head = { size: number; root: Buffer }

/** §2.1.4.2 */
export function isContinued(first: Head, second: Head, proof: Buffer[]): boolean {
  if (first.size === 0) return proof.length === 0
  if (first.size === second.size) return proof.length === 0 && first.root.equals(second.root)
  if (first.size > second.size || proof.length === 0) return false
  const isPower = Number.isInteger(Math.log2(first.size))
  const [start, ...rest] = isPower ? [first.root, ...proof] : proof
  let [fn, sn] = [first.size - 1, second.size - 1]
  while (fn % 2 === 1) [fn, sn] = [(fn - 1) / 2, Math.floor(sn / 2)]
  let [fr, sr] = [start!, start!]
  for (const c of rest) {
    if (sn === 0) return false
    if (fn % 2 === 1 || fn === sn) {
      ;[fr, sr] = [nodeHash(c, fr), nodeHash(c, sr)]
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)]
    } else sr = nodeHash(sr, c)
    ;[fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)]
  }
  return sn === 0 && fr.equals(first.root) && sr.equals(second.root)
}
