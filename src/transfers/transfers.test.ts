// tier: all, because it sends to many people, and signs them in
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { sql } from 'kysely'
import { deploy } from '../devnet/deploy.ts'
import { rpc as callNode } from '../devnet/rpc.ts'
import type { Hex } from '../ids.ts'
import { accountIdOf } from '../ids.ts'
import { RpcUnavailable } from '../chain/rpc/rpc.ts'
import { parseUnits } from 'viem'
import { BAD_REFERENCES } from '../../test/bad-references.ts'
import { fractionsOf } from '../../test/random.ts'
import { until } from '../../test/kit/until.ts'
import { world, type Answer, type Person, type World } from '../../test/world.ts'
import { standInOf } from './strangers.ts'
import { decide } from '../approvals/decide.ts'
import { noteAsking } from '../transactions/lanes/approve.ts'

/** Strangers of the long form: 500. */
const STRANGERS = Number(process.env.TRANSFER_STRANGERS ?? 40)
const SEED = Number(process.env.TRANSFER_SEED ?? 1)
const RACERS = 50

let here: World
let alice: Person
let bob: Person
let contracts: Record<'erc20' | 'erc721' | 'erc1155', Hex>
let odd: Record<'NamelessToken' | 'Silent' | 'Yes' | 'Decimals255Token', Hex>
before(async () => {
  here = await world()
  ;({ alice, bob } = here)
  contracts = here.facts.contracts as typeof contracts
  const names = ['NamelessToken', 'Silent', 'Yes', 'Decimals255Token'] as const
  const addresses = await deploy(here.facts.rpcUrl, [...names])
  odd = Object.fromEntries(names.map((name, index) => [name, addresses[index]!])) as typeof odd
  await mint20(alice, '1000')
})
after(() => here.close())

const TRANSFER = '/v1/tokens/transfers'
const mint20 = (to: Pick<Person, 'write' | 'address'>, whole: string) =>
  to.write({ address: contracts.erc20, abi: 'mint(address,uint256) public', args: [to.address, String(parseUnits(whole, 18))] }) // prettier-ignore
/** Waited for until it is in a block, however long that takes on a busy machine. */
async function send(from: Person, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  const answer = await from.post(`${TRANSFER}?wait=mined`, body, headers)
  if (answer.status !== 202) return answer
  const mined = () => from.get(`/v1/transactions/${answer.body.id}?wait=mined`)
  await until('it is mined', async () => (await mined()).status === 200, 600_000)
  return { ...answer, status: 200, body: { ...answer.body, state: 'MINED' } }
}
const erc20 = (more: object) => ({ tokenType: 'ERC20', tokenAddress: contracts.erc20, amount: '1', ...more })

const word = (value: string | bigint): string => BigInt(value).toString(16).padStart(64, '0')
const ask = async (to: Hex, data: string): Promise<bigint> =>
  BigInt(await callNode<Hex>(here.facts.rpcUrl, 'eth_call', { to, data }, 'latest'))
const held20 = (address: string): Promise<bigint> => ask(contracts.erc20, `0x70a08231${word(address)}`)
const coins = async (address: string): Promise<bigint> =>
  BigInt(await here.rpc<Hex>('eth_getBalance', address, 'latest'))
const count = async (table: 'transactions' | 'accounts' | 'strangers'): Promise<number> =>
  (
    await here.app.db
      .selectFrom(table)
      .select(sql`1`.as('one'))
      .execute()
  ).length
const sizes = () => Promise.all([count('transactions'), count('accounts'), count('strangers')])
const addressOf = async (userId: string): Promise<Hex | null> => {
  const row = await here.app.db
    .selectFrom('accounts')
    .select('address')
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return row === undefined ? null : `0x${Buffer.from(row.address).toString('hex')}`
}

test('a transfer takes a reference, returns it, and rejects a bad one', async () => {
  const body = { tokenType: 'NATIVE', amount: '.01', toAddress: `0x${'a7'.repeat(20)}` }
  for (const [reference, code] of BAD_REFERENCES) {
    const { status, body: refused } = await alice.post(TRANSFER, { ...body, reference })
    assert.deepEqual([status, refused.errors?.[0]?.pointer, refused.errors?.[0]?.code], [400, '/reference', code])
  }
  const sent = await send(alice, { ...body, reference: 'gift' }, { 'idempotency-key': 'a gift' })
  assert.deepEqual([sent.status, sent.body.reference], [200, 'gift'], JSON.stringify(sent.body))
  const other = await send(alice, { ...body, reference: 'another gift' }, { 'idempotency-key': 'a gift' })
  assert.equal(other.body.code, 'idempotency_key_reused')
})

suite('a transfer moves exactly what was asked', () => {
  const nobody = `0x${'ab'.repeat(20)}`

  test('coins, to an address', async () => {
    const { status, body } = await send(alice, { tokenType: 'NATIVE', amount: '.01', toAddress: nobody })
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual(Object.keys(body).toSorted(), [
      'amount',
      'explorerUrl',
      'hash',
      'id',
      'recipient',
      'reference',
      'state',
      'status',
    ])
    assert.deepEqual([body.status, body.state], ['SUCCESS', 'MINED'])
    assert.equal(await coins(nobody), parseUnits('.01', 18))
    assert.deepEqual(body.amount, {
      value: '10000000000000000',
      valueBn: { type: 'BigNumber', hex: '0x2386f26fc10000' },
    })
    const { address, ...rest } = body.recipient
    assert.deepEqual([address.toLowerCase(), rest], [nobody, { userId: null, hasSignedIn: null }])
    const [newest] = (await alice.get('/v1/transactions?limit=1')).body
    assert.deepEqual([newest.id, newest.hash, newest.state], [body.id, body.hash, 'MINED'])
    assert.equal((await bob.get(`/v1/transactions/${body.id}`)).status, 404)
  })

  test('an ERC-20, by its own decimals, and the history of both shows it', async () => {
    const before = await held20(bob.address)
    const { status, body } = await send(
      alice,
      erc20({ amount: '1.500000000000000001', toUserId: 'DEV-bob', tokenId: '', toAddress: '' }),
    )
    assert.equal(status, 200, JSON.stringify(body))
    assert.equal((await held20(bob.address)) - before, 1_500_000_000_000_000_001n)
    assert.deepEqual(body.recipient, { userId: 'DEV-bob', address: bob.address, hasSignedIn: true })
    const entry = await until('the history has it', async () => {
      const [newest] = (await bob.get('/v1/users/DEV-bob/history?limit=1')).body
      return newest?.hash === body.hash && newest
    })
    assert.deepEqual([entry.hash, entry.amount.value, entry.from.username], [body.hash, body.amount.value, 'alice'])
  })

  test('a collectible and pieces, by name', async () => {
    const name = { toUserProviderType: 'DEV', toUserUsername: 'bob' }
    await alice.write({ address: contracts.erc721, abi: 'mint(address,uint256) public', args: [alice.address, '7001'] })
    const one = await send(alice, { tokenType: 'ERC721', tokenAddress: contracts.erc721, tokenId: '7001', ...name })
    assert.equal(one.status, 200, JSON.stringify(one.body))
    assert.equal(await ask(contracts.erc721, `0x6352211e${word(7001n)}`), BigInt(bob.address))
    assert.deepEqual([one.body.amount.value, one.body.recipient.userId], ['1', 'DEV-bob'])
    await alice.write({
      address: contracts.erc1155,
      abi: 'mint(address,uint256,uint256) public',
      args: [alice.address, '3', '9'],
    })
    const some = await send(alice, {
      tokenType: 'ERC1155',
      tokenAddress: contracts.erc1155,
      tokenId: '3',
      amount: '4',
      ...name,
    })
    assert.equal(some.status, 200, JSON.stringify(some.body))
    assert.equal(await ask(contracts.erc1155, `0x00fdd58e${word(bob.address)}${word(3n)}`), 4n)
  })

  test('a token whose transfer answers nothing at all is a token', async () => {
    const { status, body } = await alice.post(TRANSFER, {
      tokenType: 'ERC721',
      tokenAddress: odd.Silent,
      tokenId: '1',
      toUserId: 'DEV-bob',
    })
    assert.equal(status, 200, JSON.stringify(body))
  })
})

suite('somebody who has not signed in', () => {
  test('gets an account that is theirs at the first sign-in, with what was sent', async () => {
    const { status, body } = await send(alice, erc20({ amount: '3', toUserId: 'DEV-zoe' }))
    assert.equal(status, 200, JSON.stringify(body))
    const { userId, address, hasSignedIn } = body.recipient
    assert.deepEqual([userId, hasSignedIn], ['DEV-zoe', false])
    const again = await send(bob, { tokenType: 'NATIVE', amount: '0.001', toUserId: 'DEV-zoe' })
    assert.deepEqual(again.body.recipient, body.recipient)
    const zoe = await here.person('zoe')
    assert.equal(zoe.address, address)
    assert.equal(await held20(zoe.address), parseUnits('3', 18))
    const entry = await until('the history has it', async () => {
      const [first] = (await zoe.get('/v1/users/DEV-zoe/history?direction=in')).body
      return first
    })
    assert.equal(entry.hash, body.hash)
    const later = await send(alice, erc20({ toUserId: 'DEV-zoe' }))
    assert.deepEqual(later.body.recipient, { userId: 'DEV-zoe', address, hasSignedIn: true })
  })

  test('gets none by a dry run, nor by a transfer that would fail; nor is the stand-in ever told', async () => {
    const before = await sizes()
    const dry = await alice.post(TRANSFER, erc20({ toUserId: 'DEV-yan', dryRun: true }))
    assert.equal(dry.status, 200, JSON.stringify(dry.body))
    assert.deepEqual(dry.body.recipient, { userId: 'DEV-yan', address: null, hasSignedIn: false })
    assert.deepEqual(
      [dry.body.hash, dry.body.id, dry.body.explorerUrl, dry.body.rule],
      [undefined, undefined, undefined, 'default-allow'],
    )
    assert.ok(BigInt(dry.body.fee.hex) >= BigInt(dry.body.gas.hex))
    assert.ok(!JSON.stringify(dry.body).includes(standInOf({ provider: 'DEV', subject: 'yan' }).slice(2)))
    const short = await alice.post(TRANSFER, erc20({ amount: '1000000', toUserId: 'DEV-yan' }))
    assert.equal(short.body.code, 'insufficient_tokens')
    const poor = await alice.post(TRANSFER, { tokenType: 'NATIVE', amount: '1000000000', toUserId: 'DEV-yan' })
    assert.equal(poor.body.code, 'insufficient_funds')
    assert.deepEqual(await sizes(), before)
  })

  test('is one of twenty a day of each sender; who has an account by then does not count', async () => {
    const host = await here.person('host')
    await mint20(host, '100')
    const db = here.app.db
    const made = new Date(Date.now() - 3_600_000)
    const rows = Array.from({ length: 19 }, (_, index) => ({
      sender_id: accountIdOf('DEV', 'host'),
      user_id: `DEV-guest-${index}`,
      made_at: made,
    }))
    await db.insertInto('strangers').values(rows).execute()
    const to = (name: string) => host.post(TRANSFER, erc20({ amount: '.1', toUserId: `DEV-${name}` }))
    assert.equal((await to('guest-19')).status, 200)
    const before = await sizes()
    const refused = await to('guest-20')
    assert.deepEqual([refused.status, refused.body.code, refused.body.retryable], [429, 'rate_limited', true])
    const wait = Number(refused.headers.get('retry-after'))
    assert.ok(wait > 82_000 && wait <= 82_801, `${wait}`)
    assert.deepEqual(await sizes(), before)
    assert.equal((await to('guest-19')).status, 200)
    assert.equal((await to('bob')).status, 200)
    await db.updateTable('strangers').set({ made_at: new Date(Date.now() - 86_401_000) }).where('user_id', '=', 'DEV-guest-0').execute() // prettier-ignore
    assert.equal((await to('guest-20')).status, 200)
    assert.equal((await db.selectFrom('strangers').selectAll().where('sender_id', '=', accountIdOf('DEV', 'host')).execute()).length, 20) // prettier-ignore
  })

  test(`is one account when ${RACERS} send to them at once, and all of it is there when they sign in`, async () => {
    const racers = await inTurn(Array.from({ length: RACERS }, (_, index) => `racer-${index}`), (name) => here.person(name)) // prettier-ignore
    const answers = await Promise.all(
      racers.map((racer) => racer.post(TRANSFER, { tokenType: 'NATIVE', amount: '.001', toUserId: 'DEV-prize' })),
    )
    for (const { status, body } of answers) assert.equal(status, 200, JSON.stringify(body))
    assert.equal(new Set(answers.map(({ body }) => body.recipient.address)).size, 1)
    const address: string = answers[0]!.body.recipient.address
    await until('all are mined', async () => (await coins(address)) === parseUnits('.05', 18))
    assert.equal((await here.person('prize')).address, address)
  })

  test('and one sender at once with many: no more than a day’s people', async () => {
    const hasty = await here.person('hasty')
    const db = here.app.db
    const made = new Date()
    const rows = Array.from({ length: 15 }, (_, index) => ({ sender_id: accountIdOf('DEV', 'hasty'), user_id: `DEV-before-${index}`, made_at: made })) // prettier-ignore
    await db.insertInto('strangers').values(rows).execute()
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => hasty.post(TRANSFER, { tokenType: 'NATIVE', amount: '.001', toUserId: `DEV-crowd-${index}` })), // prettier-ignore
    )
    const statuses = answers.map(({ status }) => status)
    assert.deepEqual([statuses.filter((status) => status === 200).length, statuses.filter((status) => status === 429).length], [5, 5], JSON.stringify(answers.map(({ body }) => body.code))) // prettier-ignore
    assert.equal((await db.selectFrom('accounts').select('user_id').where('user_id', 'like', 'DEV-crowd-%').execute()).length, 5) // prettier-ignore
  })
})

test(
  `${STRANGERS} strangers who sign in later find exactly what was sent to them (seed ${SEED})`,
  { timeout: 1_800_000 },
  async () => {
    const chance = fractionsOf(SEED)
    const names = Array.from({ length: STRANGERS }, (_, index) => `late-${SEED}-${index}`)
    const senders = await inTurn(Array.from({ length: Math.ceil(STRANGERS / 10) }, (_, index) => `giver-${SEED}-${index}`), (name) => here.person(name)) // prettier-ignore
    for (const sender of senders) await mint20(sender, '1000')
    const due = new Map<string, bigint>(names.map((name) => [name, 0n]))
    const told = new Map<string, Set<string>>()
    // Some are sent to twice, by another sender, at the same time: twenty people for each sender at most.
    const jobs = names.flatMap((name, index) => Array.from({ length: chance() < 0.3 ? 2 : 1 }, (_, turn) => ({ name, sender: senders[(Math.floor(index / 10) + turn) % senders.length]! }))) // prettier-ignore
    const waiting = jobs.values()
    await Promise.all(
      Array.from({ length: 6 }, async () => {
        for (const { name, sender } of waiting) {
          const milli = 1 + Math.floor(chance() * 900)
          const { status, body } = await send(sender, erc20({ amount: `0.${String(milli).padStart(3, '0')}`, toUserId: `DEV-${name}` }), { 'idempotency-key': `${name} ${sender.userId}` }) // prettier-ignore
          assert.equal(status, 200, JSON.stringify(body))
          due.set(name, due.get(name)! + BigInt(milli) * 10n ** 15n)
          told.set(name, (told.get(name) ?? new Set()).add(body.recipient.address))
        }
      }),
    )
    const people = await inTurn(names, (name) => here.person(name))
    for (const [index, name] of names.entries()) {
      const { address } = people[index]!
      assert.deepEqual([...(told.get(name) ?? [])], [address], name)
      assert.equal(await held20(address), due.get(name), name)
    }
  },
)

/** Six at a time: a sign-in is work. */
async function inTurn<T, R>(items: T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const waiting = items.entries()
  await Promise.all(
    Array.from({ length: 6 }, async () => {
      for (const [index, item] of waiting) results[index] = await work(item)
    }),
  )
  return results
}

suite('a transfer is refused in words, and nothing is stored or sent', () => {
  const refusals: [string, () => object, number, string, string?][] = [
    ['more than there is', () => erc20({ amount: '5000.5', toUserId: 'DEV-bob' }), 422, 'insufficient_tokens', '/amount'],
    ['finer than the token', () => erc20({ amount: '0.0000000000000000001', toUserId: 'DEV-bob' }), 422, 'amount_precision', '/amount'],
    ['finer than the coin', () => ({ tokenType: 'NATIVE', amount: '0.0000000000000000001', toUserId: 'DEV-bob' }), 422, 'amount_precision', '/amount'],
    ['half a piece', () => ({ tokenType: 'ERC1155', tokenAddress: contracts.erc1155, tokenId: '1', amount: '.5', toUserId: 'DEV-bob' }), 422, 'amount_precision', '/amount'],
    ['above 2^256', () => erc20({ amount: '9'.repeat(70), toUserId: 'DEV-bob' }), 422, 'invalid_amount', '/amount'],
    ['more coins than there are', () => ({ tokenType: 'NATIVE', amount: '99999999', toUserId: 'DEV-bob' }), 422, 'insufficient_funds'],
    ['a collectible that is not there', () => ({ tokenType: 'ERC721', tokenAddress: contracts.erc721, tokenId: '424242', toUserId: 'DEV-bob' }), 422, 'not_token_owner', '/tokenId'],
    ['more pieces than there are', () => ({ tokenType: 'ERC1155', tokenAddress: contracts.erc1155, tokenId: '99', amount: '1', toUserId: 'DEV-bob' }), 422, 'insufficient_tokens', '/amount'],
    ['a token that is none', () => ({ ...erc20({ toUserId: 'DEV-bob' }), tokenAddress: `0x${'12'.repeat(20)}` }), 422, 'not_a_token', '/tokenAddress'],
    ['a collection that is none', () => ({ tokenType: 'ERC721', tokenAddress: `0x${'12'.repeat(20)}`, tokenId: '1', toUserId: 'DEV-bob' }), 422, 'not_a_token', '/tokenAddress'],
    ['a token without decimals', () => ({ ...erc20({ toUserId: 'DEV-bob' }), tokenAddress: odd.NamelessToken }), 422, 'decimals_unknown', '/tokenAddress'],
    ['a token with 255 decimals', () => ({ ...erc20({ toUserId: 'DEV-bob' }), tokenAddress: odd.Decimals255Token }), 422, 'decimals_unknown', '/tokenAddress'],
    ['a contract that answers nothing', () => ({ ...erc20({ toUserId: 'DEV-bob' }), tokenAddress: odd.Silent }), 422, 'decimals_unknown', '/tokenAddress'],
    ['a collection as an ERC-20', () => ({ ...erc20({ toUserId: 'DEV-bob' }), tokenAddress: contracts.erc721 }), 422, 'decimals_unknown', '/tokenAddress'],
    ['an ERC-20 as a collection', () => ({ tokenType: 'ERC721', tokenAddress: contracts.erc20, tokenId: '1', toUserId: 'DEV-bob' }), 422, 'not_token_owner', '/tokenId'],
    ['a collectible to a contract that cannot hold it', () => ({ tokenType: 'ERC1155', tokenAddress: contracts.erc1155, tokenId: '3', amount: '1', toAddress: contracts.erc20 }), 422, 'execution_reverted'],
    ['an id that no id of the provider looks like', () => erc20({ toUserId: 'DEV-No Such' }), 422, 'unknown_recipient', '/toUserId'],
    ['a provider that is not there', () => erc20({ toUserId: 'NOWHERE-1' }), 422, 'unknown_recipient', '/toUserId'],
    ['people of another application', () => erc20({ toUserId: 'APP_OTHER-1' }), 422, 'unknown_recipient', '/toUserId'],
    ['a name that nobody has', () => erc20({ toUserProviderType: 'DEV', toUserUsername: 'nobody here' }), 422, 'unknown_recipient', '/toUserUsername'],
    ['to nobody', () => erc20({}), 400, 'invalid_request', ''],
    ['to the token', () => erc20({ toAddress: contracts.erc20 }), 422, 'invalid_recipient', '/toAddress'],
    ['a type in lower case', () => erc20({ tokenType: 'erc20', toUserId: 'DEV-bob' }), 400, 'invalid_request', '/tokenType'],
    ['an amount that is a number', () => erc20({ amount: 1, toUserId: 'DEV-bob' }), 400, 'invalid_request', '/amount'],
    ['an amount with an exponent', () => erc20({ amount: '1e3', toUserId: 'DEV-bob' }), 400, 'invalid_request', '/amount'],
    ['an amount with a comma', () => erc20({ amount: '1,5', toUserId: 'DEV-bob' }), 400, 'invalid_request', '/amount'],
    ['an amount that ends with its point', () => erc20({ amount: '1.', toUserId: 'DEV-bob' }), 400, 'invalid_request', '/amount'],
    ['a negative amount', () => erc20({ amount: '-1', toUserId: 'DEV-bob' }), 400, 'invalid_request', '/amount'],
    ['a recipient that is null', () => erc20({ toUserId: null }), 400, 'invalid_request', '/toUserId'],
    ['an unknown field', () => erc20({ toUserId: 'DEV-bob', nonce: '1' }), 400, 'unknown_parameter', '/nonce'],
  ] // prettier-ignore
  for (const [what, body, status, code, pointer] of refusals)
    for (const dryRun of [false, true])
      test(`${what}${dryRun ? ', in a dry run' : ''}`, async () => {
        const before = await sizes()
        const answer = await alice.post(TRANSFER, dryRun ? { ...body(), dryRun } : body(), {
          'idempotency-key': 'refused',
        })
        assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body))
        if (pointer !== undefined) assert.equal(answer.body.errors[0].pointer, pointer)
        assert.deepEqual(await sizes(), before)
      })

  test('who holds less is told how much, in tokens and in their smallest unit', async () => {
    const poor = await here.person('poor')
    await mint20(poor, '1.5')
    const { body } = await poor.post(TRANSFER, erc20({ amount: '2', toUserId: 'DEV-bob' }))
    assert.equal(
      body.detail,
      'The account holds 1.5 SMPL, and the transfer needs 2 SMPL. Nothing was sent. Reduce the amount.',
    )
    assert.deepEqual(body.funds, {
      address: poor.address,
      needed: '2000000000000000000',
      available: '1500000000000000000',
    })
    await bob.write({ address: contracts.erc721, abi: 'mint(address,uint256) public', args: [bob.address, '8001'] })
    const theirs = await poor.post(TRANSFER, { tokenType: 'ERC721', tokenAddress: contracts.erc721, tokenId: '8001', toUserId: 'DEV-alice' }) // prettier-ignore
    assert.deepEqual([theirs.body.code, theirs.body.detail], ['not_token_owner', 'The token 8001 belongs to another account. Nothing was sent. Check the token id.']) // prettier-ignore
  })

  test('a token that says false, and moves nothing, is not sent', async () => {
    // decimals() is 6, balanceOf is 4,294.967295, everything else is 0.
    const code =
      '0x60003560e01c80633 13ce567146024578063 70a0823114602f57 60006000526020 6000f3 5b6006600052602 06000f3 5b63ffffffff60005260206000f3'
    const token = `0x${'fa'.repeat(20)}`
    await here.rpc('anvil_setCode', token, code.replaceAll(' ', ''))
    const before = await sizes()
    for (const toUserId of ['DEV-bob', 'DEV-never-here'])
      for (const dryRun of [false, true]) {
        const refused = await alice.post(TRANSFER, erc20({ tokenAddress: token, toUserId, dryRun }))
        assert.deepEqual([refused.status, refused.body.code], [422, 'transfer_refused'], JSON.stringify(refused.body))
        const short = await alice.post(TRANSFER, erc20({ tokenAddress: token, amount: '4295', toUserId, dryRun }))
        assert.deepEqual(
          [short.body.code, short.body.detail],
          [
            'insufficient_tokens',
            'The account holds 4294.967295, and the transfer needs 4295. Nothing was sent. Reduce the amount.',
          ],
        )
      }
    assert.deepEqual(await sizes(), before)
  })

  test('tokens without the permission, of another user, missing; another body type; a node that is away', async () => {
    const before = await sizes()
    const post = (headers: Record<string, string>) =>
      here.request(TRANSFER, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(erc20({ toUserId: 'DEV-bob' })) }) // prettier-ignore
    const none = await post({})
    assert.deepEqual([none.status, none.body.code], [401, 'invalid_token'])
    const text = await post({ authorization: `Bearer ${alice.token}`, 'content-type': 'text/plain' })
    assert.deepEqual([text.status, text.body.code], [415, 'unsupported_media_type'])
    assert.equal((await alice.post(`${TRANSFER}?later=1`, erc20({ toUserId: 'DEV-bob' }))).status, 400)
    const chain = here.app.chains.get(here.facts.chainId)!
    const { rpc } = chain
    chain.rpc = { ...rpc, call: () => Promise.reject(new RpcUnavailable('slow', { timedOut: true })), batch: () => Promise.reject(new RpcUnavailable('slow', { timedOut: true })) } // prettier-ignore
    const away = await alice.post(TRANSFER, { tokenType: 'NATIVE', amount: '1', toUserId: 'DEV-nobody-yet' })
    chain.rpc = rpc
    assert.deepEqual([away.status, away.body.retryable], [504, true])
    assert.deepEqual(await sizes(), before)
  })
})

suite('a key', () => {
  test('stands for what was sent: a repeat is told that, also when the name is somebody else’s by now', async () => {
    const carl = await here.person('carl')
    const body = erc20({ amount: '0.25', toUserProviderType: 'DEV', toUserUsername: 'carl' })
    const first = await send(alice, body, { 'idempotency-key': 'to carl' })
    assert.equal(first.status, 200, JSON.stringify(first.body))
    await here.app.db
      .updateTable('identities')
      .set({ username: 'no longer carl' })
      .where('subject', '=', 'carl')
      .execute()
    const again = await send(alice, { ...body, toUserId: '' }, { 'idempotency-key': 'to carl' })
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [200, 'true'])
    assert.deepEqual([again.body.hash, again.body.amount, again.body.recipient.address], [first.body.hash, first.body.amount, carl.address]) // prettier-ignore
    assert.equal((await send(alice, body)).body.code, 'unknown_recipient')
    const other = await send(alice, { ...body, amount: '0.26' }, { 'idempotency-key': 'to carl' })
    assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused'])
    assert.equal(await held20(carl.address), parseUnits('0.25', 18))
  })

  test('stands for whom the user was asked about, also when the name is somebody else’s by the time of the approval', async () => {
    const dora = await here.person('dora')
    const { app } = here
    const { signer } = app
    const check: typeof signer.check = async (request) => ({ ...(await signer.check(request)), requires: request.approval === undefined ? 'ask' : null }) // prettier-ignore
    app.signer = { ...signer, check }
    try {
      noteAsking(app)
      const body = erc20({ amount: '0.5', toUserProviderType: 'DEV', toUserUsername: 'dora' })
      const ask = () => send(alice, body, { 'idempotency-key': 'to dora' })
      const asked = await ask()
      assert.deepEqual([asked.status, asked.body.code], [403, 'approval_required'])
      await app.db.updateTable('identities').set({ username: 'no longer dora' }).where('subject', '=', 'dora').execute()
      const { id } = asked.body.approval
      const { account_id: accountId } = await app.db.selectFrom('approvals').select('account_id').where('id', '=', id).executeTakeFirstOrThrow() // prettier-ignore
      assert.equal(await decide(app, { id, accountId, decision: 'approved', token: 'a.b.c' }), true)
      const sent = await ask()
      assert.equal(sent.status, 200, JSON.stringify(sent.body))
      assert.equal(sent.body.recipient.address, dora.address)
      assert.equal(await held20(dora.address), parseUnits('0.5', 18))
    } finally {
      app.signer = signer
    }
  })

  test('ten at once with one key to one stranger make one transaction and one account', async () => {
    const before = await sizes()
    const body = { tokenType: 'NATIVE', amount: '0.001', toUserId: 'DEV-once' }
    const answers = await Promise.all(Array.from({ length: 10 }, () => alice.post(TRANSFER, body, { 'idempotency-key': 'once' }))) // prettier-ignore
    for (const { status, body: told } of answers) if (status !== 200) assert.equal(told.code, 'idempotency_in_flight')
    assert.equal(new Set(answers.filter(({ status }) => status === 200).map(({ body: { hash } }) => hash)).size, 1)
    assert.deepEqual(
      (await sizes()).map((size, index) => size - before[index]!),
      [1, 1, 1],
    )
    assert.notEqual(await addressOf('DEV-once'), null)
  })
})
