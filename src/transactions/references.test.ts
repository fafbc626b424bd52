import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { BAD_REFERENCES } from '../../test/bad-references.ts'
import { whileMining } from '../../test/interrupted.ts'
import { keep, remember, replay } from '../../test/lost-tail.ts'
import { GAS_MODES, sponsored, type Sponsored } from '../../test/sponsored.ts'
import type { Writer } from '../../test/writing.ts'
import { decide } from '../approvals/decide.ts'
import type { Hex } from '../ids.ts'
import { approvalDigest } from '../signer-wire/approval.ts'
import type { ApprovalContent } from '../store/column-values.ts'
import { transferTokens } from '../transfers/send.ts'

/** The caller's own text of a write, over HTTP and with the real signer, whoever pays for gas. */
const AWAY: Hex = `0x${'b2'.repeat(20)}`
/** wei; the policy requires an approval above 1,000 */
const MUCH = '2000'

const folder = mkdtempSync(join(tmpdir(), 'chatelaine-references-'))
let world: Sponsored
before(async () => {
  const file = join(folder, 'policy.json')
  const ask = { name: 'ask-above', effect: 'require', tier: 'approval', native: { perCall: '1000' } }
  writeFileSync(file, JSON.stringify({ version: 1, rules: [{ name: 'rest', effect: 'allow' }, ask] }))
  world = await sponsored({ SIGNER_POLICY_FILE: file }, 'chatelaine')
})
after(async () => {
  await world?.close()
  rmSync(folder, { recursive: true })
})

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
type Answer = { status: number; replayed: boolean; body: any }

let made = 0
async function request(
  writer: Writer,
  method: 'GET' | 'POST',
  url: string,
  body?: object,
  key?: string,
): Promise<Answer> {
  const sent = world.first.server.inject({
    ...{ method, url },
    headers: { authorization: `Bearer ${writer.token}`, ...(key === undefined ? {} : { 'idempotency-key': key }) },
    ...(body === undefined ? {} : { payload: body }),
  })
  // A top-up waits for blocks.
  const answer = await (world.first.chain.gas === 'topup' ? whileMining(world, sent, 0) : sent)
  return { status: answer.statusCode, replayed: answer.headers['idempotent-replayed'] === 'true', body: answer.json() }
}
const post = (writer: Writer, url: string, body: object, key?: string) => request(writer, 'POST', url, body, key)
const get = async (writer: Writer, url: string) => (await request(writer, 'GET', url)).body

const call = () => ({ address: world.probe, abi: 'add(uint256 amount)', args: ['1'] })
const WRITE = '/v1/contracts/method/write'
const BATCH = '/v1/contracts/method/write/batch'
const SEND = '/v1/transactions'

test('a reference that is not 1 to 255 characters of text is rejected, and nothing is stored', async () => {
  const writer = await world.userOf('sponsor')
  const bodies = { [WRITE]: call(), [BATCH]: { calls: [call(), call()] }, [SEND]: { to: AWAY, value: '1' } }
  for (const [path, body] of Object.entries(bodies))
    for (const [reference, code] of BAD_REFERENCES) {
      const answer = await post(writer, path, { ...body, reference })
      assert.equal(answer.status, 400, `${path} ${JSON.stringify(reference)} ${JSON.stringify(answer.body)}`)
      assert.deepEqual([answer.body.code, answer.body.errors[0].pointer, answer.body.errors[0].code], ['invalid_request', '/reference', code]) // prettier-ignore
    }
  // A call of a batch has none of its own.
  const within = await post(writer, BATCH, { calls: [{ ...call(), reference: 'a' }, call()] })
  assert.deepEqual([within.status, within.body.errors?.[0]?.pointer], [400, '/calls/0/reference'])
  assert.deepEqual(await get(writer, '/v1/transactions'), [])
})

for (const mode of GAS_MODES)
  describe(`gas mode ${mode}`, () => {
    test('a reference is stored and returned with the write, with each read and with a repeat', async () => {
      const writer = await world.userOf(mode)
      const longest = '😀'.repeat(255)
      for (const [path, body, reference] of [
        [WRITE, call(), 'order-1 é "\\'],
        [SEND, { to: AWAY, value: '1' }, longest],
        [WRITE, call(), null],
        ...(mode === 'sponsor' ? [[BATCH, { calls: [call(), call()] }, 'both'] as const] : []),
      ] as const) {
        const key = `stored ${made++}`
        const given = reference === null ? body : { ...body, reference }
        const { status, body: sent } = await post(writer, path, given, key)
        assert.deepEqual([status, sent.reference], [200, reference], JSON.stringify(sent))
        const again = await post(writer, path, given, key)
        assert.deepEqual([again.replayed, again.body.id, again.body.reference], [true, sent.id, reference])
        assert.equal((await get(writer, `/v1/transactions/${sent.id}`)).reference, reference)
        const listed = (await get(writer, '/v1/transactions')) as { id: string; reference: string | null }[]
        assert.equal(listed.find(({ id }) => id === sent.id)!.reference, reference)
        const table = mode === 'sponsor' ? 'operations' : 'transactions'
        const row = await world.db.selectFrom(table).select('reference').where('id', '=', sent.id).executeTakeFirstOrThrow() // prettier-ignore
        assert.equal(row.reference, reference)
        await world.mine()
      }
    })

    test('the same key with another reference, or without one, is another request', async () => {
      const writer = await world.userOf(mode)
      const key = `reused ${made++}`
      const { body: sent } = await post(writer, WRITE, { ...call(), reference: 'one' }, key)
      for (const other of [{ reference: 'two' }, {}]) {
        const { status, body } = await post(writer, WRITE, { ...call(), ...other }, key)
        assert.deepEqual([status, body.code], [422, 'idempotency_key_reused'])
      }
      assert.equal((await get(writer, `/v1/transactions/${sent.id}`)).reference, 'one')
    })

    test('a dry run ignores a reference', async () => {
      const writer = await world.userOf(mode)
      const { status, body } = await post(writer, WRITE, { ...call(), reference: 'tried', dryRun: true })
      assert.deepEqual([status, 'reference' in body], [200, false], JSON.stringify(body))
      assert.deepEqual(await get(writer, '/v1/transactions'), [])
    })

    test('the write after an approval carries the reference', async () => {
      const writer = await world.userOf(mode)
      const [key, body] = [`asked ${made++}`, { to: AWAY, value: MUCH, reference: 'approved' }]
      const asked = await post(writer, SEND, body, key)
      assert.equal(asked.body.code, 'approval_required', JSON.stringify(asked.body))
      const row = await world.db.selectFrom('approvals').selectAll().where('id', '=', asked.body.approval.id).executeTakeFirstOrThrow() // prettier-ignore
      const content = row.content as Extract<ApprovalContent, { calls: unknown }>
      const digest = approvalDigest({ chainId: 31_337, from: writer.address, content })
      const token = await world.place.approval(writer.userId, { client_id: 'demo', chain_id: 31_337, intent: row.intent_id, digest }) // prettier-ignore
      await decide(world.first.app, { id: row.id, accountId: writer.accountId, decision: 'approved', token })
      const other = await post(writer, SEND, { ...body, reference: 'another' }, key)
      assert.equal(other.body.code, 'idempotency_key_reused')
      const { status, body: sent } = await post(writer, SEND, body, key)
      assert.deepEqual([status, sent.reference], [200, 'approved'], JSON.stringify(sent))
    })

    test('what a lost database gets back from the ledger has no reference, and a repeat returns that', async () => {
      const writer = await world.userOf(mode)
      const back = await remember(world)
      const [key, body] = [`lost ${made++}`, { ...call(), reference: 'lost' }]
      const { body: sent } = await post(writer, WRITE, body, key)
      assert.equal(sent.reference, 'lost')
      await back()
      await replay(world.first)
      await keep(world)
      assert.equal((await get(writer, `/v1/transactions/${sent.id}`)).reference, null)
      const again = await post(writer, WRITE, body, key)
      assert.deepEqual([again.status, again.body.id, again.body.reference], [200, sent.id, null], JSON.stringify(again.body)) // prettier-ignore
      await world.mine()
      assert.equal(await world.countOf(writer), 1n)
    })

    test('after a lost database, a write under a used key does not pass its reference to the write of the ledger', async () => {
      const writer = await world.userOf(mode)
      const back = await remember(world)
      const [key, body] = [`taken ${made++}`, { ...call(), reference: 'first' }]
      const { body: sent } = await post(writer, WRITE, body, key)
      await back()
      const other = await post(writer, WRITE, { ...call(), args: ['2'], reference: 'second' }, key)
      assert.notEqual(other.status, 200, JSON.stringify(other.body))
      await replay(world.first)
      await keep(world)
      assert.equal((await get(writer, `/v1/transactions/${sent.id}`)).reference, null)
      await world.mine()
      assert.equal(await world.countOf(writer), 1n)
    })

    test('after a lost database, a repeat that comes before the ledger was read does not send the write twice', async () => {
      const writer = await world.userOf(mode)
      const back = await remember(world)
      const [key, body] = [`early ${made++}`, { ...call(), reference: 'early' }]
      const { body: sent } = await post(writer, WRITE, body, key)
      await back()
      const again = await post(writer, WRITE, body, key)
      assert.deepEqual([again.status, again.body.id], [200, sent.id], JSON.stringify(again.body))
      // The ledger's record may have taken a row that this repeat had bound with the same request hash.
      assert.ok([null, 'early'].includes(again.body.reference))
      await world.mine()
      assert.equal(await world.countOf(writer), 1n)
    })
  })

test('a reference is in no field of the transaction', async () => {
  const writer = await world.userOf('self')
  const sent = [await post(writer, WRITE, call()), await post(writer, WRITE, { ...call(), reference: 'x' })]
  const fields = sent.map(({ body: { tx } }) => ({ ...tx, hash: null, nonce: null }))
  assert.deepEqual(fields[0], fields[1])
})

test('a write keeps its reference when it is sped up and when it is cancelled', async () => {
  const writer = await world.userOf('self')
  const { body: sent } = await post(writer, WRITE, { ...call(), reference: 'kept' })
  for (const change of ['speed-up', 'cancel']) {
    const { status, body } = await request(writer, 'POST', `/v1/transactions/${sent.id}/${change}`)
    assert.deepEqual([status, body.reference], [200, 'kept'], JSON.stringify(body))
  }
  await world.mine()
  const { state, reference } = await get(writer, `/v1/transactions/${sent.id}`)
  assert.deepEqual([state, reference], ['CANCELLED', 'kept'])
})

test('a transfer stores and returns its reference', async () => {
  const writer = await world.userOf('self')
  const body = { tokenType: 'NATIVE', amount: '0.0000000000000001', toAddress: AWAY, reference: 'gift' } as const
  const { answer } = await transferTokens(world.first.app, writer, body, {
    forms: new Map() as never,
    lookUp: () => {},
  })
  assert.equal(answer.reference, 'gift')
  assert.equal((await get(writer, `/v1/transactions/${answer.id}`)).reference, 'gift')
})
