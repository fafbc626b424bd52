import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { until } from '../../../test/kit/until.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import { newTransactionId } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { cancelTransaction, speedUpTransaction } from '../lanes/change.ts'
import type { TransactionRow } from '../intent.ts'
import { writeCursor } from '../../http/cursor.ts'
import { listOfAccount } from './list-own.ts'
import { listTransactions, readTransaction } from './read.ts'
import { WAIT_MS } from './wait.ts'

/** Responses for transactions, and whose transactions they include. */
let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const get = async ({ token }: Writer, path: string) => {
  const url = path.replace('http://localhost:4000', '')
  const { statusCode, headers, body } = await world.first.server.inject({
    ...{ method: 'GET', url },
    headers: { authorization: `Bearer ${token}` },
  })
  return { status: statusCode, headers, body: JSON.parse(body) }
}
const rowOf = (id: string) =>
  world.db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

let number = 0
/** Inserts a copy of a row with some other values. */
async function addLike(row: TransactionRow, differing: Partial<TransactionRow> = {}): Promise<string> {
  const nonce = row.nonce + ++number
  const hash = Buffer.alloc(32, 0)
  hash.writeUInt32BE(number)
  const {
    transitions,
    revert,
    authorizations: _,
    ...other
  } = { ...row, id: newTransactionId(), nonce, hash, ...differing }
  const json = { transitions: JSON.stringify(transitions), revert: revert === null ? null : JSON.stringify(revert) }
  await world.db
    .insertInto('transactions')
    .values({ ...other, ...json })
    .execute()
  return other.id
}

test('pages follow each other by time and id, newest first, without a gap and without a repeat, and the last has no cursor', async () => {
  const writer = await world.writer('pages')
  const { answer } = await world.add(world.first, writer)
  const row = await rowOf(answer.id)
  const at = (seconds: number) => new Date(row.created_at.getTime() + seconds * 1_000)
  // Three rows at one time, inserted in no order: the id orders them.
  const same = []
  for (let index = 0; index < 3; index++) same.push(await addLike(row, { created_at: at(5) }))
  const last = await addLike(row, { created_at: at(7) })
  const between = await addLike(row, { created_at: at(3) })
  const expected = [last, ...same.toSorted().toReversed(), between, answer.id]
  for (const limit of [1, 2, 4, 6]) {
    const seen: string[] = []
    let pages = 0
    for (let path = `/v1/transactions?limit=${limit}`; ;) {
      const { status, headers, body } = await get(writer, path)
      assert.equal(status, 200)
      seen.push(...body.map(({ id }: { id: string }) => id))
      pages++
      const next = headers['x-next-cursor']
      assert.equal(headers.link === undefined, next === undefined)
      if (next === undefined) break
      assert.equal(body.length, limit)
      path = /^<(http:\/\/localhost:4000\/v1\/transactions\?limit=\d&cursor=[\w-]+)>; rel="next"$/.exec(String(headers.link))![1]! // prettier-ignore
      assert.equal(new URL(path).searchParams.get('cursor'), next)
    }
    assert.deepEqual(seen, expected, `pages of ${limit}`)
    assert.equal(pages, Math.ceil(6 / limit))
  }
  assert.equal((await get(writer, '/v1/transactions')).body.length, 6)
})

test('a list of one state holds that state alone, and its cursor leads on in that state and in no other', async () => {
  const writer = await world.writer('states')
  const { answer } = await world.add(world.first, writer)
  const row = await rowOf(answer.id)
  for (const state of ['FAILED', 'FAILED', 'REPLACED'] as const) await addLike(row, { state })
  const first = await get(writer, '/v1/transactions?state=FAILED&limit=1')
  assert.deepEqual(
    first.body.map(({ state }: { state: string }) => state),
    ['FAILED'],
  )
  const next = new URL(/^<(.*)>/.exec(String(first.headers.link))![1]!)
  assert.equal(next.searchParams.get('state'), 'FAILED')
  const second = await get(writer, next.href)
  assert.deepEqual(
    second.body.map(({ state }: { state: string }) => state),
    ['FAILED'],
  )
  assert.notEqual(second.body[0].id, first.body[0].id)
  assert.equal(second.headers.link, undefined)
  for (const state of ['REPLACED', '']) {
    next.searchParams.delete('state')
    if (state !== '') next.searchParams.set('state', state)
    const { status, body } = await get(writer, next.href)
    assert.deepEqual([status, body.code, body.errors[0].parameter, body.errors[0].code], [400, 'invalid_cursor', 'cursor', 'invalid']) // prettier-ignore
  }
  const without = await get(writer, '/v1/transactions?limit=1')
  const { status, body } = await get(
    writer,
    `/v1/transactions?state=FAILED&cursor=${String(without.headers['x-next-cursor'])}`,
  )
  assert.deepEqual([status, body.code], [400, 'invalid_cursor'])
})

test('a cursor that was made up is refused, and never asked of the database', async () => {
  const writer = await world.writer('forged')
  const time = new Date().toISOString()
  const id = newTransactionId()
  const list = (parts: unknown) =>
    listTransactions(world.first.app, writer, {
      limit: 1,
      cursor: Buffer.from(JSON.stringify(parts)).toString('base64url'),
    })
  assert.deepEqual(await list(['', time, id]), { transactions: [], nextCursor: null })
  for (const parts of [
    ['', `0${time.slice(1)}`, id],
    ['', `x${time}`, id],
    ['', `${time}x`, id],
    ['', '2026-13-45T00:00:00.000Z', id],
    ['', '2026-02-31T00:00:00.000Z', id],
    ['', '2026-01-01T24:00:00.000Z', id],
    ['', time, `x${id}`],
    ['', time, `${id}\0`],
    ['', time, `${id.slice(0, -1)}`],
    ['', time],
    [1, time, id],
  ])
    await assert.rejects(
      list(parts),
      (error: unknown) => error instanceof AppError && error.code === 'invalid_cursor',
      JSON.stringify(parts),
    )
})

test('of an account’s transactions an application sees its own and what nobody knows the sender of, on its network, with bytes', async () => {
  const writer = await world.writer('mine-alone')
  const other = await world.writer('not-mine')
  const { answer } = await world.add(world.first, writer)
  const row = await rowOf(answer.id)
  const unknown = await addLike(row, { client_id: '' })
  const hidden = [
    await addLike(row, { client_id: 'another' }),
    await addLike(row, { chain_id: 1 }),
    await addLike(row, { account_id: other.accountId }),
    await addLike(row, { state: 'BOUND', hash: null }),
  ]
  const { body } = await get(writer, '/v1/transactions')
  assert.deepEqual(body.map(({ id }: { id: string }) => id).toSorted(), [answer.id, unknown].toSorted())
  for (const id of [answer.id, unknown]) assert.equal((await get(writer, `/v1/transactions/${id}`)).status, 200)
  for (const id of hidden) {
    const { status, body: problem } = await get(writer, `/v1/transactions/${id}`)
    assert.deepEqual([status, problem.code], [404, 'transaction_not_found'])
  }
  const foreign = await get(writer, '/v1/transactions/a%00b')
  assert.deepEqual([foreign.status, foreign.body.code], [404, 'transaction_not_found'])
  // Search by hash finds only transactions of this network, by the whole hash, in any case.
  await world.db
    .insertInto('attempts')
    .values({
      ...{ chain_id: 1, hash: Buffer.alloc(32, 9), transaction_id: answer.id, raw: Buffer.of(1), gas_limit: 1 },
      ...{ max_fee: toWord(1n), max_priority_fee: null },
    })
    .execute()
  for (const name of [`0x${'09'.repeat(32)}`, `x${answer.hash}`, `${answer.hash}0`, `x${answer.id}`, `${answer.id}0`])
    assert.equal((await get(writer, `/v1/transactions/${name}`)).status, 404, name)
  const upper = `0x${answer.hash.slice(2).toUpperCase()}`
  assert.equal((await get(writer, `/v1/transactions/${upper}`)).body.id, answer.id)
})

test('a person sees what was sent from their account by every application, newest first, on one network', async () => {
  const writer = await world.writer('person')
  const other = await world.writer('another-person')
  const { answer } = await world.add(world.first, writer)
  const row = await rowOf(answer.id)
  const at = (seconds: number) => new Date(row.created_at.getTime() + seconds * 1_000)
  await addLike(row, { client_id: 'gone', created_at: at(2), state: 'FINALIZED' })
  const same = [
    await addLike(row, { client_id: '1', created_at: at(1) }),
    await addLike(row, { client_id: '2', created_at: at(1) }),
  ]
  await addLike(row, { chain_id: 1 })
  await addLike(row, { account_id: other.accountId })
  await addLike(row, { state: 'BOUND' })
  await addLike(row, { hash: null })
  const { app } = world.first
  const scope = { accountId: writer.accountId, chainId: 31_337 }
  const list = (limit: number, cursor?: string, clientId: string | null = null) => listOfAccount(app, scope, { limit, cursor, clientId }) // prettier-ignore
  const { entries: all } = await list(10)
  const byId = same.toSorted().toReversed().map((id) => (id === same[0] ? '1' : '2')) // prettier-ignore
  assert.deepEqual(
    all.map(({ application, clientId }) => application ?? clientId),
    ['gone', ...byId, 'Demo'],
  )
  assert.deepEqual([all[0]!.state, all[0]!.sentAt.getTime()], ['FINALIZED', at(2).getTime()])
  assert.equal(all[3]!.hash, answer.hash)
  const first = await list(3)
  assert.deepEqual(first.entries, all.slice(0, 3))
  const second = await list(3, first.nextCursor!)
  assert.deepEqual([second.entries, second.nextCursor], [all.slice(3), null])
  assert.deepEqual((await list(10, undefined, 'gone')).entries, all.slice(0, 1))
  for (const cursor of [
    '',
    'x',
    writeCursor(['coins all', 'x', 'y']),
    writeCursor(['sent', '2026-02-31T00:00:00.000000Z', 'tx']),
    writeCursor(['sent', "'", '\0']),
  ])
    // prettier-ignore
    await assert.rejects(list(3, cursor), { code: 'invalid_cursor' })
})

test('gas and price are those of the bytes that count, and hashes come newest first', async () => {
  const writer = await world.writer('shown')
  const { app } = world.first
  world.first.misbehave((method, params, next) =>
    method === 'eth_estimateGas' && (params[0] as { data?: string }).data === undefined
      ? Promise.resolve('0x7530')
      : next(),
  )
  const { answer } = await world.add(world.first, writer)
  const read = () => readTransaction(app, writer, answer.id)
  const first = await read()
  assert.deepEqual([first.hash, first.hashes, first.isCancel], [answer.hash, [answer.hash], false])
  assert.deepEqual(first.gasLimit, answer.tx.gasLimit)
  const raised = await speedUpTransaction(app, writer, answer.id)
  assert.deepEqual(raised.hashes, [raised.hash, answer.hash])
  assert.deepEqual(raised.gasLimit, answer.tx.gasLimit)
  const cancelled = await cancelTransaction(app, writer, answer.id)
  world.first.misbehave(null)
  assert.deepEqual(cancelled.hashes, [cancelled.hash, raised.hash, answer.hash])
  assert.deepEqual([BigInt(cancelled.gasLimit.hex), cancelled.isCancel], [37_500n, true])
  const price = (shown: object) => BigInt((shown as { maxFeePerGas: { hex: string } }).maxFeePerGas.hex)
  assert.ok(price(raised) > price(first) && price(cancelled) > price(raised))
  const { body } = await get(writer, '/v1/transactions')
  assert.deepEqual(body[0].hashes, cancelled.hashes)
  // Of two attempts at one time, the one with the higher fee is the newer.
  await world.db.updateTable('attempts').set({ created_at: new Date() }).where('transaction_id', '=', answer.id).execute() // prettier-ignore
  assert.deepEqual((await read()).hashes, cancelled.hashes)
  assert.deepEqual((await get(writer, '/v1/transactions')).body[0].hashes, cancelled.hashes)
  // Without stored bytes, the terms of the binding are shown.
  await world.db.deleteFrom('attempts').where('transaction_id', '=', answer.id).execute()
  assert.deepEqual((await read()).gasLimit, answer.tx.gasLimit)
  assert.equal(price(await read()), price(first))
})

test('a receipt is shown whole or not at all, and says what became of the call', async () => {
  const writer = await world.writer('receipt')
  const { answer } = await world.add(world.first, writer)
  const row = await rowOf(answer.id)
  const mined: Partial<TransactionRow> = {
    ...{ block_number: 7, block_hash: Buffer.alloc(32, 5), gas_used: 21_000 },
    ...{ effective_gas_price: toWord(3n), succeeded: true },
  }
  const receiptOf = async (differing: Partial<TransactionRow>) =>
    (await readTransaction(world.first.app, writer, await addLike(row, { ...mined, ...differing, state: 'MINED' })))
      .receipt
  const whole = await receiptOf({})
  assert.deepEqual(
    [whole!.blockNumber, whole!.blockHash, whole!.status, whole!.gasUsed.hex, whole!.effectiveGasPrice.hex],
    [7, `0x${'05'.repeat(32)}`, 'SUCCESS', '0x5208', '0x03'],
  )
  for (const succeeded of [false, null]) assert.equal((await receiptOf({ succeeded }))!.status, 'REVERTED')
  for (const missing of ['block_number', 'block_hash', 'gas_used', 'effective_gas_price'] as const)
    assert.equal(await receiptOf({ [missing]: null }), null, missing)
})

test('waiting in vain for a block answers 202 and where to look; without waiting it is 200', async () => {
  const writer = await world.writer('waits-in-vain')
  const { answer } = await world.add(world.first, writer)
  const waiting = get(writer, `/v1/transactions/${answer.hash}?wait=mined`)
  let isOver = false
  void waiting.finally(() => (isOver = true))
  await until('it is over', async () => {
    await world.clock.advance(WAIT_MS)
    return isOver
  })
  const waited = await waiting
  assert.deepEqual([waited.status, waited.headers.location], [202, `/v1/transactions/${answer.id}`])
  assert.equal(waited.body.state, 'SUBMITTED')
  const plain = await get(writer, `/v1/transactions/${answer.hash}`)
  assert.deepEqual([plain.status, plain.headers.location], [200, undefined])
  await world.mine()
  const mined = await get(writer, `/v1/transactions/${answer.hash}?wait=mined`)
  assert.deepEqual([mined.status, mined.headers.location, mined.body.state], [200, undefined, 'MINED'])
  assert.deepEqual(fromHex(mined.body.hash), fromHex(answer.hash))
})
