// tier: all, because it follows coins over hundreds of blocks
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import type { Hex } from '../ids.ts'
import type { AccountOwner } from '../oauth/account/slices.ts'
import { toWord } from '../store/bytes.ts'
import { openBrowser, textOf } from '../../test/kit/browser.ts'
import { en } from '../texts/en.ts'
import { until } from '../../test/kit/until.ts'
import { world, type Person, type World } from '../../test/world.ts'
import { accountReads } from './reads.ts'

const OUTSIDE: Hex = '0x1c7d4b196cb0c7b01d743fbc6116a902379c7238'
const FORWARDER: Hex = '0x2b7d4b196cb0c7b01d743fbc6116a902379c7239'
/** sends what it gets to the address in its data */
const FORWARDS: Hex = '0x6000600060006000346000355af1'
const HALF = 500_000_000_000_000_000n
const TENTH = 100_000_000_000_000_000n

let here: World
let nell: Person
before(async () => {
  here = await world()
  nell = await here.person('nell')
  await here.rpc('anvil_setBalance', OUTSIDE, '0x8ac7230489e80000')
  await here.rpc('anvil_setCode', FORWARDER, FORWARDS)
  await here.rpc('anvil_impersonateAccount', OUTSIDE)
})
after(() => here.close())

const quantity = (value: bigint): Hex => `0x${value.toString(16)}`
const word = (address: string): Hex => `0x${address.slice(2).toLowerCase().padStart(64, '0')}`

async function pages(username: string) {
  const browser = openBrowser(here.facts.origin)
  await browser.signIn('/account', username)
  return { browser, see: async (path: string): Promise<string> => textOf((await browser.go(path)).text) }
}

/** A transaction that this service did not send, mined. */
async function sendOutside(call: { from: string; to: string; value: bigint; data?: Hex }): Promise<Hex> {
  const hash = await here.rpc<Hex>('eth_sendTransaction', { ...call, value: quantity(call.value) })
  await until('it is mined', async () => (await here.rpc('eth_getTransactionReceipt', hash)) !== null)
  return hash
}

const COINS = '/account/activity?network=31337'

test('what comes from elsewhere and what a contract pays out is in the activity, and on the first page', async () => {
  const { see } = await pages('nell')
  assert.match(await see(COINS), new RegExp(en.activity.nothing))
  await sendOutside({ from: OUTSIDE, to: nell.address, value: HALF })
  await sendOutside({ from: OUTSIDE, to: FORWARDER, value: TENTH, data: word(nell.address) })
  await until('both are listed', async () => /\+0\.1 ETH.*\+0\.5 ETH/s.test(await see(COINS)))
  const listed = await see(COINS)
  assert.match(listed, new RegExp(`from 0x2B7d4b196[0-9a-fA-F]+ \\+ ?0\\.1 ETH [^+]*${en.native.internal}`, 'i'))
  assert.match(listed, /from 0x1c7D4B196[0-9a-f]+ \+ ?0\.5 ETH/i)
  assert.doesNotMatch(listed, new RegExp(en.native.notListed), 'everything is listed: nothing is left out')
  assert.match(await see('/account'), /from \S+ \+ ?0\.1 ETH.*from \S+ \+ ?0\.5 ETH/s)
  assert.doesNotMatch(await see(`${COINS}&direction=out`), /0\.5 ETH/)
})

test('a fee stands with the payment or the write that it was paid for, and in no line of its own', async () => {
  const { see } = await pages('nell')
  const fees = async () =>
    (await here.app.db.selectFrom('transfers').select('hash').where('token_type', '=', 1).where('batch_index', '=', 0)
      .where('account_id', '=', (await accountOf(nell)).account_id).execute()).length // prettier-ignore
  await nell.write({ address: here.facts.contracts.erc20!, abi: 'mint(address,uint256) public', args: [nell.address, '5'] }) // prettier-ignore
  const { body } = await nell.post('/v1/tokens/transfers?wait=mined', { tokenType: 'NATIVE', amount: '0.25', toAddress: OUTSIDE }) // prettier-ignore
  assert.ok(typeof body.id === 'string', JSON.stringify(body))
  await until('both fees are stored', async () => (await fees()) === 2)
  const listed = await see(`${COINS}&direction=out`)
  assert.equal(listed.match(/−/g)?.length, 1, listed)
  assert.match(listed, new RegExp(`to 0x1c7D4B196\\w+ − ?0\\.25 ETH [^]*${en.activity.fee}: 0\\.0000\\d+`, 'i'))
  const done = await see(COINS)
  assert.equal(done.match(/0\.25 ETH/g)?.length, 1, 'a transfer of a write stands once')
  assert.equal(done.match(new RegExp(`${en.activity.fee}: 0\\.0000\\d+`, 'g'))?.length, 2)
})

test('the fee is what the transaction cost in all, its part for a first layer included', async () => {
  const { see } = await pages('nell')
  const { account_id } = await accountOf(nell)
  const changed = await sql`update transfers set value = decode(lpad(to_hex(770000000000000000), 64, '0'), 'hex')
    where account_id = ${account_id}::uuid and token_type = 1 and batch_index = 0`.execute(here.app.db)
  assert.equal(changed.numAffectedRows, 2n)
  const done = await see(COINS)
  assert.equal(done.match(new RegExp(`${en.activity.fee}: 0\\.77 ETH`, 'g'))?.length, 2, done)
  assert.match(await see(COINS), new RegExp(`${en.activity.fee}: 0\\.77 ETH`))
})

test('a fee of a transaction that was sent elsewhere with the same key is a line of its own', async () => {
  const { see } = await pages('mover')
  const { address } = await here.person('mover')
  await here.rpc('anvil_impersonateAccount', address)
  await here.rpc('anvil_setBalance', address, quantity(HALF))
  await sendOutside({ from: address, to: OUTSIDE, value: 0n })
  await until('it is listed', async () => new RegExp(en.native.feeAlone).test(await see(COINS)))
  const listed = await see(COINS)
  assert.equal(listed.match(new RegExp(en.native.feeAlone, 'g'))?.length, 1)
  assert.match(listed, new RegExp(`${en.native.feeAlone} − ?0\\.0000\\d+ ETH`))
})

test('what a person takes along has every entry, fees by themselves, and says from where on it is whole', async () => {
  const { browser } = await pages('nell')
  const { text } = await browser.go('/account/data.json')
  const { networks } = JSON.parse(text) as { networks: { chainId: number; native: TakenEntry[]; nativeCoverage: unknown; payments: { fee?: unknown }[] }[] } // prettier-ignore
  const { native, nativeCoverage, payments } = networks[0]!
  const { rows } = await sql<{ value: string; n: number }>`select encode(value, 'hex') as value, batch_index as n from transfers
    where account_id = ${(await accountOf(nell)).account_id}::uuid and token_type = 1 order by block_number desc, log_index desc, batch_index desc`.execute(here.app.db) // prettier-ignore
  assert.equal(rows.length, 5)
  assert.deepEqual(native.map(({ amount }) => BigInt(amount.value)), rows.map(({ value }) => BigInt(`0x${value}`))) // prettier-ignore
  assert.deepEqual(native.map(({ kind }) => kind), rows.map(({ n }) => ['FEE', 'VALUE', 'MINT'][n] ?? 'INTERNAL')) // prettier-ignore
  for (const { hash, at, from, to, blockNumber } of native) {
    assert.match(hash, /^0x[0-9a-f]{64}$/)
    assert.ok(blockNumber > 0 && Number.isFinite(Date.parse(at)) && [from, to].includes(nell.address))
  }
  assert.deepEqual(nativeCoverage, { from: 0, internalFrom: 0 })
  assert.equal(payments.length, 3)
  assert.equal(payments.filter(({ fee }) => fee !== undefined).length, 1)
})
type TakenEntry = { kind: string; amount: { value: string }; hash: string; at: string; from: string; to: string; blockNumber: number } // prettier-ignore

test('pages lead through all of it, without a gap or a repetition, fees of writes aside', async () => {
  const { browser } = await pages('nell')
  for (let index = 1; index <= 60; index++)
    await here.rpc('eth_sendTransaction', { from: OUTSIDE, to: nell.address, value: quantity(TENTH + BigInt(index)) })
  const stored = async () =>
    await here.app.db.selectFrom('transfers').select('hash').where('token_type', '=', 1)
      .where('account_id', '=', (await accountOf(nell)).account_id).execute() // prettier-ignore
  await until('all are stored', async () => (await stored()).length === 65)
  const seen: string[] = []
  const sizes: number[] = []
  for (let next: string | undefined = `${COINS}&direction=in`; next !== undefined && sizes.length < 10;) {
    const { text } = await browser.go(next)
    const items = [...text.matchAll(/"\/account\/receipt\?([^"]*)"/g)].map(([, query]) => query!)
    sizes.push(items.length)
    seen.push(...items)
    next = /rel="next" href="([^"]*)"/.exec(text)?.[1]?.replaceAll('&#61;', '=').replaceAll('&amp;', '&').replaceAll('&#38;', '&') // prettier-ignore
  }
  // 60 and 2 that came in, and one token.
  assert.deepEqual(sizes, [25, 25, 13])
  assert.equal(new Set(seen).size, 63)
})

test('what was sent before the history looked at native currency is listed from our own record, once', async () => {
  const { see } = await pages('nell')
  const { account_id } = await accountOf(nell)
  // As after an update: the network was followed, and native currency is looked at from now on.
  await sql`delete from transfers where account_id = ${account_id}::uuid and token_type = 1 and direction = 1`.execute(here.app.db) // prettier-ignore
  await sql`update accounts set is_key_new = false, created_at = created_at - interval '1 hour' where account_id = ${account_id}::uuid`.execute(
    here.app.db,
  )
  await sql`update native_coverage set from_block = to_block, internal_from_block = to_block`.execute(here.app.db)
  const out = await see(`${COINS}&direction=out`)
  assert.equal(out.match(/−0\.25 ETH/g)?.length, 1, out)
  assert.match(out, /Complete since block \d/)
  const again = await nell.post('/v1/tokens/transfers?wait=mined', { tokenType: 'NATIVE', amount: '0.125', toAddress: OUTSIDE }) // prettier-ignore
  assert.ok(again.status < 300, JSON.stringify(again.body))
  await until('the new one is in the history', async () =>
    (await here.app.db.selectFrom('transfers').select('hash').where('account_id', '=', account_id).where('token_type', '=', 1).where('direction', '=', 1).where('batch_index', '=', 1).execute()).length === 1) // prettier-ignore
  const both = await see(`${COINS}&direction=out`)
  assert.equal(both.match(/−0\.125 ETH/g)?.length, 1, both)
  assert.match(both, /−0\.125 ETH.*−0\.25 ETH/s)
})

test('pages of the history and of our own record follow each other, also where one of them gives a page nothing', async () => {
  const { account_id } = await accountOf(nell)
  const sent = await nell.post('/v1/tokens/transfers?wait=mined', { tokenType: 'NATIVE', amount: '0.0625', toAddress: OUTSIDE }) // prettier-ignore
  assert.ok(sent.status < 300, JSON.stringify(sent.body))
  const ofIt = () =>
    here.app.db.selectFrom('transfers').select('hash').where('account_id', '=', account_id).where('token_type', '=', 1)
      .where('value', '=', toWord(62_500_000_000_000_000n)).execute() // prettier-ignore
  await until('it is in the history', async () => (await ofIt()).length === 1)
  const [{ hash }] = (await ofIt()) as [{ hash: Uint8Array }]
  await here.app.db.deleteFrom('transfers').where('account_id', '=', account_id).where('hash', '=', hash).execute()
  const reads = accountReads(here.app)
  const owner = { accountId: account_id, userId: nell.userId, address: nell.address.toLowerCase() } as AccountOwner
  const through = async (limit: number) => {
    const seen: string[] = []
    let cursor: string | null | undefined
    for (let pages = 0; cursor !== null; pages++) {
      assert.ok(pages < 100, 'it leads on and on')
      const page = await reads.readNativeTransfers(owner, 31_337, {
        limit,
        cursor: cursor ?? undefined,
        direction: 'all',
      })
      seen.push(...page.entries.map(({ amount, direction, at }) => `${direction} ${amount.value} ${at.getTime()}`))
      cursor = page.nextCursor
    }
    return seen
  }
  const all = await through(100)
  // The newest and one behind sixty of the history are of our own record.
  assert.equal(all.filter((one) => /^OUT (62500000000000000|250000000000000000) /.test(one)).length, 2, all.join('\n'))
  assert.equal(new Set(all).size, all.length)
  const came = await reads.readNativeTransfers(owner, 31_337, { limit: 62, direction: 'in' })
  assert.deepEqual([came.entries.length, came.nextCursor], [62, null], 'what is just full leads to no empty page')
  for (const limit of [1, 2, 7, all.length - 1, all.length]) assert.deepEqual(await through(limit), all, `${limit}`)
})

test('a network whose native currency is not looked at, or not what contracts pay out, says so on both pages', async () => {
  const { see } = await pages('nell')
  // The next block that is followed tells of itself again.
  const says = async (text: string, forget: () => Promise<unknown>) => {
    for (const path of [COINS, '/account'])
      await until(path, async () => {
        await forget()
        return (await see(path)).includes(text)
      })
  }
  await says(en.native.noInternal, () => sql`update native_coverage set internal_from_block = null`.execute(here.app.db)) // prettier-ignore
  assert.doesNotMatch(await see(COINS), new RegExp(en.native.notListed))
  await says(en.native.notListed, async () => {
    await sql`delete from native_coverage`.execute(here.app.db)
    await sql`delete from transfers where token_type = 1`.execute(here.app.db)
  })
  assert.match(await see(`${COINS}&direction=out`), /−0\.125 ETH.*−0\.25 ETH/s)
  assert.ok(!(await see(`${COINS}&application=urn:chatelaine:account`)).includes(en.native.notListed))
})

test('a cursor of another list, or a broken one, is refused', async () => {
  const { browser } = await pages('nell')
  for (const parts of [
    ['coins', 'x', ''],
    ['coins', '', 'x'],
    ['payments all', '', ''],
    ['coins', 1, 2],
    ['coins', '.', '.'],
  ]) {
    // prettier-ignore
    const cursor = Buffer.from(JSON.stringify(parts)).toString('base64url')
    const { status } = await browser.go(`${COINS}&cursor=${cursor}`)
    assert.ok(status === 400 || (parts[1] === '.' && status === 200), `${JSON.stringify(parts)}: ${status}`)
  }
})

const accountOf = ({ userId }: Person) =>
  here.app.db.selectFrom('accounts').select('account_id').where('user_id', '=', userId).executeTakeFirstOrThrow()
