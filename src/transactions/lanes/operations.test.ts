// tier: default, because it moves money
import { encodeFunctionData, parseAbi, parseEventLogs, type Log } from 'viem'
import { refusedWith } from '../../../test/kit/refused.ts'
import { operationsOf } from '../../../test/operation-reads.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { age, keep, remember, replay } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { bigNumber } from '../../abi/bignumber.ts'
import { AppError } from '../../errors.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { dryRunBatch, writeBatch } from '../../contracts/write-batch.ts'
import { writeContract } from '../../contracts/write.ts'
import type { Hex } from '../../ids.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { cancelTransaction } from './change.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { toBound } from '../intent.ts'
import { listTransactions, readTransaction } from '../read/read.ts'
import { raiseFee } from './replace.ts'
import { rehearseTransaction } from './submit.ts'
import { fromHex } from '../../hex.ts'
import { tendOperations } from '../sponsors/tend-operations.ts'

/**
 * Users without funds write, and a sponsor sends their operations. The assertions read the effects and senders on the
 * chain.
 */
let world: Sponsored
/** whether the signer rejects further fee bumps */
let refuseRaises = false
before(async () => {
  world = await sponsored()
  const { signer } = world.first.app
  world.first.app.signer = {
    ...signer,
    signOuter: (request) =>
      refuseRaises && request.kind === 'replace'
        ? Promise.reject(
            new SignerRefused('operation_refused', 'The deadline of the operation has passed.', {
              operation: 0,
              because: 'operation_expired',
            }),
          )
        : signer.signOuter(request),
  }
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const { add, shown, rowOf, codeOf } = operationsOf(() => world)
const call = (writer: Writer, abi: string, args: string[] = [], key?: string) =>
  writeContract(world.first.app, writer, { address: world.target, abi, args }, { idempotencyKey: key })
const transaction = (hash: Hex) =>
  world.rpc<{ type: Hex; from: Hex; to: Hex; authorizationList?: unknown[] }>('eth_getTransactionByHash', hash)
/** calldata of `ping()` */
const PING: Hex = '0x5c36b186'
const spent = () => spentOfBudget(world.db, 'demo')
/** Waits until the budget counts the actual cost. */
const counted = async (id: string) => {
  await until('it is counted', async () => {
    await keep(world)
    return (await rowOf(id)).is_counted
  })
}

test('a person with 0 coins writes: a sponsor sends it, delegates the account with it, and pays', async () => {
  const writer = await world.poor('first')
  const [before, house] = [await spent(), await world.balanceOf(world.house.address)]
  const { answer, isReplay } = await add(writer)
  assert.equal(isReplay, false)
  assert.deepEqual([answer.status, answer.state], ['SUCCESS', 'SUBMITTED'])
  assert.deepEqual(answer.gas, { strategy: 'sponsor', payer: answer.tx.from })
  assert.equal(answer.tx.from.toLowerCase(), world.house.address)
  assert.equal(answer.tx.to.toLowerCase(), world.dispatcher)
  assert.equal(answer.operation!.from.toLowerCase(), writer.address)
  assert.equal(answer.operation!.to.toLowerCase(), world.probe)
  assert.ok(answer.operation!.deadline > Date.now() / 1_000 + 500)
  assert.ok((await spent()) > before)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal(await codeOf(writer), world.delegated)
  assert.equal(await world.balanceOf(writer.address), 0n)
  const sent = await transaction(answer.hash)
  assert.deepEqual([sent.type, sent.from, sent.to], ['0x4', world.house.address, world.dispatcher])
  const { state, receipt, operation, hash, gas } = await shown(writer, answer.id)
  assert.deepEqual([state, receipt?.status, hash, gas], ['MINED', 'SUCCESS', answer.hash, answer.gas])
  assert.deepEqual(operation, answer.operation)
  assert.equal((await shown(writer, answer.hash)).id, answer.id)
  await counted(answer.id)
  const paid = house - (await world.balanceOf(world.house.address))
  assert.equal((await spent()) - before, paid)
})

test('the second write of a person delegates no more', async () => {
  const writer = await world.poor('second')
  await add(writer)
  await world.mine()
  const { answer } = await add(writer)
  await world.mine()
  assert.equal((await transaction(answer.hash)).type, '0x2')
  assert.equal(await world.countOf(writer), 2n)
})

test('writes of many people at once share transactions; each has its own state', async () => {
  const writers: Writer[] = []
  for (let index = 0; index < 12; index++) writers.push(await world.poor(`many-${index}`))
  const answers = await Promise.all(writers.map((writer) => add(writer)))
  await world.mine()
  const hashes = new Set(answers.map(({ answer }) => answer.hash))
  // The number of concurrent arrivals depends on the machine.
  assert.ok(hashes.size < 12, `${hashes.size} transactions for 12 writes`)
  for (const [index, writer] of writers.entries()) {
    assert.equal(await world.countOf(writer), 1n)
    const one = await shown(writer, answers[index]!.answer.hash)
    assert.deepEqual([one.id, one.state], [answers[index]!.answer.id, 'MINED'])
  }
})

test('the first writes of one person that come together are all done, and delegate once', async () => {
  const writer = await world.poor('together')
  const answers = await Promise.all([add(writer, 1), add(writer, 2), add(writer, 4)])
  for (let block = 0; block < 3; block++) await world.mine()
  assert.equal(await world.countOf(writer), 7n)
  for (const { answer } of answers) assert.match((await shown(writer, answer.id)).state, /MINED|FINALIZED/)
})

test('what a simulation refuses is neither signed nor paid: a revert, an origin that is another, values that are not there', async () => {
  const writer = await world.poor('refused')
  const before = await spent()
  await assert.rejects(call(writer, 'failWith(bytes reason)', ['0x']), refusedWith('execution_reverted'))
  await assert.rejects(call(writer, 'onlyOrigin()'), (error: unknown) => {
    assert.ok(error instanceof AppError && error.code === 'execution_reverted')
    return error.revert!.reason.includes('no contracts')
  })
  const value = { address: world.target, abi: 'ping() payable', args: [], value: '5' }
  await assert.rejects(writeContract(world.first.app, writer, value, {}), refusedWith('insufficient_funds'))
  await assert.rejects(writeContract(world.first.app, writer, { ...value, address: `0x${'77'.repeat(20)}` }, {}), refusedWith('no_contract')) // prettier-ignore
  assert.equal(await spent(), before)
  assert.equal(await codeOf(writer), '0x')
})

test('an operation that reverts on the chain is REVERTED with its reason although its transaction succeeded, and others in it are done', async () => {
  const [writer, other] = [await world.poor('fails'), await world.poor('fails-not')]
  await world.rpc('anvil_setBalance', writer.address, '0x5')
  const paying = { address: world.target, abi: 'ping() payable', args: [], value: '5' }
  const [failing, fine] = await Promise.all([writeContract(world.first.app, writer, paying, {}), add(other)])
  // Remove the account's funds before the operation is mined.
  await world.rpc('anvil_setBalance', writer.address, '0x0')
  await world.mine()
  const receipt = await world.rpc<{ status: Hex }>('eth_getTransactionReceipt', failing.answer.hash)
  assert.equal(receipt.status, '0x1')
  const { state, revert, receipt: own } = await shown(writer, failing.answer.id)
  assert.deepEqual([state, own?.status], ['REVERTED', 'REVERTED'])
  assert.ok(revert !== null && revert.reason.length > 0)
  assert.equal((await shown(other, fine.answer.id)).state, 'MINED')
})

test('a target that burns all its gas takes no more than was signed, and pays nobody else’s', async () => {
  const [writer, other] = [await world.poor('burns'), await world.poor('burns-not')]
  const burner: Hex = `0x${'b0'.repeat(20)}`
  // The code does nothing during the simulation, and loops forever afterwards.
  await world.rpc('anvil_setCode', burner, '0x00')
  const [burning, fine] = await Promise.all([world.submit(writer, { to: burner, data: '0x01' }), add(other)])
  await world.rpc('anvil_setCode', burner, '0x5b5f56')
  await world.mine()
  const { state, receipt } = await shown(writer, burning.answer.id)
  assert.equal(state, 'REVERTED')
  assert.ok(BigInt(receipt!.gasUsed.hex) < BigInt(burning.answer.tx.gasLimit.hex))
  assert.equal((await shown(other, fine.answer.id)).state, 'MINED')
  assert.equal(await world.countOf(other), 1n)
})

test('a batch does all calls in their order, or none; without sponsors it is refused', async () => {
  const writer = await world.poor('batch')
  const one = (amount: string) => ({ address: world.probe, abi: 'add(uint256)', args: [amount] })
  const { answer } = await writeBatch(world.first.app, writer, { calls: [one('1'), one('2'), one('4')] }, {})
  assert.equal(answer.operation!.calls!.length, 3)
  await world.mine()
  assert.equal(await world.countOf(writer), 7n)
  const failing = { calls: [one('8'), { address: world.target, abi: 'onlyOrigin()' }] }
  await assert.rejects(writeBatch(world.first.app, writer, failing, {}), (error: unknown) => {
    assert.ok(error instanceof AppError && error.code === 'execution_reverted')
    return error.errors![0]!.pointer === '/calls/1'
  })
  const wrong = { calls: [one('8'), { ...one('x') }] }
  await assert.rejects(writeBatch(world.first.app, writer, wrong, {}), (error: unknown) => {
    assert.ok(error instanceof AppError && error.code === 'invalid_argument')
    return error.errors![0]!.pointer!.startsWith('/calls/1/')
  })
  await world.mine()
  assert.equal(await world.countOf(writer), 7n)
  world.first.chain.gas = 'self'
  try {
    await assert.rejects(writeBatch(world.first.app, writer, { calls: [one('1'), one('1')] }, {}), refusedWith('atomic_unsupported')) // prettier-ignore
  } finally {
    world.first.chain.gas = 'sponsor'
  }
})

test('the same key is the same write: told again, refused with another body, done once', async () => {
  const writer = await world.poor('keyed')
  const { answer } = await add(writer, 1, 'once')
  const again = await add(writer, 1, 'once')
  assert.deepEqual([again.isReplay, again.answer.id, again.answer.hash], [true, answer.id, answer.hash])
  assert.deepEqual(again.answer.operation, answer.operation)
  await assert.rejects(add(writer, 2, 'once'), refusedWith('idempotency_key_reused'))
  await world.mine()
  await add(writer, 1, 'once')
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('what is reserved of budgets is all that the transaction may cost which carries a write alone', async () => {
  const writer = await world.poor('reserves')
  for (let write = 0; write < 2; write++) {
    const { answer } = await add(writer, 1 + write)
    const { charged } = await rowOf(answer.id)
    const most = BigInt(answer.tx.gasLimit.hex) * BigInt(answer.tx.maxFeePerGas!.hex)
    assert.ok(BigInt(charged) >= most, `${charged} for ${most}`)
    await world.mine()
  }
})

test('budgets are reserved before anything is signed, and a write beyond them is refused', async () => {
  const writer = await world.poor('budget', 'small')
  await assert.rejects(add(writer), refusedWith('gas_not_sponsored', 'daily gas budget'))
  assert.deepEqual(await world.db.selectFrom('operations').selectAll().where('account_id', '=', writer.accountId).execute(), []) // prettier-ignore
  assert.equal(await spentOfBudget(world.db, 'small'), 0n)
  const none = await world.poor('no-budget', 'none')
  await assert.rejects(add(none), refusedWith('gas_not_sponsored', 'no gas budget'))
})

test('a dry run is refused by the budgets by which the write would be, and a write of more gas than a sponsor pays for as that', async () => {
  const { app } = world.first
  for (const clientId of ['small', 'none']) {
    const writer = await world.poor(`dry-${clientId}`, clientId)
    await assert.rejects(rehearseTransaction(app, writer, { to: world.target, data: PING }), refusedWith('gas_not_sponsored')) // prettier-ignore
  }
  const writer = await world.poor('dear')
  const dear = { to: world.target, data: PING, gas: '10000000' }
  await assert.rejects(world.submit(writer, dear), refusedWith('invalid_gas'))
  await assert.rejects(rehearseTransaction(app, writer, dear), refusedWith('invalid_gas'))
  assert.deepEqual(await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).execute(), []) // prettier-ignore
  await world.submit(writer, { ...dear, gas: '100000' })
})

test('several calls that are together longer than nodes take are refused; the longest that are not fit into a transaction', async () => {
  const writer = await world.poor('long')
  const stop: Hex = `0x${'e7'.repeat(20)}`
  await world.rpc('anvil_setCode', stop, '0x00')
  await world.mine()
  const words = (count: number) => `[${Array.from({ length: count }, () => '0').join()}]`
  const calls = (count: number) => Array.from({ length: 2 }, () => ({ address: stop, abi: 'f(uint256[])', args: [words(count)] })) // prettier-ignore
  const { app } = world.first
  for (const [count, pointer] of [
    [1_534, '/calls'],
    [2_400, '/calls'],
    [4_700, '/calls/0/args'],
  ] as const) {
    const isTooLong = (error: unknown) => refusedWith('invalid_data')(error) && (error as AppError).errors![0]!.pointer === pointer // prettier-ignore
    await assert.rejects(async () => dryRunBatch(app, writer, { calls: calls(count) }), isTooLong)
    await assert.rejects(writeBatch(app, writer, { calls: calls(count) }, {}), isTooLong)
  }
  const { answer } = await writeBatch(app, writer, { calls: calls(1_533) }, {})
  await world.mine()
  const { hash } = await shown(writer, answer.id)
  const raw = await world.rpc<Hex>('eth_getRawTransactionByHash', hash)
  assert.ok(raw.length / 2 - 1 < 131_072, String(raw.length / 2 - 1))
  assert.equal((await shown(writer, answer.id)).state, 'MINED')
})

test('a dry run of several calls says what the last of them returned, by its own ABI', async () => {
  const writer = await world.poor('dry-batch')
  const ping = { address: world.target, abi: 'ping()' }
  const count = { address: world.target, abi: 'count() returns (uint256 pinged)' }
  const dry = (calls: (typeof ping)[]) => dryRunBatch(world.first.app, writer, { calls })
  const pings = await world.rpc<Hex>('eth_call', { to: world.target, data: '0x06661abd' }, 'latest')
  const { response, outputs } = await dry([ping, count])
  assert.deepEqual([response, outputs.map(({ name, type }) => [name, type])], [bigNumber(BigInt(pings) + 1n), [['pinged', 'uint256']]]) // prettier-ignore
  const other = await dry([count, ping])
  assert.deepEqual([other.response, other.outputs], [null, []])
})

test('an application whose budget names contracts has writes to those paid, and a network’s own budget holds for all', async () => {
  const writer = await world.poor('names-contracts', 'one-contract')
  await assert.rejects(call(writer, 'ping()'), refusedWith('gas_not_sponsored', 'other contracts'))
  const mixed = { calls: [{ address: world.probe, abi: 'add(uint256)', args: ['1'] }, { address: world.target, abi: 'ping()' }] } // prettier-ignore
  await assert.rejects(writeBatch(world.first.app, writer, mixed, {}), refusedWith('gas_not_sponsored'))
  await add(writer)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  const setCap = (wei: string | null) => world.db.updateTable('networks').set({ sponsor_per_day: wei }).execute()
  await setCap('1')
  try {
    await assert.rejects(add(writer), refusedWith('gas_not_sponsored'))
  } finally {
    await setCap(null)
  }
})

test('where no sponsor can pay it is refused before anything is stored', async () => {
  const writer = await world.poor('empty')
  const held = await world.balanceOf(world.house.address)
  await world.rpc('anvil_setBalance', world.house.address, '0x1')
  await world.mine()
  try {
    await assert.rejects(add(writer), refusedWith('sponsor_empty'))
    assert.deepEqual(await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).execute(), []) // prettier-ignore
  } finally {
    await world.rpc('anvil_setBalance', world.house.address, `0x${held.toString(16)}`)
  }
  // No block shows that the sponsor has funds again.
  await add(writer)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('before a write of a person who has delegated is sent, a node is asked for its gas within a block, and for no balance', async () => {
  const writer = await world.poor('two-calls')
  for (let index = 0; index < 2; index++) {
    await add(writer)
    await world.mine()
  }
  const asked: string[] = []
  const address = writer.address.slice(2).toLowerCase()
  world.first.misbehave((method, params, next) => {
    // What is asked about others belongs to writes before this one; a balance is asked of nobody.
    const isOwn = JSON.stringify(params).toLowerCase().includes(address)
    if (isOwn || method === 'eth_getBalance') asked.push(method)
    return next()
  })
  try {
    // In a new block, requests that are made once per block are made again.
    await add(writer)
    asked.length = 0
    await add(writer)
    assert.deepEqual(asked.slice(0, 2), ['eth_estimateGas', 'eth_sendRawTransaction'])
  } finally {
    world.first.misbehave(null)
  }
  await world.mine()
  assert.equal(await world.countOf(writer), 4n)
})

/** Steps at which a write is interrupted, as by a killed process, before everything is resumed. */
const STEPS: Step[] = ['in-bind-operation', 'after-bind-operation', 'after-sign-operation', 'after-bind-outer', 'after-sign-outer', 'in-store-outer', 'after-store-outer', 'after-broadcast', 'before-answer-operation'] // prettier-ignore
for (const step of STEPS)
  test(`a process that dies at ${step} leaves a write that its key finishes, once`, async () => {
    const writer = await world.poor(`dies-${step}`)
    let isDead = false
    interruptSteps(world.first.app, (reached) => {
      if (reached !== step || isDead) return
      isDead = true
      throw new Error('killed')
    })
    await assert.rejects(add(writer, 1, 'k'))
    assert.ok(isDead)
    interruptSteps(world.first.app, null)
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
    const { answer } = await until('the key answers', async () => {
      await world.db.updateTable('operations').set({ updated_at: new Date(Date.now() - 60_000) }).where('account_id', '=', writer.accountId).execute() // prettier-ignore
      return add(writer, 1, 'k').catch((error: unknown) => {
        if (refusedWith('idempotency_in_flight')(error)) return null
        throw error
      })
    })
    await keep(world)
    await until('it is done', async () => {
      await world.mine()
      return (await shown(writer, answer.id)).state === 'MINED'
    })
    await world.mine()
    assert.equal(await world.countOf(writer), 1n)
    assert.equal((await add(writer, 1, 'k')).answer.id, answer.id)
  })

test('a reorganisation takes a delegation and what it carried back, and both come again', async () => {
  const writer = await world.poor('reorg')
  const snapshot = await world.rpc<Hex>('evm_snapshot')
  const { answer } = await add(writer)
  await world.mine()
  assert.equal((await shown(writer, answer.id)).state, 'MINED')
  await world.rpc('evm_revert', snapshot)
  await world.mine()
  await world.mine()
  await until('it is taken back', async () => (await shown(writer, answer.id)).state === 'SUBMITTED')
  assert.equal(await codeOf(writer), '0x')
  await age(world.first.app, 40)
  await keep(world)
  await world.mine()
  await until('it is done again', async () => (await shown(writer, answer.id)).state === 'MINED')
  assert.equal(await world.countOf(writer), 1n)
  assert.equal(await codeOf(writer), world.delegated)
})

test('an operation that its transaction can not do any more goes into another, under the same id', async () => {
  const writer = await world.poor('repacked')
  await add(writer)
  await world.mine()
  const { answer } = await add(writer, 2)
  const row = await rowOf(answer.id)
  // Cancel its transaction, as if another one had used the nonce.
  await world.cancelOuter(row.outer_id!)
  await world.mine()
  await until('it is packed again', async () => {
    await keep(world)
    await world.mine()
    return (await rowOf(answer.id)).outer_id !== row.outer_id
  })
  await world.mine()
  const after = await rowOf(answer.id)
  assert.deepEqual([after.sequence, after.state], [row.sequence, 'MINED'])
  assert.equal(await world.countOf(writer), 3n)
  const { hashes, id } = await shown(writer, answer.hash)
  assert.equal(id, answer.id)
  assert.ok(hashes.includes(answer.hash) && hashes.length >= 2)
})

test('what was never mined in time has failed, for sure: it is not packed again, and its key is free', async () => {
  const writer = await world.poor('expires')
  await add(writer)
  await world.mine()
  const { answer } = await add(writer, 2, 'late')
  const row = await rowOf(answer.id)
  await world.db.updateTable('operations').set({ deadline: Math.floor(Date.now() / 1_000) - 5 }).where('id', '=', answer.id).execute() // prettier-ignore
  await world.cancelOuter(row.outer_id!)
  await world.mine()
  await until('it has failed', async () => {
    await keep(world)
    await world.mine()
    return (await rowOf(answer.id)).state === 'FAILED'
  })
  assert.equal((await shown(writer, answer.id)).state, 'FAILED')
  assert.equal((await rowOf(answer.id)).outer_id, row.outer_id)
  assert.equal(await world.countOf(writer), 1n)
  await counted(answer.id)
})

test('a cancelled operation is not done, and not packed again', async () => {
  const writer = await world.poor('cancels')
  await add(writer)
  await world.mine()
  const { answer } = await add(writer, 2)
  const cancelling = await cancelTransaction(world.first.app, writer, answer.id)
  assert.equal(cancelling.isCancel, true)
  const { outer_id: carrier } = await rowOf(answer.id)
  await keep(world)
  assert.equal((await rowOf(answer.id)).outer_id, carrier)
  await world.mine()
  await until('it is cancelled', async () => {
    await keep(world)
    await world.mine()
    return (await shown(writer, answer.id)).state === 'CANCELLED'
  })
  assert.equal(await world.countOf(writer), 1n)
  await assert.rejects(cancelTransaction(world.first.app, writer, answer.id), refusedWith('not_cancellable'))
})

test('an account that lost its code by a stale authorization has failed by the event, whatever the transaction says', async () => {
  const writer = await world.poor('stale')
  await add(writer)
  await world.mine()
  const { answer } = await add(writer, 2)
  // Remove the delegation: no authorization in this transaction restores it.
  await world.rpc('anvil_setCode', writer.address, '0x')
  await world.mine()
  const receipt = await world.rpc<{ status: Hex }>('eth_getTransactionReceipt', answer.hash)
  assert.equal(receipt.status, '0x1')
  const { state, revert } = await shown(writer, answer.id)
  assert.deepEqual([state, revert?.name], ['FAILED', 'NotDelegated'])
  assert.equal(await world.countOf(writer), 1n)
})

test('a node that loses what it was given gets it again', async () => {
  const writer = await world.poor('node-loses')
  const { answer } = await add(writer)
  await world.rpc('anvil_dropTransaction', answer.hash)
  await world.mine()
  assert.equal((await shown(writer, answer.id)).state, 'SUBMITTED')
  await age(world.first.app, 40)
  await keep(world)
  await world.mine()
  assert.equal((await shown(writer, answer.id)).state, 'MINED')
  assert.equal(await world.countOf(writer), 1n)
})

test('the fee of a transaction that waits is raised, and every hash of it leads to the operation', async () => {
  const writer = await world.poor('raised')
  await add(writer)
  await world.mine()
  const { answer } = await add(writer, 2)
  const { outer_id: outerId } = await rowOf(answer.id)
  const outer = await world.db.selectFrom('transactions').selectAll().where('id', '=', outerId!).executeTakeFirstOrThrow() // prettier-ignore
  const { hash } = await raiseFee(world.first.app, world.first.chain, toBound(outer))
  assert.notEqual(hash, answer.hash)
  await world.mine()
  const one = await shown(writer, answer.hash)
  assert.deepEqual([one.id, one.hash, one.state], [answer.id, hash, 'MINED'])
  assert.deepEqual(new Set(one.hashes), new Set([hash, answer.hash]))
  assert.equal(await world.countOf(writer), 3n)
})

test('a database that went back behind a write has it again from the ledger, with and without its key', async () => {
  const [keyed, plain] = [await world.poor('tail-keyed'), await world.poor('tail-plain')]
  for (const writer of [keyed, plain]) {
    await add(writer)
    await world.mine()
  }
  const goBack = await remember(world)
  const first = await add(keyed, 2, 'tail')
  const second = await add(plain, 2)
  await world.mine()
  await goBack()
  const again = await add(keyed, 2, 'tail')
  assert.equal(again.answer.id, first.answer.id)
  await replay(world.first)
  await until('both are as they were', async () => {
    await keep(world)
    await world.mine()
    const states = await Promise.all([shown(keyed, first.answer.id), shown(plain, second.answer.id)].map(async (one) => (await one.catch(() => null))?.state)) // prettier-ignore
    return states.every((state) => state === 'MINED' || state === 'FINALIZED')
  })
  assert.equal(await world.countOf(keyed), 3n)
  assert.equal(await world.countOf(plain), 3n)
})

test('a transaction that the signer raises no more, since an operation in it may not be sent, is cancelled, and what it carried is sent again', async () => {
  const [first, other] = [await world.poor('unraised'), await world.poor('beside-unraised')]
  for (const writer of [first, other]) await add(writer)
  await world.mine()
  // Both must be in one transaction without others, so they must arrive within a few milliseconds.
  const together = async () => {
    const [, { answer }] = await Promise.all([add(first, 2), add(other, 2)])
    const { outer_id: outerId } = await rowOf(answer.id)
    const carried = await world.db.selectFrom('carried').selectAll().where('transaction_id', '=', outerId!).execute()
    if (carried.length === 2) return { id: answer.id, outerId: outerId! }
    await world.mine()
    return null
  }
  const { id, outerId } = await until('both are carried by one', together)
  const before = await world.countOf(other)
  await world.rpc('anvil_dropAllTransactions')
  refuseRaises = true
  try {
    for (let block = 0; block < 5; block++) await world.mine()
    await world.db.updateTable('attempts').set({ created_at: new Date(Date.now() - 600_000), created_block: 0 }).where('transaction_id', '=', outerId).execute() // prettier-ignore
    await until('its nonce is cancelled', async () => {
      await age(world.first.app, 40)
      await keep(world)
      return (await world.db.selectFrom('transactions').select('is_cancel').where('id', '=', outerId).executeTakeFirstOrThrow()).is_cancel // prettier-ignore
    })
  } finally {
    refuseRaises = false
  }
  await until('the other is done', async () => {
    await keep(world)
    await world.mine()
    return /MINED|FINALIZED/.test((await shown(other, id)).state)
  })
  assert.equal(await world.countOf(other), before + 2n)
})

test('the list has operations among what the account sent itself, newest first, page by page', async () => {
  const writer = await world.poor('lists')
  const ids = []
  for (let amount = 1; amount <= 3; amount++) {
    ids.unshift((await add(writer, amount)).answer.id)
    await world.mine()
  }
  const first = await listTransactions(world.first.app, writer, { limit: 2 })
  assert.deepEqual(
    first.transactions.map(({ id }) => id),
    ids.slice(0, 2),
  )
  const rest = await listTransactions(world.first.app, writer, { limit: 2, cursor: first.nextCursor! })
  assert.deepEqual([rest.transactions.map(({ id }) => id), rest.nextCursor], [ids.slice(2), null])
})

test('two sponsors carry; when one is empty the other does', async () => {
  const second = await world.sponsor('SECOND')
  await world.clock.advance(5_100)
  const writers: Writer[] = []
  for (let index = 0; index < 16; index++) writers.push(await world.poor(`two-${index}`))
  const answers = await Promise.all(writers.map((writer) => add(writer)))
  assert.deepEqual(new Set(answers.map(({ answer }) => answer.tx.from.toLowerCase())), new Set([world.house.address, second.address])) // prettier-ignore
  await world.mine()
  for (const writer of writers) assert.equal(await world.countOf(writer), 1n)
  const held = await world.balanceOf(second.address)
  await world.rpc('anvil_setBalance', second.address, '0x1')
  await world.mine()
  const more = await Promise.all(writers.map((writer) => add(writer)))
  assert.deepEqual(new Set(more.map(({ answer }) => answer.tx.from.toLowerCase())), new Set([world.house.address]))
  await world.rpc('anvil_setBalance', second.address, `0x${held.toString(16)}`)
  await world.mine()
  for (const writer of writers) assert.equal(await world.countOf(writer), 2n)
})

test('a sponsor that delegated carries nothing', async () => {
  const writers: Writer[] = []
  for (let index = 0; index < 16; index++) writers.push(await world.poor(`delegated-sponsor-${index}`))
  const payers = async () =>
    new Set((await Promise.all(writers.map((writer) => add(writer)))).map(({ answer }) => answer.tx.from.toLowerCase()))
  // The sponsor is the first in turn for some of the accounts.
  assert.ok((await payers()).has(world.house.address))
  await world.mine()
  await world.rpc('anvil_setCode', world.house.address, world.delegated)
  await world.clock.advance(5_100)
  assert.ok(!(await payers()).has(world.house.address))
  await world.rpc('anvil_setCode', world.house.address, '0x')
  await world.mine()
})

test('what the follower passed before the operation was known is read again from the block, not believed of its transaction', async () => {
  const [done, failed] = [await world.poor('missed-done'), await world.poor('missed-failed')]
  for (const writer of [done, failed]) await add(writer)
  await world.mine()
  const answers = await Promise.all([add(done, 2), add(failed, 2)])
  await world.rpc('anvil_setCode', failed.address, '0x')
  await world.mine()
  const ids = answers.map(({ answer }) => answer.id)
  // Reset the columns that the follower set, as in a database that lost them.
  const unknown = { state: 'SUBMITTED', block_number: null, block_hash: null, is_final: false, reason: null } as const
  await world.db.updateTable('operations').set(unknown).where('id', 'in', ids).execute()
  await keep(world)
  assert.deepEqual([(await shown(done, ids[0]!)).state, (await shown(failed, ids[1]!)).state], ['MINED', 'FAILED'])
})

test('what the follower passed is not settled by a block that it has no more', async () => {
  const writer = await world.poor('missed-gone')
  await add(writer)
  await world.mine()
  const { answer } = await add(writer, 2)
  await world.mine()
  const { number, hash } = world.first.chain.head.current()!
  await world.db.updateTable('operations').set({ state: 'SUBMITTED', block_number: null, block_hash: null, is_final: false }).where('id', '=', answer.id).execute() // prettier-ignore
  const storeAs = (of: Hex) => world.db.updateTable('blocks').set({ hash: fromHex(of) }).where('number', '=', number).execute() // prettier-ignore
  await storeAs(`0x${'ab'.repeat(32)}`)
  await tendOperations(world.first.app, world.first.chain)
  assert.equal((await rowOf(answer.id)).state, 'SUBMITTED')
  await storeAs(hash)
  await tendOperations(world.first.app, world.first.chain)
  assert.equal((await rowOf(answer.id)).state, 'MINED')
})

test('a call within a call has the gas that it takes, though the outer one succeeds without it', async () => {
  const inner = encodeFunctionData({ abi: parseAbi(['function burnGas(uint256)']), args: [10_000n] })
  const data = encodeFunctionData({ abi: parseAbi(['function forward(address, bytes)']), args: [world.probe, inner] })
  const event = parseAbi(['event Forwarded(bool succeeded, bytes answer)'])
  const { chain } = world.first
  for (const gas of ['sponsor', 'self'] as const) {
    const writer = gas === 'self' ? await world.writer('inner-self') : await world.poor('inner-sponsor')
    chain.gas = gas
    try {
      const { answer } = await world.submit(writer, { to: world.target, data })
      await world.mine()
      assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'MINED', gas)
      const { logs } = await world.rpc<{ logs: Log[] }>('eth_getTransactionReceipt', answer.hash)
      const forwarded = parseEventLogs({ abi: event, logs })
      assert.deepEqual(forwarded.map(({ args }) => args.succeeded), [true], gas) // prettier-ignore
    } finally {
      chain.gas = 'sponsor'
    }
  }
})
