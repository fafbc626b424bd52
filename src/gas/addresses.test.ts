import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DELEGATES } from '../ids.ts'
import { delegateNameOf, GAS_PAIRS, isDelegate } from './addresses.ts'
import { readGasContracts } from './contracts.ts'

for (const name of DELEGATES)
  test(`the addresses that are written down for ${name} are those that the code gives`, () => {
    const { dispatcher, delegate } = readGasContracts(name)
    assert.equal(`0x${GAS_PAIRS[name].dispatcher.toString('hex')}`, dispatcher)
    assert.equal(`0x${GAS_PAIRS[name].delegate.toString('hex')}`, delegate)
    assert.equal(delegateNameOf(GAS_PAIRS[name].dispatcher), name)
    assert.ok(isDelegate(GAS_PAIRS[name].delegate))
  })

test('a dispatcher is no code to delegate to, nor the other way round, and what is not ours is neither', () => {
  for (const name of DELEGATES) {
    assert.equal(delegateNameOf(GAS_PAIRS[name].delegate), null)
    assert.equal(isDelegate(GAS_PAIRS[name].dispatcher), false)
  }
  assert.equal(delegateNameOf(Buffer.alloc(20)), null)
  assert.equal(isDelegate(Buffer.alloc(20)), false)
})
