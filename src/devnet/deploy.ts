import { readFileSync } from 'node:fs'
import { checksumAddress } from '../abi/address.ts'
import { DEPLOYER, DEPLOYER_CODE, readGasContracts } from '../gas/contracts.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { rpc } from './rpc.ts'
import { fromHex } from '../hex.ts'

export type Samples = { erc20: Hex; erc721: Hex; erc1155: Hex; multicall3: Hex }
type Artefact = { bytecode: Hex; deployedBytecode: Hex }

/** Where public networks have Multicall3. */
const MULTICALL3 = '0xcA11bde05977b3631167028862bE2a173976CA11'
const SALT = `0x${'00'.repeat(32)}` as const
const LOOKS = 20

/**
 * Makes sure that the sample contracts and those of sponsored gas are on the development chain. Their addresses are the same on every
 * installation; what is there already is left alone, what the chain lost comes back at its address.
 * @returns EIP-55 addresses
 */
export async function deploySamples(rpcUrl: string): Promise<Samples> {
  await place(rpcUrl, MULTICALL3, artefact('Multicall3').deployedBytecode)
  // Where `network deploy-gas` puts them on every other network.
  const { dispatcher, delegate, dispatcherCode, delegateCode } = readGasContracts()
  await place(rpcUrl, dispatcher, dispatcherCode)
  await place(rpcUrl, delegate, delegateCode)
  const [erc20, erc721, erc1155] = await deploy(rpcUrl, ['SampleToken', 'SampleCollectible', 'SampleItems'])
  return { erc20: erc20!, erc721: erc721!, erc1155: erc1155!, multicall3: MULTICALL3 }
}

/**
 * Deploys compiled contracts that take no constructor arguments, sent by the first development account.
 * @param names  files of contracts/out
 * @returns addresses in the order of the names
 */
export async function deploy(rpcUrl: string, names: string[]): Promise<Hex[]> {
  const contracts = names.map((name) => {
    const { bytecode } = artefact(name)
    return { bytecode, address: create2Address(bytecode) }
  })
  // anvil has it in its genesis, but not after an anvil_reset.
  await place(rpcUrl, DEPLOYER, DEPLOYER_CODE)
  const [sender] = await rpc<Hex[]>(rpcUrl, 'eth_accounts')
  for (const { address, bytecode } of contracts) {
    // One after the other: anvil gives the same nonce to sends that arrive together.
    if (!(await hasCode(rpcUrl, address)))
      await rpc(rpcUrl, 'eth_sendTransaction', { from: sender, to: DEPLOYER, data: `${SALT}${bytecode.slice(2)}` })
  }
  for (const { address } of contracts) await untilCode(rpcUrl, address)
  return contracts.map(({ address }) => address)
}

/** EIP-1014: where the deployer puts this code. */
function create2Address(bytecode: Hex): Hex {
  const parts = ['0xff', DEPLOYER, SALT, keccak(fromHex(bytecode))].map((part) =>
    typeof part === 'string' ? fromHex(part) : part,
  )
  return checksumAddress(`0x${keccak(Buffer.concat(parts)).subarray(12).toString('hex')}`)
}

/** Puts code where no transaction could put it. */
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
