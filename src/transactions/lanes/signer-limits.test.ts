import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { age } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import type { Writer } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { interruptSteps } from '../crash-points.ts'
import { explainLeftOut } from './refused-operation.ts'
import { systemClock } from '../../clock.ts'

/** The signer's own limits, with the real signer and over HTTP: its refusals are no failures of this server. */
let world: Sponsored
/** error of the signer for the next transaction of a sponsor */
let refusal: Error | null = null
before(async () => {
  world = await sponsored({ SIGNER_GAS_PER_USER_WEI: String(7n * 10n ** 14n) })
  const { signer } = world.first.app
  world.first.app.signer = {
    ...signer,
    signOuter: (request) => {
      const said = refusal
      refusal = null
      return said === null ? signer.signOuter(request) : Promise.reject(said)
    },
  }
})
afterEach(async () => {
  refusal = null
  world.first.app.clock = systemClock
  interruptSteps(world.first.app, null)
  await world.mine()
})
after(() => world?.close())

async function write(writer: Writer, key: string) {
  const response = await world.first.server.inject({
    ...{ method: 'POST', url: '/v1/contracts/method/write' },
    headers: { authorization: `Bearer ${writer.token}`, 'idempotency-key': key, 'content-type': 'application/json' },
    payload: { address: world.probe, abi: 'add(uint256)', args: ['1'] },
  })
  const { code, resetsAt } = JSON.parse(response.body) as { code?: string; resetsAt?: string | null }
  const retryAfter = response.headers['retry-after']
  return { status: response.statusCode, code, resetsAt, retryAfter: retryAfter === undefined ? null : Number(retryAfter) } // prettier-ignore
}

test('who has used up what the signer lets sponsors pay for them is told so, and until when, also with a repeat', async () => {
  const writer = await world.poor('used-up')
  let [done, answer] = [0, await write(writer, 'key-0')]
  while (answer.status === 200 && done < 20) {
    await world.mine()
    answer = await write(writer, `key-${++done}`)
  }
  assert.ok(done > 0, 'there was room')
  assert.deepEqual([answer.status, answer.code], [429, 'gas_budget_exhausted'])
  const seconds = (Date.parse(answer.resetsAt!) - Date.now()) / 1_000
  assert.ok(seconds > 80_000 && seconds < 90_000, answer.resetsAt!)
  assert.ok(Math.abs(answer.retryAfter! - seconds) < 60)
  await age(world.first.app, 5)
  assert.deepEqual((await write(writer, `key-${done}`)).code, 'gas_budget_exhausted')
  // Other users have separate limits.
  assert.equal((await write(await world.poor('has-room'), 'key')).status, 200)
  await world.mine()
  assert.equal(await world.countOf(writer), BigInt(done))
})

test('what the signer says of a transaction is told as what can be done about it, never as a failure of ours', async () => {
  const said: [Error, number, string][] = [
    [
      new SignerRefused('operation_refused', 'One.', { operation: 0, because: 'account_frozen' }),
      403,
      'account_frozen',
    ],
    [new SignerRefused('operation_refused', 'Two.', { operation: 0, because: 'application_suspended' }), 403, 'application_suspended'], // prettier-ignore
    [new SignerRefused('operation_refused', 'Three.', { operation: 0, because: 'policy_denied', rule: 'house' }), 403, 'policy_denied'], // prettier-ignore
    [new SignerRefused('operation_refused', 'Four.', { operation: 0, because: 'operation_expired' }), 503, 'overloaded'], // prettier-ignore
    [new SignerRefused('operation_refused', 'Five.', { operation: 0, because: 'operation_unknown' }), 409, 'conflict'], // prettier-ignore
    [new SignerRefused('operation_refused', 'The operator froze this account: the rule sponsored-per-user, a deadline.', { operation: 0 }), 409, 'conflict'], // prettier-ignore
    [new SignerRefused('operation_refused', 'Which one?'), 503, 'signer_unavailable'],
    [new SignerRefused('nonce_gap', 'An earlier nonce is not signed.'), 409, 'conflict'],
    [new SignerRefused('bad_request', 'The ledger does not have this authorization.'), 503, 'signer_unavailable'],
    [new SignerRefused('key_damaged', 'The key of this account does not open.'), 503, 'signer_unavailable'],
    [new SignerRefused('of a newer signer', 'Something.'), 503, 'signer_unavailable'],
  ]
  for (const [index, [error, status, code]] of said.entries()) {
    const writer = await world.poor(`refused-${index}`)
    refusal = error
    const answer = await write(writer, 'key')
    assert.deepEqual([answer.status, answer.code], [status, code], error.message)
    // It was signed, so a retry with its key finishes it.
    await age(world.first.app, 5)
    assert.equal((await write(writer, 'key')).status, 200, error.message)
    await world.mine()
    assert.equal(await world.countOf(writer), 1n)
  }
})

test('a limit that no time makes room in is told without one', () => {
  const facts = { operation: 0, because: 'policy_denied', rule: 'sponsored-per-user', resetsAt: null }
  const error = new SignerRefused('operation_refused', 'Until 2031-01-01T00:00:00.000Z.', facts)
  const told = explainLeftOut(error, systemClock)
  assert.ok(told instanceof AppError)
  assert.deepEqual([told.code, told.resetsAt, told.retryAfter], ['gas_budget_exhausted', null, 3_600])
})
