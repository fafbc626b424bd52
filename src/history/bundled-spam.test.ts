import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { encodeFunctionData } from 'viem'
import { artefact } from '../../test/gas/stage.ts'
import { sponsored, type Sponsored } from '../../test/sponsored.ts'
import { until } from '../../test/kit/until.ts'
import type { Writer } from '../../test/writing.ts'
import { TRANSFER_SINGLE_TOPIC, TRANSFER_TOPIC } from '../abi/transfers.ts'
import { writeBatch } from '../contracts/write-batch.ts'
import { writeContract } from '../contracts/write.ts'
import type { KeptBlock } from '../follower/block.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import { isOwnPlace, selectUsed } from '../tokens/used.ts'
import { insertTransfers } from './columns.ts'
import { selectPage } from './page.ts'
import { readParameters } from './query.ts'
import { findTransfers, rowsOf } from './rows.ts'

/**
 * One sponsor's transaction includes operations of several users. Logs caused by one operation must not count for
 * another user.
 */
let world: Sponsored
let forger: Hex
let ownForger: Hex
before(async () => {
  world = await sponsored()
  ;[forger, ownForger] = [await deploy(), await deploy()]
})
after(() => world?.close())

async function deploy(): Promise<Hex> {
  const [deployer] = await world.rpc<Hex[]>('eth_accounts')
  const hash = await world.rpc<Hex>('eth_sendTransaction', { from: deployer, data: artefact('Forger').bytecode, gas: '0x4c4b40' }) // prettier-ignore
  await world.mine()
  const { contractAddress } = await world.rpc<{ contractAddress: Hex }>('eth_getTransactionReceipt', hash)
  return contractAddress.toLowerCase() as Hex
}

const SOMEONE: Hex = `0x${'c0'.repeat(20)}`
const words = (...values: (bigint | Hex)[]): Hex => `0x${values.map((one) => wordDigits(BigInt(one))).join('')}`
const topic = (value: bigint | Hex): Hex => words(value)
type Forged = { topics: Hex[]; data: Hex }
const erc20 = (from: Hex, to: Hex, value: bigint): Forged => ({ topics: [TRANSFER_TOPIC, topic(from), topic(to)], data: words(value) }) // prettier-ignore
const erc721 = (from: Hex, to: Hex, id: bigint): Forged => ({ topics: [TRANSFER_TOPIC, topic(from), topic(to), topic(id)], data: '0x' }) // prettier-ignore
const erc1155 = (from: Hex, to: Hex, id: bigint, value: bigint): Forged => ({ topics: [TRANSFER_SINGLE_TOPIC, topic(from), topic(from), topic(to)], data: words(id, value) }) // prettier-ignore

const forge = (writer: Writer, contract: Hex, { topics, data }: Forged) =>
  writeContract(world.first.app, writer, { address: contract, abi: 'forge(bytes32[],bytes)', args: [JSON.stringify(topics), data] }, {}) // prettier-ignore

/** Sends several writes in one transaction. */
async function together(
  writes: (() => Promise<{ answer: { hash: Hex } }>)[],
  beforeMined: () => Promise<unknown> = async () => {},
): Promise<Hex> {
  const { app } = world.first
  const { signer } = app
  let signed = 0
  app.signer = {
    ...signer,
    signOperation: async (request) => {
      const answer = await signer.signOperation(request)
      signed++
      return answer
    },
    // Two transactions may be in flight. Hold them until all operations are signed, so that the others wait together.
    signOuter: async (request) => {
      await until('all are signed', async () => signed === writes.length + 2)
      return signer.signOuter(request)
    },
  }
  const openings: Promise<unknown>[] = []
  for (const place of [1, 2]) {
    openings.push(
      world.add(world.first, await world.poor(`opens-${place}-${await world.rpc<string>('eth_blockNumber')}`)),
    )
    await until('it is signed', async () => signed === place)
  }
  const answers = await Promise.all(writes.map((write) => write()))
  await Promise.all(openings)
  app.signer = signer
  await beforeMined()
  await world.mine()
  const hashes = new Set(answers.map(({ answer }) => answer.hash))
  assert.equal(hashes.size, 1, 'they are in one transaction')
  return answers[0]!.answer.hash
}

/** Indexes the block of a transaction, as the follower does. */
async function index(hash: Hex): Promise<void> {
  const { blockHash } = await world.rpc<{ blockHash: Hex }>('eth_getTransactionReceipt', hash)
  const receipts = await world.rpc<RawReceipt[]>('eth_getBlockReceipts', blockHash)
  const block = {
    ...{ number: Number(receipts[0]!.blockNumber), hash: blockHash, timestamp: 1_700_000_000 },
    receipts: receipts.map(({ status, logs, transactionHash, from }) => ({
      ...{ status: status === '0x1', transactionHash, from },
      logs: logs.map((log) => ({ ...log, logIndex: Number(log.logIndex) })),
    })),
  } as unknown as KeptBlock
  const { chain } = world.first
  const { rows } = await rowsOf(world.db, chain, findTransfers(block))
  await insertTransfers(world.db, chain, rows)
}
type RawReceipt = { status: Hex; blockNumber: Hex; transactionHash: Hex; from: Hex; logs: { address: Hex; topics: Hex[]; data: Hex; logIndex: Hex }[] } // prettier-ignore

/**
 * Returns a user's entries by value, with the reasons for which they are hidden. The order within a transaction is the
 * sponsor's.
 */
async function verdicts(
  { accountId }: Pick<Writer, 'accountId'>,
  query: Record<string, string> = { includeSpam: 'true' },
) {
  const { shown } = await selectPage(world.first.app, world.first.chain, {
    ...{ accountId, after: null, limit: 100, isCovered: true },
    filters: readParameters(query).filters,
    bounds: { indexedTo: 10_000, finalizedTo: -1 },
  })
  return shown
    .map(({ row, spam }) => ({
      token: toHex(row.token),
      value: Number(toHex(row.value)),
      reasons: spam?.reasons ?? [],
    }))
    .toSorted((one, other) => one.value - other.value)
}

test('what a token says in somebody else’s operation of one transaction is judged; what it says in one’s own is not', async () => {
  const [mallory, alice] = [await world.poor('mallory'), await world.poor('alice')]
  const { address } = alice
  const hash = await together([
    () => forge(mallory, forger, erc20(address, SOMEONE, 7n)),
    () => forge(alice, ownForger, erc20(address, SOMEONE, 8n)),
    () => forge(mallory, forger, erc20(address, SOMEONE, 9n)),
    () => forge(mallory, forger, erc721(address, SOMEONE, 3n)),
    () => forge(alice, ownForger, erc1155(address, SOMEONE, 3n, 11n)),
    () => forge(mallory, forger, erc1155(address, SOMEONE, 3n, 12n)),
    () => forge(mallory, forger, erc20(address, SOMEONE, 0n)),
    () => forge(alice, ownForger, erc20(address, SOMEONE, 0n)),
  ])
  await index(hash)
  const all = await verdicts(alice)
  assert.equal(all.length, 8)
  const [own, others] = [all.filter(({ token }) => token === ownForger), all.filter(({ token }) => token === forger)]
  assert.deepEqual(own.map(({ value, reasons }) => [value, reasons]), [[0, []], [8, []], [11, []]]) // prettier-ignore
  assert.deepEqual(others.map(({ value, reasons }) => [value, reasons]), [
    [0, ['zero_value']],
    [1, ['claimed_transfer']],
    [7, ['claimed_transfer']],
    [9, ['claimed_transfer']],
    [12, ['claimed_transfer']],
  ]) // prettier-ignore
  // A user sees her own actions without asking for spam, although a sponsor sent them.
  const listed = await verdicts(alice, {})
  assert.deepEqual(listed.map(({ token, value }) => [token, value]), own.map(({ token, value }) => [token, value])) // prettier-ignore
  // Logs caused by another user's operation do not count as use of the token.
  const holder = { accountId: alice.accountId, chainId: 31_337 }
  assert.deepEqual(await selectUsed(world.db, holder, [forger, ownForger]), new Set([ownForger]))
})

test('of several people in one transaction each sees the transfer of nothing that they made themselves, without asking for spam', async () => {
  const people = [await world.poor('anna'), await world.poor('ben'), await world.poor('carla')]
  await index(await together(people.map((one) => () => forge(one, ownForger, erc20(one.address, SOMEONE, 0n)))))
  for (const one of people) {
    const listed = await verdicts(one, {})
    assert.deepEqual(listed.map(({ token, value, reasons }) => [token, value, reasons]), [[ownForger, 0, []]], one.name) // prettier-ignore
  }
})

test('of a transaction that carries an operation, what was logged within it is the person’s own', async () => {
  const [one, other] = [await world.poor('one'), await world.poor('other')]
  await together([() => world.add(world.first, one), () => world.add(world.first, other)])
  await world.mine()
  const { answer } = await world.add(world.first, one)
  await world.mine()
  const isOwn = async (hash: Hex, logIndex: number) => {
    const place = { hash: sql`${fromHex(hash)}`, logIndex: sql`${logIndex}::int` }
    const { rows } = await sql<{ own: boolean }>`select ${isOwnPlace({ accountId: one.accountId, chainId: 31_337 }, place)} as own`.execute(world.db) // prettier-ignore
    return rows[0]!.own
  }
  assert.deepEqual([await isOwn(answer.hash, 0), await isOwn(answer.hash, 10_000)], [true, false])
  // A user without an operation in the transaction initiated nothing in it. Other transactions of sponsors, such as
  // top-ups, are not hidden from anyone.
  const outsider = await world.poor('outsider')
  const isOutsiders = async () => {
    const place = { hash: sql`${fromHex(answer.hash)}`, logIndex: sql`0::int` }
    const { rows } = await sql<{ own: boolean }>`select ${isOwnPlace({ accountId: outsider.accountId, chainId: 31_337 }, place)} as own`.execute(world.db) // prettier-ignore
    return rows[0]!.own
  }
  assert.equal(await isOutsiders(), false)
  const bundle = () => world.db.updateTable('transactions').where('hash', '=', fromHex(answer.hash))
  await bundle().set({ authorizations: null }).execute()
  assert.equal(await isOutsiders(), true)
  await bundle().set({ authorizations: '[]' }).execute()
  // A transaction that included an operation again and skipped it caused none of its effects.
  const [done] = await world.db.selectFrom('operations').select('id').where('account_id', '=', one.accountId).orderBy('created_at').execute() // prettier-ignore
  const later = await world.add(world.first, other)
  await world.mine()
  const { transaction_id } = await world.db.selectFrom('attempts').select('transaction_id').where('hash', '=', fromHex(later.answer.hash)).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.insertInto('carried').values({ operation_id: done!.id, transaction_id }).execute()
  assert.equal(await isOwn(later.answer.hash, 0), false)
})

test('who is called may make the dispatcher speak of other spaces: that is no boundary of the operation', async () => {
  const [alice, beside] = [await world.poor('dispatches'), await world.poor('beside')]
  const forward = (data: Hex) => ({
    address: world.target,
    abi: 'forward(address,bytes)',
    args: [world.dispatcher, data],
  })
  const call = (functionName: string, args: unknown[]): Hex => encodeFunctionData({ abi: artefact('Dispatcher').abi, functionName, args }) // prettier-ignore
  // The value is zero, so only the initiator decides: she calls the token herself.
  const { topics, data } = erc20(alice.address, SOMEONE, 0n)
  const calls = [
    { address: ownForger, abi: 'forge(bytes32[],bytes)', args: [JSON.stringify(topics), data] },
    forward(call('setSponsor', [world.target, true])),
    forward(call('cancel', [world.target, [1n]])),
  ]
  const hash = await together([
    () => world.add(world.first, beside),
    () => writeBatch(world.first.app, alice, { calls } as never, {}),
  ])
  await index(hash)
  const { logs } = await world.rpc<{ logs: { address: Hex }[] }>('eth_getTransactionReceipt', hash)
  assert.ok(logs.filter(({ address }) => address === world.dispatcher).length > 3, 'the other space was spoken of')
  assert.deepEqual(
    (await verdicts(alice)).map(({ value, reasons }) => [value, reasons]),
    [[0, []]],
  )
})

test('an operation that failed made no log: what others had said around it is judged', async () => {
  const [mallory, nell] = [await world.poor('mallory2'), await world.poor('nell')]
  const { address } = nell
  await world.rpc('anvil_setBalance', address, '0x5')
  const paying = { address: world.target, abi: 'ping() payable', args: [], value: '5' }
  const hash = await together(
    [
      () => forge(mallory, forger, erc20(address, SOMEONE, 5n)),
      () => writeContract(world.first.app, nell, paying, {}),
      () => forge(mallory, forger, erc20(address, SOMEONE, 6n)),
    ],
    // Remove its funds before the transaction is mined.
    () => world.rpc('anvil_setBalance', address, '0x0'),
  )
  await index(hash)
  const { state } = await world.db.selectFrom('operations').select('state').where('account_id', '=', nell.accountId).executeTakeFirstOrThrow() // prettier-ignore
  assert.equal(state, 'REVERTED')
  assert.deepEqual((await verdicts(nell)).map(({ value, reasons }) => [value, reasons]), [[5, ['claimed_transfer']], [6, ['claimed_transfer']]]) // prettier-ignore
})

test('of an operation that nothing is known of within its transaction, all of it is believed to be the person’s', async () => {
  const alice = await world.db.selectFrom('accounts').select('account_id').where('user_id', 'like', '%alice').executeTakeFirstOrThrow() // prettier-ignore
  await world.db.updateTable('operations').set({ after_log: null, event_log: null }).execute()
  const shown = await verdicts({ accountId: alice.account_id } as Writer)
  assert.ok(shown.length > 0 && shown.every(({ reasons }) => reasons.length === 0), JSON.stringify(shown)) // prettier-ignore
})
