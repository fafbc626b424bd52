/**
 * `node bench/proof.ts`: CPU of checking a block of 200 transactions against its hash, and of a transaction's parts.
 * The node answers from memory; what parsing its JSON costs is not in it.
 */
import { fetchBlock } from '../src/follower/fetch.ts'
import { computeBlock } from '../src/follower/strict.ts'
import { readSent } from '../src/follower/transaction.ts'
import { addressOf, scriptedChain } from '../test/nodes/scripted-chain.ts'
import { signerAt } from '../test/scripted-transactions.ts'

const TRANSACTIONS = 200
const ROUNDS = 50

const script = scriptedChain()
const { hash, transactions } = script.mine(
  ...Array.from({ length: TRANSACTIONS }, (_, index) => ({
    from: signerAt(index % 20),
    transfers: [
      {
        ...{ type: 'ERC20' as const, token: addressOf(0x70), from: signerAt(1), to: addressOf(index) },
        items: [{ id: null, value: BigInt(index) }],
      },
    ],
  })),
)
const answers = {
  false: script.respond('eth_getBlockByHash', [hash, false]),
  true: script.respond('eth_getBlockByHash', [hash, true]),
  receipts: script.respond('eth_getBlockReceipts', [hash]) as unknown[],
}
const rpc = {
  ...script.chain.rpc,
  call: async (_method: string, params: unknown[]) => answers[String(params[1]) as 'true' | 'false'] as never,
  batch: async (calls: { method: string; params: unknown[] }[]) =>
    calls.map(({ method, params }) =>
      method === 'eth_getBlockReceipts' ? answers.receipts : answers[String(params[1]) as 'true' | 'false'],
    ),
}

/** Milliseconds of CPU, the best of many. */
async function best(work: () => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1_000)
  }
  return least
}

const hashes = transactions.map(({ hash: one }) => one)
const signed = new Map(transactions.map(({ hash: one, encoded }) => [one, encoded]))
const allButOne = new Map([...signed].slice(1))
const source = (verification: 'hash' | 'bloom') => ({ hasBlockReceipts: true, verification })
const rows: [string, () => unknown][] = [
  ['a block, off', () => fetchBlock(rpc, hash, source('bloom'))],
  ['a block, on', () => fetchBlock(rpc, hash, source('hash'))],
  [
    'a block, off, all signed here',
    async () => (await fetchBlock(rpc, hash, source('bloom'))).prove({ signed, claimed: [] }),
  ],
  [
    'a block, off, all but one signed here',
    async () => (await fetchBlock(rpc, hash, source('bloom'))).prove({ signed: allButOne, claimed: [] }),
  ],
  [
    'a block, off, with ours, none known',
    async () => (await fetchBlock(rpc, hash, source('bloom'))).prove({ signed: new Map(), claimed: hashes }),
  ],
  ['encoding and hashes', () => transactions.map(({ answer }) => readSent(answer))],
  ['encoding, hashes and senders', () => transactions.map(({ answer }) => readSent(answer).from())],
  ['encoding, hashes and the three roots', () => computeBlock(answers.true, answers.receipts)],
]
for (const [name, work] of rows) {
  const ms = await best(work)
  console.log(`${name}: ${ms.toFixed(2)} ms, ${((ms / TRANSACTIONS) * 1_000).toFixed(1)} µs a transaction`)
}
const [small, large] = [false, true].map(
  (isWhole) => JSON.stringify(answers[String(isWhole) as 'true' | 'false']).length,
)
console.log(
  `bytes of a block: ${small} with hashes, ${large} whole; receipts ${JSON.stringify(answers.receipts).length}`,
)
