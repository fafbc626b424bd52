import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  ApprovalRequired,
  Busy,
  ClientError,
  createClient,
  type Client,
  InvalidInput,
  Refused,
  Reverted,
  SignedOut,
  Unknown,
  type ClientOptions,
} from '../src/index.ts'
import { instantClock } from './instant-clock.ts'

const TOKEN = 'a-secret-token'
type Scripted = Response | 'lost' | (() => Response)
type Sent = { url: string; headers: Record<string, string>; body: unknown }

/** A client whose service answers by a script; the last answer repeats. */
function scripted(script: Scripted[], options: Partial<ClientOptions> = {}) {
  const sent: Sent[] = []
  const clock = instantClock()
  const fetch = async (url: string, init: RequestInit = {}) => {
    sent.push({
      url,
      headers: init.headers as Record<string, string>,
      body: JSON.parse((init.body as string) ?? 'null'),
    })
    const next = script[Math.min(sent.length, script.length) - 1]!
    // As undici does: the text names a header.
    if (next === 'lost') throw new TypeError(`fetch failed: authorization: Bearer ${TOKEN}`)
    return typeof next === 'function' ? next() : next.clone()
  }
  const wallet = createClient({
    origin: 'http://wallet.test',
    token: () => TOKEN,
    fetch,
    clock,
    random: () => 0.5,
    ...options,
  })
  return { wallet, sent, clock }
}

const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } })

const problem = (status: number, code: string, more: object = {}, headers: Record<string, string> = {}) =>
  json(status, { status, code, detail: `It is ${code}.`, requestId: 'req-1', retryable: false, userMessage: `Text of ${code}`, ...more }, headers) // prettier-ignore

const retryable = (status: number, code: string, headers: Record<string, string> = {}) =>
  problem(status, code, { retryable: true }, headers)

const stored = () => json(200, { status: 'SUCCESS', id: 'tx_1', hash: '0xab', explorerUrl: 'http://e', state: 'SUBMITTED', tx: {} }) // prettier-ignore
const MINT = { address: '0x01', abi: 'mint(address to, uint256 amount)', args: ['0x02', 5n] } as const

async function errorOf(work: Promise<unknown>): Promise<ClientError> {
  const error = await work.then(
    () => assert.fail('no error'),
    (caught: unknown) => caught,
  )
  assert.ok(error instanceof ClientError, String(error))
  return error
}

test('each refusal has its class, its code and the text for the user, after as many tries as it allows', async () => {
  const cases: [Response, new (...args: never[]) => ClientError, number][] = [
    [problem(401, 'invalid_token'), SignedOut, 1],
    [problem(401, 'invalid_dpop_proof'), SignedOut, 5],
    [problem(403, 'insufficient_scope'), Refused, 1],
    [problem(403, 'approval_required'), Refused, 1],
    [problem(403, 'policy_denied'), Refused, 1],
    [problem(400, 'invalid_request', { errors: [{ pointer: '/abi', code: 'x', detail: 'y' }] }), InvalidInput, 1],
    [problem(422, 'invalid_argument', { errors: [{ pointer: '/args/1', code: 'x', detail: 'y' }] }), InvalidInput, 1],
    [problem(422, 'execution_reverted', { revert: { reason: 'no' } }), Reverted, 1],
    [problem(422, 'insufficient_funds', { funds: {} }), Refused, 1],
    [problem(503, 'account_stopped'), Refused, 1],
    [problem(418, 'a_code_of_tomorrow'), Refused, 1],
    [problem(429, 'gas_budget_exhausted', { retryable: true, resetsAt: null }), Refused, 1],
    [retryable(409, 'idempotency_in_flight'), Busy, 5],
    [retryable(503, 'overloaded', { 'retry-after': '1' }), Busy, 5],
    [retryable(429, 'quota_exhausted', { 'retry-after': '3600' }), Busy, 1],
    [problem(500, 'internal_error'), Unknown, 1],
    [retryable(503, 'signer_unavailable'), Unknown, 5],
  ]
  for (const [answer, expected, tries] of cases) {
    const { wallet, sent } = scripted([answer])
    const { code, detail } = await answer.clone().json()
    const error = await errorOf(wallet.write(MINT))
    assert.equal(error.constructor, expected, code)
    assert.deepEqual(
      [error.code, error.status, error.requestId, error.userMessage, error.name, sent.length],
      [code, answer.status, 'req-1', `Text of ${code}`, expected.name, tries],
    )
    assert.ok(error.message.startsWith(detail))
  }
})

test('pointers name the places, and a busy service says for how long', async () => {
  const places = { errors: [{ pointer: '/args/1', code: 'x', detail: 'y' }, { parameter: 'limit', code: 'x', detail: 'y' }] } // prettier-ignore
  const invalid = await errorOf(scripted([problem(422, 'invalid_argument', places)]).wallet.write(MINT))
  assert.deepEqual((invalid as InvalidInput).pointers, ['/args/1', 'limit'])
  const busy = await errorOf(scripted([retryable(429, 'quota_exhausted', { 'retry-after': '3600' })]).wallet.me())
  assert.equal((busy as Busy).retryAfterMs, 3_600_000)
})

test('a write without an answer is repeated with its key and body, then is Unknown until it is resumed', async () => {
  const { wallet, sent, clock } = scripted(['lost', 'lost', 'lost', 'lost', 'lost', stored()])
  const error = await errorOf(wallet.write(MINT))
  assert.ok(error instanceof Unknown)
  assert.deepEqual(clock.slept(), [500, 1_000, 2_000, 4_000])
  const { id } = (await error.resume()) as { id: string }
  assert.equal(id, 'tx_1')
  assert.equal(sent.length, 6)
  assert.equal(new Set(sent.map((one) => JSON.stringify(one))).size, 1)
  assert.match(error.key!, /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  assert.equal(sent[0]!.headers['idempotency-key'], error.key)
  assert.deepEqual(sent[0]!.body, { address: '0x01', abi: MINT.abi, args: ['0x02', '5'] })
})

test('a page of a proxy, a broken body and a redirect are no answers', async () => {
  const pages = [
    new Response('<html>bad gateway</html>', { status: 502 }),
    new Response('{"id":', { status: 200 }),
    json(404, { message: 'no route' }),
    new Response(null, { status: 307, headers: { location: 'https://elsewhere.example/' } }),
    problem(302, 'moved'),
  ]
  for (const page of pages) {
    assert.ok((await errorOf(scripted([page]).wallet.write(MINT))) instanceof Unknown)
    const read = await errorOf(scripted([page]).wallet.me())
    assert.deepEqual([read.constructor, read.code, read.status], [Busy, 'no_answer', 0])
  }
})

test('after a try without an answer, only an answer that looked at the key says that nothing was done', async () => {
  const cases: [Response, new (...args: never[]) => ClientError][] = [
    [problem(401, 'invalid_token'), Unknown],
    [problem(403, 'insufficient_scope'), Unknown],
    [problem(404, 'not_found'), Unknown],
    [problem(421, 'misdirected_request'), Unknown],
    [retryable(429, 'rate_limited', { 'retry-after': '3600' }), Unknown],
    [retryable(503, 'overloaded'), Unknown],
    [problem(503, 'account_stopped'), Unknown],
    [problem(403, 'policy_denied'), Refused],
    [problem(422, 'execution_reverted', { revert: {} }), Reverted],
    [problem(422, 'idempotency_key_reused'), Refused],
  ]
  for (const [answer, expected] of cases)
    assert.equal((await errorOf(scripted(['lost', answer]).wallet.write(MINT))).constructor, expected)
})

test('an access token that cannot be renewed between two tries leaves the write Unknown', async () => {
  let asked = 0
  const token = () => {
    if (++asked > 1) throw new SignedOut()
    return TOKEN
  }
  assert.ok((await errorOf(scripted(['lost'], { token }).wallet.write(MINT))) instanceof Unknown)
  assert.ok((await errorOf(scripted([stored()], { token }).wallet.write(MINT))) instanceof SignedOut)
})

test('delays are at least Retry-After, grow with the tries, and end within a minute', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ after: fc.integer({ min: 0, max: 90 }), isLost: fc.boolean() }), {
        minLength: 1,
        maxLength: 7,
      }),
      fc.double({ min: 0, max: 0.999_999, noNaN: true }),
      async (steps, chance) => {
        const script = steps.map(({ after, isLost }) => (isLost ? 'lost' : retryable(503, 'overloaded', { 'retry-after': String(after) }))) // prettier-ignore
        const { wallet, sent, clock } = scripted(script, { random: () => chance })
        const error = await errorOf(wallet.write(MINT))
        const slept = clock.slept()
        assert.equal(slept.length, sent.length - 1)
        assert.ok(sent.length <= 5)
        assert.ok(slept.reduce((sum, ms) => sum + ms, 0) < 60_000)
        slept.forEach((ms, index) => {
          const step = steps[Math.min(index, steps.length - 1)]!
          const least = step.isLost ? 0 : step.after * 1_000
          assert.ok(ms >= least && ms <= least + 500 * 2 ** (index + 1))
        })
        const isOpen = sent.some((_, index) => steps[Math.min(index, steps.length - 1)]!.isLost)
        assert.equal(error.constructor, isOpen ? Unknown : Busy)
      },
    ),
    { numRuns: 200 },
  )
})

test('an abort before the request throws its reason, and after it the write is Unknown', async () => {
  const reason = new Error('the user left')
  const early = scripted([stored()])
  await assert.rejects(early.wallet.write(MINT, { signal: AbortSignal.abort(reason) }), reason)
  assert.equal(early.sent.length, 0)
  const leaving = new AbortController()
  const late = scripted(
    [
      () => {
        leaving.abort(reason)
        return new Response('', { status: 502 })
      },
      stored(),
    ],
    {},
  )
  const error = await errorOf(late.wallet.write(MINT, { signal: leaving.signal, idempotencyKey: 'order-17' }))
  assert.ok(error instanceof Unknown)
  assert.deepEqual([error.key, late.sent.length], ['order-17', 1])
  assert.equal(((await error.resume()) as { id: string }).id, 'tx_1')
})

test('a speed-up without an answer is not repeated, and its resume reads the transaction', async () => {
  const { wallet, sent } = scripted(['lost', json(200, { id: 'tx_1', state: 'MINED' })])
  const error = await errorOf(wallet.transaction('tx_1').speedUp())
  assert.ok(error instanceof Unknown)
  assert.deepEqual([error.key, sent.length], [null, 1])
  assert.equal(((await error.resume()) as { state: string }).state, 'MINED')
  assert.deepEqual(sent.map(({ url }) => url), ['http://wallet.test/v1/transactions/tx_1/speed-up', 'http://wallet.test/v1/transactions/tx_1']) // prettier-ignore
})

const approval = {
  id: 'apr_1',
  url: 'http://wallet.test/account/approvals/apr_1',
  expiresAt: '2026-01-31T12:30:00.000Z',
}
const asking = (id = 'apr_1') => problem(403, 'approval_required', { approval: { ...approval, id } })
const state = (state: string) => json(200, { id: 'apr_1', state })

test('a request that needs approval opens the page, waits for the decision, and is repeated with its key', async () => {
  const opened: string[] = []
  const openApproval = ({ url }: { url: string }) => opened.push(url)
  const { wallet, sent } = scripted([asking(), state('waiting'), 'lost', state('waiting'), state('approved'), stored()], { openApproval }) // prettier-ignore
  assert.equal((await wallet.write(MINT, { idempotencyKey: 'order-17' })).key, 'order-17')
  assert.deepEqual(opened, [approval.url])
  assert.deepEqual(sent[0], sent.at(-1))
  assert.equal(sent.length, 6)
})

test('without a way to open the page ApprovalRequired is thrown, and resumes', async () => {
  const { wallet, sent } = scripted([asking(), state('approved'), stored()])
  const error = await errorOf(wallet.write(MINT))
  assert.ok(error instanceof ApprovalRequired)
  assert.deepEqual([error.approval, error.name, sent.length], [approval, 'ApprovalRequired', 1])
  assert.equal(((await error.resume()) as { id: string }).id, 'tx_1')
  assert.deepEqual(sent[0], sent.at(-1))
})

test('a denial is final, an expired question is not asked by itself again, and no approval is asked for in a circle', async () => {
  const openApproval = () => {}
  const cases: [Scripted[], string, number][] = [
    [[asking(), state('denied'), problem(403, 'approval_denied')], 'Refused', 3],
    [[asking(), state('expired')], 'ApprovalRequired', 2],
    [[asking(), state('approved'), asking()], 'ApprovalRequired', 3],
    [[asking(), state('approved'), asking('apr_2'), state('approved'), asking('apr_2')], 'ApprovalRequired', 5],
  ]
  for (const [script, name, requests] of cases) {
    const { wallet, sent } = scripted(script, { openApproval })
    assert.deepEqual([(await errorOf(wallet.write(MINT))).name, sent.length], [name, requests])
  }
})

test('no error has the token, not in its text, its stack, its cause or its fields', async () => {
  const scripts: Scripted[][] = [['lost'], [problem(401, 'invalid_token')], [new Response('x', { status: 502 })]]
  for (const script of scripts)
    for (const call of ['me', 'write'] as const) {
      const { wallet } = scripted(script)
      const error = await errorOf(call === 'me' ? wallet.me() : wallet.write(MINT))
      const texts = [error.message, error.stack, String(error.cause), JSON.stringify(error), error.userMessage]
      assert.ok(!texts.join(' ').includes(TOKEN))
    }
  const broken = await errorOf(scripted([stored()], { token: () => `${TOKEN}\n` }).wallet.me())
  assert.deepEqual([broken.name, broken.message.includes(TOKEN)], ['SignedOut', false])
})

test('arguments are written exactly, and what has no exact text is refused', async () => {
  const abi = 'f(tuple(uint256 a, bool b, string c)[] list, int8 small, bool yes)'
  const { wallet, sent } = scripted([stored()])
  await wallet.write({ address: '0x01', abi, args: [[{ a: 2n ** 255n, b: true, c: '"' }], -5, false] })
  assert.deepEqual((sent[0]!.body as { args: string[] }).args, [
    `[{"a":"${2n ** 255n}","b":true,"c":"\\""}]`,
    '-5',
    'false',
  ])
  for (const bad of [0.5, 2 ** 53, Number.NaN, null, undefined, () => 1, new Date(), [1n, 0.1]]) {
    const error = await errorOf(wallet.send({ to: '0x01' }).then(() => wallet.batch([{ address: '0x01', abi: 'f(uint256)', args: [bad] }]))) // prettier-ignore
    assert.ok(error instanceof InvalidInput)
    assert.match(error.pointers[0]!, /^\/args\/0/)
  }
})

test('a transfer says its kind by its fields, and a token that is undefined is not native currency', async () => {
  const cases: [Parameters<Client['transfer']>[0], object][] = [
    [
      { to: '0x01', amount: '1.5' },
      { tokenType: 'NATIVE', toAddress: '0x01', amount: '1.5' },
    ],
    [{ to: 'DEV-bob', token: '0x02', amount: '1' }, { tokenType: 'ERC20', tokenAddress: '0x02', toUserId: 'DEV-bob', amount: '1' }], // prettier-ignore
    [{ to: '0x01', token: '0x02', tokenId: 7n }, { tokenType: 'ERC721', tokenAddress: '0x02', tokenId: '7', toAddress: '0x01' }], // prettier-ignore
    [{ to: { provider: 'X', username: 'bob' }, token: '0x02', tokenId: '7', amount: 3n }, { tokenType: 'ERC1155', tokenAddress: '0x02', tokenId: '7', toUserProviderType: 'X', toUserUsername: 'bob', amount: '3' }], // prettier-ignore
  ]
  for (const [request, body] of cases) {
    const sentTransfer = json(200, { id: 'tx_1', amount: { value: '1' } })
    const { wallet, sent } = scripted([sentTransfer])
    await wallet.transfer(request)
    assert.deepEqual(sent[0]!.body, body)
  }
  const { wallet, sent } = scripted([stored()])
  for (const name of ['token', 'tokenId', 'amount']) {
    const error = await errorOf(wallet.transfer({ to: '0x01', amount: '1', [name]: undefined }))
    assert.deepEqual([error.name, sent.length], ['InvalidInput', 0])
  }
})

test('a batch takes calls by their ABI and encoded calls', async () => {
  const { wallet, sent } = scripted([stored()])
  await wallet.batch([
    { ...MINT, value: 2n },
    { to: '0x02', data: '0xab' },
    { to: '0x03', value: 7n },
  ])
  const first = { address: '0x01', abi: MINT.abi, args: ['0x02', '5'], value: '2' }
  assert.deepEqual(sent[0]!.body, { calls: [first, { to: '0x02', data: '0xab' }, { to: '0x03', value: '7' }] })
})

test('an ABI gives the one function that is called, with the errors of the contract', async () => {
  const f = (inputs: string[]) =>
    ({ type: 'function', name: 'f', stateMutability: 'nonpayable', inputs: inputs.map((type) => ({ name: 'x', type })), outputs: [] }) as const // prettier-ignore
  const full = { type: 'error', name: 'Full', inputs: [] } as const
  const { wallet, sent } = scripted([stored()])
  const abiOf = () => JSON.parse((sent.at(-1)!.body as { abi: string }).abi)
  await wallet.batch([{ address: '0x01', abi: [f([]), f(['uint8']), full], functionName: 'f', args: [1n] }])
  assert.deepEqual(JSON.parse((sent[0]!.body as { calls: { abi: string }[] }).calls[0]!.abi), [f(['uint8']), full])
  await wallet.write({ address: '0x01', abi: f([]), args: [] })
  assert.deepEqual(abiOf(), f([]))
  const errors = Array.from({ length: 300 }, (_, index) => ({ ...full, name: `Full${index}` }))
  await wallet.write({ address: '0x01', abi: [f([]), ...errors], functionName: 'f' } as never)
  assert.deepEqual(abiOf(), f([]))
  for (const abi of [[f(['uint8']), f(['int8'])], [full]])
    assert.ok((await errorOf(wallet.batch([{ address: '0x01', abi, functionName: 'f', args: [1n] }]))) instanceof InvalidInput) // prettier-ignore
})
