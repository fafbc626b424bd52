// tier: all, because the database returns to an older state in each of its tests
import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { age, keep, remember, replay, useElsewhere } from '../../../test/lost-tail.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { AppError } from '../../errors.ts'
import { vacate } from '../lanes/bind.ts'
import { cancelTransaction, speedUpTransaction } from '../lanes/change.ts'
import { toBound } from '../intent.ts'
import { readTransaction } from '../read/read.ts'
import { giveUp } from './recover.ts'
import { raiseFee } from '../lanes/replace.ts'
import { startReplay } from './replay.ts'
import { askToResume } from './resume.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { ledgerAttempts, applyLedgerRecord } from './reconcile.ts'
import { WAIT_MS } from '../read/wait.ts'

/**
 * The database returns to an earlier state at the worst moment, or has rows of writes that are abandoned in the end.
 */
let world: Writing
before(async () => {
  world = await writing({ MAX_PENDING_WRITES: '64' })
})
after(() => world.close())

const rowsOf = ({ address }: Writer) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()
const stateOf = async (writer: Writer, id: string) => (await readTransaction(world.first.app, writer, id)).state

/** Does something once, when a step is reached next. */
function atNext(step: Step, work: () => Promise<void>): void {
  interruptSteps(world.first.app, async (reached) => {
    if (reached !== step) return
    interruptSteps(world.first.app, null)
    await work()
  })
}

async function bindAndDie(writer: Writer, amount: number, key: string): Promise<void> {
  atNext('after-bind', () => Promise.reject(new Error('killed')))
  await assert.rejects(world.add(world.first, writer, amount, key), /killed/)
}

/** Uses the account's next nonce with its own key, as another holder would. */
async function minedElsewhere(writer: Writer): Promise<void> {
  await useElsewhere(world, writer)
  await world.mine()
}

async function resume(writer: Writer): Promise<void> {
  await askToResume(world.db, writer.userId)
  await keep(world)
}

for (const key of [undefined, 'k'])
  test(`commit 1 is lost before commit 2: the write is told, is found and is mined, ${key === undefined ? 'without' : 'with'} a key`, async () => {
    const writer = await world.writer(`between-commits-${key}`)
    await world.add(world.first, writer, 1)
    await world.mine()
    await replay(world.first)
    const back = await remember(world)
    atNext('after-sign', back)
    const { answer } = await world.add(world.first, writer, 10, key)
    assert.equal(await stateOf(writer, answer.id), 'SUBMITTED')
    await world.rpc('anvil_dropAllTransactions')
    await replay(world.first)
    await age(world, 40)
    await keep(world)
    await world.mine()
    assert.equal(await stateOf(writer, answer.hash), 'MINED')
    assert.equal(await world.countOf(writer), 11n)
  })

test('a told write that was lost, and whose nonce somebody else used meanwhile, is REPLACED, and its key says so', async () => {
  const writer = await world.writer('lost-and-replaced')
  await world.add(world.first, writer, 1)
  await world.mine()
  await replay(world.first)
  const back = await remember(world)
  const { answer } = await world.add(world.first, writer, 10, 'k')
  await back()
  await world.rpc('anvil_dropAllTransactions')
  await minedElsewhere(writer)
  await replay(world.first)
  const found = await readTransaction(world.first.app, writer, answer.id)
  assert.deepEqual([found.state, found.hash, found.hashes], ['REPLACED', answer.hash, [answer.hash]])
  assert.deepEqual(
    found.transitions.map(({ state }) => state),
    ['SUBMITTED', 'REPLACED'],
  )
  assert.deepEqual((await world.add(world.first, writer, 10, 'k')).answer, answer)
  await resume(writer)
  assert.deepEqual((await world.add(world.first, writer, 10, 'k')).answer, answer)
  assert.equal((await world.add(world.first, writer, 100)).answer.tx.nonce, 2)
  await world.mine()
  assert.equal(await world.countOf(writer), 101n)
})

test('a told write of which commit 1 only is left, and whose nonce somebody else used, is REPLACED under its own id', async () => {
  const writer = await world.writer('half-lost')
  await world.add(world.first, writer, 1)
  await world.mine()
  let back = async () => {}
  atNext('after-bind', async () => {
    back = await remember(world)
  })
  const { answer } = await world.add(world.first, writer, 10, 'k')
  await back()
  await world.rpc('anvil_dropAllTransactions')
  await replay(world.first)
  await minedElsewhere(writer)
  const found = await readTransaction(world.first.app, writer, answer.id)
  assert.deepEqual([found.state, found.hash, found.hashes], ['REPLACED', answer.hash, [answer.hash]])
  assert.deepEqual((await world.add(world.first, writer, 10, 'k')).answer, answer)
  assert.equal(await world.countOf(writer), 1n)
})

test('what is given up under a nonce that its id has no more is left alone; what is given up is final', async () => {
  const writer = await world.writer('given-up')
  await bindAndDie(writer, 1, 'k')
  const bound = toBound((await rowsOf(writer))[0]!)
  const by = { block: { number: 0, hash: `0x${'0a'.repeat(32)}` as Hex }, hash: null }
  assert.equal(await giveUp(world.first.app, { ...bound, nonce: 7 }, by), false)
  assert.equal((await rowsOf(writer))[0]!.state, 'BOUND')
  assert.equal(await giveUp(world.first.app, bound, by), true)
  const [row] = await rowsOf(writer)
  assert.deepEqual([row!.state, row!.is_final, row!.id === bound.id], ['FAILED', true, false])
})

test('a use of a key that was REPLACED without bytes is no use: a reorganisation brings back a nonce, not the write', async () => {
  const writer = await world.writer('replaced-unsigned')
  await world.add(world.first, writer, 1)
  await world.mine()
  await bindAndDie(writer, 10, 'k')
  await minedElsewhere(writer)
  await resume(writer)
  const { answer } = await world.add(world.first, writer, 10, 'k')
  await world.rpc('anvil_reorg', 1, [])
  await world.rpc('anvil_dropAllTransactions')
  await world.mine()
  await age(world, 3)
  assert.deepEqual((await world.add(world.first, writer, 10, 'k')).answer, answer)
  await age(world, 40)
  for (let round = 0; round < 3; round++) {
    await keep(world)
    await world.mine()
  }
  assert.equal(await world.countOf(writer), 11n)
  assert.match(await stateOf(writer, answer.id), /^(MINED|FINALIZED)$/)
})

test('a key whose first use was REPLACED without bytes is found by the ledger when the database forgets both', async () => {
  const writer = await world.writer('replaced-and-lost')
  await world.add(world.first, writer, 1)
  await world.mine()
  await replay(world.first)
  const back = await remember(world)
  await bindAndDie(writer, 10, 'k')
  await minedElsewhere(writer)
  await resume(writer)
  const { answer } = await world.add(world.first, writer, 10, 'k')
  await world.mine()
  await back()
  await replay(world.first)
  await age(world, 3)
  assert.deepEqual((await world.add(world.first, writer, 10, 'k')).answer, answer)
  await keep(world)
  await world.mine()
  assert.equal(await world.countOf(writer), 11n)
})

test('a key that was used again after its day answers as its newest use, also when the database sees both anew', async () => {
  const writer = await world.writer('two-uses')
  await replay(world.first)
  const back = await remember(world)
  await world.add(world.first, writer, 10, 'k')
  for (let block = 0; block < 4; block++) await world.mine()
  await age(world, 25 * 3_600)
  const { answer } = await world.add(world.first, writer, 10, 'k')
  await world.mine()
  await back()
  await replay(world.first)
  assert.deepEqual((await world.add(world.first, writer, 10, 'k')).answer, answer)
  assert.equal(await world.countOf(writer), 20n)
})

test('a database that goes back while it is compared with the ledger is compared anew', async () => {
  const writer = await world.writer('while-compared')
  await world.add(world.first, writer, 1)
  await world.mine()
  await replay(world.first)
  const back = await remember(world)
  const { answer } = await world.add(world.first, writer, 10)
  const { app } = world.first
  const real = app.signer
  let times = 0
  app.signer = {
    ...real,
    recallSince: async (request) => {
      const page = await real.recallSince(request)
      if (times++ < 2) await back()
      return page
    },
  }
  await replay(world.first)
  await replay(world.first)
  app.signer = real
  await world.rpc('anvil_dropAllTransactions')
  await keep(world)
  await world.mine()
  assert.equal(await stateOf(writer, answer.id), 'MINED')
  assert.equal(await world.countOf(writer), 11n)
  assert.equal((await rowsOf(writer)).length, 2)
})

test('an intent whose row came back under another nonce than it was signed for is not stored there, whoever is first', async () => {
  const writer = await world.writer('other-nonce')
  await world.add(world.first, writer, 1)
  await world.mine()
  await replay(world.first)
  await bindAndDie(writer, 10, 'x')
  const back = await remember(world)
  // The write was refused, so its nonce went to the next one.
  await vacate(world.first.app, (await rowsOf(writer))[1]!.id)
  const told = [
    (await world.add(world.first, writer, 100, 'w')).answer,
    (await world.add(world.first, writer, 10, 'x')).answer,
  ]
  assert.deepEqual(
    told.map(({ tx }) => tx.nonce),
    [1, 2],
  )
  await back()
  await world.rpc('anvil_dropAllTransactions')
  // Start the replay, like a server.
  const replaying = startReplay(world.first.app)
  const keeper = world.first.keeper()
  for (let round = 0; round < 2; round++) await Promise.all([replaying.look(), keeper.round()])
  await replaying.stop()
  await keeper.stop()
  for (const { id, hash } of told) assert.equal((await readTransaction(world.first.app, writer, hash)).id, id)
  await world.mine()
  await world.mine()
  assert.equal(await world.countOf(writer), 111n)
})

test('what cannot be taken in is told and tried again at every look: the cursor does not pass it by', async () => {
  const writer = await world.writer('stuck')
  await world.add(world.first, writer, 1)
  await world.mine()
  await replay(world.first)
  const back = await remember(world)
  const stuck = (await world.add(world.first, writer, 10)).answer
  const other = await world.writer('behind-stuck')
  const behind = (await world.add(world.first, other, 10)).answer
  await back()
  const { app } = world.first
  const real = app.signer
  app.signer = {
    ...real,
    recall: (request) =>
      'nonce' in request && request.from === writer.address
        ? Promise.reject(new Error('nonsense'))
        : real.recall(request),
  }
  const cursor = () => world.db.selectFrom('ledger_cursor').select('seq').executeTakeFirstOrThrow()
  const before = await cursor()
  for (let look = 0; look < 2; look++) await replay(world.first)
  assert.deepEqual(await cursor(), before)
  assert.equal(await stateOf(other, behind.id), 'SUBMITTED')
  app.signer = real
  await replay(world.first)
  assert.notDeepEqual(await cursor(), before)
  assert.equal(await stateOf(writer, stuck.id), 'SUBMITTED')
  await keep(world)
  await world.mine()
  assert.deepEqual([await world.countOf(writer), await world.countOf(other)], [11n, 10n])
})

test('a stopped account signs nothing new: a repeat of what was bound before is refused too', async () => {
  const writer = await world.writer('stopped-and-bound')
  await world.add(world.first, writer, 1)
  await world.mine()
  await world.add(world.first, writer, 10)
  await bindAndDie(writer, 100, 'k')
  await world.rpc('anvil_dropAllTransactions')
  await minedElsewhere(writer)
  await age(world, 3)
  await assert.rejects(
    world.add(world.first, writer, 100, 'k'),
    (error: unknown) => error instanceof AppError && error.code === 'account_stopped',
  )
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

/** Waits for a block in a request while the database returns to an earlier state, and restores it if `isReplayed`. */
async function waiting(
  writer: Writer,
  request: { method: 'GET' | 'POST'; url: string; payload?: object },
  { back, isReplayed }: { back: () => Promise<void>; isReplayed: boolean },
): Promise<{ status: number; body: { code?: string; id?: string; state?: string } }> {
  const isWaiting = nextWait()
  const waited = world.first.server.inject({ ...request, headers: { authorization: `Bearer ${writer.token}` } })
  await isWaiting
  await back()
  if (isReplayed) {
    await nextWait()
    await replay(world.first)
    await world.mine()
  } else await world.clock.advance(WAIT_MS)
  const { statusCode, body } = await waited
  return { status: statusCode, body: JSON.parse(body) }
}

/** Resolves when a request has read a transaction and waits for a block. */
function nextWait(): Promise<void> {
  const { head } = world.first.chain
  const { onChange } = head
  const { promise, resolve } = Promise.withResolvers<void>()
  head.onChange = (listener) => {
    head.onChange = onChange
    resolve()
    return onChange(listener)
  }
  return promise
}

test('whoever waits for a block is told the truth, though the database loses the transaction meanwhile', async () => {
  const writer = await world.writer('waits')
  await replay(world.first)
  const back = await remember(world)
  const { answer } = await world.add(world.first, writer)
  const request = { method: 'GET', url: `/v1/transactions/${answer.id}?wait=mined` } as const
  const lost = await waiting(writer, request, { back, isReplayed: false })
  assert.deepEqual([lost.status, lost.body.code], [503, 'database_unavailable'])
  await replay(world.first)
  const found = await waiting(writer, request, { back, isReplayed: true })
  assert.deepEqual([found.status, found.body.state], [200, 'MINED'])
})

test('a write that waits for its block is told, though the database loses it, its row or its bytes, meanwhile', async () => {
  const writer = await world.writer('writes-and-waits')
  const payload = { address: world.probe, abi: 'add(uint256)', args: ['1'] }
  const request = { method: 'POST', url: '/v1/contracts/method/write?wait=mined', payload } as const
  await replay(world.first)
  let back = await remember(world)
  const lost = await waiting(writer, request, { back, isReplayed: false })
  assert.deepEqual([lost.status, lost.body.state], [202, 'SUBMITTED'])
  await replay(world.first)
  assert.equal(await stateOf(writer, lost.body.id!), 'SUBMITTED')
  atNext('after-bind', async () => {
    back = await remember(world)
  })
  const bytes = await waiting(writer, request, { back: () => back(), isReplayed: false })
  assert.deepEqual([bytes.status, bytes.body.state], [202, 'SUBMITTED'])
  await keep(world)
  await world.mine()
  assert.equal(await stateOf(writer, bytes.body.id!), 'MINED')
  assert.equal(await world.countOf(writer), 2n)
})

/** Returns the ids that the log reports as restored during `work`. */
async function takenIn(work: () => Promise<unknown>): Promise<unknown[]> {
  const { log } = world.first.app.telemetry
  const { warn } = log
  const ids: unknown[] = []
  log.warn = (event, fields, ...more) => {
    if (event === 'transaction_restored') ids.push(fields?.id)
    warn(event, fields, ...more)
  }
  await work().finally(() => (log.warn = warn))
  return ids
}

test('what the ledger said before a cancel was signed does not undo the cancel that is stored by now', async () => {
  const writer = await world.writer('stale-answer')
  const { app } = world.first
  const { answer } = await world.add(world.first, writer)
  const slot = { chainId: 31_337, from: writer.address, nonce: 0 }
  await speedUpTransaction(app, writer, answer.id)
  const attempts = await ledgerAttempts(app, slot)
  const { hash } = await cancelTransaction(app, writer, answer.id)
  const ids = await takenIn(() => world.db.transaction().execute((db) => applyLedgerRecord(db, app, slot, attempts)))
  const found = await readTransaction(app, writer, answer.id)
  assert.deepEqual([found.isCancel, found.hash, found.hashes.length, ids], [true, hash, 3, []])
})

test('a raise that is stored later than the cancel that was signed after it does not undo the cancel', async () => {
  const writer = await world.writer('late-raise')
  const { app } = world.first
  const { answer } = await world.add(world.first, writer)
  let hash: Hex | undefined
  atNext('after-replace-sign', async () => {
    // It outbids the newest attempt in the ledger, which is the fee bump.
    hash = (await cancelTransaction(app, writer, answer.id)).hash
  })
  await speedUpTransaction(app, writer, answer.id)
  const found = await readTransaction(app, writer, answer.id)
  assert.deepEqual([found.isCancel, found.hash, found.hashes.length], [true, hash, 3])
})

test('a look that meets a raise between its signature and its commit tells of no loss', async () => {
  const writer = await world.writer('met-raise')
  const { app } = world.first
  await replay(world.first)
  const back = await remember(world)
  const { answer } = await world.add(world.first, writer)
  let ids: unknown[] = []
  atNext('after-replace-sign', async () => {
    ids = await takenIn(() => replay(world.first))
  })
  const { hash } = await speedUpTransaction(app, writer, answer.id)
  assert.deepEqual([ids, hash !== answer.hash], [[], true])
  await back()
  assert.deepEqual(await takenIn(() => replay(world.first)), [answer.id])
  assert.equal((await readTransaction(app, writer, answer.id)).hash, hash)
})

test('a told write that the database loses while its fee is raised is found, with the raise, before a node has that', async () => {
  const writer = await world.writer('lost-in-raise')
  const { app } = world.first
  await replay(world.first)
  const back = await remember(world)
  const { answer } = await world.add(world.first, writer)
  atNext('after-replace-sign', back)
  const stored: number[] = []
  world.first.misbehave(async (method, _params, next) => {
    if (method === 'eth_sendRawTransaction') stored.push((await rowsOf(writer)).length)
    return next()
  })
  const { hash, hashes } = await speedUpTransaction(app, writer, answer.id)
  world.first.misbehave(null)
  assert.deepEqual([hashes, stored], [[hash, answer.hash], [1]])
})

test('a lost write whose fee was raised without a token stays its application’s, and keeps the time of its first bytes', async () => {
  const writer = await world.writer('raised-unasked')
  const { app, chain } = world.first
  await replay(world.first)
  const back = await remember(world)
  const { answer } = await world.add(world.first, writer)
  const [was] = await rowsOf(writer)
  await raiseFee(app, chain, toBound(was!))
  const [raise, first] = await ledgerAttempts(app, { chainId: 31_337, from: writer.address, nonce: 0 })
  assert.deepEqual([raise!.clientId, was!.client_id !== ''], [null, true])
  await back()
  await replay(world.first)
  const [row] = await rowsOf(writer)
  assert.deepEqual([row!.id, row!.client_id], [answer.id, was!.client_id])
  assert.deepEqual([row!.created_at, new Date(first!.signedAt) < new Date(raise!.signedAt)], [new Date(first!.signedAt), true]) // prettier-ignore
})

test('bytes whose row is lost between their signature and their commit are stored before a node has them', async () => {
  const writer = await world.writer('stored-again')
  const { app } = world.first
  const real = app.signer
  await replay(world.first)
  const back = await remember(world)
  atNext('after-sign', async () => {
    await back()
    app.signer = {
      ...real,
      recall: async (request) => {
        await new Promise((resolve) => setTimeout(resolve, 200))
        return real.recall(request)
      },
    }
  })
  const stored: number[] = []
  world.first.misbehave(async (method, _params, next) => {
    if (method === 'eth_sendRawTransaction') stored.push((await rowsOf(writer)).length)
    return next()
  })
  await world.add(world.first, writer).finally(() => (app.signer = real))
  world.first.misbehave(null)
  assert.deepEqual(stored, [1])
})
