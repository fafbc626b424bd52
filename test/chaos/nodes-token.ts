import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Hex } from '../../src/ids.ts'
import type { Profile } from './nodes-profiles.ts'

const ROOT = join(import.meta.dirname, '../..')
const SOURCE = 'contracts/Samples.sol'

type Compiled = { contracts: Record<string, Record<string, { evm: { bytecode: { object: string } } }>> }

/** The sample token as a network of this kind can run it: those without a base fee are older than the committed bytes. */
export function tokenBytecode({ hasBaseFee }: Profile): Hex {
  if (hasBaseFee)
    return (JSON.parse(readFileSync(join(ROOT, 'contracts/out/SampleToken.json'), 'utf8')) as { bytecode: Hex })
      .bytecode
  const whole = readFileSync(join(ROOT, SOURCE), 'utf8')
  // The other samples need instructions that these networks do not have.
  const content = whole
    .slice(0, whole.search(/^contract SampleCollectible/m))
    .replaceAll(/^import.*ERC(721|1155).*$/gm, '')
  const solc = createRequire(import.meta.url)('solc') as { compile(input: string, options: object): string }
  const input = {
    language: 'Solidity',
    sources: { [SOURCE]: { content } },
    settings: {
      evmVersion: 'berlin',
      optimizer: { enabled: true, runs: 200 },
      outputSelection: { '*': { SampleToken: ['evm.bytecode.object'] } },
    },
  }
  const readImport = (path: string) => ({ contents: readFileSync(join(ROOT, 'node_modules', path), 'utf8') })
  const { contracts } = JSON.parse(solc.compile(JSON.stringify(input), { import: readImport })) as Compiled
  return `0x${contracts[SOURCE]!.SampleToken!.evm.bytecode.object}`
}
