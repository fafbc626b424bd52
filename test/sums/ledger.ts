import type { Hex } from '../../src/ids.ts'

/** What everybody holds, by `native <address>`, `<token> <address>` and `<token> <id> <address>`; supplies by `<token>`. */
export type Holdings = Map<string, bigint>

/** What a contract does, as a test writes it down. `fails`: all of it is undone, and its caller goes on. */
export type Step =
  | { op: 'call'; to: Hex; value: bigint; fails: boolean; steps: Step[] }
  | { op: 'create'; to: Hex; value: bigint; fails: boolean; steps: Step[] }
  | { op: 'delegate'; to: Hex; steps: Step[] }
  | { op: 'callcode'; to: Hex; value: bigint }
  | { op: 'end'; to: Hex }
  | TokenStep

export type TokenStep = {
  op: 'token'
  token: Hex
  /** `silent`: no event; `empty`: an event and nothing else; `rebase`: all balances by a tenth more */
  way: 'plain' | 'fee' | 'silent' | 'empty' | 'rebase'
  /** null: minted, or burned */
  from: Hex | null
  to: Hex | null
  type: 'ERC20' | 'ERC721' | 'ERC1155'
  id: bigint
  value: bigint
}

export type LedgerTransaction = {
  from: Hex
  /** null: creates `created` */
  to: Hex | null
  created: Hex
  value: bigint
  steps: Step[]
  fails: boolean
  gasUsed: bigint
  price: bigint
  l1Fee: bigint
  blobGas: bigint
  minted: bigint
}

export type LedgerLog = { address: Hex; topics: Hex[]; data: Hex }
export type Frame = { type: string; from: Hex; to: Hex; value?: Hex; error?: string; calls?: Frame[] }

const ZERO: Hex = `0x${'0'.repeat(40)}`
const LOGGER: Hex = '0xfffffffffffffffffffffffffffffffffffffffe'
const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
const SINGLE: Hex = '0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62'
const word = (value: bigint): string => value.toString(16).padStart(64, '0')
const topic = (address: Hex): Hex => `0x${address.slice(2).padStart(64, '0')}`
export const quantity = (value: bigint | number): Hex => `0x${value.toString(16)}`

/** One transaction on what everybody holds: what moved is worked out here, the way a chain does it, and not as the history reads it. */
export function run(
  held: Holdings,
  transaction: LedgerTransaction,
  { baseFee, miner, logsNative }: { baseFee: bigint; miner: Hex; logsNative: boolean },
): { status: boolean; logs: LedgerLog[]; trace: Frame } {
  const { from, to, created, value, steps, fails, gasUsed, price, l1Fee, blobGas, minted } = transaction
  const undo: [string, bigint][] = []
  let logs: LedgerLog[] = []
  const get = (key: string): bigint => held.get(key) ?? 0n
  const set = (key: string, amount: bigint): void => {
    if (amount < 0n) throw new Error(`${key} would hold less than nothing`)
    undo.push([key, get(key)])
    held.set(key, amount)
  }
  const add = (key: string, amount: bigint): void => set(key, get(key) + amount)
  const move = (sender: Hex, recipient: Hex, amount: bigint): void => {
    if (amount === 0n) return
    add(`native ${sender}`, -amount)
    add(`native ${recipient}`, amount)
    if (logsNative && sender !== recipient)
      logs.push({ address: LOGGER, topics: [TRANSFER, topic(sender), topic(recipient)], data: `0x${word(amount)}` })
  }
  const attempt = (isUndone: boolean, work: () => void): void => {
    const [changes, before] = [undo.length, logs.length]
    work()
    if (!isUndone) return
    logs = logs.slice(0, before)
    while (undo.length > changes) {
      const [key, amount] = undo.pop()!
      held.set(key, amount)
    }
  }
  const runAll = (self: Hex, all: Step[]): Frame[] => all.flatMap((step) => runOne(self, step))
  const runOne = (self: Hex, step: Step): Frame[] => {
    if (step.op === 'token') return (runToken(step), [])
    if (step.op === 'delegate')
      // As go-ethereum tells it: with the value of the caller.
      return [
        { type: 'DELEGATECALL', from: self, to: step.to, value: quantity(value), calls: runAll(self, step.steps) },
      ]
    if (step.op === 'callcode') return [{ type: 'CALLCODE', from: self, to: step.to, value: quantity(step.value) }]
    if (step.op === 'end') {
      const all = get(`native ${self}`)
      move(self, step.to, all)
      return [{ type: 'SELFDESTRUCT', from: self, to: step.to, value: quantity(all) }]
    }
    if (get(`native ${self}`) < step.value) return []
    let calls: Frame[] = []
    attempt(step.fails, () => {
      move(self, step.to, step.value)
      calls = runAll(step.to, step.steps)
    })
    const type = step.op === 'call' ? 'CALL' : 'CREATE2'
    const frame = { type, from: self, to: step.to, value: quantity(step.value), calls }
    return [step.fails ? { ...frame, error: 'execution reverted' } : frame]
  }
  const runToken = ({ token, way, from: sender, to: recipient, type, id, value: amount }: TokenStep): void => {
    const key = (owner: Hex) => (type === 'ERC1155' ? `${token} ${id} ${owner}` : `${token} ${owner}`)
    if (way === 'rebase') {
      for (const [one, balance] of held) if (one.startsWith(token)) set(one, balance + balance / 10n)
      return
    }
    if (way !== 'empty') {
      if (sender !== null && get(key(sender)) < amount) return
      if (sender === null) add(token, amount)
      else add(key(sender), -amount)
      const arrives = way === 'fee' ? amount - amount / 100n : amount
      if (recipient === null) add(token, -amount)
      else add(key(recipient), arrives)
    }
    if (way === 'silent') return
    const ends = [topic(sender ?? ZERO), topic(recipient ?? ZERO)]
    if (type === 'ERC20') logs.push({ address: token, topics: [TRANSFER, ...ends], data: `0x${word(amount)}` })
    if (type === 'ERC721') logs.push({ address: token, topics: [TRANSFER, ...ends, `0x${word(id)}`], data: '0x' })
    if (type === 'ERC1155')
      logs.push({ address: token, topics: [SINGLE, topic(token), ...ends], data: `0x${word(id)}${word(amount)}` })
  }

  add(`native ${from}`, minted)
  const blobFee = blobGas * 3n
  add(`native ${from}`, -(gasUsed * price + l1Fee + blobFee))
  if (price > baseFee) add(`native ${miner}`, gasUsed * (price - baseFee))
  const self = to ?? created
  let calls: Frame[] = []
  attempt(fails, () => {
    move(from, self, value)
    calls = runAll(self, steps)
  })
  const trace: Frame = { type: to === null ? 'CREATE' : 'CALL', from, to: self, value: quantity(value), calls }
  return { status: !fails, logs, trace: fails ? { ...trace, error: 'execution reverted' } : trace }
}
