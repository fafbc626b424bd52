import { readFileSync } from 'node:fs'
import { checksumAddress } from '../digits.ts'
import { DEPLOYER, DEPLOYER_CODE, readGasContracts } from '../gas/contracts.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { rpc } from './rpc.ts'
import { fromHex } from '../hex.ts'

export type Samples = { erc20: Hex; erc721: Hex; erc1155: Hex; multicall3: Hex }
type Artefact = { bytecode: Hex; deployedBytecode: Hex }

/** Address of Multicall3 on public networks. */
const MULTICALL3 = '0xcA11bde05977b3631167028862bE2a173976CA11'
const SALT = `0x${'00'.repeat(32)}` as const
const LOOKS = 20

/**
 * Ensures that the sample contracts and the sponsored-gas contracts are on the development chain. Their addresses are
 * the same on every installation. Existing ones are left alone, and lost ones are deployed again.
 * @returns EIP-55 addresses
 */
export async function deploySamples(rpcUrl: string): Promise<Samples> {
  await place(rpcUrl, MULTICALL3, artefact('Multicall3').deployedBytecode)
  // The addresses that `network deploy-gas` uses on every other network.
  const { dispatcher, delegate, dispatcherCode, delegateCode } = readGasContracts()
  await place(rpcUrl, dispatcher, dispatcherCode)
  await place(rpcUrl, delegate, delegateCode)
  const [erc20, erc721, erc1155] = await deploy(rpcUrl, ['SampleToken', 'SampleCollectible', 'SampleItems'])
  return { erc20: erc20!, erc721: erc721!, erc1155: erc1155!, multicall3: MULTICALL3 }
}

/**
 * Deploys compiled contracts without constructor arguments, sent by the first development account.
 * @param names  files in contracts/out
 * @returns addresses in the order of the names
 */
export async function deploy(rpcUrl: string, names: string[]): Promise<Hex[]> {
  const contracts = names.map((name) => {
    const { bytecode } = artefact(name)
    return { bytecode, address: create2Address(bytecode) }
  })
  // anvil has the deployer in its genesis, but not after anvil_reset.
  await place(rpcUrl, DEPLOYER, DEPLOYER_CODE)
  const [sender] = await rpc<Hex[]>(rpcUrl, 'eth_accounts')
  for (const { address, bytecode } of contracts) {
    // Send one by one: anvil assigns the same nonce to transactions that arrive together.
    if (!(await hasCode(rpcUrl, address)))
      await rpc(rpcUrl, 'eth_sendTransaction', { from: sender, to: DEPLOYER, data: `${SALT}${bytecode.slice(2)}` })
  }
  for (const { address } of contracts) await untilCode(rpcUrl, address)
  return contracts.map(({ address }) => address)
}

/** Computes the address at which the deployer puts this code. Source: EIP-1014 */
function create2Address(bytecode: Hex): Hex {
  const parts = ['0xff', DEPLOYER, SALT, keccak(fromHex(bytecode))].map((part) =>
    typeof part === 'string' ? fromHex(part) : part,
  )
  return checksumAddress(`0x${keccak(Buffer.concat(parts)).subarray(12).toString('hex')}`)
}

/** Puts code at an address where no transaction could deploy it. */
async function place(rpcUrl: string, address: Hex, code: Hex): Promise<void> {
  const there = await rpc<Hex>(rpcUrl, 'eth_getCode', address, 'latest')
  if (there !== code) await rpc(rpcUrl, 'anvil_setCode', address, code)
}

async function untilCode(rpcUrl: string, address: Hex): Promise<void> {
  for (let look = 0; look < LOOKS; look++) {
    if (await hasCode(rpcUrl, address)) return
    await rpc(rpcUrl, 'evm_mine')
  }
  throw new Error(`The sample contract at ${address} could not be deployed.`)
}

const hasCode = async (rpcUrl: string, address: Hex): Promise<boolean> =>
  (await rpc<Hex>(rpcUrl, 'eth_getCode', address, 'latest')) !== '0x'

function artefact(name: string): Artefact {
  return JSON.parse(readFileSync(new URL(`../../contracts/out/${name}.json`, import.meta.url), 'utf8'))
}
