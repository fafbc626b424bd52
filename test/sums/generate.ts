import type { Hex } from '../../src/ids.ts'
import { addressOf } from '../nodes/scripted-chain.ts'
import { BASE_FEE, type LedgerChain } from './chain.ts'
import type { Holdings, LedgerTransaction, Step, TokenStep } from './ledger.ts'

export const STRANGERS = Array.from({ length: 12 }, (_, index) => addressOf(0x5000 + index))
export const CONTRACTS = Array.from({ length: 15 }, (_, index) => addressOf(0xc000 + index))
const NOBODY = addressOf(0)

/** Tokens by what they do. The first five are honest. */
export const TOKENS = {
  plain: [addressOf(0x7000), addressOf(0x7001), addressOf(0x7002)],
  pieces: addressOf(0x7100),
  items: addressOf(0x7200),
  fee: addressOf(0x7300),
  silent: addressOf(0x7400),
  empty: addressOf(0x7500),
  rebase: addressOf(0x7600),
} as const

export const GENESIS: Holdings = new Map([
  // Somebody beside the accounts: of who holds all of a token nobody can tell a rebase from a mint.
  [`${TOKENS.rebase} ${STRANGERS[0]!}`, 10n ** 9n],
  [TOKENS.rebase, 10n ** 9n],
  ...STRANGERS.map((address) => [`native ${address}`, 10n ** 24n] as const),
  ...CONTRACTS.map((address) => [`native ${address}`, 10n ** 20n] as const),
])

/** Blocks at random, of everything that moves what accounts hold. */
export function generator(
  script: LedgerChain,
  { accounts, random }: { accounts: Hex[]; random: (below: number) => number },
) {
  let created = 0
  const pick = <T>(list: readonly T[]): T => list[random(list.length)]!
  const anybody = (): Hex => pick(random(3) === 0 ? STRANGERS : accounts)
  /** who has sent or been drained in this block */
  let used = new Set<Hex>()

  const base = (from: Hex): LedgerTransaction => ({
    ...{ from, to: null, created: addressOf(0x9_0000 + created++), value: 0n, steps: [], fails: false },
    ...{ gasUsed: 21_000n, price: BASE_FEE + BigInt(random(5)), l1Fee: random(3) === 0 ? BigInt(random(9_999)) : 0n },
    ...{ blobGas: random(9) === 0 ? 131_072n : 0n, minted: 0n },
  })
  /** Somebody who can pay for it and has not sent in this block; a stranger when nobody is found. */
  const payer = (): { from: Hex; most: bigint } => {
    for (let tries = 0; tries < 12; tries++) {
      const from = pick(accounts)
      const has = script.held(`native ${from}`)
      if (has < 10n ** 9n || used.has(from)) continue
      used.add(from)
      return { from, most: has / 3n }
    }
    return { from: pick(STRANGERS), most: 10n ** 18n }
  }
  const some = (most: bigint): bigint => (most * BigInt(random(1_000_000))) / 1_000_000n

  const steps = (depth: number): Step[] => Array.from({ length: random(4) + (depth === 0 ? 1 : 0) }, () => step(depth))
  const step = (depth: number): Step => {
    const inner = depth < 3 ? steps(depth + 1) : []
    const value = BigInt(random(5_000))
    switch (random(13)) {
      case 0:
      case 1:
        return { op: 'call', to: anybody(), value, fails: random(5) === 0, steps: [] }
      case 2:
      case 3:
        return { op: 'call', to: pick(CONTRACTS), value, fails: random(4) === 0, steps: inner }
      case 4:
        // Who has no code does nothing, and stands in the trace all the same.
        return random(2) === 0
          ? { op: 'delegate', to: pick(accounts), steps: [] }
          : { op: 'delegate', to: pick(CONTRACTS), steps: inner }
      case 5:
        return { op: 'callcode', to: pick(accounts), value }
      case 6:
        return {
          op: 'create',
          to: addressOf(0x9_0000 + created++),
          value,
          fails: random(4) === 0,
          steps: random(2) === 0 ? [{ op: 'end', to: anybody() }] : inner,
        }
      default:
        return tokenStep()
    }
  }
  const tokenStep = (): TokenStep => {
    const [from, to] = [pick(accounts), pick(accounts)]
    const ends = random(3) === 0 ? { from: null, to } : random(3) === 0 ? { from, to: null } : { from, to }
    const coins = {
      op: 'token',
      way: 'plain',
      type: 'ERC20',
      id: 0n,
      value: BigInt(random(ends.from === null ? 90 : 9)),
      ...ends,
    } as const
    switch (random(16)) {
      case 0:
      case 1:
        return { ...coins, token: TOKENS.pieces, type: 'ERC721', id: BigInt(random(1_000_000)), value: 1n }
      case 2:
      case 3:
        return { ...coins, token: TOKENS.items, type: 'ERC1155', id: BigInt(random(3)) }
      case 4:
        return {
          ...coins,
          token: TOKENS.fee,
          way: ends.from !== null && ends.to !== null ? 'fee' : 'plain',
          value: 1_000n,
        }
      case 5:
        return { ...coins, token: TOKENS.silent, from: null, to, value: 1n, way: random(2) === 0 ? 'silent' : 'plain' }
      case 6:
        return { ...coins, token: TOKENS.empty, way: 'empty', from: addressOf(0xdead), to, value: 5_000n }
      case 7:
        return { ...coins, token: TOKENS.rebase, from: null, to, value: 10_000n }
      case 8:
        return random(4) === 0
          ? { ...coins, token: TOKENS.rebase, way: 'rebase', from: null, to: null, value: 0n }
          : { ...coins, token: TOKENS.rebase, from: null, to, value: 10_000n }
      // What nobody needs leave for: a transfer of nothing.
      case 9:
        return { ...coins, token: TOKENS.plain[0], from, to, value: 0n }
      default:
        return { ...coins, token: pick(TOKENS.plain) }
    }
  }

  function transaction(): LedgerTransaction {
    const roll = random(15)
    const gasUsed = 30_000n + BigInt(random(200_000))
    if (roll < 3) return { ...base(pick(STRANGERS)), to: pick(accounts), value: some(10n ** 18n) }
    if (roll === 3)
      return { ...base(pick(STRANGERS)), to: pick(CONTRACTS), gasUsed, value: BigInt(random(9_999)), steps: steps(0) }
    if (roll === 4) {
      // EIP-7702: an account that runs code, at a stranger's call.
      const to = pick(accounts)
      if (!used.has(to) && script.held(`native ${to}`) > 10n ** 6n) {
        used.add(to)
        return {
          ...base(pick(STRANGERS)),
          to,
          gasUsed,
          steps: [{ op: 'call', to: anybody(), value: 12_345n, fails: random(3) === 0, steps: [] }],
        }
      }
    }
    if (roll === 5 && random(4) === 0) {
      const to = pick(accounts)
      const dust = Array.from({ length: 1_100 }, (_, index): Step => ({
        op: 'call',
        to,
        value: BigInt(index + 1),
        fails: false,
        steps: [],
      }))
      return { ...base(pick(STRANGERS)), to: pick(CONTRACTS), gasUsed: 12_000_000n, steps: dust }
    }
    if (roll === 6) {
      const from = pick(accounts)
      return {
        ...base(from),
        price: 0n,
        l1Fee: 0n,
        blobGas: 0n,
        minted: 10n ** 15n,
        to: pick(accounts),
        gasUsed,
        value: BigInt(random(1_000_000)),
        fails: random(3) === 0,
      }
    }
    const { from, most } = payer()
    const own = base(from)
    if (roll === 7) return { ...own, to: from, value: some(most) }
    if (roll === 8) return { ...own, to: pick(CONTRACTS), gasUsed, value: some(most), steps: steps(0), fails: true }
    if (roll === 9)
      return {
        ...own,
        to: null,
        gasUsed,
        value: some(most),
        steps: random(2) === 0 ? [{ op: 'end', to: anybody() }] : steps(0),
        fails: random(5) === 0,
      }
    if (roll < 13) return { ...own, to: pick(CONTRACTS), gasUsed, value: some(most / 100n), steps: steps(0) }
    return { ...own, to: anybody(), value: some(most) }
  }

  return {
    mine(): void {
      used = new Set()
      const transactions = Array.from({ length: random(6) }, transaction)
      const withdrawals = random(4) === 0 ? [{ address: pick(accounts), gwei: BigInt(random(9_999)) }] : []
      script.mine({ transactions, miner: random(4) === 0 ? pick(accounts) : NOBODY, withdrawals })
    },
  }
}
