// tier: all, because it repeats many writes whose answers are lost
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { createSiweMessage } from 'viem/siwe'
import { createWalletClient, http } from 'viem'
import { deploy } from '../../../src/devnet/deploy.ts'
import { openBrowser } from '../../../test/kit/browser.ts'
import { until } from '../../../test/kit/until.ts'
import { world, type Person, type World } from '../../../test/world.ts'
import { ApprovalRequired, createClient, InvalidInput, Refused, Reverted, type SessionState, SignedOut, type Client, type ClientOptions } from '../src/index.ts' // prettier-ignore
import { viemAccount } from '../src/viem/index.ts'
import { instantClock } from './instant-clock.ts'
import { writeWithLostAnswers } from './many-writes.ts'

let here: World
let erc20: string
let probe: string
let wallet: Client
before(async () => {
  here = await world()
  erc20 = here.facts.contracts.erc20!
  ;[probe] = (await deploy(here.facts.rpcUrl, ['Probe'])) as [string]
  wallet = walletOf(here.alice)
})
after(() => here.close())

const walletOf = ({ token }: Pick<Person, 'token'>, options: Partial<ClientOptions> = {}): Client =>
  createClient({ origin: here.facts.origin, token: () => token, clock: instantClock(), ...options })

test('a write is mined and finalized, reports its progress, and is read back exactly', async () => {
  const states: string[] = []
  const tx = await wallet.write({ address: erc20, abi: 'mint(address to, uint256 amount)', args: [here.alice.address, 2n ** 80n] }) // prettier-ignore
  assert.equal(tx.tx.gasLimit > 21_000n, true)
  const mined = await tx.mined({ onProgress: ({ state }) => states.push(state) })
  assert.equal(mined.id, tx.id)
  assert.ok(mined.receipt!.gasUsed > 21_000n)
  const held = await wallet.read({ address: erc20, abi: 'balanceOf(address) public view returns (uint256)', args: [here.alice.address] }) // prettier-ignore
  assert.equal(held, 2n ** 80n)
  const balance = await wallet.balance(erc20)
  assert.deepEqual([balance.value, balance.decimals], [2n ** 80n, 18])
  assert.equal((await wallet.transaction(tx.id).finalized()).isFinal, true)
  assert.ok(states.length > 0 && states.at(-1) !== 'SUBMITTED', states.join())
})

test('results have names and bigints, of every shape that a contract returns', async () => {
  const point = '(int32 x, int32 y)'
  const order = `(address maker, uint256 amount, bool open, string note, ${point}[] path, bytes32[2] marks)`
  const given = { maker: here.alice.address, amount: 10n ** 30n, open: true, note: 'a, "b"', path: [{ x: -1n, y: 2n }], marks: [`0x${'01'.repeat(32)}`, `0x${'00'.repeat(32)}`] } // prettier-ignore
  const cases: [string, readonly unknown[], unknown][] = [
    ['nothing() pure', [], undefined],
    ['oneInt() pure returns (int256)', [], -5n],
    ['integers() pure returns (uint8 small, uint64 middle, uint256 large, int8 negative, int24 odd, int256 lowest, uint256 zero)', [], { small: 255n, middle: 2n ** 64n - 1n, large: 2n ** 256n - 1n, negative: -128n, odd: -1n, lowest: -(2n ** 255n), zero: 0n }], // prettier-ignore
    ['unnamed() pure returns (uint256, string, bool)', [], [1n, 'two', false]],
    ['list() pure returns (uint256[])', [], [1n, 2n, 2n ** 256n - 1n]],
    ['matrix() pure returns (uint16[2][])', [], [[1n, 2n], [3n, 65_535n]]],
    [`echoOrder(tuple${order}) pure returns (tuple${order.replaceAll('(int32', 'tuple(int32')})`, [given], given],
    [`echoOrders(tuple${order}[], bool flag) pure returns (tuple${order}[] all, bool flag)`, [[given, given], true], { all: [given, given], flag: true }], // prettier-ignore
  ].map(([abi, args, result]) => [(abi as string).replaceAll(/(?<!tuple)\(int32/g, 'tuple(int32'), args as unknown[], result]) // prettier-ignore
  const calls = cases.map(([abi, args]) => ({ address: probe, abi, args }))
  const { results } = await wallet.readMany([...calls, { address: probe, abi: 'failPlain() view\nerror Plain()' }])
  assert.deepEqual(
    results.slice(0, -1),
    cases.map(([, , result]) => ({ result })),
  )
  assert.ok(results.at(-1)!.error instanceof Reverted)
  for (const { abi, args } of calls.slice(0, 2)) assert.deepEqual(await wallet.read({ address: probe, abi, args }), cases.find(([one]) => one === abi)![2]) // prettier-ignore
  const me = await wallet.read({ address: probe, abi: 'whoami() view returns (address)', sender: true })
  assert.equal(me, here.alice.address)
})

test('a revert is decoded before anything is signed, in a simulation and in a write', async () => {
  const call = { address: probe, abi: 'failTooMuch(uint256 asked, uint256 held)\nerror TooMuch(address who, uint256 asked, uint256 held)', args: [3n, 2n] } as const // prettier-ignore
  for (const work of [() => wallet.write(call), () => wallet.simulate.write(call)])
    await assert.rejects(work, (error) => {
      assert.ok(error instanceof Reverted && error.code === 'execution_reverted' && error.transaction === null)
      assert.deepEqual([error.revert!.name, error.revert!.args], ['TooMuch', [here.alice.address, 3n, 2n]])
      return true
    })
  const plan = await wallet.simulate.write({ address: probe, abi: 'pay() payable returns (uint256)', value: 7n })
  const [result, fee]: [bigint, bigint] = [plan.result, plan.fee]
  assert.deepEqual([result, fee > 0n, plan.approval], [7n, true, 'not_required'])
})

test('a transfer takes whole units as text or the smallest unit as a bigint, to an address, a user or a name', async () => {
  const sends: [Parameters<Client['transfer']>[0], bigint][] = [
    [{ to: here.bob.address, amount: '0.5' }, 5n * 10n ** 17n],
    [{ to: here.bob.userId, amount: 1n }, 1n],
    [{ to: { provider: 'DEV', username: 'bob' }, amount: 10n ** 18n + 10n }, 10n ** 18n + 10n],
    [{ to: 'DEV-never-seen', token: erc20, amount: 3n * 10n ** 18n }, 3n * 10n ** 18n],
    [{ to: here.bob.address, token: erc20, amount: '.000000000000000001' }, 1n],
  ]
  for (const [request, amount] of sends) {
    assert.equal((await wallet.simulate.transfer(request)).amount, amount)
    const sent = await wallet.transfer(request)
    assert.equal(sent.amount, amount)
    await sent.mined()
  }
  assert.equal((await walletOf(here.bob).balance(erc20)).value, 1n)
  const refusals: [Parameters<Client['transfer']>[0], string][] = [
    [{ to: here.bob.address, amount: -1n }, 'invalid_argument'],
    [{ to: here.bob.address, amount: '1.0000000000000000001' }, 'amount_precision'],
    [{ to: '0x00', amount: '1' }, 'invalid_address'],
    [{ to: here.bob.address, amount: '1e3' }, 'invalid_request'],
  ]
  for (const [request, code] of refusals)
    await assert.rejects(wallet.transfer(request), (error) => error instanceof InvalidInput && error.code === code && error.pointers.length > 0, code) // prettier-ignore
})

test('a list is read page by page or to its end, and each page says how complete it is', async () => {
  const all = []
  for await (const entry of wallet.history({ limit: 1, token: erc20 })) all.push(entry)
  assert.ok(all.length >= 3)
  assert.ok(all.every(({ amount }) => typeof amount.value === 'bigint' && !('formatted' in amount)))
  const list = wallet.history({ limit: 1, type: ['ERC20'], direction: 'out' })
  const first = await list.page()
  assert.equal(first.items.length, 1)
  assert.ok(first.indexedTo! >= first.items[0]!.blockNumber)
  const second = await list.page({ cursor: first.next! })
  assert.ok(second.items.every(({ id }) => first.items.every((one) => one.id !== id)))
  const page = await wallet.balances().page()
  assert.deepEqual(page.items.map(({ tokenType }) => tokenType), ['NATIVE', 'ERC20']) // prettier-ignore
  assert.ok(page.blockNumber! > 0)
})

test('an NFT that arrived twice is listed once', async () => {
  const [address, me] = [here.facts.contracts.erc721!, here.alice.address]
  const calls = [
    { address, abi: 'mint(address to, uint256 tokenId)', args: [me, 77n] },
    { address, abi: 'transferFrom(address from, address to, uint256 tokenId)', args: [me, me, 77n] },
  ]
  let mined = 0
  for (const call of calls) mined = (await (await wallet.write(call)).mined()).receipt!.blockNumber
  await until('the history has both', async () => (await wallet.nfts().page()).indexedTo! >= mined)
  const all = []
  for await (const { tokenId, value, tokenType } of wallet.nfts({ limit: 1, token: address })) all.push([tokenId, value, tokenType]) // prettier-ignore
  assert.deepEqual(all, [['77', 1n, 'ERC721']])
})

test('errors of the service have their class, places and language', async () => {
  await assert.rejects(walletOf({ token: 'x' }).me(), SignedOut)
  await assert.rejects(wallet.user('DEV-bob'), (error) => error instanceof Refused && error.code === 'forbidden_user')
  const wrong = wallet.read({ address: erc20, abi: 'balanceOf(address) view returns (uint256)', args: ['0x12'] })
  await assert.rejects(wrong, (error) => error instanceof InvalidInput && error.pointers[0] === '/args/0')
  const german = walletOf({ token: 'x' }, { language: 'de' }).me()
  await assert.rejects(german, (error) => error instanceof SignedOut && /angemeldet/.test(error.userMessage))
  await assert.rejects(wallet.batch([{ address: probe, abi: 'increment()' }, { address: probe, abi: 'increment()' }]), (error) => error instanceof Refused && error.code === 'atomic_unsupported') // prettier-ignore
})

test('the user approves a text on its page, and the call that waited returns the signature', async () => {
  const openApproval = async ({ url }: { url: string }) => {
    const browser = openBrowser(here.facts.origin)
    await browser.submit(await browser.signIn(url, 'alice'), '/approve')
  }
  const message = 'I accept the terms of the shop.'
  await assert.rejects(wallet.signMessage(message), (error) => error instanceof ApprovalRequired && error.approval.id.startsWith('apr_')) // prettier-ignore
  const signed = await wallet.signMessage(message, { openApproval, idempotencyKey: 'terms' })
  assert.equal(signed.class, 'text')
  assert.deepEqual(await wallet.verify({ address: here.alice.address, message, signature: signed.signature }), { valid: true, method: 'eoa', hash: signed.hash }) // prettier-ignore
  assert.deepEqual(await wallet.signMessage(message, { idempotencyKey: 'terms' }), signed)
  assert.equal((await wallet.signature(signed.id)).content, message)
  assert.equal((await wallet.signatures().page()).items[0]!.id, signed.id)
  assert.equal((await wallet.signingLog().page()).items[0]!.message!.content, message)
})

const permit = (owner: string, spender: string, chainId: number, verifyingContract: string) => ({
  domain: { name: 'Sample', version: '1', chainId, verifyingContract: verifyingContract as `0x${string}` },
  types: { Permit: ['owner', 'spender', 'value', 'nonce', 'deadline'].map((name, at) => ({ name, type: at < 2 ? 'address' : 'uint256' })) }, // prettier-ignore
  primaryType: 'Permit' as const,
  message: { owner, spender, value: 5n, nonce: 0n, deadline: BigInt(Math.floor(Date.now() / 1_000) + 600) },
})

test('a viem account signs messages and typed data, and no transaction', async () => {
  const account = await viemAccount(wallet)
  const { address, chainId } = await wallet.me()
  assert.equal(account.address, address)
  const client = createWalletClient({ account, transport: http(here.facts.rpcUrl) })
  const message = createSiweMessage({ address, chainId, domain: 'localhost', uri: 'http://localhost/', nonce: '8f0c7e1e2f1b8c55', version: '1' }) // prettier-ignore
  const signature = await client.signMessage({ message })
  assert.equal((await wallet.verify({ address, message, signature })).valid, true)
  const raw = `0x${Buffer.from(message).toString('hex')}` as const
  assert.equal(await account.signMessage({ message: { raw } }), signature)
  assert.equal(await account.signMessage({ message: { raw: Buffer.from(message) } }), signature)
  const typedData = permit(address, here.bob.address, chainId, erc20)
  const permitted = await client.signTypedData(typedData)
  assert.equal((await wallet.verify({ address, typedData, signature: permitted })).valid, true)
  await assert.rejects(account.signTransaction({ to: here.bob.address, chainId, gas: 21_000n, maxFeePerGas: 1n }), /signs no transactions/) // prettier-ignore
})

test('the profile is stored for a session until it changes, and for tokens never', async () => {
  let asked = 0
  let change = () => {}
  const counted =
    (token: string) =>
    (input: string | URL, init: RequestInit = {}) => {
      asked++
      return fetch(input, { ...init, headers: { ...(init.headers as object), authorization: `Bearer ${token}` } })
    }
  let person = here.alice
  const session = {
    fetch: (input: string | URL, init?: RequestInit) => counted(person.token)(input, init),
    subscribe: (listener: (state: SessionState) => void) => {
      change = () => listener({ status: 'signed-out' })
      return () => {}
    },
  }
  const ofSession = createClient({ origin: `${here.facts.origin}/`, session })
  assert.equal((await ofSession.me()).id, here.alice.userId)
  await ofSession.me()
  assert.equal(asked, 1)
  person = here.bob
  change()
  assert.equal((await ofSession.me()).id, here.bob.userId)
  const ofTokens = createClient({ origin: here.facts.origin, token: () => person.token })
  assert.equal((await ofTokens.me()).id, here.bob.userId)
  person = here.alice
  assert.equal((await ofTokens.me()).id, here.alice.userId)
})

/** The methods of the API and those of the client. An operation without a method is null, with its reason. */
const METHODS: Record<string, keyof Client | `transaction.${string}` | null> = {
  'GET /v1/me': 'me',
  'GET /v1/users': 'users',
  'GET /v1/users/{userId}': 'user',
  'GET /v1/users/{userId}/balance': 'balance',
  'GET /v1/users/{userId}/balance/{tokenAddress}': 'balance',
  'GET /v1/users/{userId}/balances': 'balances',
  'GET /v1/users/{userId}/history': 'history',
  'POST /v1/contracts/method/read': 'read',
  'POST /v1/contracts/method/read/batch': 'readMany',
  'POST /v1/contracts/method/write': 'write',
  'POST /v1/contracts/method/write/batch': 'batch',
  'POST /v1/transactions': 'send',
  'POST /v1/tokens/transfers': 'transfer',
  'GET /v1/transactions': 'transactions',
  'GET /v1/transactions/{id}': 'transaction.refresh',
  'POST /v1/transactions/{id}/cancel': 'transaction.cancel',
  'POST /v1/transactions/{id}/speed-up': 'transaction.speedUp',
  'GET /v1/me/signatures': 'signingLog',
  'POST /v1/signatures/message': 'signMessage',
  'POST /v1/signatures/typed-data': 'signTypedData',
  'POST /v1/signatures/verify': 'verify',
  'GET /v1/users/{userId}/nfts': 'nfts',
  'GET /v1/signatures': 'signatures',
  'GET /v1/signatures/{id}': 'signature',
  'GET /v1/approvals/{id}': 'approval',
  'GET /v1/events': 'events',
  // Set up once, by an operator or with a machine token.
  'GET /v1/webhooks': null,
  'POST /v1/webhooks': null,
  'GET /v1/webhooks/{id}': null,
  'PATCH /v1/webhooks/{id}': null,
  'DELETE /v1/webhooks/{id}': null,
  'POST /v1/webhooks/{id}/test': null,
  'POST /v1/webhooks/{id}/rotate-secret': null,
  'POST /v1/webhooks/{id}/enable': null,
  'POST /v1/webhooks/{id}/replay': null,
  'POST /v1/webhooks/{id}/redeliver': null,
  'GET /v1/webhooks/{id}/deliveries': null,
  // JSON-RPC of libraries: `/provider` calls it.
  'POST /v1/rpc': null,
}

test('each operation of the API for applications has a method, or is named as left out', async () => {
  const { body } = await here.request('/openapi.json')
  const operations = Object.entries(body.paths as Record<string, Record<string, { tags: string[] }>>).flatMap(
    ([path, methods]) =>
      Object.entries(methods)
        .filter(([, { tags }]) => !tags.includes('Operator'))
        .map(([method]) => `${method.toUpperCase()} ${path}`),
  )
  assert.ok(operations.length >= 24)
  assert.deepEqual(operations.filter((one) => !(one in METHODS)), []) // prettier-ignore
  const surface = new Set<string>([...Object.keys(wallet), ...Object.keys(wallet.transaction('x')).map((name) => `transaction.${name}`)]) // prettier-ignore
  assert.deepEqual(Object.values(METHODS).filter((name) => name !== null && !surface.has(name)), []) // prettier-ignore
})

test('the examples of the guides work, in the order of each page', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-guide-'))
  const decisions: Promise<unknown>[] = []
  const browser = openBrowser(here.facts.origin)
  const decide = async (url: string) => browser.submit(await browser.signIn(url, 'alice'), '/approve')
  Object.assign(globalThis, { open: (url: string) => decisions.push(decide(url)) })
  t.after(() => {
    Reflect.deleteProperty(globalThis, 'open')
    return rm(folder, { recursive: true })
  })
  for (const [name, blocks] of [
    ['README', 5],
    ['viem', 1],
  ] as const) {
    const text = await readFile(new URL(`../../../docs/build/client/${name}.md`, import.meta.url), 'utf8')
    const found = [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, block]) => block!)
    assert.equal(found.length, blocks)
    const program = found
      .join('\n')
      .replaceAll('http://localhost:4000', here.facts.origin)
      .replaceAll('0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238', erc20)
      .replaceAll(/from '([^']+)'/g, (_, module: string) => `from '${addressOf(module)}'`)
      .replaceAll('process.env.TOKEN', `'${here.alice.token}'`)
      .replaceAll('console.log', 'void ')
    const file = join(folder, `${name}.mjs`)
    await writeFile(file, `${program}\nexport { wallet }`)
    await import(pathToFileURL(file).href)
  }
  assert.equal(decisions.length, 1)
})

const addressOf = (module: string): string => {
  const [, entry] = /^@chatelaine\/client(\/\w+)?$/.exec(module) ?? [module, null]
  return entry === null ? import.meta.resolve(module) : new URL(`../src${entry ?? ''}/index.ts`, import.meta.url).href
}

test('of 60 writes whose answers get lost three times in ten, each is exactly one transaction', () =>
  writeWithLostAnswers(here, { count: 60, seed: 1 }))
