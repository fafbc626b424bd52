import { refusedWith } from '../../../test/kit/refused.ts'
import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { writing, type Fault, type Writing } from '../../../test/writing.ts'
import { RpcError, RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import type { Signer } from '../../signer-wire/client.ts'
import { fromHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { toBound } from '../intent.ts'
import { claim } from './bind.ts'
import { interruptSteps, type Step } from '../crash-points.ts'

let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const rowsOf = (address: `0x${string}`) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()
const sentBytes = () =>
  world.first.calls.filter(({ method }) => method === 'eth_sendRawTransaction').map(({ params }) => params[0])

/** Stops the write at a step as SIGKILL would: nothing after it happens. */
class Killed extends Error {}
function killAt(step: Step): void {
  interruptSteps(world.first.app, (reached) => {
    if (reached === step) throw new Killed()
  })
}
const live = () => interruptSteps(world.first.app, null)

/** Makes rows look older, by the database's clock. */
const age = (seconds: number) =>
  sql`update transactions set created_at = created_at - ${`${seconds} seconds`}::interval, updated_at = updated_at - ${`${seconds} seconds`}::interval`.execute(
    world.db,
  )

test('a write is stored before it is sent, answers with its hash, and is mined once', async () => {
  const writer = await world.writer('order')
  let storedBefore = false
  const look: Fault = async (method, _params, next) => {
    if (method === 'eth_sendRawTransaction') {
      const [row] = await rowsOf(writer.address)
      storedBefore = row?.state === 'SUBMITTED' && row.hash !== null
    }
    return next()
  }
  world.first.misbehave(look)
  const { answer } = await world.add(world.first, writer)
  world.first.misbehave(null)
  assert.ok(storedBefore)
  assert.equal(answer.state, 'SUBMITTED')
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  const [row] = await rowsOf(writer.address)
  assert.equal(row!.state, 'MINED')
  assert.equal(row!.succeeded, true)
})

test('ten concurrent retries with one key make one transaction', async () => {
  const writer = await world.writer('retries')
  const tries = await Promise.allSettled(Array.from({ length: 10 }, () => world.add(world.first, writer, 1, 'same')))
  const hashes = new Set(tries.flatMap((one) => (one.status === 'fulfilled' ? [one.value.answer.hash] : [])))
  assert.equal(hashes.size, 1)
  for (const one of tries)
    if (one.status === 'rejected') assert.ok(refusedWith('idempotency_in_flight')(one.reason), String(one.reason))
  const again = await world.add(world.first, writer, 1, 'same')
  assert.equal(again.isReplay, true)
  assert.ok(hashes.has(again.answer.hash))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await rowsOf(writer.address)).length, 1)
})

test('the same key with another body is refused, and with another user is another key', async () => {
  const writer = await world.writer('body')
  const other = await world.writer('body-other')
  await world.add(world.first, writer, 1, 'k')
  await assert.rejects(world.add(world.first, writer, 2, 'k'), refusedWith('idempotency_key_reused'))
  const { isReplay } = await world.add(world.first, other, 2, 'k')
  assert.equal(isReplay, false)
  assert.equal((await rowsOf(writer.address)).length, 1)
})

test('a revert in simulation spends neither the key nor a nonce', async () => {
  const writer = await world.writer('revert')
  const fail = () =>
    import('../../contracts/write.ts').then(({ writeContract }) =>
      writeContract(
        world.first.app,
        writer,
        { address: world.probe, abi: 'failError(string) public', args: ['not today'] },
        { idempotencyKey: 'r' },
      ),
    )
  await assert.rejects(
    fail(),
    (error: unknown) => refusedWith('execution_reverted')(error) && (error as AppError).revert?.reason === 'not today',
  )
  assert.equal((await rowsOf(writer.address)).length, 0)
  const { isReplay } = await world.add(world.first, writer, 1, 'r')
  assert.equal(isReplay, false)
})

for (const step of ['after-sign', 'after-store', 'after-broadcast'] as const) {
  test(`a process killed ${step} has sent the same bytes when another takes over`, async () => {
    const writer = await world.writer(`killed-${step}`)
    killAt(step)
    await assert.rejects(world.add(world.first, writer, 1, 'k'), Killed)
    live()
    const keeper = world.first.keeper()
    await keeper.round()
    await keeper.stop()
    const [row] = await rowsOf(writer.address)
    assert.equal(row!.state, 'SUBMITTED')
    const { attempts } = await world.signer.recall({ intentId: row!.id })
    assert.equal(attempts.length, 1)
    assert.ok(sentBytes().includes(attempts[0]!.raw))
    // The retry gets the response of the first request.
    const again = await world.add(world.first, writer, 1, 'k')
    assert.equal(again.isReplay, true)
    assert.equal(again.answer.hash, attempts[0]!.hash)
    await world.mine()
    assert.equal(await world.countOf(writer), 1n)
  })
}

test('an intent without bytes is signed under its own nonce by a repeat with its key', async () => {
  const writer = await world.writer('repeat')
  killAt('after-bind')
  await assert.rejects(world.add(world.first, writer, 1, 'k'), Killed)
  live()
  await assert.rejects(world.add(world.first, writer, 1, 'k'), refusedWith('idempotency_in_flight'))
  await age(3)
  const { answer, isReplay } = await world.add(world.first, writer, 1, 'k')
  assert.equal(isReplay, false)
  assert.equal(answer.tx.nonce, 0)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await rowsOf(writer.address)).length, 1)
})

test('a repeat beside a first request that is slow finishes it, and both are told the same', async () => {
  const writer = await world.writer('slow')
  const reached = Promise.withResolvers<void>()
  const goOn = Promise.withResolvers<void>()
  interruptSteps(world.first.app, async (step) => {
    if (step !== 'after-bind') return
    reached.resolve()
    await goOn.promise
  })
  const slow = world.add(world.first, writer, 1, 'k')
  await reached.promise
  await age(3)
  const { answer } = await world.add(world.first, writer, 1, 'k')
  goOn.resolve()
  assert.equal((await slow).answer.hash, answer.hash)
  live()
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

for (const way of ['by the request that signed it', 'by the keeper, after that request died']) {
  test(`a row says what was signed, ${way}, although another request under the key has claimed it for another amount`, async () => {
    const writer = await world.writer(`claimed ${way}`)
    const signed = Buffer.from(toWord(0n))
    interruptSteps(world.first.app, async (step) => {
      if (step !== 'after-sign') return
      const { id } = (await rowsOf(writer.address))[0]!
      assert.ok(await claim(world.db, id, { ...toBound((await rowsOf(writer.address))[0]!), value: 7n, gas: 99_999n }))
      if (way !== 'by the request that signed it') throw new Killed()
    })
    const asked = world.add(world.first, writer, 1, 'k')
    if (way === 'by the request that signed it') await asked
    else await assert.rejects(asked, Killed)
    live()
    await age(3)
    const keeper = world.first.keeper()
    await keeper.round()
    await keeper.stop()
    const [row] = await rowsOf(writer.address)
    const [attempt] = (await world.signer.recall({ intentId: row!.id })).attempts
    assert.deepEqual([row!.state, Buffer.from(row!.value)], ['SUBMITTED', signed])
    assert.equal(row!.gas_limit, Number(attempt!.gas))
    await world.mine()
  })
}

test('an intent without bytes is filled by a cancel after 30 s, and its key is free again', async () => {
  const writer = await world.writer('filled')
  killAt('after-bind')
  await assert.rejects(world.add(world.first, writer, 1, 'k'), Killed)
  live()
  const { answer: later } = await world.add(world.first, writer)
  assert.equal(later.tx.nonce, 1)
  const keeper = world.first.keeper()
  await keeper.round()
  assert.equal((await rowsOf(writer.address))[0]!.state, 'BOUND')
  await age(40)
  await keeper.round()
  await keeper.stop()
  await world.mine()
  const rows = await rowsOf(writer.address)
  assert.deepEqual(
    rows.map(({ state, nonce }) => [nonce, state]),
    [
      [0, 'CANCELLED'],
      [1, 'MINED'],
    ],
  )
  assert.equal(await world.countOf(writer), 1n)
  const { answer, isReplay } = await world.add(world.first, writer, 1, 'k')
  assert.equal(isReplay, false)
  assert.equal(answer.tx.nonce, 2)
})

test('a time-out after acceptance is sent, and never signed under a second nonce', async () => {
  const writer = await world.writer('timeout')
  world.first.misbehave(async (method, _params, next) => {
    const answer = await next()
    if (method === 'eth_sendRawTransaction') throw new RpcUnavailable('the node took too long', { timedOut: true })
    return answer
  })
  const { answer } = await world.add(world.first, writer, 1, 'k')
  world.first.misbehave(null)
  const again = await world.add(world.first, writer, 1, 'k')
  assert.equal(again.answer.hash, answer.hash)
  const keeper = world.first.keeper()
  await keeper.round()
  await keeper.stop()
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await rowsOf(writer.address)).length, 1)
})

test('a broadcast that never arrived is sent again with the same bytes', async () => {
  const writer = await world.writer('dropped')
  world.first.misbehave((method, _params, next) =>
    method === 'eth_sendRawTransaction' ? Promise.reject(new RpcUnavailable('dropped', { timedOut: false })) : next(),
  )
  const { answer } = await world.add(world.first, writer)
  world.first.misbehave(null)
  const keeper = world.first.keeper()
  await keeper.round()
  await keeper.stop()
  const sent = sentBytes()
  assert.equal(
    sent.at(-1),
    sent.findLast((_raw, index) => index < sent.length - 1),
  )
  await world.mine()
  const [row] = await rowsOf(writer.address)
  assert.equal(row!.state, 'MINED')
  assert.ok(Buffer.from(row!.hash!).equals(fromHex(answer.hash)))
})

test('`already known` counts as sent', async () => {
  const writer = await world.writer('known')
  world.first.misbehave(async (method, _params, next) => {
    const answer = await next()
    if (method === 'eth_sendRawTransaction') throw new RpcError(-32000, 'already known', undefined)
    return answer
  })
  const { answer } = await world.add(world.first, writer)
  world.first.misbehave(null)
  assert.equal(answer.status, 'SUCCESS')
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('when the node is away nothing is bound', async () => {
  const writer = await world.writer('away')
  world.first.misbehave(() => Promise.reject(new RpcUnavailable('away', { timedOut: false })))
  await assert.rejects(world.add(world.first, writer, 1, 'k'), refusedWith('chain_unavailable'))
  world.first.misbehave(null)
  assert.equal((await rowsOf(writer.address)).length, 0)
  assert.equal((await world.add(world.first, writer, 1, 'k')).isReplay, false)
})

test('without a queue the seventeenth unconfirmed write is refused before anything is bound', async () => {
  const writer = await world.writer('seventeen')
  const strict = await world.replica({ MAX_QUEUED_WRITES: '0' })
  const tries = await Promise.allSettled(Array.from({ length: 20 }, () => world.add(strict, writer)))
  const refused = tries.filter((one) => one.status === 'rejected')
  assert.equal(refused.length, 4)
  for (const one of refused) {
    assert.ok(refusedWith('too_many_pending')(one.reason), String(one.reason))
    assert.match(one.reason.message, /^The account has 1[6-9] unconfirmed writes, and the limit is 16\. /)
  }
  assert.deepEqual(
    (await rowsOf(writer.address)).map(({ nonce }) => nonce),
    Array.from({ length: 16 }, (_, nonce) => nonce),
  )
  await world.mine()
  assert.equal(await world.countOf(writer), 16n)
  await world.add(world.first, writer)
})

test('two replicas racing on one account leave no gap and use no nonce twice', async () => {
  const writer = await world.writer('race')
  const other = await world.replica()
  const tries = await Promise.allSettled(
    Array.from({ length: 14 }, (_, index) => world.add(index % 2 === 0 ? world.first : other, writer)),
  )
  const nonces = tries.flatMap((one) => (one.status === 'fulfilled' ? [one.value.answer.tx.nonce] : []))
  assert.deepEqual(
    nonces.toSorted((a, b) => a - b),
    Array.from({ length: 14 }, (_, nonce) => nonce),
  )
  await world.mine()
  assert.equal(await world.countOf(writer), 14n)
})

test('one key sent to two replicas at once makes one transaction', async () => {
  const writer = await world.writer('race-key')
  const other = await world.replica()
  const tries = await Promise.allSettled(
    Array.from({ length: 8 }, (_, index) => world.add(index % 2 === 0 ? world.first : other, writer, 1, 'k')),
  )
  assert.ok(tries.some(({ status }) => status === 'fulfilled'))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

/** Returns a signer that answers `sign` once by `answer`, and is the real one otherwise. */
function signOnce(answer: () => never | Promise<never>): () => void {
  const { app } = world.first
  const real = app.signer
  let isUsed = false
  const sign: Signer['sign'] = (request) => {
    if (isUsed || request.kind !== 'send') return real.sign(request)
    isUsed = true
    return Promise.resolve().then(answer)
  }
  app.signer = { ...real, sign }
  return () => {
    app.signer = real
  }
}

test('a write that policy refuses leaves its nonce to the next one, and its key', async () => {
  const writer = await world.writer('policy')
  const restore = signOnce(() => {
    throw new AppError('policy_denied', 'The rule max-total-fee rejects this transaction.')
  })
  await assert.rejects(world.add(world.first, writer, 1, 'k'), refusedWith('policy_denied'))
  restore()
  assert.deepEqual(
    (await rowsOf(writer.address)).map(({ state }) => state),
    ['VACANT'],
  )
  const { answer, isReplay } = await world.add(world.first, writer, 5, 'k')
  assert.equal(isReplay, false)
  assert.equal(answer.tx.nonce, 0)
  await world.mine()
  assert.equal(await world.countOf(writer), 5n)
})

test('a vacated nonce below a later one is filled, so that the later one is mined', async () => {
  const writer = await world.writer('hole')
  await world.add(world.first, writer)
  // Two writes are bound at the same time: nonce 1 is refused while nonce 2 is in flight.
  const restore = signOnce(async () => {
    await world.add(await world.replica(), writer)
    throw new AppError('policy_denied', 'no')
  })
  await assert.rejects(world.add(world.first, writer), refusedWith('policy_denied'))
  restore()
  await age(40)
  const keeper = world.first.keeper()
  await keeper.round()
  await keeper.stop()
  await world.mine()
  assert.deepEqual(
    (await rowsOf(writer.address)).map(({ state }) => state),
    ['MINED', 'CANCELLED', 'MINED'],
  )
})

test('a signer whose answer is lost leaves the intent bound: its bytes are found in its ledger', async () => {
  const writer = await world.writer('lost-answer')
  const { app } = world.first
  const real = app.signer
  app.signer = {
    ...real,
    sign: async (request) => {
      await real.sign(request)
      throw new AppError(
        'signer_unavailable',
        'The connection to the signer was lost. A write may have been signed. Retry with the same idempotency key.',
      )
    },
  }
  await assert.rejects(world.add(world.first, writer, 1, 'k'), refusedWith('signer_unavailable'))
  app.signer = real
  await age(10)
  const { answer } = await world.add(world.first, writer, 1, 'k')
  assert.equal(answer.tx.nonce, 0)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('after the database lost rows that the signer knows, no nonce is signed twice and the lane goes on', async () => {
  const writer = await world.writer('rolled-back')
  await world.add(world.first, writer, 1)
  await world.add(world.first, writer, 10)
  await world.mine()
  await world.add(world.first, writer, 100)
  // Restore the database from before the last write, whose bytes are still in the mempool.
  await world.db
    .deleteFrom('attempts')
    .where('transaction_id', 'in', (eb) =>
      eb.selectFrom('transactions').select('id').where('sender', '=', fromHex(writer.address)).where('nonce', '=', 2),
    )
    .execute()
  await world.db
    .deleteFrom('transactions')
    .where('sender', '=', fromHex(writer.address))
    .where('nonce', '=', 2)
    .execute()
  const { answer } = await world.add(world.first, writer, 1_000, 'k')
  assert.equal(answer.tx.nonce, 3)
  await world.mine()
  assert.equal(await world.countOf(writer), 1_111n)
  const again = await world.add(world.first, writer, 1_000, 'k')
  assert.equal(again.isReplay, true)
  // The transaction at the lost nonce is our own, so the account continues.
  await world.add(world.first, writer, 1)
})
