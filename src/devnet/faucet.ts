import { setImmediate } from 'node:timers/promises'
import { quantityOf, type Hex } from '../ids.ts'
import { rpc } from './rpc.ts'

const TEN_COINS = 10n * 10n ** 18n

/**
 * Funds an account of the development chain, so that its first write works. It sets the balance instead of sending
 * funds: that needs no funding account with a contended nonce, and repeating it is harmless. Then it mines a block,
 * because balances are cached by block; concurrent calls share that block.
 * @param wei  new balance; nothing happens if the account has at least a tenth of it
 * @returns whether the account was funded
 */
export async function giveCoins(rpcUrl: string, address: Hex, wei: bigint = TEN_COINS): Promise<boolean> {
  const held = BigInt(await rpc<Hex>(rpcUrl, 'eth_getBalance', address, 'latest'))
  if (held >= wei / 10n) return false
  await rpc(rpcUrl, 'anvil_setBalance', address, quantityOf(wei))
  await mineSoon(rpcUrl)
  return true
}

const coming = new Map<string, Promise<unknown>>()

/** Joins a block that is requested but not mined yet, else requests one. */
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
