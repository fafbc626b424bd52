import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainNetwork } from '../applications/network-facts.ts'
import { templatesAt } from '../applications/networks.ts'
import { readPresets } from './presets.ts'

test('each preset is a network that can be added as it is', async () => {
  for (const preset of await readPresets())
    assert.deepEqual(
      explainNetwork({ ...preset, explorer: templatesAt(preset.explorer), feeCapGwei: null, gas: 'self' }),
      [],
      preset.name,
    )
})

test('presets say how far their network’s blocks can be checked, whatever is set for all', async () => {
  const rules = new Map(
    (await readPresets()).map(({ name, blockVerification, finality }) => [name, [blockVerification, finality]]),
  )
  assert.deepEqual(rules.get('ethereum'), [null, 'finalized'])
  assert.deepEqual(rules.get('gnosis'), [null, 'finalized'])
  assert.deepEqual(rules.get('polygon'), ['count', 256])
  assert.deepEqual(rules.get('polygon-amoy'), ['count', 256])
  assert.deepEqual(rules.get('zksync'), ['count', 'finalized'])
  // Deposits and messages have receipts that are not hashed as Ethereum's.
  for (const name of ['base', 'base-sepolia', 'optimism', 'celo', 'arbitrum', 'scroll'])
    assert.deepEqual(rules.get(name), ['bloom', 'finalized'], name)
})

test('no preset needs NATIVE_DECIMALS: the native currency of each has 18', async () => {
  const library = Object.values(await import('viem/chains'))
  for (const { name, chainId } of await readPresets()) {
    const decimals = library.flatMap((one) => ('id' in one && one.id === chainId ? [one.nativeCurrency.decimals] : []))
    assert.ok(decimals.length > 0 && decimals.every((each) => each === 18), name)
  }
})

test('presets say how often their network has a block, as the library does where it knows', async () => {
  const library = Object.values(await import('viem/chains'))
  const presets = await readPresets()
  const known = presets.flatMap(({ name, chainId, blockMs }) => {
    const chain = library.find((one) => 'id' in one && one.id === chainId) as { blockTime?: number } | undefined
    return chain?.blockTime === undefined ? [] : [[name, blockMs, chain.blockTime]]
  })
  assert.ok(known.length > 10)
  for (const [name, ours, theirs] of known) assert.equal(ours, theirs, String(name))
  assert.deepEqual(
    ['sepolia', 'polygon-amoy'].map((name) => presets.find((one) => one.name === name)?.blockMs),
    [12_000, 2_000],
  )
})
