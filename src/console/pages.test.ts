import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { openBrowser, textOf, type Page } from '../../test/kit/browser.ts'
import { addressOf, obtainTokens, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { RpcError } from '../chain/rpc/failures.ts'
import { fromHex, toHex } from '../hex.ts'
import { accountIdOf } from '../ids.ts'
import { createApplication } from '../applications/manage.ts'
import { listActions } from '../operator/actions.ts'
import { shownText } from '../http/page.ts'
import { putOperator, readRole } from '../operator/operators.ts'
import { grantRoles } from '../store/roles.ts'
import { toWord } from '../store/bytes.ts'
import { en } from '../texts/en.ts'

let world: Rehearsal
let browser: ReturnType<typeof openBrowser>
const accountId = accountIdOf('DEV', 'una')
const sender = fromHex(addressOf('DEV-una'))
const hash = (byte: string) => Buffer.from(byte.repeat(32), 'hex')

before(async () => {
  world = await rehearse({ env: { RATE_LIMITS: 'off' } })
  const { db } = world.app
  await db
    .insertInto('networks')
    .values({ chain_id: 31_337, name: 'devnet', genesis_hash: hash('01') })
    .execute()
  await obtainTokens(world, { username: 'una' })
  await putOperator(world.app, { userId: 'DEV-opal', role: 'operator' })
  browser = openBrowser(world.origin)
  await browser.signIn('/console', 'opal')
})
after(() => world.close())

/** A write of una’s that waits: `transfer(address,uint256)` of a token. */
async function write(nonce: number, columns: object = {}): Promise<string> {
  const id = `tx_${randomUUID()}`
  const to = addressOf('DEV-bob').slice(2).padStart(64, '0')
  await world.app.db
    .insertInto('transactions')
    .values({
      ...{ id, account_id: accountId, client_id: 'demo', chain_id: 31_337, sender, nonce, state: 'SUBMITTED' },
      ...{ target: hash('aa').subarray(0, 20), value: toWord(0n), abi: 'transfer(address to, uint256 amount)' },
      data: fromHex(`0xa9059cbb${to}${(1_500).toString(16).padStart(64, '0')}`),
      ...{ gas_limit: 60_000, max_fee: toWord(2_500_000_000n), hash: hash(`b${nonce}`) },
      transitions: JSON.stringify([{ state: 'SUBMITTED', at: '2026-01-31T12:00:00.000Z' }]),
      ...columns,
    } as never)
    .execute()
  await world.app.db
    .insertInto('attempts')
    .values({
      chain_id: 31_337,
      hash: hash(`b${nonce}`),
      transaction_id: id,
      gas_limit: 60_000,
      max_fee: toWord(2_500_000_000n),
    }) // prettier-ignore
    .execute()
  return id
}

const go = async (path: string): Promise<Page> => {
  const page = await browser.go(path)
  assert.equal(page.status, 200, `${path}: ${textOf(page.text)}`)
  assert.ok(!/<script(?! defer src=)|style=| on\w+=/.test(page.text), path)
  return page
}

test('one box finds transactions by id and hash, users by id, address and name, and applications', async () => {
  const id = await write(1)
  const find = async (text: string) => textOf((await go(`/console/search?q=${encodeURIComponent(text)}`)).text)
  assert.match(await find(id), new RegExp(`Transactions ${id}`))
  assert.match(await find(`0x${'B1'.repeat(32)}`), new RegExp(`Transactions ${id}`))
  for (const text of ['DEV-una', addressOf('DEV-una'), 'un']) assert.match(await find(text), /Users DEV-una/)
  assert.match(await find('demo'), /Applications Demo application demo/)
  for (const text of ['', 'tx_none', `0x${'00'.repeat(32)}`, '%', '<script>', '\u0000', 'x'.repeat(5_000)])
    assert.match(await find(text.slice(0, 3_000)), /No transaction, user or application/)
})

test('a transaction counts up to 200 earlier open nonces, and says when there are more', async () => {
  const { db } = world.app
  const other = accountIdOf('DEV', 'queue')
  const id = await write(900, { account_id: other, sender: fromHex(addressOf('DEV-queue')) })
  const add = (from: number, to: number) =>
    sql`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, abi, gas_limit, max_fee, state, transitions)
      select 'tx_queue' || i, account_id, client_id, chain_id, sender, i, target, value, data, abi, gas_limit, max_fee, 'SUBMITTED', '[]'
      from transactions, generate_series(${from}::int, ${to}::int) as i where id = ${id}`.execute(db)
  const shown = async () => textOf((await go(`/console/transactions/${id}`)).text)
  await add(1, 200)
  assert.match(await shown(), /Earlier open nonces of the account: 200\. The first one is 1\./)
  await add(201, 201)
  assert.match(await shown(), /Earlier open nonces of the account: 200\+\. The first one is 1\./)
})

test('a transaction shows its call, attempts, and the problem that it waits for; support cancels it', async () => {
  const { db } = world.app
  const first = await write(2)
  const id = await write(3)
  await db
    .insertInto('waits')
    .values({
      chain_id: 31_337,
      sender,
      nonce: 3,
      trouble: 'fee_cap_reached',
      detail: 'The base fee is 9.',
      since: new Date(),
    })
    .execute()
  await db.updateTable('transactions').set({ reference: '<order> 17' }).where('id', '=', id).execute()
  const page = await go(`/console/transactions/${id}`)
  const text = textOf(page.text)
  for (const one of [
    // The reason comes first, in words.
    /Why it waits Earlier open nonces .* The network requires a higher fee than the operator allows.* State SUBMITTED/,
    /State SUBMITTED User DEV-una Application Demo application Network devnet/,
    /transfer\(address,uint256\) address to: &#34;0x[0-9a-fA-F]{40}&#34; uint256 amount: &#34;1500&#34;/,
    /Earlier open nonces of the account: 2\. The first one is 1\./,
    /fee_cap_reached The base fee is 9\./,
    /Reference &#60;order&#62; 17/,
    /0x(b3){32} transaction 2\.5 .* not yet/,
    new RegExp(`chatelaine transaction cancel ${id}`),
  ])
    assert.match(text, one)
  const done = await browser.submit(page, '/act/cancel-transaction')
  assert.match(textOf(done.text), /Requested: Cancel the transaction, waits for a server of the API/)
  const row = await db.selectFrom('requested_changes').selectAll().where('transaction_id', '=', id).executeTakeFirst()
  assert.equal(row!.change, 'cancel')
  const [action] = await listActions(world.app.db)
  assert.deepEqual([action!.actor, action!.via, action!.action, action!.target], ['DEV-opal', 'console', 'cancel-transaction', id]) // prettier-ignore
  await db
    .updateTable('transactions')
    .set({ state: 'MINED' } as never)
    .where('id', 'in', [first, id])
    .execute()
  const settled = await go(`/console/transactions/${id}`)
  assert.ok(!settled.text.includes('/act/cancel-transaction'))
  for (const wrong of ['tx_none', '%00', 'x'.repeat(90)])
    assert.equal((await browser.go(`/console/transactions/${wrong}`)).status, 404, wrong)
})

test('a user shows account, identities, applications and transactions; a freeze signs out, and lifting it needs the name', async () => {
  const { db } = world.app
  for (let nonce = 10; nonce < 37; nonce++) await write(nonce, { created_at: new Date(Date.now() + nonce) })
  const page = await go('/console/users/DEV-una')
  const text = textOf(page.text)
  for (const one of [/Frozen no/, /DEV-una una una@/, /Demo application/, /Transactions on devnet/, /Next page/])
    assert.match(text, one)
  const next = page.text
    .replaceAll('&#38;', '&')
    .replaceAll('&#61;', '=')
    .match(/href="(\/console\/users\/DEV-una\?network=devnet&cursor=[^"]*)"/)![1]!
  assert.ok(!textOf((await go(next)).text).includes('Next page'))
  const frozen = await browser.submit(page, '/act/freeze')
  assert.match(textOf(frozen.text), /Done\. The action is in the audit log\..*Unfreeze the account/)
  const sessions = await db.selectFrom('oauth_records').select('uid').where('user_id', '=', 'DEV-una').where('kind', '=', 'Session').execute() // prettier-ignore
  assert.deepEqual(sessions, [])
  const wrong = await browser.submit(frozen, '/act/unfreeze', { confirm: 'DEV-uma' })
  assert.match(textOf(wrong.text), /The typed name is different\. Nothing was changed\./)
  const account = () => db.selectFrom('accounts').select('frozen_at').where('account_id', '=', accountId).executeTakeFirstOrThrow() // prettier-ignore
  assert.notEqual((await account()).frozen_at, null)
  await browser.submit(frozen, '/act/unfreeze', { confirm: 'DEV-una' })
  assert.equal((await account()).frozen_at, null)
  assert.equal((await browser.go('/console/users/DEV-nobody')).status, 404)
})

test('a stopped account is resumed by its name', async () => {
  const { db } = world.app
  await db.insertInto('stopped_lanes').values({ chain_id: 31_337, sender, nonce: 4, reason: 'x' }).execute()
  const page = await go('/console/users/DEV-una')
  assert.match(textOf(page.text), /Stopped: nonce 4 on chain 31337/)
  await browser.submit(page, '/act/resume-account', { confirm: 'DEV-una' })
  const row = await db.selectFrom('stopped_lanes').select('resume_asked_at').executeTakeFirstOrThrow()
  assert.notEqual(row.resume_asked_at, null)
  await db.deleteFrom('stopped_lanes').execute()
})

test('an application is suspended and resumed, and its new secret is shown once', async () => {
  const { app } = world
  await createApplication(app, { name: 'Shop', clientId: 'shop', network: 'devnet', kind: 'confidential', redirectUris: ['https://shop.example/back'], quotas: [{ counts: 'writes', limit: 100, per: 'day' }] }) // prettier-ignore
  assert.match(
    textOf((await go('/console/applications')).text),
    /Demo application .* Shop shop devnet confidential active/,
  )
  const page = await go('/console/applications/shop')
  assert.match(textOf(page.text), /writes per day: 0 \/ 100/)
  const rotated = await browser.submit(page, '/act/rotate-secret', { confirm: 'shop' })
  const secret = /<pre>(chs_[^<]+)<\/pre>/.exec(rotated.text)?.[1]
  assert.ok(secret !== undefined, textOf(rotated.text))
  assert.equal(rotated.headers.get('cache-control'), 'no-store')
  assert.ok(!JSON.stringify([await listActions(app.db), world.logged]).includes(secret))
  assert.ok(!(await go('/console/applications/shop')).text.includes(secret))
  const suspended = await browser.submit(page, '/act/suspend')
  assert.match(textOf(suspended.text), /State suspended/)
  const resumed = await browser.submit(suspended, '/act/resume', { confirm: 'shop' })
  assert.match(textOf(resumed.text), /State active/)
  assert.match(textOf((await go('/console/applications/demo')).text), /Newest users .* DEV-una/)
  assert.equal((await browser.go('/console/applications/none')).status, 404)
})

test('networks, policy and audit log are shown from the tables and the signer, and a changed record is found', async () => {
  const { db } = world.app
  assert.match(textOf((await go('/console/networks')).text), /devnet 31337 unknown/)
  world.app.signer.health = async () => Promise.reject(new Error('no answer'))
  assert.match(textOf((await go('/console/policy')).text), /The signer does not respond/)
  world.app.signer.health = (async () => ({ policy: { version: 3, hash: 'ab'.repeat(32), state: 'refused', rules: 2, asksUsers: true, since: 0, problem: 'no signature' } })) as never // prettier-ignore
  assert.match(textOf((await go('/console/policy')).text), /Version 3 .* State refused Rules 2 .* yes .* no signature/)
  const audit = textOf((await go('/console/audit?verify=1')).text)
  assert.match(audit, /actions are intact\. Newest record: [0-9a-f]{64}/)
  assert.match(audit, /DEV-opal console suspend shop/)
  await db.updateTable('operator_actions').set({ actor: 'someone' }).where('seq', '=', 2).execute()
  assert.match(
    textOf((await go('/console/audit?verify=1')).text),
    /Action 2 was altered after it was recorded\. 1 earlier/,
  )
})

test('limits of sponsors are set by the name of the network, and not of one that the settings define', async () => {
  const { db, config } = world.app
  await db
    .insertInto('networks')
    .values({ chain_id: 9, name: 'orchard', genesis_hash: hash('09'), gas: 'topup' })
    .execute()
  const page = await go('/console/networks')
  const set = await browser.submit(page, '/act/set-network', {
    confirm: 'orchard',
    sponsorPerDay: '1000',
    sponsorLow: '',
  })
  assert.match(textOf(set.text), new RegExp(en.console.done))
  const row = await db.selectFrom('networks').selectAll().where('name', '=', 'orchard').executeTakeFirstOrThrow()
  assert.deepEqual([row.sponsor_per_day, row.sponsor_low], ['1000', null])
  const wrong = await browser.submit(page, '/act/set-network', { confirm: 'orchard', sponsorPerDay: 'much' })
  assert.equal(wrong.status, 400)
  const csrf = /name="csrf" value="([^"]+)"/.exec(page.text)![1]!
  const form = new URLSearchParams({
    csrf,
    target: config.NETWORK_NAME,
    confirm: config.NETWORK_NAME,
    sponsorPerDay: '1',
  })
  const settings = await browser.go('/console/act/set-network', { method: 'POST', body: form })
  assert.match(textOf(settings.text), /The settings of the server define this network/)
})

test('names that reorder their surroundings are shown as code points on every page, and forms still name their target', async () => {
  const { app } = world
  const hostile = 'nell\u202Erenwo\u2066'
  const userId = `DEV-${hostile}`
  await app.db.updateTable('identities').set({ username: hostile, email: `${hostile}@example.com` }).where('subject', '=', 'una').execute() // prettier-ignore
  await putOperator(app, { userId, role: 'viewer' })
  const id = await write(40, { reference: hostile, abi: `function ${hostile}()` })
  await app.db.insertInto('waits').values({ chain_id: 31_337, sender, nonce: 40, trouble: 'fee_cap_reached', detail: hostile, since: new Date() }).execute() // prettier-ignore
  await app.db.updateTable('networks').set({ coin: hostile }).execute()
  const paths = ['', '/applications', '/networks', '/policy', '/audit', '/operators', `/search?q=${encodeURIComponent(userId)}`, '/users/DEV-una', `/transactions/${id}`] // prettier-ignore
  const pages = await Promise.all(paths.map((path) => go(`/console${path}`)))
  const texts = pages.map(({ text }) => text).join('')
  assert.doesNotMatch(texts, /\p{Bidi_Control}/u)
  assert.ok(texts.split('⟨U+202E⟩').length > 6)
  await putOperator(app, { userId: 'DEV-opal', role: 'owner' })
  const removed = await browser.submit(await go('/console/operators'), '/act/remove-operator', {
    confirm: shownText(userId),
  })
  assert.match(textOf(removed.text), new RegExp(en.console.done))
  assert.equal(await readRole(app, userId), null)
  await putOperator(app, { userId: 'DEV-opal', role: 'operator' })
})

test(
  'every page and action works with the database rights of a separate authorization server',
  // The embedded database has one connection, whose role is that of every statement.
  { skip: process.env.TEST_DATABASE_URL === undefined ? false : 'sets the role of the only connection' },
  async () => {
    const { db } = world.app
    const id = await write(50)
    await db.insertInto('stopped_lanes').values({ chain_id: 31_337, sender, nonce: 4, reason: 'x' }).execute()
    for (const role of ['console_auth', 'console_api']) await sql.raw(`create role ${role}`).execute(db)
    await grantRoles(db, { auth: 'console_auth', api: 'console_api' })
    await sql`set role console_auth`.execute(db)
    try {
      const paths = ['', '/search?q=una', `/search?q=${id}`, `/transactions/${id}`, '/users/DEV-una', '/applications']
      for (const path of [...paths, '/applications/shop', '/networks', '/policy', '/audit?verify=1', '/operators'])
        await go(`/console${path}`)
      const { rows } = await sql<{ name: string }>`select current_user as name`.execute(db)
      assert.equal(rows[0]!.name, 'console_auth')
      for (const [path, action, fields] of [
        [`/transactions/${id}`, 'speed-up-transaction', {}],
        ['/users/DEV-una', 'freeze', {}],
        ['/users/DEV-una', 'unfreeze', { confirm: 'DEV-una' }],
        ['/users/DEV-una', 'resume-account', { confirm: 'DEV-una' }],
        ['/applications/shop', 'suspend', {}],
        ['/applications/shop', 'resume', { confirm: 'shop' }],
        ['/applications/shop', 'update-application', { confirm: 'shop', 'writes-day': '9' }],
        ['/networks', 'set-network', { confirm: 'orchard', sponsorPerDay: '7', sponsorLow: '' }],
      ] as const) {
        const page = await browser.submit(await go(`/console${path}`), `/act/${action}`, fields)
        assert.match(textOf(page.text), new RegExp(en.console.done), `${action}: ${textOf(page.text)}`)
      }
      await sql`set role console_api`.execute(db)
      await db.updateTable('requested_changes').set({ done_at: new Date() }).where('transaction_id', '=', id).execute()
      await assert.rejects(db.selectFrom('operators').selectAll().execute())
    } finally {
      await sql`reset role`.execute(db)
    }
  },
)

test('quotas and gas budget of an application are changed together, by its name, and recorded', async () => {
  const { app } = world
  await createApplication(app, { name: 'Stall', clientId: 'stall', network: 'devnet', redirectUris: ['https://stall.example/back'], sponsor: { perUser: '5', perApplication: '50', contracts: [addressOf('DEV-bob')] } }) // prettier-ignore
  const page = await go('/console/applications/stall')
  assert.match(page.text, /name="perUser"\s+value="5"/)
  const set = await browser.submit(page, '/act/update-application', { confirm: 'stall', 'writes-day': '100', 'reads-hour': '', perUser: '7', perApplication: '70' }) // prettier-ignore
  const text = textOf(set.text)
  assert.match(text, /writes per day: 0 \/ 100/)
  assert.match(text, /Gas budget of one user in 24 hours, wei: 7/)
  assert.match(text, /chatelaine app update stall --quota writes&#61;100\/day --sponsor-per-user 7 --sponsor-per-application 70/) // prettier-ignore
  // The form has no contracts: they remain.
  assert.ok(text.includes(addressOf('DEV-bob').toLowerCase()))
  const [action] = await listActions(app.db)
  assert.deepEqual([action!.actor, action!.action, action!.target, (action!.after!.quotas as unknown[]).length], ['DEV-opal', 'update-application', 'stall', 1]) // prettier-ignore
  const wrongs: Record<string, string>[] = [
    { perUser: '7' },
    { 'writes-day': 'many' },
    { 'writes-day': '0' },
    { perUser: '-1', perApplication: '1' },
  ]
  for (const wrong of wrongs) {
    const refused = await browser.submit(page, '/act/update-application', { confirm: 'stall', ...wrong })
    assert.equal(refused.status, 400, JSON.stringify(wrong))
  }
  assert.equal((await listActions(app.db))[0]!.seq, action!.seq)
  const ended = await browser.submit(page, '/act/update-application', { confirm: 'stall' })
  assert.match(textOf(ended.text), /No quota and no gas budget\./)
  assert.match(textOf(ended.text), /chatelaine app update stall --no-quota --no-sponsor/)
})

test('a request id leads to the log of the servers', async () => {
  const found = await go('/console/search?q=6f1c0a7e-0f0d-4a59-8c52-2f3f2b6a8a11')
  assert.match(textOf(found.text), /journalctl --output cat --grep 6f1c0a7e-0f0d-4a59-8c52-2f3f2b6a8a11/)
  assert.ok(!(await go('/console/search?q=tx_none')).text.includes('journalctl'))
})

test('a transaction shows the rule by which the signer allowed each attempt, and says when the signer is silent', async () => {
  const id = await write(60)
  const { signer } = world.app
  const { hash: stored } = await world.app.db.selectFrom('attempts').select('hash').where('transaction_id', '=', id).executeTakeFirstOrThrow() // prettier-ignore
  signer.signatures = (async ({ intentId }: { intentId: string }) => ({ signatures: intentId === id ? [{ kind: 'send', hash: toHex(stored), rule: 'small-payments' }] : [] })) as never // prettier-ignore
  assert.match(textOf((await go(`/console/transactions/${id}`)).text), /2\.5 small-payments/)
  signer.signatures = async () => Promise.reject(new Error('no answer'))
  assert.match(textOf((await go(`/console/transactions/${id}`)).text), /The signer does not respond, so its rules are unknown/) // prettier-ignore
})

test('a reverted transaction is run again before and after its block, by support and above, and nothing is sent', async () => {
  const reverted = { state: 'REVERTED', block_number: 12, block_hash: hash('12') }
  const id = await write(61, reverted)
  const asked: unknown[] = []
  const words = `0x08c379a0${'20'.padStart(64, '0')}${'4'.padStart(64, '0')}${Buffer.from('poor').toString('hex').padEnd(64, '0')}`
  const chain = world.app.chains.get(31_337)! as { rpc?: unknown }
  chain.rpc = {
    call: async (method: string, [call, block]: [object, string]) => {
      asked.push([method, call, block])
      if (block === '0xb') throw new RpcError(3, 'execution reverted', words)
      return '0x'
    },
  }
  try {
    const page = await go(`/console/transactions/${id}`)
    const ran = textOf((await browser.submit(page, '/run-again')).text)
    assert.match(ran, /11 reverts: poor/)
    assert.match(ran, /12 succeeds/)
    assert.match(ran, /eth_call/)
    assert.deepEqual(
      asked.map((one) => (one as string[])[0]),
      ['eth_call', 'eth_call'],
    )
    await putOperator(world.app, { userId: 'DEV-opal', role: 'viewer' })
    assert.ok(!(await go(`/console/transactions/${id}`)).text.includes('/run-again'))
    assert.equal((await browser.submit(page, '/run-again')).status, 403)
  } finally {
    await putOperator(world.app, { userId: 'DEV-opal', role: 'operator' })
    delete chain.rpc
  }
  const apart = textOf((await browser.submit(await go(`/console/transactions/${id}`), '/run-again')).text)
  assert.match(apart, /This program opens no node\..*eth_call/)
  const open = await write(62)
  assert.ok(!(await go(`/console/transactions/${open}`)).text.includes('/run-again'))
  assert.equal(asked.length, 2)
})

test('a draft of a policy is checked and compared by the signer, by operators and above; nothing is recorded', async () => {
  const { signer, db } = world.app
  const before = (await listActions(db)).length
  const tried: string[] = []
  signer.tryPolicy = (async ({ text }: { text: string }) => {
    tried.push(text)
    if (text === 'x') return { problem: 'it is not JSON' }
    const difference = { seq: 9, at: 0, userId: 'DEV-una', clientId: 'demo', chainId: 31_337, intentId: 'tx_9', refusedBy: 'draft', rule: 'none', reason: 'it is a deny rule' } // prettier-ignore
    return { problem: null, version: 4, hash: 'ab', words: ['none: rejects all'], doubts: ['odd'], records: { first: 1, last: 9 }, signatures: 7, refused: 1, allowed: 0, differences: [difference] } // prettier-ignore
  }) as never
  const page = await go('/console/policy')
  const draft = `{"version":4,"rules":[{"name":"none","effect":"deny","note":"${'&"<'.repeat(5_000)}"}]}`
  const shown = await browser.submit(page, '/policy/draft', { draft })
  assert.equal(tried[0], draft)
  assert.match(textOf(shown.text), /none: rejects all.*Warning: odd.*Of 7 signatures in records 1 to 9, the draft rejects 1 .*DEV-una tx_9 the draft none it is a deny rule/) // prettier-ignore
  assert.match(textOf((await browser.submit(page, '/policy/draft', { draft: 'x' })).text), /not a valid policy: it is not JSON/) // prettier-ignore
  assert.match(textOf((await browser.submit(page, '/policy/draft', { draft: 'y'.repeat(70_000) })).text).slice(0, 400), /not a valid policy: &#62; 65536 bytes/) // prettier-ignore
  await putOperator(world.app, { userId: 'DEV-opal', role: 'support' })
  assert.equal((await browser.submit(page, '/policy/draft', { draft })).status, 403)
  assert.ok(!(await go('/console/policy')).text.includes('/policy/draft'))
  await putOperator(world.app, { userId: 'DEV-opal', role: 'operator' })
  assert.deepEqual([tried.length, (await listActions(db)).length], [2, before])
})

test('a form with NUL in a field is rejected, and nothing is recorded', async () => {
  await putOperator(world.app, { userId: 'DEV-nell', role: 'owner' })
  const owner = openBrowser(world.origin)
  const page = await owner.signIn('/console/operators', 'nell')
  const csrf = /name="csrf" value="([^"]+)"/.exec(page.text)![1]!
  const actions = (await listActions(world.app.db)).length
  for (const [name, target] of [
    ['add-operator', 'DEV-a\0b'],
    ['remove-operator', '\0x'],
    ['cancel-transaction', '\0'],
    ['create-sponsor', '\0'],
  ] as const) {
    const body = new URLSearchParams({ csrf, target, confirm: target, role: 'viewer', name: 'x' })
    const { status } = await owner.go(`/console/act/${name}`, { method: 'POST', body })
    assert.ok(status >= 400 && status < 500, `${name}: ${status}`)
  }
  assert.equal((await listActions(world.app.db)).length, actions)
  const account = await owner.go('/account/security')
  const ended = await owner.submit(account, '/account/sessions/end', { uid: '\0x' })
  assert.ok(ended.status < 500, String(ended.status))
})
