import { readGasContracts } from '../gas/contracts.ts'
import type { DelegateName, Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { rpc } from './rpc.ts'

const selectorOf = (signature: string): string => keccak(Buffer.from(signature)).toString('hex').slice(0, 8)
const padded = (address: Hex): string => address.slice(2).toLowerCase().padStart(64, '0')
const LOOKS = 40

/** Returns the space of a development chain: the first account of its node, which has the key. Lower-case. */
export async function spaceOf(rpcUrl: string): Promise<Hex> {
  const [first] = await rpc<Hex[]>(rpcUrl, 'eth_accounts')
  return first!.toLowerCase() as Hex
}

/**
 * Allows a sponsor to send operations of the space, for accounts that delegate to this code. Does nothing if it may
 * already.
 */
export async function allowSponsor(rpcUrl: string, address: Hex, name: DelegateName = 'chatelaine'): Promise<void> {
  const { dispatcher } = readGasContracts(name)
  const space = await spaceOf(rpcUrl)
  const isAllowed = async () => {
    const data = `0x${selectorOf('isSponsor(address,address)')}${padded(space)}${padded(address)}`
    return BigInt(await rpc<Hex>(rpcUrl, 'eth_call', { to: dispatcher, data }, 'latest')) === 1n
  }
  if (await isAllowed()) return
  const data = `0x${selectorOf('setSponsor(address,bool)')}${padded(address)}${'1'.padStart(64, '0')}`
  await rpc(rpcUrl, 'eth_sendTransaction', { from: space, to: dispatcher, data })
  for (let look = 0; look < LOOKS; look++) {
    if (await isAllowed()) return
    await rpc(rpcUrl, 'evm_mine')
  }
  throw new Error('The sponsor of the development chain could not be allowed.')
}
