// tier: all, because it kills processes and nodes under load
import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import type { Hex } from '../../src/ids.ts'
import { fromHex } from '../../src/hex.ts'
import { judgeBalances, TRANSFER } from './transactions-balances.ts'
import type { Log, MinedTx, Receipt } from './transactions-chain.ts'
import { effectOf, newWrite, type Effect, type Want, type Write } from './transactions-client.ts'
import type { Check, Evidence } from './transactions-evidence.ts'
import { judgeLanes } from './transactions-oracle.ts'
import { COINS, TOKENS, type Account } from './transactions-world.ts'

test('what clients asked for, cancels, fees, what the harness gave and what others moved leave nothing to tell', async () => {
  const { alice, bob, probe, wants, does, intrudes, given, told } = chain()
  given.set(alice.address, 77n)
  for (const account of [alice, bob]) does(wants(account, { kind: 'pay', wei: 5n }))
  does(wants(alice, { kind: 'move', amount: 6n, to: bob.address }))
  does(wants(alice, { kind: 'move', amount: 7n, to: alice.address }))
  does(wants(alice, { kind: 'pay', wei: 8n }), { succeeded: false })
  does({ from: alice.address, to: alice.address, data: '0x', value: 0n })
  wants(alice, { kind: 'pay', wei: 9n }) // never mined
  intrudes({ from: alice.address, to: probe, data: '0x', value: 10n })
  assert.deepEqual(await told(), [])
})

test('coins that no client asked to move are told, though the chain bears itself out', async () => {
  const { alice, thief, does, told } = chain()
  does({ from: alice.address, to: thief, data: '0x', value: 10n ** 16n })
  assert.deepEqual(await told(), [`money: ${alice.address} has ${COINS - 10n ** 16n - FEE} wei, by what was asked for ${COINS}`]) // prettier-ignore
})

test('coins of an account that come from nowhere are told', async () => {
  const { bob, thief, does, told } = chain()
  does({ from: thief, to: bob.address, data: '0x', value: 3n })
  assert.equal((await told()).length, 1)
})

for (const [asked, want] of [
  ['coins that were asked for once', { kind: 'pay', wei: 5n }],
  ['tokens that were asked for once', { kind: 'move', amount: 5n, to: `0x${'b0'.repeat(20)}` }],
] as [string, Want][])
  test(`${asked} and moved twice are told of who lost them and of who got them`, async () => {
    const { alice, wants, does, told } = chain()
    const write = wants(alice, want)
    does(write)
    assert.deepEqual(await told(), [])
    does(write)
    const whose = (await told()).map((line) => line.split(' ')[1])
    assert.deepEqual(new Set(whose), new Set([alice.address, want.kind === 'move' ? want.to : PROBE]))
  })

test('another amount than the one that was asked for is told', async () => {
  const { alice, wants, does, told } = chain()
  does({ ...wants(alice, { kind: 'pay', wei: 5n }), value: 50n })
  assert.notDeepEqual(await told(), [])
})

test('a fee above the cap is told', async () => {
  const { alice, wants, does, told } = chain()
  does(wants(alice, { kind: 'echo' }), { effectiveGasPrice: CAP + 1n })
  assert.deepEqual(await told(), [`money: ${alice.address} has ${COINS - GAS * (CAP + 1n)} wei, by what was asked for ${COINS - GAS * CAP}`]) // prettier-ignore
})

test('a second intrusion after an operator let the account go on has to stop it again', () => {
  const { first, second, told } = intruded()
  assert.deepEqual(told({ resumed: [], stopped: [first] }), [])
  assert.deepEqual(told({ resumed: [first, second], stopped: [] }), [])
  assert.deepEqual(told({ resumed: [first], stopped: [second] }), [])
  assert.deepEqual(told({ resumed: [first], stopped: [] }), [
    `lane: ${second.from} goes on although ${second.hash} used its nonce ${second.nonce}`,
  ])
})

test('an account that is stopped for what its operator let it go on behind is told', () => {
  const { first, second, told } = intruded()
  assert.deepEqual(told({ resumed: [first, second], stopped: [first] }), [
    `lane: ${first.from} is stopped for nonce ${first.nonce}, behind which it was let go on`,
  ])
})

const PROBE: Hex = `0x${'cc'.repeat(20)}`
const TOKEN: Hex = `0x${'dd'.repeat(20)}`
const GAS = 50_000n
const CAP = 100n
const FEE = GAS * 10n

/** A chain in memory that does what it is told and keeps the books of a real one: it moves coins whoever asked for it. */
function chain() {
  const [alice, bob] = ['a0', 'b0'].map((byte) => ({ name: byte, address: `0x${byte.repeat(20)}` as Hex, token: '' })) as [Account, Account] // prettier-ignore
  const thief: Hex = `0x${'ee'.repeat(20)}`
  const coins = new Map<Hex, bigint>([alice, bob].map(({ address }) => [address, COINS]))
  const tokens = new Map<Hex, bigint>([alice, bob].map(({ address }) => [address, TOKENS]))
  const given = new Map<Hex, bigint>()
  const [foreign, receipts] = [new Set<Hex>(), new Map<Hex, Receipt>()]
  const [transactions, writes]: [MinedTx[], Write[]] = [[], []]
  const move = (purses: Map<Hex, bigint>, { from, to, amount }: { from: Hex; to: Hex; amount: bigint }) => {
    purses.set(from, (purses.get(from) ?? 0n) - amount)
    purses.set(to, (purses.get(to) ?? 0n) + amount)
  }
  const held = (purses: Map<Hex, bigint>, address: Hex) =>
    `0x${(purses.get(address) ?? 0n).toString(16).padStart(64, '0')}`
  const world = {
    ...{ probe: PROBE, token: TOKEN, accounts: [alice, bob], firstBlock: 1, feeCapWei: CAP, foreign, given },
    node: {
      anvil: {
        ask: async (calls: { method: string; params: [Hex & { data: Hex }] }[]) =>
          calls.map(({ method, params: [of] }) => ({
            result: method === 'eth_getBalance' ? giftAnd(of) : held(tokens, `0x${of.data.slice(-40)}`),
          })),
      },
    },
  }
  const giftAnd = (address: Hex) => `0x${((coins.get(address) ?? 0n) + (given.get(address) ?? 0n)).toString(16)}`
  const does = (
    { from, to, data, value }: Effect & { from: Hex },
    { succeeded = true, effectiveGasPrice = 10n }: Partial<Receipt> = {},
  ): Hex => {
    const hash: Hex = `0x${String(transactions.length).padStart(64, '0')}`
    const logs: Log[] = []
    move(coins, { from, to: `0x${'00'.repeat(20)}`, amount: GAS * effectiveGasPrice })
    if (succeeded && value > 0n) move(coins, { from, to: to!, amount: value })
    if (succeeded && to === TOKEN) {
      const [recipient, amount] = [`0x${data.slice(34, 74)}` as Hex, BigInt(`0x${data.slice(74)}`)]
      move(tokens, { from, to: recipient, amount })
      const topics = [TRANSFER, ...[from, recipient].map((one) => `0x${one.slice(2).padStart(64, '0')}`)] as Hex[]
      logs.push({ address: TOKEN, topics, data: `0x${amount.toString(16)}`, logIndex: 0 })
    }
    receipts.set(hash, { succeeded, gasUsed: GAS, effectiveGasPrice, logs })
    const block = { number: 2, hash, timestamp: 0, transactions: [] }
    transactions.push({ hash, from, to, data, value, nonce: transactions.length, block })
    return hash
  }
  return {
    ...{ alice, bob, thief, probe: PROBE, given, does },
    intrudes: (effect: Effect & { from: Hex }) => void foreign.add(does(effect)),
    wants: (account: Account, want: Want) => {
      const write = newWrite(account, 1, want)
      writes.push(write)
      return { from: account.address, ...effectOf(world as never, write) }
    },
    told: async () => {
      const evidence = { world, accounts: world.accounts, writes, receipts, chain: { transactions } }
      return tellingOf((tell) => judgeBalances(evidence as unknown as Evidence, tell))
    },
  }
}

type Intrusion = { hash: Hex; from: Hex; nonce: number }

/** An account of which somebody else used the nonces 1 and 3, and the service all others up to 4. */
function intruded() {
  const from: Hex = `0x${'a0'.repeat(20)}`
  const [first, second] = [1, 3].map((nonce) => ({ from, nonce, hash: `0x${String(nonce).padStart(64, '0')}` as Hex })) as [Intrusion, Intrusion] // prettier-ignore
  const sender = fromHex(from)
  const told = ({ resumed, stopped }: { resumed: Intrusion[]; stopped: Intrusion[] }) => {
    const lines: string[] = []
    const evidence = {
      world: { foreign: new Set([first.hash, second.hash]), resumed: new Set(resumed.map(({ hash }) => hash)) },
      stopped: stopped.map(({ hash, nonce }) => ({ sender, nonce, hash: fromHex(hash) })),
      rows: [0, 1, 2, 3, 4].map((nonce) => ({ sender, nonce })),
      byHash: new Map([first, second].map((tx) => [tx.hash, tx])),
      accounts: [{ address: from }],
    }
    judgeLanes(evidence as unknown as Evidence, (check, text) => void lines.push(`${check}: ${text}`))
    return lines
  }
  return { first, second, told }
}

async function tellingOf(work: (tell: (check: Check, text: string) => void) => Promise<void>): Promise<string[]> {
  const lines: string[] = []
  await work((check, text) => void lines.push(`${check}: ${text}`))
  return lines
}
