import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DELEGATE, DISPATCHER } from './addresses.ts'
import { readGasContracts } from './contracts.ts'

test('the addresses that are written down are those that the code gives', () => {
  const { dispatcher, delegate } = readGasContracts()
  assert.equal(`0x${DISPATCHER.toString('hex')}`, dispatcher)
  assert.equal(`0x${DELEGATE.toString('hex')}`, delegate)
})
