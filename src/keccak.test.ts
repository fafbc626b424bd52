import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { keccak256 } from 'ethers'
import { keccak } from './keccak.ts'

test('every length up to eight blocks, and those around what memory holds at once, as another library has it', () => {
  const lengths = [...Array(8 * 136 + 2).keys(), 64_463, 64_464, 64_465, 64_600, 2 * 64_464, 200_001]
  for (const length of lengths) {
    const input = randomBytes(length)
    assert.equal(`0x${keccak(input).toString('hex')}`, keccak256(input), `${length} bytes`)
  }
})

test('what was returned stays what it was', () => {
  const first = keccak(Buffer.from('one'))
  const before = Buffer.from(first)
  keccak(Buffer.from('two'))
  assert.deepEqual(first, before)
})
