import { dispatchData } from '../../src/gas/dispatch.ts'
import type { Hex } from '../../src/ids.ts'
import { fromHex, toHex } from '../../src/hex.ts'
import { packedOf, readOnChain, type Packed } from './sponsor-chain.ts'
import type { SponsoredEvidence } from './sponsor-rows.ts'
import type { Tell } from './transactions-evidence.ts'
import { GAS } from './sponsor-world.ts'
import { COINS } from './transactions-world.ts'

/** operations in one transaction of the replay */
const AT_ONCE = 60
/** seconds: longer than an operation lives */
const LATER_SECONDS = 3_700

/**
 * A sponsor that turned bad has everything that people ever signed and it ever packed: it sends all of that once more, with every reason
 * gone for which something may have failed. Nothing is done of what the service called settled. After the last second of all of it nothing
 * is done at all.
 */
export async function judgeReplays(evidence: SponsoredEvidence, tell: Tell): Promise<void> {
  const { world, sponsors, operations, said } = evidence
  const { anvil } = world.node
  const packed = [...packedOf(world, sponsors).values()].map(([first]) => first!)
  if (packed.length === 0) return
  // What was cancelled among others is not told as settled: its id is free, and may be used until its time is over.
  const free = new Set(operations.filter((one) => one.state === 'SUBMITTED' && one.is_cancel && !said.settled.has(one.dispatcherId)).map((one) => one.dispatcherId)) // prettier-ignore
  const snapshot = await anvil.rpc<Hex>('evm_snapshot')
  try {
    await anvil.rpc('anvil_dropAllTransactions')
    for (const { address } of world.accounts)
      await anvil.rpc('anvil_setBalance', address, `0x${(10n * COINS).toString(16)}`)
    await send(evidence, packed.filter(({ id }) => !free.has(id))) // prettier-ignore
    await compare(evidence, 'what was settled', tell)
    await anvil.rpc('evm_increaseTime', LATER_SECONDS)
    await send(evidence, packed)
    await compare(evidence, 'what is long over', tell)
  } finally {
    await anvil.rpc('evm_revert', snapshot)
  }
}

async function send({ world, sponsors: { accounts, space } }: SponsoredEvidence, packed: Packed[]): Promise<void> {
  const { anvil } = world.node
  const from = accounts[0]!.address
  await anvil.rpc('anvil_setBalance', from, `0x${(10n * COINS).toString(16)}`)
  await anvil.rpc('anvil_impersonateAccount', from)
  for (let start = 0; start < packed.length; start += AT_ONCE) {
    const some = packed.slice(start, start + AT_ONCE).map(({ bytes }) => Buffer.from(fromHex(bytes)))
    const data = toHex(dispatchData(Buffer.from(fromHex(space)), some))
    const hash = await anvil.rpc<Hex>('eth_sendTransaction', { from, to: GAS.dispatcher, data, gas: '0xe00000' })
    await anvil.rpc('evm_mine')
    const receipt = await anvil.rpc<{ status: Hex } | null>('eth_getTransactionReceipt', hash)
    if (receipt?.status !== '0x1') throw new Error('a replay was not mined')
  }
  await anvil.rpc('anvil_stopImpersonatingAccount', from)
}

async function compare({ world, sponsors, said }: SponsoredEvidence, what: string, tell: Tell): Promise<void> {
  const { effects } = await readOnChain(world, sponsors)
  for (const [name, times] of effects)
    if (times > (said.effects.get(name) ?? 0)) tell('doubled', `sent once more, ${what} is done again: ${name}`)
}
