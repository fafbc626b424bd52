import { toEventSelector } from 'viem'
import type { Hex } from '../../src/ids.ts'
import { readChain, readReceipts, type Canonical, type Log, type MinedTx, type Receipt } from './transactions-chain.ts'
import type { Part, Write } from './transactions-client.ts'
import { saidBy } from './sponsor-events.ts'
import { GAS, type Sponsors } from './sponsor-world.ts'
import { TRANSFER } from './transactions-balances.ts'
import type { ChaosWorld } from './transactions-world.ts'

/** What the dispatcher said of an id, of whose operation, and in which transaction. */
export type Settled = {
  tx: MinedTx
  account: Hex | null
  event: { kind: 'Done' | 'Cancelled' } | { kind: 'Failed'; reason: Hex }
}

/** What the canonical chain says of operations: by the dispatcher's events, and by what contracts logged that something was done. */
export type OnChain = {
  chain: Canonical
  receipts: Map<Hex, Receipt>
  /** by id, 32 bytes in lower case: all that was said but that it was used before */
  settled: Map<Hex, Settled[]>
  /** by the name of an effect how often it is there */
  effects: Map<string, number>
  /** transactions of sponsors, and by sender and nonce */
  outers: MinedTx[]
}

/** An operation as it stands in the calldata of a transaction that somebody gave to the node. */
export type Packed = { id: Hex; account: Hex; deadline: number; bytes: Hex }

export async function readOnChain(world: ChaosWorld, sponsors: Sponsors): Promise<OnChain> {
  const chain = await readChain(world)
  const later = chain.transactions.filter(({ block }) => block.number > world.firstBlock)
  const receipts = await readReceipts(world, later)
  const settled: OnChain['settled'] = new Map()
  for (const tx of later) {
    const { succeeded, logs } = receipts.get(tx.hash)!
    if (!succeeded) continue
    for (const { id, account, ...event } of saidBy(GAS.dispatcher, logs))
      if (event.kind !== 'Skipped')
        settled.set(id, [
          ...(settled.get(id) ?? []),
          { tx, account, event: { ...event, kind: event.kind } as Settled['event'] },
        ])
  }
  const own = new Set(sponsors.accounts.map(({ address }) => address))
  return {
    ...{ chain, receipts, settled },
    effects: effectsIn(world, later.flatMap(({ hash }) => receipts.get(hash)!.logs)), // prettier-ignore
    outers: later.filter(({ from }) => own.has(from)),
  }
}

// Source: contracts/Probe.sol
const COUNTED = toEventSelector('Counted(address,uint256)')
const PAID = toEventSelector('Paid(address,uint256)')

/** Of a number that only grows by what each adds, what was added. */
function effectsIn({ probe, token }: ChaosWorld, logs: Log[]): Map<string, number> {
  const effects = new Map<string, number>()
  const add = (name: string) => effects.set(name, (effects.get(name) ?? 0) + 1)
  let count = 0n
  for (const { address, topics, data } of logs) {
    const from = addressIn(topics[1])
    if (address === probe && topics[0] === COUNTED) {
      add(`add ${from} ${BigInt(data) - count}`)
      count = BigInt(data)
    }
    if (address === probe && topics[0] === PAID) add(`pay ${from} ${BigInt(data)}`)
    if (address === token && topics[0] === TRANSFER) add(`move ${from} ${addressIn(topics[2])} ${BigInt(data)}`)
  }
  return effects
}

const addressIn = (topic: Hex | undefined): Hex => `0x${(topic ?? '').slice(26)}`

/** What a write does, each by the name that it has on the chain. */
export const effectsOf = ({ want, account: { address } }: Write): string[] => partsOf(want).map((part) => nameOfPart(address, part)) // prettier-ignore

/** All that a write asks for. */
export function partsOf(want: Write['want']): Part[] {
  if (want.kind === 'batch') return want.parts
  if (want.kind === 'echo') throw new Error('an echo leaves nothing on the chain')
  return [want]
}

/** As `effects` has it. */
function nameOfPart(from: Hex, part: Part): string {
  if (part.kind === 'pay') return `pay ${from} ${part.wei}`
  if (part.kind === 'move') return `move ${from} ${part.to} ${part.amount}`
  return `add ${from} ${part.amount}`
}

/** bytes of an operation before its calls; of a dispatch before its operations. Source: contracts/Dispatcher.sol */
const HEADER_BYTES = 108
const DISPATCH_BYTES = 4 + 3 * 32
/** dispatch(address,bytes) */
const DISPATCH = '7fa0e44b'

/** The operations of a dispatcher's call, by their places; none where it is something else. */
export function unpack(data: Hex): Packed[] {
  const bytes = Buffer.from(data.slice(2), 'hex')
  if (bytes.length < DISPATCH_BYTES || bytes.toString('hex', 0, 4) !== DISPATCH) return []
  const space: Hex = `0x${bytes.subarray(16, 36).toString('hex')}`
  const end = DISPATCH_BYTES + Number(BigInt(`0x${bytes.subarray(68, 100).toString('hex')}`))
  const all: Packed[] = []
  for (let place = DISPATCH_BYTES; place < end;) {
    const next = place + HEADER_BYTES + bytes.readUIntBE(place + 105, 3)
    const part = bytes.subarray(place, next)
    const account: Hex = `0x${part.subarray(0, 20).toString('hex')}`
    const id: Hex = `${space}${part.subarray(20, 32).toString('hex')}`
    all.push({ id, account, deadline: part.readUIntBE(36, 5), bytes: `0x${part.toString('hex')}` })
    place = next
  }
  return all
}

/** All that was ever packed, by id: each with the transactions that carry it, as the node was offered them. */
export function packedOf(
  { node }: ChaosWorld,
  sponsors: Sponsors,
): Map<Hex, (Packed & { from: Hex; nonce: number; hash: Hex; at: number })[]> {
  const own = new Set(sponsors.accounts.map(({ address }) => address))
  const all = [...node.pool.offered.values()]
    .filter(({ from, to }) => own.has(from) && to === GAS.dispatcher)
    .flatMap(({ data, from, nonce, hash, at }) => unpack(data).map((one) => ({ ...one, from, nonce, hash, at })))
  return Map.groupBy(all, ({ id }) => id)
}

/** Whether what carries an operation has lost its nonce to something else, for as long as the chain stands; nothing else was ever offered. */
export function isGivenUp(
  { outers }: Pick<OnChain, 'outers'>,
  carriers: readonly { from: Hex; nonce: number; hash: Hex }[] = [],
): boolean {
  return carriers.every((carrier) =>
    outers.some(({ from, nonce, hash }) => from === carrier.from && nonce === carrier.nonce && hash !== carrier.hash),
  )
}
