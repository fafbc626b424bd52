import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import * as fc from 'fast-check'
import { writing, type Writing } from '../../test/writing.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { encodeRlp } from '../rlp.ts'
import { provenCount } from './proof.ts'
import { headerHash } from './strict.ts'

let world: Writing
let stateRoot: Hex
let sender: Hex
before(async () => {
  world = await writing()
  // Create enough accounts for branches and for paths of both parities.
  for (let index = 1; index < 600; index++) await world.rpc('anvil_setBalance', addressOf(index), '0x1')
  const writer = await world.writer('proven')
  sender = writer.address
  for (let index = 0; index < 3; index++) await world.add(world.first, writer)
  await world.mine()
  const header = await world.rpc<Record<string, unknown>>('eth_getBlockByNumber', 'latest', false)
  assert.equal(headerHash(header), header.hash)
  stateRoot = header.stateRoot as Hex
})
after(() => world.close())

const addressOf = (index: number): Hex => `0x${index.toString(16).padStart(40, '0')}`
const proofOf = (address: Hex) => world.rpc<{ accountProof: Hex[] }>('eth_getProof', address, [], 'latest')

test('the count of an account is the one that its proof leads to, and 0 where there is no account', async () => {
  assert.equal(provenCount(stateRoot, sender, await proofOf(sender)), 3n)
  for (let index = 1; index < 600; index += 37)
    assert.equal(provenCount(stateRoot, addressOf(index), await proofOf(addressOf(index))), 0n)
  for (let index = 1; index < 60; index++) {
    const nobody: Hex = `0x${index.toString(16).padStart(2, '0').repeat(20)}`
    assert.equal(provenCount(stateRoot, nobody, await proofOf(nobody)), 0n)
  }
})

test('no proof with another byte, node, root or account says another count', async () => {
  const { accountProof } = await proofOf(sender)
  const count = (nodes: unknown, root = stateRoot, address = sender) =>
    provenCount(root, address, { accountProof: nodes })
  fc.assert(
    fc.property(fc.nat(accountProof.length - 1), fc.nat(), fc.integer({ min: 1, max: 255 }), (at, place, bit) => {
      const node = Buffer.from(accountProof[at]!.slice(2), 'hex')
      node[place % node.length]! ^= bit
      const nodes = accountProof.with(at, `0x${node.toString('hex')}`)
      assert.throws(() => count(nodes), InvalidResponse)
    }),
    { numRuns: 500 },
  )
  const others = await proofOf(addressOf(7))
  for (const nodes of [
    [],
    accountProof.slice(1),
    accountProof.slice(0, -1),
    accountProof.toReversed(),
    others.accountProof,
    null,
    'no list',
    ['0x'],
    [7],
    [...accountProof.slice(0, -1), '0xc0'],
  ])
    assert.throws(() => count(nodes), InvalidResponse)
  assert.throws(() => count(accountProof, `0x${'ab'.repeat(32)}`), InvalidResponse)
  // The proof does not lead to another account, and does not prove that account's absence either.
  assert.throws(() => count(accountProof, stateRoot, addressOf(7)), InvalidResponse)
})

test('a leaf that ends before the path of the account does proves nothing of it', () => {
  const [first] = keccak(Buffer.from(sender.slice(2), 'hex'))
  const account = encodeRlp([Buffer.of(7), Buffer.alloc(0), Buffer.alloc(32), Buffer.alloc(32)])
  // A leaf with one nibble of path, which is odd.
  const leaf = encodeRlp([Buffer.of(0x30 + (first! >> 4)), account])
  const root: Hex = `0x${keccak(leaf).toString('hex')}`
  assert.throws(() => provenCount(root, sender, { accountProof: [`0x${leaf.toString('hex')}`] }), InvalidResponse)
})
