import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainNetwork, templatesAt } from '../applications/networks.ts'
import { readPresets } from './presets.ts'

test('each preset is a network that can be added as it is', async () => {
  for (const preset of await readPresets())
    assert.deepEqual(
      explainNetwork({ ...preset, explorer: templatesAt(preset.explorer), feeCapGwei: null }),
      [],
      preset.name,
    )
})

test('presets say how far their network’s blocks can be checked, whatever is set for all', async () => {
  const rules = new Map(
    (await readPresets()).map(({ name, followStrict, finality }) => [name, [followStrict, finality]]),
  )
  assert.deepEqual(rules.get('ethereum'), [null, 'finalized'])
  assert.deepEqual(rules.get('gnosis'), [null, 'finalized'])
  assert.deepEqual(rules.get('polygon'), ['lax', 256])
  assert.deepEqual(rules.get('polygon-amoy'), ['lax', 256])
  assert.deepEqual(rules.get('zksync'), ['lax', 'finalized'])
  // Deposits and messages have receipts that are not hashed as Ethereum's.
  for (const name of ['base', 'base-sepolia', 'optimism', 'celo', 'arbitrum', 'scroll'])
    assert.deepEqual(rules.get(name), ['off', 'finalized'], name)
})
