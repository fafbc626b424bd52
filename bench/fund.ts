import { keccak256 } from 'viem/utils'
import { openNode } from '../src/chain/rpc/node.ts'
import type { Hex } from '../src/ids.ts'

/** Gives accounts a million coins, and tokens in the token's own storage. */
export async function fund(nodeUrl: string, erc20: string, to: Hex[]): Promise<void> {
  const { ask, close } = openNode(nodeUrl)
  const calls = to.flatMap((address) => [
    { method: 'anvil_setBalance', params: [address, '0xd3c21bcecceda1000000'] },
    // Slot 0 of OpenZeppelin's ERC20 is the mapping of balances; docs.soliditylang.org, "Layout of State Variables".
    {
      method: 'anvil_setStorageAt',
      params: [
        erc20,
        keccak256(`0x${address.slice(2).padStart(64, '0')}${'0'.repeat(64)}`),
        `0x${'f'.repeat(24).padStart(64, '0')}`,
      ],
    },
  ])
  for (let at = 0; at < calls.length; at += 100) await ask(calls.slice(at, at + 100), { timeoutMs: 30_000 })
  close()
}

export async function addressOfUser(url: string, userId: string, token: string): Promise<Hex> {
  const response = await fetch(`${url}/v1/users/${userId}`, { headers: { authorization: `Bearer ${token}` } })
  return JSON.stringify(await response.json())
    .match(/0x[0-9a-fA-F]{40}/)![0]
    .toLowerCase() as Hex
}
