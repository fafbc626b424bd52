import { setImmediate } from 'node:timers/promises'
import { quantityOf, type Hex } from '../ids.ts'
import { rpc } from './rpc.ts'

const TEN_COINS = 10n * 10n ** 18n

/**
 * Funds an account of the development chain, so that its first write works. The balance is set, not sent:
 * there is no funding account whose nonces many gifts at once would fight over, and giving twice gives once.
 * A block is mined afterwards, because balances are read and cached by block; gifts that arrive together share it.
 * @param wei  what the account then holds, in wei; nothing happens while it holds a tenth of that
 * @returns whether anything was given
 */
export async function giveCoins(rpcUrl: string, address: Hex, wei: bigint = TEN_COINS): Promise<boolean> {
  const held = BigInt(await rpc<Hex>(rpcUrl, 'eth_getBalance', address, 'latest'))
  if (held >= wei / 10n) return false
  await rpc(rpcUrl, 'anvil_setBalance', address, quantityOf(wei))
  await mineSoon(rpcUrl)
  return true
}

const coming = new Map<string, Promise<unknown>>()

/** Joins a block that is asked for but not yet mined, else asks for one. */
function mineSoon(rpcUrl: string): Promise<unknown> {
  const block =
    coming.get(rpcUrl) ??
    setImmediate().then(() => {
      coming.delete(rpcUrl)
      return rpc(rpcUrl, 'evm_mine')
    })
  coming.set(rpcUrl, block)
  return block
}
