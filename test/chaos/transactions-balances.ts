import { decodeFunctionResult, encodeFunctionData, parseAbi } from 'viem'
import type { Hex } from '../../src/ids.ts'
import { askAll, type Log, type MinedTx } from './transactions-chain.ts'
import { doesNothing, effectOf, nameOf, type Write } from './transactions-client.ts'
import type { Evidence, Tell } from './transactions-evidence.ts'
import { COINS, TOKENS } from './transactions-world.ts'

const abi = parseAbi(['function balanceOf(address) view returns (uint256)'])

/**
 * Every account and the contract have the coins and tokens that they had and were given, less and plus what clients
 * asked to move, once each where the chain says that it succeeded, less the fees of its receipts up to the cap. What a
 * transaction moved that nobody asked for is not in that sum, so that the chain cannot bear itself out.
 */
export async function judgeBalances(evidence: Evidence, tell: Tell): Promise<void> {
  const { world } = evidence
  const purses = [...expectedPurses(evidence)]
  const answers = await askAll<Hex>(
    world,
    purses.flatMap(([address]) => [
      { method: 'eth_getBalance', params: [address, 'latest'] },
      {
        method: 'eth_call',
        params: [{ to: world.token, data: encodeFunctionData({ abi, args: [address] }) }, 'latest'],
      },
    ]),
  )
  for (const [index, [address, { coins, tokens }]] of purses.entries()) {
    const heldCoins = BigInt(answers[2 * index]!)
    const heldTokens = decodeFunctionResult({ abi, data: answers[2 * index + 1]! })
    if (heldCoins !== coins) tell('money', `${address} has ${heldCoins} wei, by what was asked for ${coins}`)
    if (heldTokens !== tokens)
      tell('money', `${address} has ${heldTokens} of the token, by what was asked for ${tokens}`)
  }
}

/** wei, and units of the token */
type Purse = { coins: bigint; tokens: bigint }
type Move = { what: keyof Purse; from: Hex; to: Hex | null; amount: bigint }

function expectedPurses({ world, accounts, writes, chain, receipts }: Evidence): Map<Hex, Purse> {
  const purses = new Map<Hex, Purse>([[world.probe, { coins: world.given.get(world.probe) ?? 0n, tokens: 0n }]])
  for (const { address } of accounts)
    purses.set(address, { coins: COINS + (world.given.get(address) ?? 0n), tokens: TOKENS })
  const add = (address: Hex | null, what: keyof Purse, amount: bigint) => {
    const purse = address === null ? undefined : purses.get(address)
    if (purse !== undefined) purse[what] += amount
  }
  const move = ({ what, from, to, amount }: Move) => {
    add(from, what, -amount)
    add(to, what, amount)
  }
  const judged = new Set(accounts.map(({ address }) => address))
  // Accounts of other scenarios in this world, whose writes are judged there; they pay the contract too.
  const others = new Set(world.accounts.map(({ address }) => address).filter((address) => !judged.has(address)))
  const open = new Map(writes.map((write) => [nameOf(write.account.address, effectOf(world, write)), write]))
  for (const tx of chain.transactions) {
    if (tx.block.number <= world.firstBlock) continue
    const { succeeded, gasUsed, effectiveGasPrice, logs } = receipts.get(tx.hash)!
    if (world.foreign.has(tx.hash) || others.has(tx.from)) {
      add(tx.from, 'coins', -gasUsed * effectiveGasPrice)
      if (succeeded) for (const one of movesOf(tx, logs, world.token)) move(one)
      continue
    }
    const name = nameOf(tx.from, tx)
    const write = open.get(name)
    if (write === undefined && !doesNothing(tx.from, tx)) continue
    open.delete(name)
    const price = effectiveGasPrice < world.feeCapWei ? effectiveGasPrice : world.feeCapWei
    add(tx.from, 'coins', -gasUsed * price)
    if (succeeded && write !== undefined) for (const one of wantedBy(write, world.probe)) move(one)
  }
  return purses
}

function wantedBy({ account: { address: from }, want }: Write, probe: Hex): Move[] {
  if (want.kind === 'pay') return [{ what: 'coins', from, to: probe, amount: want.wei }]
  if (want.kind === 'move') return [{ what: 'tokens', from, to: want.to, amount: want.amount }]
  return []
}

/** keccak256 of `Transfer(address,address,uint256)` */
export const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/** What the chain says that a successful transaction moved: only of those that are not the service's. */
function movesOf({ from, to, value }: MinedTx, logs: Log[], token: Hex): Move[] {
  const moves: Move[] = [{ what: 'coins', from, to, amount: value }]
  for (const { address, topics, data } of logs) {
    if (address !== token || topics[0] !== TRANSFER || topics.length !== 3) continue
    const [sender, recipient] = topics.slice(1).map((topic) => `0x${topic.slice(26)}` as Hex) as [Hex, Hex]
    moves.push({ what: 'tokens', from: sender, to: recipient, amount: BigInt(data) })
  }
  return moves
}
