import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, test } from 'node:test'
import { whileMining } from '../../../test/interrupted.ts'
import { age } from '../../../test/lost-tail.ts'
import { GAS_MODES, sponsored, type GasMode, type Sponsored } from '../../../test/sponsored.ts'
import type { Writer } from '../../../test/writing.ts'
import { decide } from '../../approvals/decide.ts'
import type { Hex } from '../../ids.ts'
import { approvalDigest } from '../../signer-wire/approval.ts'
import type { ApprovalContent } from '../../store/column-values.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { recoverBound } from '../recovery/recover.ts'

/** Writes for which the operator's policy requires approvals, over HTTP and with the real signer. */
/** wei; the policy requires an approval above 1,000 */
const MUCH = 2_000n
const FEW = 1_000n
const PING: Hex = '0x5c36b186'

const folder = mkdtempSync(join(tmpdir(), 'chatelaine-approvals-'))
let world: Sponsored
let signer: Sponsored['signer']
before(async () => {
  const file = join(folder, 'policy.json')
  const ask = { name: 'ask-above', effect: 'require', tier: 'approval', native: { perCall: String(FEW) } }
  writeFileSync(file, JSON.stringify({ version: 1, rules: [{ name: 'rest', effect: 'allow' }, ask] }))
  world = await sponsored({ SIGNER_POLICY_FILE: file }, 'chatelaine')
  signer = world.signer
})
afterEach(() => {
  const { app } = world.first
  app.signer = signer
  interruptSteps(app, null)
})
after(async () => {
  await world?.close()
  rmSync(folder, { recursive: true })
})

/** with a top-up, the sponsor's transfer reaches these steps first */
const STEPS: Record<GasMode, Step[]> = {
  self: ['before-bind', 'after-bind', 'after-sign'],
  topup: ['before-bind', 'after-bind'],
  sponsor: ['before-bind-operation', 'after-bind-operation', 'after-sign-operation'],
}

let made = 0

type Answer = { status: number; body: { code?: string; hash?: Hex; approval?: { id: string } & 'required' } }

async function post(
  writer: Writer,
  path: string,
  body: object,
  key?: string,
  { server } = world.first,
): Promise<Answer> {
  const sent = server.inject({
    method: 'POST',
    url: path,
    headers: { authorization: `Bearer ${writer.token}`, ...(key === undefined ? {} : { 'idempotency-key': key }) },
    payload: body,
  })
  // A top-up waits for blocks.
  const answer = await (world.first.chain.gas === 'topup' ? whileMining(world, sent, 0) : sent)
  return { status: answer.statusCode, body: answer.json() }
}

/** Returns an address that has never received funds. */
const payee = (): Hex => `0x${(0xfee000 + made++).toString(16).padStart(40, '0')}`

const pay = (writer: Writer, to: Hex, value: bigint, key?: string, more: object = {}): Promise<Answer> =>
  post(writer, '/v1/transactions', { to, value: String(value), ...more }, key)

/** Decides a question, as the authorization server does. */
async function answer(writer: Writer, id: string, decision: 'approved' | 'denied'): Promise<void> {
  const { app } = world.first
  const { accountId, address: from, userId } = writer
  const row = await world.db.selectFrom('approvals').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const content = row.content as Extract<ApprovalContent, { calls: unknown }>
  const digest = approvalDigest({ chainId: 31_337, from, content })
  const token = await world.place.approval(userId, { client_id: 'demo', chain_id: 31_337, intent: row.intent_id, digest }) // prettier-ignore
  const decided = decision === 'denied' ? { decision, token: null } : { decision, token }
  assert.ok(await decide(app, { id, accountId, ...decided }))
}

/** Returns counts of everything that a write stores: rows, top-ups, spent budgets and ledger records. */
async function traces({ accountId }: Writer): Promise<number[]> {
  const { db } = world
  const [transactions, operations, topUps, spent] = await Promise.all([
    db.selectFrom('transactions').select('id').where('account_id', '=', accountId).execute(),
    db.selectFrom('operations').select('id').where('account_id', '=', accountId).execute(),
    db.selectFrom('top_ups').select('ordinal').where('account_id', '=', accountId).execute(),
    db.selectFrom('gas_spent').select('wei').where('account_id', '=', accountId).execute(),
  ])
  const { ledgerEntries } = await signer.health()
  return [transactions.length, operations.length, topUps.length, spent.length, ledgerEntries]
}

const asked = ({ status, body }: Answer): string => {
  assert.deepEqual([status, body.code], [403, 'approval_required'], JSON.stringify(body))
  assert.ok(body.approval?.id !== undefined, JSON.stringify(body))
  return body.approval.id
}

const stateOf = async ({ token }: Writer, id: string): Promise<string> => {
  const headers = { authorization: `Bearer ${token}` }
  const answer = await world.first.server.inject({ url: `/v1/approvals/${id}`, headers })
  return (answer.json() as { state: string }).state
}

const received = async (to: Hex): Promise<bigint> => {
  await world.mine()
  return world.balanceOf(to)
}

for (const mode of GAS_MODES)
  describe(`gas: ${mode}`, () => {
    test('a write above the limit asks with nothing bound or signed, and after the approval it is sent once', async () => {
      const [alice, to] = [await world.userOf(mode), payee()]
      const before = await traces(alice)
      assert.equal((await pay(alice, to, MUCH, undefined, { dryRun: true })).body.approval, 'required')
      assert.equal((await pay(alice, to, FEW, undefined, { dryRun: true })).body.approval, 'not_required')
      const keyless = await pay(alice, to, MUCH)
      assert.deepEqual([keyless.status, keyless.body.code, keyless.body.approval], [403, 'approval_required', undefined]) // prettier-ignore
      const id = asked(await pay(alice, to, MUCH, 'key'))
      assert.equal(asked(await pay(alice, to, MUCH, 'key')), id)
      assert.deepEqual(await traces(alice), before)

      await answer(alice, id, 'approved')
      // An approval counts only for its key and content.
      assert.notEqual(asked(await pay(alice, to, MUCH, 'other')), id)
      for (const [where, value] of [
        [payee(), MUCH],
        [to, MUCH + 1n],
        [to, 1n],
      ] as const)
        // prettier-ignore
        assert.equal((await pay(alice, where, value, 'key')).body.code, 'idempotency_key_reused')
      if (mode === 'self') assert.equal((await pay(alice, to, MUCH, 'key', { gas: '90000' })).body.code, 'idempotency_key_reused') // prettier-ignore
      assert.deepEqual(await traces(alice), before)

      const sent = await pay(alice, to, MUCH, 'key')
      assert.equal(sent.status, 200, JSON.stringify(sent.body))
      assert.equal((await pay(alice, to, MUCH, 'key')).body.hash, sent.body.hash)
      assert.equal(await stateOf(alice, id), 'used')
      assert.equal(await received(to), MUCH)
      assert.equal((await pay(alice, to, FEW, 'below')).status, 200)
      assert.equal(await received(to), MUCH + FEW)
    })

    test('a denial is final for its key', async () => {
      const [alice, to] = [await world.userOf(mode), payee()]
      const before = await traces(alice)
      await answer(alice, asked(await pay(alice, to, MUCH, 'key')), 'denied')
      await world.clock.advance(61_000)
      assert.equal((await pay(alice, to, MUCH, 'key')).body.code, 'approval_denied')
      // This holds even if the policy no longer requires approvals.
      world.first.app.signer = { ...signer, health: async () => ({ ...(await signer.health()), policy: null }) }
      await world.clock.advance(6_000)
      assert.equal((await pay(alice, to, MUCH, 'key')).body.code, 'approval_denied')
      assert.deepEqual(await traces(alice), before)
      await world.clock.advance(6_000)
    })

    // A top-up needs blocks, which nobody mines for thirty requests.
    if (mode !== 'topup')
      test('thirty repeats on two replicas are one question before the approval, and one write after it', async () => {
        const second = await world.replica()
        Object.assign(second.chain, {
          gas: mode,
          delegate: world.first.chain.delegate,
          gasSpace: world.first.chain.gasSpace,
        })
        const [alice, to] = [await world.userOf(mode), payee()]
        const storm = () =>
          Promise.all(
            Array.from({ length: 30 }, (_, index) =>
              post(
                alice,
                '/v1/transactions',
                { to, value: String(MUCH) },
                'key',
                index % 2 === 0 ? world.first : second,
              ),
            ),
          )
        const questions = new Set((await storm()).map(asked))
        assert.equal(questions.size, 1)
        await answer(alice, [...questions][0]!, 'approved')
        const before = await traces(alice)
        const sent = await storm()
        assert.ok(sent.every(({ status, body }) => status === 200 || body.code === 'idempotency_in_flight'))
        assert.equal(new Set(sent.flatMap(({ body }) => body.hash ?? [])).size, 1)
        assert.equal(await received(to), MUCH)
        assert.equal((await pay(alice, to, MUCH, 'other')).body.code, 'approval_required')
        const [transactions, operations] = await traces(alice)
        assert.equal(transactions! + operations! - before[0]! - before[1]!, 1)
      })

    for (const step of STEPS[mode])
      test(`an approved write whose process dies ${step} is sent once by its repeat`, async () => {
        const [alice, to] = [await world.userOf(mode), payee()]
        await answer(alice, asked(await pay(alice, to, MUCH, 'key')), 'approved')
        await dieAt(step, () => pay(alice, to, MUCH, 'key'))
        await age(world.first.app, 3)
        // A signed write no longer needs its approval.
        if (step.startsWith('after-sign')) await world.clock.advance(61_000)
        const sent = await pay(alice, to, MUCH, 'key')
        assert.equal(sent.status, 200, JSON.stringify(sent.body))
        assert.equal(await received(to), MUCH)
      })

    test('an approval that expires between the check and the signature signs nothing, and the user is asked again', async () => {
      const [alice, to] = [await world.userOf(mode), payee()]
      const { app } = world.first
      const first = asked(await pay(alice, to, MUCH, 'key'))
      await answer(alice, first, 'approved')
      const expiring = async <T extends { approval?: string }>({ approval, ...request }: T) => {
        if (approval !== undefined) await world.clock.advance(61_000)
        return request
      }
      app.signer = {
        ...signer,
        sign: async (request) => signer.sign(await expiring(request)),
        signOperation: async (request) => signer.signOperation(await expiring(request)),
      }
      const ledger = (await traces(alice)).at(-1)
      const second = asked(await pay(alice, to, MUCH, 'key'))
      assert.notEqual(second, first)
      // The top-up was sent while the approval was valid.
      assert.equal((await traces(alice)).at(-1), ledger! + (mode === 'topup' ? 1 : 0))
      app.signer = signer
      await answer(alice, second, 'approved')
      assert.equal((await pay(alice, to, MUCH, 'key')).status, 200)
      assert.equal(await received(to), MUCH)
    })

    test('a write whose policy came into force a moment ago is not signed, and asks', async () => {
      const [alice, to] = [await world.userOf(mode), payee()]
      const { app } = world.first
      const [, , , , ledger] = await traces(alice)
      await world.clock.advance(6_000)
      app.signer = { ...signer, health: async () => ({ ...(await signer.health()), policy: null }) }
      const first = asked(await pay(alice, to, MUCH, 'key'))
      assert.equal((await traces(alice))[4], ledger)
      app.signer = signer
      await answer(alice, first, 'approved')
      assert.equal((await pay(alice, to, MUCH, 'key')).status, 200)
      assert.equal(await received(to), MUCH)
    })
  })

/** Kills the process at a step of this write. */
async function dieAt(step: Step, work: () => Promise<Answer>): Promise<void> {
  let died = false
  interruptSteps(world.first.app, (reached) => {
    if (reached !== step || died) return
    died = true
    throw new Error('killed')
  })
  await work()
  interruptSteps(world.first.app, null)
  assert.ok(died, `${step} was reached`)
}

test('a bound nonce whose approval has expired is filled, and nothing but the next approval sends the write', async () => {
  const { app, chain } = world.first
  const [alice, to] = [await world.userOf('self'), payee()]
  await answer(alice, asked(await pay(alice, to, MUCH, 'key')), 'approved')
  await dieAt('after-bind', () => pay(alice, to, MUCH, 'key'))
  await world.clock.advance(61_000)
  await age(app, 3)
  const late = asked(await pay(alice, to, MUCH, 'key'))
  await age(app, 40)
  await recoverBound(app, chain, { idleSeconds: 0 })
  await answer(alice, late, 'approved')
  const last = asked(await pay(alice, to, MUCH, 'key'))
  assert.notEqual(last, late)
  assert.equal(await received(to), 0n)
  await answer(alice, last, 'approved')
  assert.equal((await pay(alice, to, MUCH, 'key')).status, 200)
  assert.equal(await received(to), MUCH)
  assert.deepEqual([await stateOf(alice, late), await stateOf(alice, last)], ['approved', 'used'])
})

test('a batch asks for all of its calls, and is sent once after the approval', async () => {
  const alice = await world.userOf('sponsor')
  const calls = [
    { address: world.probe, abi: 'add(uint256)', args: ['1'] },
    { address: world.target, abi: 'ping() payable', value: String(MUCH) },
  ]
  const send = () => post(alice, '/v1/contracts/method/write/batch', { calls }, 'key')
  const before = await traces(alice)
  const dry = await post(alice, '/v1/contracts/method/write/batch', { calls, dryRun: true })
  assert.equal(dry.body.approval, 'required')
  const id = asked(await send())
  assert.deepEqual(await traces(alice), before)
  const { content } = await world.db.selectFrom('approvals').select('content').where('id', '=', id).executeTakeFirstOrThrow() // prettier-ignore
  assert.deepEqual((content as { calls: { to: Hex; value: string; data: Hex }[] }).calls.map((one) => [one.to, one.value, one.data.slice(0, 10)]), [[world.probe, '0', '0x1003e2d2'], [world.target, String(MUCH), PING]]) // prettier-ignore
  await answer(alice, id, 'approved')
  const sent = await send()
  assert.equal(sent.status, 200, JSON.stringify(sent.body))
  assert.equal((await send()).body.hash, sent.body.hash)
  await world.mine()
  assert.equal(await world.countOf(alice), 1n)
})
