// tier: default, because unmodified libraries drive a real server
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import * as wagmi from '@wagmi/core'
import { BrowserProvider, Contract, isError, verifyMessage, verifyTypedData } from 'ethers'
import { createPublicClient, createWalletClient, custom, parseAbi, type Address } from 'viem'
import { createSiweMessage } from 'viem/siwe'
import { world, type World } from '../../../test/world.ts'
import { announce, createProvider, ProviderError, type Provider } from '../src/provider/index.ts'
import type { Session } from '../src/session.ts'
import { chatelaine } from '../src/wagmi/index.ts'
import { sessionOf } from './session-of.ts'
import { chainOf, useWagmi } from './use-wagmi.ts'

let here: World
let erc20: Address
before(async () => {
  here = await world()
  erc20 = here.facts.contracts.erc20 as Address
})
after(() => here.close())

const OTHER = 31_338
/** A provider of the world's network and, for switching, another of the same server. */
function providerOf(session: Session, other: Session = sessionOf(here.alice)): Provider {
  const { origin, chainId } = here.facts
  return createProvider({ networks: { [chainId]: { origin, session }, [OTHER]: { origin, session: other } } })
}

/** A permit, which is signed without asking anyone. */
const permit = () => ({
  domain: { name: 'Sample', version: '1', chainId: here.facts.chainId, verifyingContract: erc20 },
  types: {
    Permit: ['owner', 'spender', 'value', 'nonce', 'deadline'].map((name, at) => ({ name, type: at < 2 ? 'address' : 'uint256' })), // prettier-ignore
  },
  message: {
    owner: here.alice.address,
    spender: here.bob.address,
    value: 1n,
    nonce: 0n,
    deadline: BigInt(Math.floor(Date.now() / 1_000) + 600),
  },
})

const siwe = (address: Address) =>
  createSiweMessage({ address, chainId: here.facts.chainId, domain: 'localhost', uri: 'http://localhost/', nonce: '8f0c7e1e2f1b8c55', version: '1', issuedAt: new Date() }) // prettier-ignore

test('ethers 6 connects, reads, sends, signs and decodes a revert', async () => {
  const browser = new BrowserProvider(providerOf(sessionOf(here.alice)))
  browser.pollingInterval = 20
  const signer = await browser.getSigner()
  assert.equal(await signer.getAddress(), here.alice.address)
  assert.equal(Number((await browser.getNetwork()).chainId), here.facts.chainId)
  const sent = await signer.sendTransaction({ to: here.bob.address, value: 7n })
  assert.equal((await sent.wait())!.status, 1)
  const abi = ['function mint(address to, uint256 amount)', 'function balanceOf(address) view returns (uint256)', 'function transfer(address to, uint256 amount) returns (bool)'] // prettier-ignore
  const token = new Contract(erc20, abi, signer)
  const held = await token.getFunction('balanceOf')(signer.address)
  await (await token.getFunction('mint')(signer.address, 5n)).wait()
  assert.equal(await token.getFunction('balanceOf')(signer.address), held + 5n)
  await assert.rejects(token.getFunction('transfer')(here.bob.address, 10n ** 30n), (error: Error) => isError(error, 'CALL_EXCEPTION')) // prettier-ignore
  const text = siwe(here.alice.address)
  assert.equal(verifyMessage(text, await signer.signMessage(text)), here.alice.address)
  const { domain, types, message } = permit()
  assert.equal(verifyTypedData(domain, types, message, await signer.signTypedData(domain, types, message)), here.alice.address) // prettier-ignore
})

test('viem connects, switches, sends, waits, signs in with Ethereum, and sends calls', async () => {
  const provider = providerOf(sessionOf(here.alice))
  const chain = chainOf(here.facts.chainId)
  const wallet = createWalletClient({ chain, transport: custom(provider) })
  const network = createPublicClient({ chain, transport: custom(provider), pollingInterval: 20 })
  const [account] = await wallet.requestAddresses()
  assert.equal(account, here.alice.address)
  const hash = await wallet.writeContract({ account: account!, address: erc20, abi: parseAbi(['function mint(address to, uint256 amount)']), functionName: 'mint', args: [account!, 3n] }) // prettier-ignore
  const { status, logs } = await network.waitForTransactionReceipt({ hash })
  assert.deepEqual([status, logs.length], ['success', 1])
  const message = siwe(account!)
  const signature = await wallet.signMessage({ account: account!, message })
  assert.equal(await network.verifySiweMessage({ message, signature }), true)
  const { domain, types, message: typed } = permit()
  const typedData = { account: account!, domain, types, primaryType: 'Permit', message: typed } as const
  assert.equal(await network.verifyTypedData({ ...typedData, address: account!, signature: await wallet.signTypedData(typedData) }), true) // prettier-ignore

  assert.deepEqual(await wallet.getCapabilities({ account: account!, chainId: chain.id }), { atomic: { status: 'unsupported' } }) // prettier-ignore
  const { id } = await wallet.sendCalls({ account: account!, calls: [{ to: here.bob.address, value: 1n }] })
  const calls = await wallet.waitForCallsStatus({ id, pollingInterval: 20 })
  assert.deepEqual([calls.status, calls.statusCode, calls.receipts?.[0]?.status], ['success', 200, 'success'])
  const two = [{ to: here.bob.address, value: 1n }, { to: here.bob.address, value: 2n }] as const // prettier-ignore
  await assert.rejects(wallet.sendCalls({ account: account!, calls: two, forceAtomic: true }), (error: Error) => (error.cause as Error).name === 'AtomicityNotSupportedError') // prettier-ignore

  await wallet.switchChain({ id: OTHER })
  assert.equal(await wallet.getChainId(), OTHER)
  await assert.rejects(wallet.switchChain({ id: 1 }), { name: 'ChainDisconnectedError' })
})

test('wagmi connects, is connected after a reload, switches, sends, signs and disconnects', async () =>
  useWagmi(wagmi, here))

/** Events of a provider, as texts. */
function eventsOf(provider: Provider): string[] {
  const events: string[] = []
  for (const name of ['connect', 'disconnect', 'accountsChanged', 'chainChanged'] as const)
    provider.on(name, (value) => void events.push(`${name} ${value instanceof Error ? (value as ProviderError).code : JSON.stringify(value)}`)) // prettier-ignore
  return events
}

test('a sign-in, a switch and the end of the session are events, each once', async () => {
  const session = sessionOf(here.alice)
  const provider = providerOf(session, sessionOf(here.bob, { isSignedIn: true }))
  const events = eventsOf(provider)
  await provider.request({ method: 'eth_requestAccounts' })
  await provider.request({ method: 'eth_accounts' })
  assert.deepEqual(events.splice(0), ['connect {"chainId":"0x7a69"}', `accountsChanged ["${here.alice.address}"]`])
  await provider.request({ method: 'wallet_switchEthereumChain', params: [{ chainId: '0x7a6a' }] })
  assert.deepEqual(events.splice(0), ['chainChanged "0x7a6a"', `accountsChanged ["${here.bob.address}"]`])
  await provider.request({ method: 'wallet_revokePermissions', params: [{ eth_accounts: {} }] })
  assert.deepEqual(events.splice(0), ['accountsChanged []', 'disconnect 4900'])
  assert.deepEqual(await provider.request({ method: 'eth_accounts' }), [])
})

test('a page begins with the network of the last switch, then with the one of its options, then with the lowest', async (t) => {
  const session = sessionOf(here.alice)
  const networkOf = (chainId?: number) => {
    const network = { origin: here.facts.origin, session }
    return createProvider({ networks: { 9: network, 5: network, 7: network }, ...(chainId && { chainId }) })
  }
  const chainIdOf = (provider: Provider) => provider.request({ method: 'eth_chainId' })
  assert.deepEqual([await chainIdOf(networkOf()), await chainIdOf(networkOf(7))], ['0x5', '0x7'])
  const kept = new Map<string, string>()
  Object.assign(globalThis, { localStorage: { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value) } }) // prettier-ignore
  t.after(() => Reflect.deleteProperty(globalThis, 'localStorage'))
  await networkOf().request({ method: 'wallet_switchEthereumChain', params: [{ chainId: '0x9' }] })
  assert.equal(await chainIdOf(networkOf(7)), '0x9')
  assert.throws(() => createProvider({ networks: {} }), TypeError)
})

test('wallet_connect signs in, and signs the message of the application', async () => {
  const provider = providerOf(sessionOf(here.alice))
  const signInWithEthereum = { nonce: '8f0c7e1e2f1b8c55', chainId: '0x7a69', domain: 'localhost', uri: 'http://localhost/' } // prettier-ignore
  const { accounts } = await provider.request({ method: 'wallet_connect', params: [{ version: '1', capabilities: { signInWithEthereum } }] }) // prettier-ignore
  const [{ address, capabilities }] = accounts
  const { message, signature } = capabilities.signInWithEthereum
  assert.equal(verifyMessage(message, signature), address)
  assert.match(message, /^localhost wants you .*\nNonce: 8f0c7e1e2f1b8c55\n/s)
})

test('a provider is announced to whoever asks, until it stops', (t) => {
  const page = new EventTarget()
  for (const name of ['addEventListener', 'removeEventListener', 'dispatchEvent'] as const)
    Object.assign(globalThis, { [name]: page[name].bind(page) })
  t.after(() => {
    for (const name of ['addEventListener', 'removeEventListener', 'dispatchEvent', 'window']) Reflect.deleteProperty(globalThis, name) // prettier-ignore
  })
  Object.assign(globalThis, { window: page })
  const seen: unknown[] = []
  page.addEventListener('eip6963:announceProvider', (event) => seen.push((event as CustomEvent).detail))
  const provider = providerOf(sessionOf(here.alice))
  const stop = announce(provider, { name: 'Wallet', icon: 'data:,', rdns: 'example.wallet', uuid: 'u' })
  const configOf = (rdns: string) =>
    wagmi.createConfig({ chains: [chainOf(here.facts.chainId)], connectors: [chatelaine({ provider, rdns })], transports: { [here.facts.chainId]: custom(provider) }, storage: null }) // prettier-ignore
  assert.equal(configOf('example.wallet').connectors.length, 1, 'wagmi drops the announced twin')
  assert.equal(configOf('example.other').connectors.length, 2)
  seen.length = 1
  page.dispatchEvent(new Event('eip6963:requestProvider'))
  stop()
  page.dispatchEvent(new Event('eip6963:requestProvider'))
  const info = { uuid: 'u', name: 'Wallet', icon: 'data:,', rdns: 'example.wallet' }
  assert.deepEqual(seen, [{ info, provider }, { info, provider }]) // prettier-ignore
})

const codeOf = async (provider: Provider, method: string, ...params: unknown[]): Promise<unknown> => {
  try {
    return JSON.stringify(await provider.request({ method, params }))
  } catch (error) {
    assert.ok(error instanceof ProviderError, String(error))
    return error.code
  }
}

suite('refusals', () => {
  test('by method, each with the code that libraries expect', async () => {
    const provider = providerOf(sessionOf(here.alice, { isSignedIn: true }))
    const [me, to] = [here.alice.address, here.bob.address]
    const cases: [code: number, method: string, ...params: unknown[]][] = [
      ...['eth_sign', 'eth_signTransaction', 'eth_sendRawTransaction', 'eth_signTypedData', 'eth_signTypedData_v3', 'wallet_addEthereumChain', 'wallet_watchAsset', 'wallet_grantPermissions', 'eth_subscribe', 'web3_sha3', 'constructor', ''].map((method): [number, string] => [4200, method]), // prettier-ignore
      [4901, 'wallet_switchEthereumChain', { chainId: '0x1' }],
      [-32_602, 'wallet_switchEthereumChain', {}],
      ...(['nonce', 'authorizationList', 'blobVersionedHashes', 'blobs', 'accessList', 'anything'] as const).map((name): [number, string, unknown] => [-32_602, 'eth_sendTransaction', { from: me, to, [name]: ['0x1'] }]), // prettier-ignore
      [-32_602, 'eth_sendTransaction', { from: me, data: '0x6000' }],
      [-32_602, 'eth_sendTransaction', { from: me, to, value: '1' }],
      [-32_602, 'eth_sendTransaction', { from: me, to, chainId: '0x1' }],
      [4100, 'eth_sendTransaction', { from: to, to }],
      [4100, 'personal_sign', '0x68', to],
      [-32_602, 'personal_sign', '0x68'],
      [4100, 'eth_signTypedData_v4', to, '{}'],
      [5710, 'wallet_sendCalls', { version: '2.0.0', chainId: '0x1', calls: [{ to }] }],
      [5700, 'wallet_sendCalls', { version: '2.0.0', chainId: '0x7a69', calls: [{ to }], capabilities: { paymasterService: {} } }], // prettier-ignore
      [5740, 'wallet_sendCalls', { version: '2.0.0', chainId: '0x7a69', calls: Array(21).fill({ to }) }],
      [5730, 'wallet_getCallsStatus', '0x1234'],
      [-32_602, 'eth_getBalance', '0x1'],
      [3, 'eth_call', { to: erc20, data: `0xa9059cbb${to.slice(2).padStart(64, '0')}${'f'.repeat(64)}` }, 'latest'],
    ]
    for (const [code, method, ...params] of cases)
      assert.equal(await codeOf(provider, method, ...params), code, `${method} ${JSON.stringify(params)}`)
  })

  test('without a session nothing but local methods answers, or reads where there is another node', async () => {
    const session = sessionOf(here.alice)
    const provider = providerOf(session)
    for (const [method, ...params] of [
      ['eth_sendTransaction', { to: erc20 }],
      ['personal_sign', '0x68', here.alice.address],
      ['eth_blockNumber'],
      ['wallet_getCapabilities', here.alice.address],
    ] as const)
      // prettier-ignore
      assert.equal(await codeOf(provider, method, ...params), 4100, method)
    assert.equal(await codeOf(provider, 'eth_chainId'), '"0x7a69"')
    assert.equal(await codeOf(provider, 'eth_accounts'), '[]')
    const { origin, rpcUrl, chainId } = here.facts
    const reading = createProvider({ networks: { [chainId]: { origin, session, rpcUrl } } })
    assert.match(String(await codeOf(reading, 'eth_blockNumber')), /^"0x/)
    assert.equal(session.signIns, 0)
  })

  test('a sign-in that fails is 4001', async () => {
    const session = sessionOf(here.alice)
    session.signIn = () => Promise.reject(new Error('the window was closed'))
    assert.equal(await codeOf(providerOf(session), 'eth_requestAccounts'), 4001)
  })
})

suite('writes', () => {
  type Asked = { path: string; key: string | null; body: unknown }
  /** A provider whose server answers a write with these answers, in turn; null: not at all. */
  function scripted(answers: (Record<string, unknown> | object[] | null)[]) {
    const asked: Asked[] = []
    const opened: string[] = []
    const answer = async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
      const { pathname } = new URL(input)
      if (pathname === '/v1/me') return Response.json({ address: here.alice.address })
      asked.push({ path: pathname, key: new Headers(init.headers).get('idempotency-key'), body: init.body })
      const next = answers.shift()
      if (next === null || next === undefined) throw new TypeError('fetch failed')
      return Response.json(next, { status: 'status' in next ? Number(next.status) : 200 })
    }
    const session = sessionOf(here.alice, { isSignedIn: true, answer })
    const clock = { now: () => 0, sleep: async () => {} }
    const provider = createProvider({
      networks: { 31_337: { origin: 'http://localhost', session, clock } },
      openApproval: ({ url }) => void opened.push(url),
    })
    return { asked, opened, provider, send: () => codeOf(provider, 'eth_sendTransaction', { to: erc20 }) }
  }
  const approval = { id: 'apr_1', url: 'http://localhost/approve', expiresAt: '' }
  const problem = (status: number, code: string, more: object = {}) => ({ status, code, title: 'T', detail: 'D', retryable: false, ...more }) // prettier-ignore

  test('a lost answer and one that can be repeated are repeated with the same key', async () => {
    const { asked, send } = scripted([null, problem(503, 'overloaded', { retryable: true }), { hash: '0x12' }])
    assert.equal(await send(), '"0x12"')
    assert.deepEqual([asked.length, new Set(asked.map(({ key }) => key)).size, typeof asked[0]!.key], [3, 1, 'string'])
  })

  test('the receipt of a transaction that was sent again for a higher fee is that of the mined hash', async () => {
    const mined = { transactionHash: '0x34' }
    const { asked, provider, send } = scripted([
      { hash: '0x12', id: 'tx_1' },
      [{ id: 0, result: null }],
      { hash: '0x34' },
      [{ id: 0, result: mined }],
      [{ id: 0, result: null }],
    ])
    await send()
    assert.deepEqual(await provider.request({ method: 'eth_getTransactionReceipt', params: ['0x12'] }), mined)
    assert.deepEqual(asked.map(({ path }) => path), ['/v1/transactions', '/v1/rpc', '/v1/transactions/tx_1', '/v1/rpc']) // prettier-ignore
    assert.equal(await provider.request({ method: 'eth_getTransactionReceipt', params: ['0x56'] }), null)
  })

  test('a write without any answer has a code after which no library sends it again', async () => {
    const { asked, send } = scripted([null, null, null, null, null, null, null])
    assert.equal(await send(), -32_000)
    assert.equal(new Set(asked.map(({ key }) => key)).size, 1)
  })

  test('a write that the user must approve opens the page, waits, and is repeated with its key', async () => {
    const { asked, opened, send } = scripted([
      problem(403, 'approval_required', { approval }),
      { state: 'waiting' },
      { state: 'approved' },
      { hash: '0x12' },
    ])
    assert.equal(await send(), '"0x12"')
    assert.deepEqual(opened, [approval.url])
    assert.deepEqual(asked.map(({ path }) => path), ['/v1/transactions', '/v1/approvals/apr_1', '/v1/approvals/apr_1', '/v1/transactions']) // prettier-ignore
    assert.equal(asked[0]!.key, asked[3]!.key)
  })

  for (const [name, answers, code] of [
    [
      'denied',
      [problem(403, 'approval_required', { approval }), { state: 'denied' }, problem(403, 'approval_denied')],
      4001,
    ],
    ['denied before', [problem(403, 'approval_denied')], 4001],
    ['forbidden by policy', [problem(403, 'policy_denied')], -32_003],
    ['without the permission', [problem(403, 'insufficient_scope')], 4100],
    ['after the session', [problem(401, 'invalid_token')], 4100],
    ['without funds', [problem(422, 'insufficient_funds')], -32_003],
    ['that reverts', [problem(422, 'execution_reverted', { revert: { data: '0x' } })], 3],
    ['over a limit', Array(9).fill(problem(429, 'rate_limited', { retryable: true })), -32_005],
    ['that is malformed', [problem(400, 'invalid_request')], -32_602],
    ['that met a bug', [problem(500, 'internal_error')], -32_000],
  ] as const)
    test(`a write ${name} has code ${code}`, async () => {
      assert.equal(await scripted([...answers]).send(), code)
    })
})
