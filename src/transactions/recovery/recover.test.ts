import { strict as assert } from 'node:assert'
import { after, before, beforeEach, test } from 'node:test'
import { sql } from 'kysely'
import { fakeApp, signed, type FakeApp } from '../../../test/fake-app.ts'
import { fakeLedger } from '../../../test/fake-ledger.ts'
import { toWord } from '../../store/bytes.ts'
import { startKeeper } from './keeper.ts'
import { recoverBound } from './recover.ts'

/** More rows than one round of the keeper handles. */
let world: FakeApp
before(async () => {
  world = await fakeApp()
})
after(() => world.close())
beforeEach(async () => {
  await sql`delete from attempts`.execute(world.db)
  await sql`delete from transactions`.execute(world.db)
})

test('bound writes that cannot be finished do not keep those of other accounts from it', async () => {
  const ledger = fakeLedger(world.signer)
  // The node reports their nonces as used, without a proof: the network lacks eth_getProof.
  world.node.eth_getTransactionCount = () => '0x1'
  const accounts = []
  for (let number = 0; number < 201; number++) accounts.push(await world.account(`bound ${number}`))
  accounts.sort((a, b) => (a.address < b.address ? -1 : 1))
  const last = accounts.at(-1)!
  for (const account of accounts) await world.row(account, { nonce: 0 }, null)
  await sql`update transactions set created_at = now() - interval '1 hour', updated_at = now() - interval '1 hour'`.execute(
    world.db,
  )
  const mine = await world.db
    .selectFrom('transactions')
    .select('id')
    .where('account_id', '=', last.accountId)
    .executeTakeFirstOrThrow()
  ledger.sign(last, { nonce: 0, intentId: mine.id })
  world.node.eth_sendRawTransaction = () => null
  for (let round = 0; round < 3; round++) await recoverBound(world.app, world.chain, { idleSeconds: 8 }).catch(() => {})
  assert.equal((await world.rowOf(mine.id)).state, 'SUBMITTED')
})

test('accounts that ran dry do not keep the fees of other accounts from being raised', async () => {
  fakeLedger(world.signer)
  world.mine(100)
  // This account's address is above the others, which are small numbers.
  const rich = await world.account('rich')
  world.node.eth_getBalance = ([address]) => (address === rich.address ? '0xde0b6b3a7640000' : '0x0')
  world.node.eth_feeHistory = () => ({
    baseFeePerGas: ['0x0a', '0x0a'],
    reward: [['0x1']],
    gasUsedRatio: [0.5],
    oldestBlock: '0x63',
  })
  world.node.eth_maxPriorityFeePerGas = () => '0x1'
  world.node.eth_sendRawTransaction = () => null
  const raised: string[] = []
  world.signer.sign = async (request) => {
    raised.push(request.from)
    return signed('replace', request.nonce)
  }
  const dry = await world.row(await world.account('dry'), { nonce: 0 }, { created_block: 1 })
  await sql`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, gas_limit, max_fee, max_priority_fee, abi, state, hash, transitions)
    select 'dry_' || n, account_id, client_id, chain_id, decode(lpad(to_hex(n), 40, '0'), 'hex'), nonce, target, value, data, gas_limit, max_fee, max_priority_fee, abi, state, decode(lpad(to_hex(n), 64, '0'), 'hex'), '[]'
    from transactions, generate_series(1, 1200) as n where id = ${dry.id}`.execute(world.db)
  await sql`insert into attempts (chain_id, hash, transaction_id, raw, gas_limit, max_fee, max_priority_fee, created_block)
    select chain_id, hash, id, hash, gas_limit, max_fee, max_priority_fee, 1 from transactions where id like 'dry_%'`.execute(
    world.db,
  )
  await world.row(rich, { nonce: 0 }, { created_block: 1, max_fee: toWord(100n), max_priority_fee: toWord(10n) })
  await sql`update attempts set created_at = now() - interval '1 hour', broadcast_at = now()`.execute(world.db)
  // Run the first round, which starts by itself.
  await startKeeper(world.app, world.chain).stop()
  assert.deepEqual(raised, [rich.address])
})
