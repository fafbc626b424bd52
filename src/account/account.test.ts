// tier: all, because it opens pages of a whole world
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { rpc as callNode } from '../devnet/rpc.ts'
import { accountIdOf, type Hex } from '../ids.ts'
import { openBrowser, textOf, type Page } from '../../test/kit/browser.ts'
import { en } from '../texts/en.ts'
import { until } from '../../test/kit/until.ts'
import { world, type World } from '../../test/world.ts'
import { reseal } from '../../test/reseal.ts'
import { noteAsking } from '../transactions/lanes/approve.ts'
import { accountReads } from './reads.ts'

let here: World
let contracts: Record<'erc20' | 'erc721' | 'erc1155', Hex>
before(async () => {
  here = await world()
  contracts = here.facts.contracts as typeof contracts
  const { alice } = here
  await alice.write({ address: contracts.erc20, abi: 'mint(address,uint256) public', args: [alice.address, '1234567891234567899999999'] }) // prettier-ignore
})
after(() => here.close())

type Browser = ReturnType<typeof openBrowser>
const NATIVE = '31337:NATIVE::'
const erc20 = (): string => `31337:ERC20:${contracts.erc20.toLowerCase()}:`

async function open(username: string, language?: string): Promise<Browser> {
  const browser = openBrowser(here.facts.origin, language)
  await browser.signIn('/account', username)
  return browser
}

/** Fills the form in, as far as the page that asks for the last word. */
async function fill(browser: Browser, fields: Record<string, string>): Promise<Page> {
  const formFor = (asset: string) => browser.go(`/account/send?${new URLSearchParams({ asset }).toString()}`)
  const listed = await formFor(fields.asset!)
  // An asset that is not listed has no form, but anyone can name it in the form of another.
  const form = listed.text.includes('action="/account/send"') ? listed : await formFor(NATIVE)
  assert.equal(form.url.pathname, '/account/send', textOf(form.text))
  return browser.submit(form, '/account/send', { provider: 'DEV', amount: '', ...fields })
}

const coins = async (address: string): Promise<bigint> =>
  BigInt(await here.rpc<Hex>('eth_getBalance', address, 'latest'))
const held = async (address: string): Promise<bigint> =>
  BigInt(await callNode<Hex>(here.facts.rpcUrl, 'eth_call', { to: contracts.erc20, data: `0x70a08231${address.slice(2).padStart(64, '0')}` }, 'latest')) // prettier-ignore
const sentRows = async (): Promise<number> =>
  (await here.app.db.selectFrom('transactions').select('id').where('hash', 'is not', null).execute()).length

/** Whether a page updates itself, with the script and without. */
function isLive({ text, headers }: Page): boolean {
  const marks = [/<main[^>]* data-live="\d+"/, /<noscript><meta http-equiv="refresh" content="\d+"/].map((one) => one.test(text)) // prettier-ignore
  const { pathname } = new URL(here.facts.origin)
  const connects = /; connect-src (\S+)/.exec(headers.get('content-security-policy')!)?.[1]
  assert.deepEqual(
    [...marks, connects === `${here.facts.origin}${pathname}account/receipt`],
    [marks[0], marks[0], marks[0]],
  )
  return marks[0]!
}

async function settled(browser: Browser, page: Page): Promise<Page> {
  return until('the page says what became of it', async () => {
    const shown = await browser.go(page.url.href)
    return textOf(shown.text).includes(en.account.states.SUBMITTED) ? null : shown
  })
}

test('somebody sends tokens to a person by name: said in words first, sent once however often the form is', async () => {
  const browser = await open('alice')
  const before = await held(here.bob.address)
  const rows = await sentRows()
  const confirm = await fill(browser, { asset: erc20(), to: 'bob', amount: '1.5' })
  assert.equal(confirm.status, 200, textOf(confirm.text))
  assert.match(textOf(confirm.text), /You send 1\.5 SMPL to bob on the Ethereum test network ?\./)
  assert.ok(confirm.text.includes(here.bob.address))
  assert.match(textOf(confirm.text), /Maximum fee [\d.…]+ ETH/)
  assert.equal(await sentRows(), rows, 'nothing is sent before the last word')
  const answers = await Promise.all(Array.from({ length: 5 }, () => browser.submit(confirm, '/account/send/confirm')))
  const again = await browser.submit(confirm, '/account/send/confirm')
  const places = new Set([...answers, again].filter(({ status }) => status === 200).map(({ url }) => url.href))
  assert.equal(places.size, 1)
  assert.match(textOf(again.text), /Sent − ?1\.5 SMPL To bob 0x[\dA-Fa-f]{40} Status/)
  assert.ok(again.text.includes(here.bob.address))
  assert.equal(isLive(again), textOf(again.text).includes(en.account.states.SUBMITTED))
  const done = await settled(browser, again)
  // What is in a block is looked at no more.
  assert.equal(isLive(done), false)
  assert.match(textOf(done.text), new RegExp(`${en.account.states.MINED}|${en.account.states.FINALIZED}`))
  assert.equal(await sentRows(), rows + 1)
  assert.equal((await held(here.bob.address)) - before, 1_500_000_000_000_000_000n)
})

const typedIn = ({ text }: Page): string => /name="amount"\s+value="([^"]*)"/.exec(text)![1]!

test('the maximum is every unit of a token, and of native currency what remains after the highest fee', async () => {
  const saver = await here.person('saver')
  await here.alice.write({ address: contracts.erc20, abi: 'mint(address,uint256) public', args: [saver.address, '1234567891234567899'] }) // prettier-ignore
  await here.alice.write({ address: contracts.erc1155, abi: 'mint(address,uint256,uint256) public', args: [saver.address, '8', '6'] }) // prettier-ignore
  const browser = await open('saver', 'de')
  await until('the token is listed', async () => /Sample/.test(textOf((await browser.go('/account/send')).text)))
  const tokens = await fill(browser, { asset: erc20(), to: 'bob', amount: '', max: '1' })
  assert.equal(typedIn(tokens), '1,234567891234567899')
  assert.match(tokens.text, /name="to"\s+value="bob"/)
  const items = await fill(browser, { asset: `31337:ERC1155:${contracts.erc1155.toLowerCase()}:8`, to: '', amount: '', max: '1' }) // prettier-ignore
  assert.equal(typedIn(items), '6')
  const filled = await fill(browser, { asset: NATIVE, to: here.bob.address, amount: '', max: '1' })
  const [whole, places = ''] = typedIn(filled).split(',')
  const wei = BigInt(`${whole}${places.padEnd(18, '0')}`)
  const before = await coins(saver.address)
  const confirm = await browser.submit(filled, '/account/send', { to: here.bob.address, amount: typedIn(filled) })
  assert.equal(confirm.status, 200, textOf(confirm.text))
  const sent = await settled(browser, await browser.submit(confirm, '/account/send/confirm'))
  assert.match(textOf(sent.text), /Gesendet/)
  const rest = await coins(saver.address)
  assert.ok(rest >= 0n && rest < before - wei, `${before} ${wei} ${rest}: the fee was paid from what was kept back`)
  assert.ok(before - wei < before / 100n, 'no more is kept back than a fee')
})

test('a receipt says what came in, from whom and when, to its recipient only', async () => {
  const bob = await open('bob')
  const list = await bob.go('/account/activity?network=31337&direction=in')
  const href = /href="(\/account\/receipt\?[^"]*)"/.exec(list.text)![1]!.replaceAll('&#61;', '=').replaceAll('&amp;', '&').replaceAll('&#38;', '&') // prettier-ignore
  assert.match(href, /block=\d+&hash=0x/)
  const receipt = await bob.go(href)
  assert.match(
    textOf(receipt.text),
    new RegExp(`${en.wallet.receivedTitle} \\+ ?[\\d.]+ \\S+[^]*From (alice|saver) 0x`),
  )
  const other = await (await open('carol')).go(href)
  assert.equal(other.status, 404)
})

test('coins go to an address and to a user id, and both people see them', async () => {
  const browser = await open('alice')
  const before = await coins(here.bob.address)
  for (const to of [here.bob.address, here.bob.userId]) {
    const confirm = await fill(browser, { asset: NATIVE, to, amount: '0.25' })
    assert.match(textOf(confirm.text), new RegExp(`You send 0\\.25 ETH to ${to === here.bob.userId ? 'bob' : to}`))
    const sent = await browser.submit(confirm, '/account/send/confirm')
    assert.match(textOf(sent.text), /Sent − ?0\.25 ETH To bob 0x/)
    await settled(browser, sent)
  }
  assert.equal((await coins(here.bob.address)) - before, 500_000_000_000_000_000n)
  const out = '/account/activity?network=31337&direction=out'
  await until('they are listed', async () => /to bob − ?0\.25 ETH[^]*to bob − ?0\.25 ETH/.test(textOf((await browser.go(out)).text))) // prettier-ignore
  const bob = await open('bob')
  const received = textOf((await bob.go('/account/activity?network=31337&direction=in')).text)
  assert.equal(received.match(/from alice \+ ?0\.25 ETH/g)?.length, 2, received)
  assert.doesNotMatch(textOf((await bob.go('/account/activity?direction=out')).text), /0\.25 ETH/)
  assert.match(textOf((await bob.go('/account')).text), /from alice \+ ?0\.25 ETH/)
})

test('a transfer that a rule wants approved is sent by the same form after the approval, once', async () => {
  const { app } = here
  const { signer } = app
  const requires = ({ approval }: { approval?: string }) => (approval === undefined ? 'ask' : null)
  app.signer = {
    ...signer,
    check: async (request) => ({ ...(await signer.check(request)), requires: requires(request) }),
    checkOperation: async (request) => ({ ...(await signer.checkOperation(request)), requires: requires(request) }),
  }
  try {
    const browser = await open('alice')
    const rows = await sentRows()
    const confirm = await fill(browser, { asset: NATIVE, to: here.bob.address, amount: '0.125' })
    noteAsking(app)
    const asked = await browser.submit(confirm, '/account/send/confirm')
    assert.equal(asked.status, 403, textOf(asked.text))
    assert.equal(await sentRows(), rows)
    const path = /href="(\/account\/approvals\/apr_[^"]+)"/.exec(asked.text)![1]!
    const page = await browser.go(path)
    assert.match(textOf(page.text), /Expected change of your account − 0\.125 ETH/)
    assert.match(textOf(page.text), new RegExp(en.approvals.expectedHint))
    await browser.submit(page, '/approve')
    const sent = await browser.submit(asked, '/account/send/confirm')
    assert.match(textOf(sent.text), /Sent − ?0\.125 ETH To bob 0x/)
    await settled(browser, sent)
    assert.equal(await sentRows(), rows + 1)
  } finally {
    app.signer = signer
  }
})

test('somebody who has not signed in is told of, and gets the account that is theirs', async () => {
  const browser = await open('alice')
  const confirm = await fill(browser, { asset: NATIVE, to: 'DEV-newcomer', amount: '0.1' })
  assert.match(textOf(confirm.text), /DEV-newcomer has not signed in here yet/)
  await settled(browser, await browser.submit(confirm, '/account/send/confirm'))
  const [sent] = await here.app.db.selectFrom('transactions').select(['target', 'value']).orderBy('created_at', 'desc').limit(1).execute() // prettier-ignore
  const newcomer = await here.person('newcomer')
  assert.equal(`0x${Buffer.from(sent!.target).toString('hex')}`, newcomer.address.toLowerCase())
  assert.equal(BigInt(`0x${Buffer.from(sent!.value).toString('hex')}`), 100_000_000_000_000_000n)
})

test('collectibles are listed with their ids and sent one by one', async () => {
  const { alice } = here
  await alice.write({ address: contracts.erc721, abi: 'mint(address,uint256) public', args: [alice.address, '77'] })
  await alice.write({ address: contracts.erc1155, abi: 'mint(address,uint256,uint256) public', args: [alice.address, '5', '9'] }) // prettier-ignore
  const browser = await open('alice')
  const account = async (): Promise<string> => textOf((await browser.go('/account')).text)
  await until('both are listed', async () => /#77 [^]*#5 × 9|#5 × 9 [^]*#77/.test(await account()))
  const one = await fill(browser, { asset: `31337:ERC721:${contracts.erc721.toLowerCase()}:77`, to: 'bob' })
  assert.match(textOf(one.text), /You send .*#77 to bob/)
  const gone = await settled(browser, await browser.submit(one, '/account/send/confirm'))
  assert.match(textOf(gone.text), /Sent − ?1 .* #77 To bob 0x/)
  const some = await fill(browser, {
    asset: `31337:ERC1155:${contracts.erc1155.toLowerCase()}:5`,
    to: 'bob',
    amount: '4',
  })
  assert.match(textOf(some.text), /You send 4 .*#5 to bob/)
  const four = await settled(browser, await browser.submit(some, '/account/send/confirm'))
  assert.match(textOf(four.text), /Sent − ?4 .* #5 To bob 0x/)
  const heldNow = async (): Promise<string> => /Collectibles(.*)Latest activity/.exec(await account())![1]!
  await until('what went is listed no more', async () => /^ \S+ \S+( \S+)* #5 × 5 $/.test(await heldNow()))
})

test('what cannot be sent is said on the form, in the language of the reader, and nothing is sent', async () => {
  const rows = await sentRows()
  const browser = await open('alice', 'de')
  const { de } = await import('../texts/de.ts')
  const refused: [Record<string, string>, string][] = [
    [{ asset: NATIVE, to: 'nobody-of-this-name', amount: '1' }, de.codes.unknown_recipient[0]],
    [{ asset: NATIVE, to: '0x123', amount: '1' }, de.codes.invalid_address[0]],
    [{ asset: NATIVE, to: `0x${'0'.repeat(40)}`, amount: '1' }, de.codes.invalid_recipient[0]],
    [{ asset: NATIVE, to: 'bob', amount: '' }, de.send.ambiguous],
    [{ asset: NATIVE, to: 'bob', amount: '1.000' }, de.send.ambiguous],
    [{ asset: NATIVE, to: 'bob', amount: '-1' }, de.send.ambiguous],
    [{ asset: NATIVE, to: 'bob', amount: '0' }, de.codes.invalid_amount[0]],
    [{ asset: NATIVE, to: 'bob', amount: '0,0000000000000000001' }, de.codes.amount_precision[0]],
    [{ asset: NATIVE, to: 'bob', amount: '1000000' }, de.codes.insufficient_funds[0]],
    [{ asset: erc20(), to: 'bob', amount: '99999999' }, de.codes.insufficient_tokens[0]],
    [{ asset: `31337:ERC721:${contracts.erc721.toLowerCase()}:404`, to: 'bob' }, de.codes.not_token_owner[0]],
    [{ asset: `31337:ERC20:0x${'12'.repeat(20)}:`, to: 'bob', amount: '1' }, de.failed],
    [{ asset: '1:NATIVE::', to: 'bob', amount: '1' }, de.refused.notOurForm],
    [{ asset: 'x', to: 'bob', amount: '1' }, de.refused.notOurForm],
    [{ asset: NATIVE, to: '', amount: '1' }, de.codes.unknown_recipient[1]],
    [{ asset: NATIVE, to: 'a\0b', amount: '1' }, de.codes.unknown_recipient[0]],
    [{ asset: NATIVE, to: '<script>', amount: '1', provider: '"' }, de.codes.unknown_recipient[1]],
  ]
  for (const [fields, text] of refused) {
    const page = await fill(browser, fields)
    assert.ok(page.status >= 400 && page.status < 500, `${JSON.stringify(fields)}: ${page.status}`)
    assert.ok(textOf(page.text).includes(text), `${JSON.stringify(fields)}: ${textOf(page.text)}`)
    assert.match(page.text, /role="alert"/)
    assert.ok(!page.text.includes('<script>'))
  }
  const typed = await fill(browser, { asset: NATIVE, to: 'bob', amount: '1,5' })
  assert.match(textOf(typed.text), /Sie senden 1,5 ETH an bob im Ethereum-Testnetz/)
  assert.equal(await sentRows(), rows)
})

test('a foreign form, one without its key, a stranger and an old sign-in send nothing', async () => {
  const rows = await sentRows()
  const browser = await open('alice')
  const confirm = await fill(browser, { asset: NATIVE, to: 'bob', amount: '0.01' })
  const other = await open('bob')
  for (const csrf of ['', 'x']) assert.equal((await browser.submit(confirm, '/send/confirm', { csrf })).status, 400)
  for (const key of ['', 'x', "'".repeat(36)])
    assert.equal((await browser.submit(confirm, '/send/confirm', { key })).status, 400)
  assert.equal((await other.submit(confirm, '/send/confirm')).status, 400)
  assert.match((await openBrowser(here.facts.origin).submit(confirm, '/send/confirm')).url.pathname, /^\/login\//)
  await sql`update oauth_records set payload = jsonb_set(payload, '{loginTs}', to_jsonb(((payload->>'loginTs')::bigint - 901))) where kind = 'Session' and payload ? 'loginTs'`.execute(here.app.db) // prettier-ignore
  await reseal(here.app)
  const chooser = await browser.submit(confirm, '/send/confirm')
  assert.match(chooser.url.pathname, /^\/login\//)
  assert.ok(textOf(chooser.text).includes(en.chooser.why.send))
  const again = await browser.signIn('/account/send', 'alice')
  assert.equal(again.url.pathname, '/account/send')
  assert.equal(await sentRows(), rows)
})

test('a key that was used for one transfer sends no other', async () => {
  const browser = await open('alice')
  const confirm = await fill(browser, { asset: NATIVE, to: 'bob', amount: '0.01' })
  assert.equal((await browser.submit(confirm, '/send/confirm')).url.pathname, '/account/receipt')
  const rows = await sentRows()
  const other = await browser.submit(confirm, '/send/confirm', { amount: '2' })
  assert.match(textOf(other.text), new RegExp(en.codes.idempotency_key_reused[0]))
  assert.equal(await sentRows(), rows)
})

test('a frozen account sends nothing', async () => {
  const browser = await open('frozen')
  const { userId } = await here.person('frozen')
  const confirm = await fill(browser, { asset: NATIVE, to: 'bob', amount: '0.01' })
  await here.app.db.updateTable('accounts').set({ frozen_at: new Date() }).where('user_id', '=', userId).execute()
  const rows = await sentRows()
  const refused = await browser.submit(confirm, '/send/confirm')
  assert.equal(refused.status, 403)
  assert.match(textOf(refused.text), new RegExp(en.codes.account_frozen[0]))
  assert.equal(await sentRows(), rows)
  // Before anything is tried the page says so, and offers nothing that would be refused.
  const page = await browser.signIn('/account', 'frozen')
  assert.ok(textOf(page.text).includes(en.codes.account_frozen[1]))
  assert.doesNotMatch(page.text, /class="button" href="\/account\/send"/)
})

test('what is not somebody’s own is not found', async () => {
  const browser = await open('alice')
  const confirm = await fill(browser, { asset: NATIVE, to: 'bob', amount: '0.01' })
  const sent = await browser.submit(confirm, '/send/confirm')
  const bob = await open('bob')
  assert.equal((await bob.go(sent.url.href)).status, 404)
  for (const query of [
    '',
    '?network=31337',
    '?id=x&network=31337',
    '?network=x&id=tx_1',
    `?network=999&id=${sent.url.searchParams.get('id')}`,
    `?network=31337&block=1&hash=0x${'5e'.repeat(32)}`,
    '?network=31337&block=x&hash=0x',
  ])
    // prettier-ignore
    assert.equal((await browser.go(`/account/receipt${query}`)).status, 404, query)
})

test('the page shows amounts in groups with every digit behind them, and what each application did', async () => {
  const browser = await open('alice')
  const page = await browser.go('/account')
  assert.match(page.text, /tabindex="0"[^]*?1,234,5\d\d\.\d{3} SMPL/)
  assert.match(page.text, /class="full">1,234,5\d\d\.\d{18} SMPL/)
  assert.match(page.text, /<time datetime="\d{4}-[^"]*Z">[^<]* UTC<\/time>/)
  const all = textOf((await browser.go('/account/activity?network=31337')).text)
  assert.match(all, /issued to you[^]*Demo application/)
  assert.match(all, /Fee paid: 0\.0/)
  const own = textOf((await browser.go('/account/activity?application=urn:chatelaine:account')).text)
  assert.match(own, /to bob/)
  assert.doesNotMatch(own, /issued to you/)
})

type SignedTransfer = { amount: { value: string; symbol: string } }
type Taken = {
  user: { id: string; address: string }
  identities: { id: string }[]
  applications: unknown[]
  browsers: unknown[]
  networks: {
    chainId: number
    transactions: { id: string }[]
    payments: SignedTransfer[]
    transfers: SignedTransfer[]
  }[]
}

test('a person takes along what is held of them, all of it, and nobody else’s', async () => {
  const nobody = openBrowser(here.facts.origin)
  assert.notEqual((await nobody.go('/account/data.json')).url.pathname, '/account/data.json')
  const file = async (username: string) => {
    const browser = await open(username)
    const { status, text } = await browser.go('/account/data.json')
    assert.equal(status, 200)
    return JSON.parse(text) as Taken
  }
  const { alice, bob } = here
  // More than a page of the lists.
  for (let index = 0; index < 30; index++) {
    const mint = { address: contracts.erc20, abi: 'mint(address,uint256) public', args: [alice.address, String(9_000 + index)] } // prettier-ignore
    await until('it is taken', async () => (await alice.post('/v1/contracts/method/write', mint)).status < 300)
  }
  const rows = await here.app.db.selectFrom('transactions as one').innerJoin('accounts', 'accounts.account_id', 'one.account_id').select(['one.id', 'accounts.user_id']).where('hash', 'is not', null).execute() // prettier-ignore
  const idsOf = (userId: string) => rows.filter(({ user_id }) => user_id === userId).map(({ id }) => id).toSorted() // prettier-ignore
  for (const who of [alice, bob]) {
    const { user, identities, applications, browsers, networks } = await file(who === alice ? 'alice' : 'bob')
    assert.deepEqual([user.id, user.address], [who.userId, who.address])
    assert.deepEqual(identities.map(({ id }) => id), [who.userId]) // prettier-ignore
    assert.ok(Array.isArray(applications) && browsers.length > 0)
    const { chainId, transactions, payments, transfers } = networks[0]!
    assert.equal(chainId, 31_337)
    assert.deepEqual(transactions.map(({ id }) => id).toSorted(), idsOf(who.userId))
    assert.ok(payments.some(({ amount }) => amount.value === '250000000000000000' && amount.symbol === 'ETH'))
    assert.ok(transfers.some(({ amount }) => amount.value === '1500000000000000000' && amount.symbol === 'SMPL'))
  }
  assert.ok(idsOf(alice.userId).length > 30)
})

test('lists go on page by page, without a gap or a repetition, and no address breaks them', async () => {
  const browser = await open('alice')
  const { alice } = here
  for (let index = 0; index < 28; index++)
    await alice.post('/v1/contracts/method/write', { address: contracts.erc20, abi: 'mint(address,uint256) public', args: [alice.address, String(1_000 + index)] }) // prettier-ignore
  const seen: string[] = []
  for (let next: string | undefined = '/account/activity', pages = 0; next !== undefined && pages < 10; pages++) {
    const page: Page = await browser.go(next)
    seen.push(...[...page.text.matchAll(/"\/account\/receipt\?([^"]*)"/g)].map(([, query]) => query!))
    next = /rel="next" href="([^"]*)"/.exec(page.text)?.[1]?.replaceAll('&#61;', '=').replaceAll('&amp;', '&').replaceAll('&#38;', '&') // prettier-ignore
  }
  assert.equal(new Set(seen).size, seen.length)
  const rows = await here.app.db.selectFrom('transactions').select('id').where('account_id', '=', (await accountOf(alice.address))).where('hash', 'is not', null).execute() // prettier-ignore
  assert.equal(seen.filter((query) => query.includes('id&#61;tx_') || query.includes('id=tx_')).length, rows.length)
  for (const query of [
    'network=x&show=y&direction=z&application=%00',
    'cursor=x',
    'cursor=%00&direction=in',
    'direction=in&direction=out',
    'network=1',
    'cursor=W10',
  ])
    assert.ok((await browser.go(`/account/activity?${query}`)).status < 500, query)
})

const accountOf = async (address: Hex): Promise<string> =>
  (await here.app.db.selectFrom('accounts').select('account_id').where('address', '=', Buffer.from(address.slice(2), 'hex')).executeTakeFirstOrThrow()).account_id // prettier-ignore

test('an approval names tokens by their own word or the operator’s, and addresses that the user chose to deal with', async () => {
  const { alice, bob, app } = here
  const lower = (address: string) => address.toLowerCase() as Hex
  const stranger: Hex = `0x${'5c'.repeat(20)}`
  const pays = (by: typeof alice, from: string, to: string, amount: string) => by.write({ address: contracts.erc20, abi: 'transferFrom(address,address,uint256) public', args: [from, to, amount] }) // prettier-ignore
  // Anyone can have a token log that alice paid nothing to an address of theirs.
  await pays(bob, alice.address, stranger, '0')
  const owner = { accountId: await accountOf(alice.address), userId: alice.userId, address: lower(alice.address) }
  const [token, others] = [lower(contracts.erc20), [stranger, lower(bob.address)]]
  const read = (knownTokens: App['knownTokens']) =>
    accountReads({ ...app, knownTokens }).readKnown(owner, 31_337, { tokens: [token], others }) // prettier-ignore
  await until('the payment of nothing is in the history', async () => (await here.app.db.selectFrom('transfers').select('hash').where('recipient', '=', Buffer.from(stranger.slice(2), 'hex')).execute()).length > 0) // prettier-ignore
  const known = await read(new Map())
  assert.deepEqual(known.dealtWith, [lower(bob.address)])
  assert.deepEqual(known.native, { symbol: 'ETH', decimals: 18 })
  const facts = { token, symbol: 'SMPL', decimals: 18, isListed: false, isSpam: false, isCollection: false }
  assert.deepEqual(known.tokens, [facts])
  const listed = await read(new Map([[`31337:${token}`, { symbol: 'SAMPLE', name: '' }]]))
  assert.deepEqual(listed.tokens, [{ ...facts, symbol: 'SAMPLE', isListed: true }])
})

test('each transfer of the activity names its contract, for the picture: native currency has none', async () => {
  const mover = await here.person('mover')
  await mover.write({ address: contracts.erc20, abi: 'mint(address,uint256) public', args: [mover.address, '5'] })
  await mover.write({ address: contracts.erc721, abi: 'mint(address,uint256) public', args: [mover.address, '4711'] })
  const browser = await open('mover')
  await browser.submit(await fill(browser, { asset: NATIVE, to: here.bob.address, amount: '0.1' }), '/account/send/confirm') // prettier-ignore
  const owner = { accountId: accountIdOf('DEV', 'mover'), userId: 'DEV-mover', address: mover.address } as const
  const read = () => accountReads(here.app).readActivity(owner, 31_337, { limit: 10, direction: 'all', clientId: null })
  const tokens = await until('all three are listed', async () => {
    const { entries } = await read()
    const found = entries.flatMap(({ transfers }) => transfers.map(({ token }) => token))
    return found.length >= 3 ? new Set(found) : null
  })
  assert.deepEqual(tokens, new Set([null, contracts.erc721.toLowerCase(), contracts.erc20.toLowerCase()]))
})

test('tokens and collectibles that look like spam are behind the others and marked, and their transfers are not shown', async () => {
  const reader = await here.person('reader')
  const { rpc } = here
  const copy = async (of: Hex, address: Hex, name: string | null = null): Promise<Hex> => {
    await rpc('anvil_setCode', address, await rpc<string>('eth_getCode', of, 'latest'))
    // Name and symbol are in the first slots.
    for (let slot = 0; slot < 8; slot++) {
      const stored = await rpc<string>('eth_getStorageAt', of, `0x${slot.toString(16)}`, 'latest')
      const isName = name !== null && stored.startsWith(`0x${Buffer.from('Sample Collectible').toString('hex')}`)
      // A short text is in its slot, with twice its length behind it.
      const value = isName ? `0x${Buffer.from(name).toString('hex').padEnd(62, '0')}${(name.length * 2).toString(16)}` : stored // prettier-ignore
      await rpc('anvil_setStorageAt', address, `0x${slot.toString(16).padStart(64, '0')}`, value)
    }
    return address
  }
  const fake = await copy(contracts.erc20, `0x${'0'.repeat(37)}5ba`)
  const bait = await copy(contracts.erc721, `0x${'0'.repeat(37)}5bb`, 'Claim at items.example.org')
  const mint = (address: Hex, value: string) => here.alice.write({ address, abi: 'mint(address,uint256) public', args: [reader.address, value] }) // prettier-ignore
  const mintItem = (address: Hex, id: string) => here.alice.write({ address, abi: 'mint(address,uint256,uint256) public', args: [reader.address, id, '1'] }) // prettier-ignore
  await mint(fake, '7000')
  await mint(contracts.erc20, '5000')
  await mintItem(contracts.erc1155, '41')
  await mint(bait, '42')
  const browser = await open('reader')
  const account = async () => textOf((await browser.go('/account')).text)
  await until('both tokens and collectibles are listed', async () => /items\.example\.org #42/.test(await account()) && /Sample Token.*Sample Token/s.test(await account())) // prettier-ignore
  const page = await account()
  const { spam } = en.account
  assert.match(page, new RegExp(`Sample Token\\s+[^]*Sample Token\\s+${spam}`))
  assert.match(page, new RegExp(`#41[^]*items\\.example\\.org #42\\s+${spam}`))
  // A collection is not among the balances: its items are listed.
  assert.equal(page.split(spam).length - 1, 2)
  const listed = await browser.go('/account/activity?network=31337')
  assert.match(textOf(listed.text), new RegExp(en.activity.tokensHint))
  assert.match(textOf(listed.text), /#41/)
  assert.doesNotMatch(textOf(listed.text), /#42/)
})
