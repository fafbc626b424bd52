import type { Hex } from '../../src/ids.ts'
import { decodeFunctionResult, encodeFunctionData, parseAbi } from 'viem'
import { askAll } from './transactions-chain.ts'
import type { Tell } from './transactions-evidence.ts'
import { effectsOf, partsOf } from './sponsor-chain.ts'
import type { SponsoredEvidence } from './sponsor-rows.ts'
import { GAS, startOf } from './sponsor-world.ts'
import { COINS, TOKENS } from './transactions-world.ts'

const abi = parseAbi([
  'function balanceOf(address) view returns (uint256)',
  'function countOf(address) view returns (uint256)',
])
/** the code of an account that delegated. Source: EIP-7702 */
const DELEGATED: Hex = `0xef0100${GAS.delegate.slice(2)}`

type Purse = { coins: bigint; tokens: bigint; count: bigint }

/**
 * What accounts and the contract hold on the chain is what they had, less and plus what clients asked for where the dispatcher says that
 * it was done. Sponsors have paid the fees of their own transactions and nothing else; people no fee at all. Who did anything has
 * delegated, once, and to nothing else.
 */
export async function judgePurses(evidence: SponsoredEvidence, tell: Tell): Promise<void> {
  const { world, people, writes, said } = evidence
  const purses = new Map<Hex, Purse>([
    [world.probe, { coins: world.given.get(world.probe) ?? 0n, tokens: 0n, count: 0n }],
  ])
  for (const person of people)
    purses.set(person.address, {
      coins: startOf(world, person) + (world.given.get(person.address) ?? 0n),
      tokens: TOKENS,
      count: 0n,
    })
  const active = new Set<Hex>()
  const add = (address: Hex, what: keyof Purse, amount: bigint) => {
    const purse = purses.get(address)
    if (purse !== undefined) purse[what] += amount
  }
  for (const write of writes) {
    const { address } = write.account
    const id = write.answer?.operation?.id
    // Of what nobody was told only the contracts speak.
    const isDone =
      id === undefined
        ? effectsOf(write).some((name) => (said.effects.get(name) ?? 0) > 0)
        : said.settled.get(id)?.[0]?.event.kind === 'Done'
    if (!isDone) continue
    active.add(address)
    for (const part of partsOf(write.want)) {
      if (part.kind === 'add') add(address, 'count', part.amount)
      else if (part.kind === 'pay') {
        add(address, 'coins', -part.wei)
        add(world.probe, 'coins', part.wei)
      } else {
        add(address, 'tokens', -part.amount)
        add(part.to, 'tokens', part.amount)
      }
    }
  }
  const all = [...purses]
  const call = (to: Hex, functionName: 'balanceOf' | 'countOf', address: Hex) => ({
    method: 'eth_call',
    params: [{ to, data: encodeFunctionData({ abi, functionName, args: [address] }) }, 'latest'],
  })
  const held = await askAll<Hex>(
    world,
    all.flatMap(([address]) => [
      { method: 'eth_getBalance', params: [address, 'latest'] },
      call(world.token, 'balanceOf', address),
      call(world.probe, 'countOf', address),
    ]),
  )
  const numberOf = (data: Hex, functionName: 'balanceOf' | 'countOf') =>
    decodeFunctionResult({ abi, functionName, data })
  for (const [index, [address, { coins, tokens, count }]] of all.entries()) {
    if (BigInt(held[3 * index]!) !== coins)
      tell('money', `${address} has ${BigInt(held[3 * index]!)} wei, by what was asked for ${coins}`)
    if (numberOf(held[3 * index + 1]!, 'balanceOf') !== tokens)
      tell('money', `${address} has other tokens than ${tokens}`)
    if (numberOf(held[3 * index + 2]!, 'countOf') !== count)
      tell(
        'doubled',
        `${address} added ${numberOf(held[3 * index + 2]!, 'countOf')} to its number, by what was asked for ${count}`,
      )
  }
  await judgeDelegations(evidence, active, tell)
  await judgeFees(evidence, tell)
}

/** People send nothing themselves: the one nonce that they ever use is that of their delegation, and it is to the delegate. */
async function judgeDelegations({ world, people }: SponsoredEvidence, active: Set<Hex>, tell: Tell): Promise<void> {
  const answers = await askAll<Hex>(
    world,
    people.flatMap(({ address }) => [
      { method: 'eth_getCode', params: [address, 'latest'] },
      { method: 'eth_getTransactionCount', params: [address, 'latest'] },
    ]),
  )
  for (const [index, { name, address }] of people.entries()) {
    const [code, count] = [answers[2 * index]!, Number(answers[2 * index + 1]!)]
    if (code !== '0x' && code !== DELEGATED)
      tell('money', `${name} has other code than the delegate's: ${code.slice(0, 60)}`)
    if (active.has(address) && code !== DELEGATED) tell('doubled', `${name} did something, and has not delegated`)
    if (count !== (code === '0x' ? 0 : 1)) tell('gaps', `${name} is at nonce ${count}`)
  }
}

/** Sponsors have what they were given less the fees of their receipts, none above the cap; and budgets count no less than that. */
async function judgeFees({ world, sponsors, said, operations, spent }: SponsoredEvidence, tell: Tell): Promise<void> {
  let carrying = 0n
  for (const { name, address } of sponsors.accounts) {
    let paid = 0n
    for (const { hash, from, to } of said.outers) {
      if (from !== address) continue
      const { gasUsed, effectiveGasPrice } = said.receipts.get(hash)!
      paid += gasUsed * (effectiveGasPrice < world.feeCapWei ? effectiveGasPrice : world.feeCapWei)
      if (to === GAS.dispatcher) carrying += gasUsed * effectiveGasPrice
    }
    const held = BigInt(await world.node.anvil.rpc<Hex>('eth_getBalance', address, 'latest'))
    const expected = COINS + (world.given.get(address) ?? 0n) - paid
    if (held !== expected) tell('money', `${name} has ${held} wei, by its receipts ${expected}`)
  }
  const charged = operations.reduce((sum, { charged: wei }) => sum + BigInt(wei), 0n)
  if (charged < carrying) tell('money', `operations are charged ${charged} wei, their transactions cost ${carrying}`)
  if (spent < carrying) tell('money', `budgets count ${spent} wei, transactions cost ${carrying}`)
}
