import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { keccak256 } from 'viem/utils'
import { until } from '../../../test/kit/until.ts'
import { writing, type Replica, type Writer, type Writing } from '../../../test/writing.ts'
import { RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { cancelTransaction, speedUpTransaction } from '../lanes/change.ts'
import { readTransaction } from '../read/read.ts'
import type { Transaction } from '../wire.ts'

let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const read = (writer: Writer, id: string): Promise<Transaction> => readTransaction(world.first.app, writer, id)
const statesOf = ({ transitions }: Transaction) => transitions.map(({ state }) => state)
const round = async (replica: Replica = world.first) => {
  const keeper = replica.keeper()
  await keeper.round()
  await keeper.stop()
}
const countSent = () => world.first.calls.filter(({ method }) => method === 'eth_sendRawTransaction').length

test('a write is submitted, mined and final, with its receipt and every step', async () => {
  const writer = await world.writer('steps')
  const { answer } = await world.add(world.first, writer)
  assert.equal((await read(writer, answer.id)).receipt, null)
  await world.mine()
  const mined = await read(writer, answer.hash)
  assert.equal(mined.state, 'MINED')
  assert.equal(mined.receipt!.status, 'SUCCESS')
  assert.equal(mined.id, answer.id)
  for (let block = 0; block < 4; block++) await world.mine()
  const final = await read(writer, answer.id)
  assert.equal(final.state, 'FINALIZED')
  assert.equal(final.isFinal, true)
  assert.deepEqual(statesOf(final), ['SUBMITTED', 'MINED', 'FINALIZED'])
  assert.deepEqual(
    final.transitions.map(({ hash, blockNumber }) => [hash, blockNumber]),
    [
      [answer.hash, undefined],
      [answer.hash, mined.receipt!.blockNumber],
      [undefined, undefined],
    ],
  )
})

test('of two writes that were simulated at one state the second fails when mined, and says why', async () => {
  const [one, two] = [await world.writer('first-in'), await world.writer('second-in')]
  const { writeContract } = await import('../../contracts/write.ts')
  const count = BigInt(await world.rpc<Hex>('eth_call', { to: world.probe, data: '0x06661abd' }, 'latest'))
  const call = {
    address: world.probe,
    abi: 'incrementFrom(uint256)\nerror TooMuch(address who, uint256 asked, uint256 held)',
    args: [String(count)],
  }
  const written = []
  for (const writer of [one, two]) written.push((await writeContract(world.first.app, writer, call, {})).answer)
  await world.mine()
  const seen = [await read(one, written[0]!.id), await read(two, written[1]!.id)]
  const failed = seen.find(({ state }) => state === 'REVERTED')
  assert.deepEqual(seen.map(({ state }) => state).toSorted(), ['MINED', 'REVERTED'])
  assert.equal(failed!.revert!.name, 'TooMuch')
  assert.equal(failed!.receipt!.status, 'REVERTED')
  for (let block = 0; block < 4; block++) await world.mine()
  const final = [await read(one, written[0]!.id), await read(two, written[1]!.id)].find(({ id }) => id === failed!.id)!
  assert.equal(final.state, 'REVERTED')
  assert.equal(final.isFinal, true)
  assert.deepEqual(statesOf(final), ['SUBMITTED', 'REVERTED', 'FINALIZED'])
})

test('a reorganisation puts a mined transaction back to submitted, and it is sent again', async () => {
  const writer = await world.writer('reorg')
  const { answer } = await world.add(world.first, writer)
  await world.mine()
  assert.equal((await read(writer, answer.id)).state, 'MINED')
  await world.rpc('anvil_reorg', 1, [])
  await world.followed()
  // anvil loses the transactions of a removed block.
  const orphan = await read(writer, answer.id)
  assert.equal(orphan.state, 'SUBMITTED')
  assert.equal(orphan.receipt, null)
  const sent = countSent()
  await round()
  assert.ok(countSent() > sent)
  await world.mine()
  const again = await read(writer, answer.id)
  assert.deepEqual(statesOf(again), ['SUBMITTED', 'MINED', 'SUBMITTED', 'MINED'])
  const { hash } = answer
  assert.deepEqual(
    again.transitions.map((step) => step.hash),
    [hash, hash, undefined, hash],
  )
  assert.equal(again.hash, answer.hash)
  assert.equal(await world.countOf(writer), 1n)
})

test('what a node dropped from its mempool is sent again', async () => {
  const writer = await world.writer('dropped')
  const { answer } = await world.add(world.first, writer)
  await world.rpc('anvil_dropTransaction', answer.hash)
  await world.mine()
  assert.equal((await read(writer, answer.id)).state, 'SUBMITTED')
  await sql`update attempts set broadcast_at = now() - interval '1 minute'`.execute(world.db)
  await round()
  await world.mine()
  assert.equal((await read(writer, answer.id)).state, 'MINED')
})

/** Holds writes back: the node accepts and loses them. */
function swallow(): void {
  world.first.misbehave((method, params, next) =>
    method === 'eth_sendRawTransaction' ? Promise.resolve(keccak256(params[0] as Hex)) : next(),
  )
}

test('after 3 blocks and 20 s only the lowest nonce of an account gets a higher fee, in both fields, stored before it is sent', async () => {
  const writer = await world.writer('raised')
  swallow()
  const { answer } = await world.add(world.first, writer)
  const { answer: above } = await world.add(world.first, writer)
  await round()
  assert.equal((await read(writer, answer.id)).hashes.length, 1)
  for (let block = 0; block < 3; block++) await world.mine()
  await round()
  assert.equal((await read(writer, answer.id)).hashes.length, 1, 'three blocks are not enough: 20 s must have gone too')
  await sql`update attempts set created_at = created_at - interval '25 seconds'`.execute(world.db)
  await round()
  world.first.misbehave(null)
  const raised = await read(writer, answer.hash)
  assert.equal(raised.hashes.length, 2)
  assert.notEqual(raised.hash, answer.hash)
  assert.equal((await read(writer, above.id)).hashes.length, 1)
  const before = {
    max: BigInt((answer.tx as never as Record<string, { hex: Hex }>).maxFeePerGas!.hex),
    tip: BigInt((answer.tx as never as Record<string, { hex: Hex }>).maxPriorityFeePerGas!.hex),
  }
  const now = raised as unknown as Record<string, { hex: Hex }>
  assert.ok(BigInt(now.maxFeePerGas!.hex) * 8n >= before.max * 9n)
  assert.ok(BigInt(now.maxPriorityFeePerGas!.hex) * 8n >= before.tip * 9n)
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await round()
  await world.mine()
  // The hash that the caller received leads to the replacement.
  const mined = await read(writer, answer.hash)
  assert.equal(mined.state, 'MINED')
  assert.equal(await world.countOf(writer), 2n)
})

test('a fee is not raised above the cap; the bytes are sent again as they are', async () => {
  const writer = await world.writer('capped')
  swallow()
  const { answer } = await world.add(world.first, writer)
  world.first.misbehave(null)
  for (let block = 0; block < 3; block++) await world.mine()
  await sql`update attempts set created_at = created_at - interval '25 seconds'`.execute(world.db)
  const { chain } = world.first
  const cap = chain.feeCapWei
  chain.feeCapWei = BigInt((answer.tx as never as Record<string, { hex: Hex }>).maxFeePerGas!.hex)
  await assert.rejects(
    speedUpTransaction(world.first.app, writer, answer.id),
    (error: unknown) => error instanceof AppError && error.code === 'fee_cap_reached',
  )
  await round()
  chain.feeCapWei = cap
  assert.equal((await read(writer, answer.id)).hashes.length, 1)
  await world.mine()
  assert.equal((await read(writer, answer.id)).state, 'MINED')
})

test('a cancel takes the nonce, and asking twice is asking once', async () => {
  const writer = await world.writer('cancel')
  const { answer } = await world.add(world.first, writer)
  const cancelling = await cancelTransaction(world.first.app, writer, answer.id)
  assert.equal(cancelling.isCancel, true)
  assert.equal(cancelling.state, 'SUBMITTED')
  assert.equal((await cancelTransaction(world.first.app, writer, answer.hash)).hashes.length, 2)
  await world.mine()
  const cancelled = await read(writer, answer.hash)
  assert.equal(cancelled.state, 'CANCELLED')
  assert.equal(await world.countOf(writer), 0n)
  await assert.rejects(
    cancelTransaction(world.first.app, writer, answer.id),
    (error: unknown) => error instanceof AppError && error.code === 'not_cancellable',
  )
})

test('a cancel that a limit refuses with the token is signed without it', async () => {
  const writer = await world.writer('cancel-limited')
  const { answer } = await world.add(world.first, writer)
  const { app } = world.first
  const { signer } = app
  const asked: boolean[] = []
  app.signer = {
    ...signer,
    sign(request) {
      asked.push(request.accessToken !== undefined)
      if (request.accessToken === undefined) return signer.sign(request)
      return Promise.reject(new AppError('policy_denied', 'The rule fees rejects this transaction.'))
    },
  }
  try {
    assert.equal((await cancelTransaction(app, writer, answer.id)).isCancel, true)
  } finally {
    app.signer = signer
  }
  assert.deepEqual(asked, [true, false])
  await world.mine()
  assert.equal((await read(writer, answer.id)).state, 'CANCELLED')
})

test('when the original is mined although a cancel was sent, it counts as mined', async () => {
  const writer = await world.writer('late-cancel')
  const { answer } = await world.add(world.first, writer)
  swallow()
  await cancelTransaction(world.first.app, writer, answer.id)
  world.first.misbehave(null)
  await world.mine()
  const mined = await read(writer, answer.id)
  assert.equal(mined.state, 'MINED')
  assert.equal(mined.isCancel, false)
  assert.equal(mined.hash, answer.hash)
  assert.equal(mined.hashes.length, 2)
})

test('a speed-up replaces the bytes now', async () => {
  const writer = await world.writer('speed')
  const { answer } = await world.add(world.first, writer)
  const faster = await speedUpTransaction(world.first.app, writer, answer.id)
  assert.notEqual(faster.hash, answer.hash)
  await world.mine()
  assert.equal((await read(writer, answer.hash)).hash, faster.hash)
  assert.equal(await world.countOf(writer), 1n)
})

test('a replacement that was signed and not stored is found in the ledger by the next try', async () => {
  const writer = await world.writer('torn-raise')
  const { interruptSteps } = await import('../crash-points.ts')
  const { answer } = await world.add(world.first, writer)
  interruptSteps(world.first.app, (step) => {
    if (step === 'after-replace-sign') throw new Error('killed')
  })
  await assert.rejects(cancelTransaction(world.first.app, writer, answer.id), /killed/)
  interruptSteps(world.first.app, null)
  // The ledger no longer signs a fee bump of the original; the fee bump finds the cancellation there.
  const found = await speedUpTransaction(world.first.app, writer, answer.id)
  assert.equal(found.isCancel, true)
  await world.mine()
  assert.equal((await read(writer, answer.id)).state, 'CANCELLED')
})

test('a nonce used by somebody else stops the account: alarm, no new write, the transaction is replaced', async () => {
  const writer = await world.writer('intruder')
  swallow()
  const { answer } = await world.add(world.first, writer)
  world.first.misbehave(null)
  await world.rpc('anvil_impersonateAccount', writer.address)
  await world.rpc('eth_sendTransaction', {
    from: writer.address,
    to: world.probe,
    value: '0x0',
    data: '0xd09de08a',
    gas: '0x30d40',
    nonce: '0x0',
  })
  await world.mine()
  const replaced = await read(writer, answer.id)
  assert.equal(replaced.state, 'REPLACED')
  await assert.rejects(
    world.add(world.first, writer),
    (error: unknown) => error instanceof AppError && error.code === 'account_stopped',
  )
  const lanes = await world.db
    .selectFrom('stopped_lanes')
    .selectAll()
    .where('sender', '=', fromHex(writer.address))
    .execute()
  assert.equal(lanes.length, 1)
  await world.rpc('anvil_stopImpersonatingAccount', writer.address)
})

test('what a restore lost and the signer has signed is taken in when it is mined, and the account goes on', async () => {
  const writer = await world.writer('restored')
  await world.add(world.first, writer, 1)
  await world.mine()
  const { answer } = await world.add(world.first, writer, 10)
  const { hash } = await speedUpTransaction(world.first.app, writer, answer.id)
  const { answer: later } = await world.add(world.first, writer, 100)
  // Restore the database from before the last two writes, whose bytes the node has.
  for (const id of [answer.id, later.id]) {
    await world.db.deleteFrom('attempts').where('transaction_id', '=', id).execute()
    await world.db.deleteFrom('transactions').where('id', '=', id).execute()
  }
  await world.mine()
  const found = await read(writer, answer.id)
  assert.equal(found.state, 'MINED')
  assert.equal(found.hash, hash)
  assert.deepEqual(found.hashes.toSorted(), [answer.hash, hash].toSorted())
  assert.equal((await read(writer, later.hash)).state, 'MINED')
  const { answer: next } = await world.add(world.first, writer, 1_000)
  assert.equal(next.tx.nonce, 3)
  await world.mine()
  assert.equal(await world.countOf(writer), 1_111n)
})

test('an intent whose bytes alone were lost is marked mined, and its account goes on', async () => {
  const writer = await world.writer('half-lost')
  const { answer } = await world.add(world.first, writer, 1, 'k')
  await world.db.deleteFrom('attempts').where('transaction_id', '=', answer.id).execute()
  await world.db.updateTable('transactions').set({ state: 'BOUND', hash: null }).where('id', '=', answer.id).execute()
  await world.mine()
  await round()
  const found = await read(writer, answer.hash)
  assert.equal(found.state, 'MINED')
  assert.equal((await world.add(world.first, writer, 1, 'k')).answer.hash, answer.hash)
  await world.add(world.first, writer, 10)
  await world.mine()
  assert.equal(await world.countOf(writer), 11n)
})

test('an account that ran dry is waited for: its bytes are sent again and mined when it has coins', async () => {
  const writer = await world.writer('dry')
  swallow()
  const { answer } = await world.add(world.first, writer)
  world.first.misbehave(null)
  await world.rpc('anvil_setBalance', writer.address, '0x1')
  await sql`update attempts set broadcast_at = null, created_at = created_at - interval '25 seconds'`.execute(world.db)
  for (let block = 0; block < 3; block++) await world.mine()
  await round()
  assert.equal((await read(writer, answer.id)).hashes.length, 1)
  assert.equal((await read(writer, answer.id)).state, 'SUBMITTED')
  await world.rpc('anvil_setBalance', writer.address, '0x8ac7230489e80000')
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await round()
  await world.mine()
  assert.equal((await read(writer, answer.hash)).state, 'MINED')
})

test('another user’s transaction is not found, in the words for one that does not exist', async () => {
  const writer = await world.writer('mine')
  const other = await world.writer('other')
  const { answer } = await world.add(world.first, writer)
  const said = []
  for (const id of [
    answer.id,
    answer.hash,
    'tx_00000000-0000-4000-8000-000000000000',
    `0x${'ab'.repeat(32)}`,
    'nonsense',
  ]) {
    for (const act of [readTransaction, cancelTransaction, speedUpTransaction]) {
      said.push(
        await act(world.first.app, other, id).then(
          () => 'found',
          (error: unknown) => (error instanceof AppError ? `${error.code}: ${error.message}` : String(error)),
        ),
      )
    }
  }
  assert.deepEqual(
    [...new Set(said)],
    [
      'transaction_not_found: This application has sent no transaction with this id or hash for this user. Check the id or hash.',
    ],
  )
})

test('two keepers at once send and raise like one', async () => {
  const writer = await world.writer('keepers')
  const other = await world.replica()
  swallow()
  const { answer } = await world.add(world.first, writer)
  for (let block = 0; block < 3; block++) await world.mine()
  await sql`update attempts set created_at = created_at - interval '25 seconds'`.execute(world.db)
  other.chain.head.set(world.first.chain.head.current()!)
  await Promise.all([round(world.first), round(other)])
  world.first.misbehave(null)
  const raised = await read(writer, answer.id)
  assert.ok(raised.hashes.length <= 3, `${raised.hashes.length} hashes`)
  // The attempt without a recorded broadcast may have been sent.
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  await round()
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('what is final for the node but not yet read by us is never given up, though the node has no receipt for it', async () => {
  const writer = await world.writer('unread')
  const { answer } = await world.add(world.first, writer)
  world.first.misbehave((method, _params, next) =>
    method === 'eth_getBlockByNumber' ? Promise.reject(new RpcUnavailable('away', { timedOut: false })) : next(),
  )
  for (let block = 0; block < 6; block++) await world.rpc('evm_mine')
  const beside = await world.replica()
  beside.misbehave((method, _params, next) => (method === 'eth_getTransactionReceipt' ? Promise.resolve(null) : next()))
  // A busy node may take the bytes after blocks were requested, and then not know them as mined yet.
  await until('the keeper has looked for the receipt', async () => {
    await world.rpc('evm_mine')
    await round(beside)
    return beside.calls.some(({ method }) => method === 'eth_getTransactionReceipt')
  })
  assert.equal((await read(writer, answer.id)).state, 'SUBMITTED')
  world.first.misbehave(null)
  await until('the follower has read its block', async () => (await read(writer, answer.id)).receipt !== null)
  assert.equal((await read(writer, answer.id)).hash, answer.hash)
  await world.add(world.first, writer)
})
