import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { testPooler } from '../../test/kit/database.ts'
import { until } from '../../test/kit/until.ts'
import { command } from '../../test/kit/command.ts'
import { world, type Answer, type World } from '../../test/world.ts'
import type { Hex } from '../ids.ts'
import { askAt } from '../signer/programs/ask-operator.ts'
import { adminSocketIn } from '../signer/socket.ts'

const COIN = 10n ** 18n
const TO: Hex = `0x${'7a'.repeat(20)}`
let here: World
before(async () => void (here = await world({ NETWORK_GAS: 'topup' })))
after(() => here.close())

async function operate(method: string, path: string, body?: object, token?: string): Promise<Answer> {
  const own = (await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim()
  return here.request(`/operator/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token ?? own}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}
const grant = async (to: Hex = TO): Promise<string> => {
  const request = { sponsor: 'HOUSE', chainId: here.facts.chainId, to, most: String(10n * COIN) }
  const path = adminSocketIn(join(here.dataDir, 'signer'))
  return (await askAt<{ grant: string }>(path, { verb: 'grantWithdrawal', request })).grant
}
const path = '/sponsors/HOUSE/withdrawals'

test('an operator who was granted it has funds sent back by a running server, once; who asked is written down, the grant is not', async () => {
  const text = await grant()
  const asked = { network: 'devnet', to: TO, amount: String(COIN), grant: text }
  const first = await operate('POST', path, asked)
  assert.deepEqual([first.status, first.body.sponsor, first.body.to.toLowerCase()], [200, 'HOUSE', TO])
  const sent = async () => (await operate('GET', '/withdrawals')).body.find(({ id }: { id: string }) => id === first.body.id) // prettier-ignore
  await until('it is mined', async () => ['MINED', 'FINALIZED'].includes((await sent()).state))
  assert.equal((await operate('POST', path, asked)).body.transactionId, (await sent()).transactionId)
  assert.equal(BigInt(await here.rpc<Hex>('eth_getBalance', TO, 'latest')), COIN)
  const { body: actions } = await operate('GET', '/actions?limit=5')
  const action = actions.find((one: { action: string }) => one.action === 'withdraw')
  assert.equal(action.target, 'HOUSE on devnet')
  const [everything, listed] = [JSON.stringify(actions), JSON.stringify(await sent())]
  assert.ok(!everything.includes(text) && !listed.includes(text))
  assert.equal(actions.at(-1).after.id ?? first.body.id, first.body.id)
})

test('the command asks through the running server, waits until it is sent, and says what was refused', async () => {
  const settings = { DATA_DIR: here.dataDir, ...(process.env.TEST_DATABASE_URL === undefined ? {} : { DATABASE_URL: here.app.config.DATABASE_URL!, DATABASE_POOLER: testPooler }) } // prettier-ignore
  const withdraw = (...words: string[]) => command(settings, ['sponsor', 'withdraw', 'HOUSE', '--network', 'devnet', ...words]) // prettier-ignore
  const other: Hex = `0x${'7b'.repeat(20)}`
  const done = await withdraw('--to', other, '--amount', String(2n * COIN), '--grant', await grant(other))
  assert.deepEqual([done.code, done.err], [0, ''])
  assert.match(done.out, /^  State +(SUBMITTED|MINED|FINALIZED)$[^]*^  Transaction +0x/m)
  const guessed = await withdraw('--to', other, '--all', '--grant', `withdrawal_${'A'.repeat(43)}`)
  assert.equal(guessed.code, 1)
  assert.match(guessed.out, /REFUSED: policy_denied/)
  assert.match((await withdraw('--to', other, '--grant', 'x')).err, /Give either --amount or --all/)
  assert.match((await withdraw('--to', other, '--all', '--grant', 'x')).err, /grant-withdrawal/)
})

test('what cannot be is refused with its place, and strangers learn nothing', async () => {
  const good = { network: 'devnet', to: TO, amount: '1', grant: `withdrawal_${'B'.repeat(43)}` }
  for (const [body, status, pointer] of [
    [{ ...good, to: '0x1' }, 400, '/to'],
    [{ ...good, amount: 1 }, 400, '/amount'],
    [{ ...good, amount: 'all' }, 400, '/amount'],
    [{ ...good, grant: 'x' }, 400, '/grant'],
    [{ network: 'devnet', to: TO }, 400, '/grant'],
    [{ ...good, network: 'mars' }, 404, undefined],
    [{ ...good, network: 'a\0b' }, 404, undefined],
  ] as const) {
    const { status: told, body: refused } = await operate('POST', path, body)
    assert.deepEqual([told, refused.errors?.[0]?.pointer], [status, pointer], JSON.stringify(body))
  }
  assert.equal((await operate('POST', '/sponsors/NO%00BODY/withdrawals', good)).status, 404)
  for (const token of ['guess', here.alice.token]) {
    assert.equal((await operate('POST', path, good, token)).status, 401)
    assert.equal((await operate('GET', '/withdrawals', undefined, token)).status, 401)
    assert.equal((await operate('PATCH', '/networks/devnet', { gas: 'self' }, token)).status, 401)
  }
})

test('the network of the settings is not changed by the operator API, nor one that is not there', async () => {
  const refused = await operate('PATCH', '/networks/devnet', { gas: 'self' })
  assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_request'])
  assert.match(refused.body.detail, /NETWORK_GAS/)
  assert.equal((await operate('PATCH', '/networks/mars', { gas: 'self' })).status, 404)
  assert.equal((await operate('PATCH', '/networks/devnet', {})).status, 400)
  assert.equal((await operate('PATCH', '/networks/devnet', { chainId: 5 })).status, 400)
  assert.equal((await operate('PATCH', '/networks/devnet', { decimals: 16 })).status, 400)
  const wrong = await operate('PATCH', '/networks/devnet', { topUpContracts: 'all' })
  assert.deepEqual([wrong.status, wrong.body.code], [400, 'invalid_request'])
  const [network] = (await operate('GET', '/networks')).body
  assert.deepEqual(
    [network.gas, network.sponsorPerDay, network.sponsorLow, network.topUpContracts],
    ['topup', null, null, []],
  )
})

test('how far the past of a network is comes from the row that its process wrote', async () => {
  const { db } = here.app
  const [before] = (await operate('GET', '/networks')).body
  assert.deepEqual([before.name, before.backfillFrom], ['devnet', null])
  const counted = { waiting: 1_200, covered: 8_800, blocks_per_second: 0.5, done_at: new Date('2030-01-31T12:00:00Z') } // prettier-ignore
  const row = { ...counted, counted_at: new Date('2026-01-31T12:00:00Z'), blocked_by: null, updated_at: new Date() }
  // Held by a process that is none of ours, so that it stays as it is written.
  const held = { lease_owner: 'test', lease_until: new Date(Date.now() + 60_000), account_ids: null }
  const none = { from_block: null, target_block: null, next_block: null }
  await db
    .insertInto('backfill_work')
    .values({ chain_id: before.chainId, epoch: 9, ...held, ...none, ...row })
    .onConflict((on) => on.column('chain_id').doUpdateSet({ epoch: 9, ...held, ...row }))
    .execute()
  const [network] = (await operate('GET', '/networks')).body
  assert.deepEqual(network.backfillProgress, {
    ...{ waiting: 1_200, covered: 8_800, countedAt: '2026-01-31T12:00:00.000Z', blocksPerSecond: 0.5 },
    ...{ doneAt: '2030-01-31T12:00:00.000Z', waitsFor: null },
  })
  await db.deleteFrom('backfill_work').where('chain_id', '=', before.chainId).execute()
})

test('another network is changed by the operator API as by the command', async () => {
  const explorer = { tx: 'https://x.example/{hash}', address: 'https://x.example/{address}', block: 'https://x.example/{number}' } // prettier-ignore
  await here.app.db.insertInto('networks').values({ chain_id: 5, name: 'five', genesis_hash: Buffer.alloc(32), explorer: JSON.stringify(explorer) }).execute() // prettier-ignore
  const { status, body } = await operate('PATCH', '/networks/five', { gas: 'topup', sponsorPerDay: '7', finality: 3 })
  assert.deepEqual([status, body.gas, body.sponsorPerDay, body.finality, body.explorer, body.isServed], [200, 'topup', '7', 3, explorer, false]) // prettier-ignore
  for (const [changes, pointer] of [
    [{ gas: 'sponsor' }, '/gas'],
    [{ finality: -1 }, '/finality'],
    [{ symbol: 'A B' }, '/symbol'],
    [{ sponsorLow: '-1' }, '/sponsorLow'],
    [{ gas: 'self', feeCapGwei: 0 }, '/feeCapGwei'],
    [{ backfillFrom: -1 }, '/backfillFrom'],
    [{ backfillFrom: 1.5 }, '/backfillFrom'],
    [{ backfillFrom: 2 ** 53 }, '/backfillFrom'],
    [{ backfillFrom: '7' }, '/backfillFrom'],
  ] as const) {
    const refused = await operate('PATCH', '/networks/five', changes)
    assert.deepEqual([refused.status, refused.body.errors[0].pointer], [400, pointer])
  }
  assert.equal((await operate('GET', '/networks')).body.find(({ name }: { name: string }) => name === 'five').gas, 'topup') // prettier-ignore
  for (const backfillFrom of [2 ** 53 - 1, 0, null]) {
    const changed = await operate('PATCH', '/networks/five', { backfillFrom })
    assert.deepEqual([changed.status, changed.body.backfillFrom, changed.body.gas], [200, backfillFrom, 'topup'])
  }
})
