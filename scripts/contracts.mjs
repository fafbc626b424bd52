/**
 * Compiles contracts/*.sol and writes contracts/out/<Contract>.json: { abi, bytecode, deployedBytecode }.
 * With --check it writes nothing and fails when what is committed is not what the sources give.
 */
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const out = join(root, 'contracts', 'out')

const fresh = compile()
if (process.argv.includes('--check')) {
  const wrong = differences(fresh)
  for (const line of wrong) console.error(line)
  console.log(wrong.length === 0 ? `${fresh.size} contracts rebuild as committed.` : 'Run `npm run contracts`.')
  process.exitCode = wrong.length === 0 ? 0 : 1
} else {
  rmSync(out, { recursive: true, force: true })
  mkdirSync(out, { recursive: true })
  for (const [name, text] of fresh) writeFileSync(join(out, `${name}.json`), text)
  console.log(`${fresh.size} contracts compiled.`)
}

/** @returns file text by contract name, only for contracts of our own that can be deployed */
function compile() {
  const require = createRequire(join(root, 'package.json'))
  const solc = require('solc')
  const files = globSync('contracts/*.sol', { cwd: root }).toSorted()
  const input = {
    language: 'Solidity',
    sources: Object.fromEntries(files.map((file) => [file, { content: readFileSync(join(root, file), 'utf8') }])),
    settings: {
      evmVersion: 'cancun',
      optimizer: { enabled: true, runs: 200 },
      // Without the metadata hash the same source gives the same bytes wherever it is compiled.
      metadata: { appendCBOR: false, bytecodeHash: 'none' },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode'] } },
    },
  }
  const readImport = (path) => ({ contents: readFileSync(join(root, 'node_modules', path), 'utf8') })
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: readImport }))
  const problems = (output.errors ?? []).filter(({ severity }) => severity !== 'info')
  for (const problem of problems) console.error(problem.formattedMessage)
  if (problems.length > 0) process.exit(1)
  return new Map(
    files
      .flatMap((file) => Object.entries(output.contracts[file]))
      .filter(([, { evm }]) => evm.bytecode.object !== '')
      .map(([name, { abi, evm }]) => {
        const artefact = {
          abi,
          bytecode: `0x${evm.bytecode.object}`,
          deployedBytecode: `0x${evm.deployedBytecode.object}`,
          ...whatOthersRebuild(name, {
            immutables: evm.deployedBytecode.immutableReferences,
            settings: input.settings,
          }),
        }
        return [name, `${JSON.stringify(artefact, null, 1)}\n`]
      }),
  )
}

/**
 * Of the contracts that are deployed on public networks: where the values of immutables are in their code, in the order they
 * are declared in, and what an auditor needs to get the same bytes.
 */
function whatOthersRebuild(name, { immutables, settings: { evmVersion, optimizer, metadata } }) {
  if (!['Delegate', 'Dispatcher', 'CaliburDispatcher'].includes(name)) return {}
  const inOrder = Object.entries(immutables).toSorted(([a], [b]) => Number(a) - Number(b))
  const places = inOrder.map(([, uses]) => uses.map(({ start }) => start))
  return {
    immutables: places,
    compiler: { name: 'solc', version: '0.8.37', settings: { evmVersion, optimizer, metadata } },
  }
}

function differences(fresh) {
  const committed = new Set(globSync('*.json', { cwd: out }).map((file) => file.slice(0, -'.json'.length)))
  const wrong = [...committed]
    .filter((name) => !fresh.has(name))
    .map((name) => `contracts/out/${name}.json has no source`)
  for (const [name, text] of fresh) {
    if (!committed.has(name)) wrong.push(`contracts/out/${name}.json is missing`)
    else if (readFileSync(join(out, `${name}.json`), 'utf8') !== text) wrong.push(`contracts/out/${name}.json differs`)
  }
  return wrong
}
