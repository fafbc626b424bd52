// tier: all, because each planted mistake compiles the contracts again
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { DelegateName, Hex } from '../../src/ids.ts'
import { openEdr, type Evm } from './evm.ts'
import { compileGas, gasMutants, gasSources } from './mutants.ts'
import { account } from './scenarios-account.ts'
import { calibur } from './scenarios-calibur.ts'
import { limits } from './scenarios-limits.ts'
import { authority } from './scenarios.ts'
import { artefact, openStage } from './stage.ts'

const EVERY = process.env.GAS_MUTANTS === 'all'
/** Compiling takes seconds, so the suite tries a few: those of which each would be a theft. */
const inSuite = ['in a frame that', 'not looked at', 'chain id 0', 'any valid signature', 'anybody may execute']
const chosen = gasMutants.filter(({ what }) => EVERY || inSuite.some((part) => what.includes(part)))

let evm: Evm
before(async () => {
  evm = await openEdr()
})
after(() => evm?.close())

test('each mistake fits the sources as they are', () => {
  const sources = gasSources()
  for (const { file, what, old } of gasMutants) assert.equal(sources[file].split(old).length, 2, what)
})

test('what is tried here compiles, without a mistake, to what is committed', () => {
  assert.equal(compileGas(gasSources()), artefact('Dispatcher').bytecode)
  assert.equal(compileGas(gasSources(), 'CaliburDispatcher'), artefact('CaliburDispatcher').bytecode)
})

for (const { file, what, old, mistaken } of chosen)
  test(`it is noticed when ${what}`, async (t) => {
    const sources = gasSources()
    const delegate = file === 'CaliburDispatcher' ? 'calibur' : 'chatelaine'
    const mutant = { ...sources, [file]: sources[file].replace(old, () => mistaken) }
    const bytecode = compileGas(mutant, file === 'CaliburDispatcher' ? file : 'Dispatcher')
    const before = await evm.rpc('evm_snapshot')
    try {
      assert.ok(await isNoticed(bytecode, delegate, (sentence) => t.diagnostic(sentence)))
    } finally {
      await evm.rpc('evm_revert', before)
    }
  })

/** Whether one of the sentences does not hold any more. */
async function isNoticed(bytecode: Hex, delegate: DelegateName, tell: (sentence: string) => void): Promise<boolean> {
  const stage = await openStage(evm, bytecode, delegate)
  const sentences = delegate === 'calibur' ? calibur : [...authority, ...limits, ...account]
  for (const [sentence, look] of sentences) {
    try {
      await stage.apart(() => look(stage))
    } catch (error) {
      // A stage that broke would notice everything.
      if (!(error instanceof assert.AssertionError)) throw error
      tell(sentence)
      return true
    }
  }
  return false
}
