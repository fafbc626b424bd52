// tier: all, because it sends thousands of hostile requests
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { utils } from 'ethers5'
import { encodeFunctionData, numberToHex, parseAbi, toFunctionSelector, type Hex } from 'viem'
import { until } from '../kit/until.ts'
import { world, type Answer, type World } from '../world.ts'
import { hostileTokens, type HostileToken } from './hostile-tokens.ts'

type Placed = HostileToken & { address: Hex }

let here: World
let tokens: Placed[]
before(async () => {
  here = await world({ LOG_LEVEL: 'silent' })
  tokens = hostileTokens().map((token, index) => ({
    ...token,
    address: numberToHex(0xbad0_0000 + index, { size: 20 }),
  }))
  await inTurn(tokens, 8, ({ address, code }) => here.rpc('anvil_setCode', address, code))
  await here.rpc('evm_mine')
})
after(() => here.close())

/** A few at a time: enough to meet each other, not enough to wait for the node. */
async function inTurn<T>(items: T[], lanes: number, work: (item: T) => Promise<unknown>): Promise<void> {
  const waiting = items.values()
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (const item of waiting) await work(item)
    }),
  )
}

/** What the node itself says of a call: the bytes, or null when the call fails. */
async function ask(to: Hex, data: Hex, gas: number, block: number | 'latest'): Promise<Hex | null> {
  const at = block === 'latest' ? block : numberToHex(block)
  const { body } = await here.request(here.facts.rpcUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'eth_call',
      params: [{ to, data, gas: numberToHex(gas) }, at],
    }),
  })
  return body.result ?? null
}

const selector = (signature: string): Hex => toFunctionSelector(signature)
const balanceOf = (owner: Hex): Hex =>
  encodeFunctionData({ abi: parseAbi(['function balanceOf(address)']), args: [owner] })

/** A refusal is ours and expected: a code, no stack, no node's text. */
function assertRefusal(name: string, { status, body }: Answer, codes: string[]): void {
  assert.equal(status, 422, `${name}: ${JSON.stringify(body).slice(0, 300)}`)
  assert.ok(codes.includes(body.code), `${name}: ${body.code}`)
}

/** What a token's text must come to, by ethers and by rules of its own; undefined where only the rules hold. */
function expectedText(data: Hex | null): string | undefined {
  if (data === null || data.length <= 2) return ''
  try {
    const [text] = utils.defaultAbiCoder.decode(['string'], data) as unknown as [string]
    return /^[\x21-\x7e]([\x20-\x7e]{0,62}[\x21-\x7e])?$/.test(text) ? text : undefined
  } catch {
    return undefined
  }
}

function assertClean(name: string, text: string): void {
  const characters = Array.from(text).length
  assert.ok(characters <= 64, `${name}: ${characters} characters`)
  assert.ok(text.isWellFormed(), name)
  assert.doesNotMatch(text, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u, name)
}

/** Compares an entry with what the node says at the block the entry was read at. */
async function assertHonest(token: Placed, entry: Record<string, string>, block: number): Promise<void> {
  const { name, address } = token
  const direct = await ask(address, balanceOf(here.alice.address), 1_000_000, block)
  assert.ok(direct !== null && direct.length >= 66, `${name}: the node gives no balance`)
  const balance = BigInt(direct.slice(0, 66))
  if (token.answersVary === undefined) assert.equal(entry.balance, balance.toString(), name)
  assert.deepEqual(
    entry.balanceBn,
    JSON.parse(JSON.stringify({ type: 'BigNumber', hex: evenHex(BigInt(entry.balance!)) })),
  )
  // What a token calls itself is kept, so it may have been asked at another block than the balance.
  const decimals = await Promise.all([block, 'latest' as const].map((at) => decimalsAt(address, at)))
  if (token.answersVary === undefined) assert.ok(decimals.includes(entry.decimals!), `${name}: ${entry.decimals}`)
  assert.equal(entry.formatted, trimmed(utils.formatUnits(entry.balance!, Number(entry.decimals))), name)
  for (const [field, signature] of [
    ['symbol', 'symbol()'],
    ['name', 'name()'],
  ] as const) {
    assertClean(`${name}: ${field}`, entry[field]!)
    const expected = expectedText(await ask(address, selector(signature), 500_000, block))
    if (expected !== undefined && token.answersVary === undefined)
      assert.equal(entry[field], expected, `${name}: ${field}`)
  }
}

async function decimalsAt(address: Hex, block: number | 'latest'): Promise<string> {
  const answer = await ask(address, selector('decimals()'), 500_000, block)
  const number = answer === null || answer.length < 66 ? 0n : BigInt(answer.slice(0, 66))
  return number <= 77n ? number.toString() : '0'
}

const evenHex = (value: bigint): string => {
  const digits = value.toString(16)
  return `0x${digits.length % 2 === 0 ? '' : '0'}${digits}`
}
const trimmed = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text)

const counted: Record<string, number> = {}
const count = (what: string): void => void (counted[what] = (counted[what] ?? 0) + 1)

test('there are at least 200 hostile contracts', () => assert.ok(tokens.length >= 200, String(tokens.length)))

test('the balance of every hostile token is what the node says, or a refusal', async () => {
  await inTurn(tokens, 4, async (token) => {
    const answer = await here.alice.get(`/v1/users/${here.alice.userId}/balance/${token.address}`)
    if (answer.status !== 200) {
      count('refused')
      assertRefusal(token.name, answer, ['not_a_token'])
      const direct = await ask(token.address, balanceOf(here.alice.address), 1_000_000, 'latest')
      assert.ok(direct === null || direct.length < 66, `${token.name}: refused, but the node gives a balance`)
      return
    }
    count('balance')
    await assertHonest(token, answer.body[token.address], Number(answer.headers.get('x-block-number')))
  })
  assert.ok(counted.balance! > 150 && counted.refused! > 50, JSON.stringify(counted))
})

test('a read of every hostile contract is what ethers decodes, or a refusal', async () => {
  const reads: [abi: string, types: string[]][] = [
    ['balanceOf(address) view returns (uint256)', ['uint256']],
    ['name() view returns (string)', ['string']],
    ['symbol() view returns (bytes32[])', ['bytes32[]']],
    ['decimals() view returns (uint8)', ['uint8']],
  ]
  await inTurn(tokens, 4, async (token) => {
    for (const [abi, types] of reads) {
      const signature = abi.slice(0, abi.indexOf(' '))
      const args = signature.includes('address') ? [here.alice.address] : []
      const answer = await here.alice.post('/v1/contracts/method/read', { address: token.address, abi, args })
      const data = args.length === 0 ? selector(signature) : balanceOf(here.alice.address)
      if (answer.status !== 200) {
        assertRefusal(`${token.name}: ${abi}`, answer, ['execution_reverted', 'invalid_return_data', 'no_contract'])
        const { revert } = answer.body
        if (revert !== undefined) assertBounded(`${token.name}: ${abi}`, revert)
        continue
      }
      if (token.answersVary) continue
      const direct = await ask(token.address, data, 16_777_216, answer.body.blockNumber)
      assert.ok(
        direct !== null,
        `${token.name}: ${abi}: the node's call fails, ours gives ${JSON.stringify(answer.body.response)}`,
      )
      assert.deepEqual(answer.body.response, decodeByEthers(types, direct), `${token.name}: ${abi}`)
    }
  })
})

/** What a revert says may be long, but not megabytes of it. */
function assertBounded(name: string, revert: { reason: string; data: string }): void {
  assert.ok(revert.reason.length <= 4_200, `${name}: a reason of ${revert.reason.length} characters`)
  assert.ok(revert.reason.isWellFormed(), name)
  assert.ok(JSON.stringify(revert).length < 400_000, `${name}: a revert of ${JSON.stringify(revert).length} characters`)
}

/** ethers 5 replaces nothing and throws lazily; where it throws, Node's own decoder is the judge of the text. */
function decodeByEthers(types: string[], data: Hex): unknown {
  if (types[0] === 'string') {
    const [bytes] = utils.defaultAbiCoder.decode(['bytes'], data) as unknown as [string]
    return Buffer.from(bytes.slice(2), 'hex').toString('utf8')
  }
  const [value] = utils.defaultAbiCoder.decode(types, data) as unknown as [unknown]
  if (typeof value === 'number') return { type: 'BigNumber', hex: evenHex(BigInt(value)) }
  return JSON.parse(JSON.stringify(value))
}

test('a batch with every hostile contract answers each on its own', async () => {
  for (let start = 0; start < tokens.length; start += 100) {
    const some = tokens.slice(start, start + 100)
    const calls = some.map(({ address }) => ({ address, abi: 'symbol() view returns (string)' }))
    const { status, body } = await here.alice.post('/v1/contracts/method/read/batch', { calls })
    assert.equal(status, 200, JSON.stringify(body).slice(0, 300))
    for (const [index, result] of body.results.entries())
      assert.ok(
        result.status === 'SUCCESS' || result.status === 422,
        `${some[index]!.name}: ${JSON.stringify(result).slice(0, 300)}`,
      )
  }
})

test('a user who was sent every hostile token sees history and balances, at one block, and each entry is the very same as alone', async () => {
  const { alice, rpc, request, facts } = here
  const seen = tokens.filter(({ mints }) => mints)
  const [sender] = await rpc<Hex[]>('eth_accounts')
  const first = Number(await rpc('eth_getTransactionCount', sender, 'latest'))
  const data = encodeFunctionData({ abi: parseAbi(['function mint(address)']), args: [alice.address] })
  await Promise.all(
    seen.map(({ address }, index) =>
      rpc('eth_sendTransaction', {
        from: sender,
        to: address,
        data,
        gas: '0x13880',
        nonce: numberToHex(first + index),
      }),
    ),
  )
  await until('all are mined', async () => {
    await rpc('evm_mine')
    return Number(await rpc('eth_getTransactionCount', sender, 'latest')) === first + seen.length
  })
  const mined = Number(await rpc('eth_blockNumber'))
  await until('the history has them', async () => {
    const { headers } = await alice.get(`/v1/users/${alice.userId}/history?limit=1`)
    return Number(headers.get('x-indexed-to-block')) >= mined
  })

  await until('each token was asked what it calls itself', async () => {
    const rows = await here.app.db.selectFrom('tokens').select('address').where('state', '=', 'NEW').execute()
    return rows.length === 0
  })
  const history = await pages(`/v1/users/${alice.userId}/history?limit=70`)
  const entries = history.flatMap(({ body }) => body)
  assert.equal(new Set(entries.map((entry) => entry.amount.tokenAddress.toLowerCase())).size, seen.length)
  for (const { amount } of entries) {
    assertClean('history', amount.symbol)
    assertClean('history', amount.name)
    assert.ok(amount.decimals >= 0 && amount.decimals <= 77)
  }

  for (const limit of [200, 70]) {
    const all = await pages(`/v1/users/${alice.userId}/balances?limit=${limit}`)
    const balances = Object.assign({}, ...all.map(({ body }) => body)) as Record<string, Record<string, string>>
    assert.equal(Object.keys(all[0]!.body)[0], 'ETH')
    const unanswered = all.reduce((sum, { headers }) => sum + Number(headers.get('x-unanswered-tokens')), 0)
    const alone = new Map<Hex, Answer>()
    await inTurn(seen, 4, async ({ address }) => {
      alone.set(address, await alice.get(`/v1/users/${alice.userId}/balance/${address}`))
    })
    const failed = seen.filter(({ address }) => alone.get(address)!.status !== 200)
    assert.equal(unanswered, failed.length)
    for (const { name, address, answersVary } of seen) {
      const { status, body } = alone.get(address)!
      const entry = balances[address]
      if (status !== 200) assert.equal(entry, undefined, name)
      else if (body[address].balance === '0') assert.equal(entry, undefined, name)
      else if (answersVary || /block number/.test(name)) assert.ok(entry !== undefined, name)
      else assert.deepEqual(entry, body[address], name)
    }
    assert.equal(
      Object.keys(balances).filter((key) => key !== 'ETH').length,
      seen.filter(
        ({ address }) => alone.get(address)!.status === 200 && alone.get(address)!.body[address].balance !== '0',
      ).length,
    )
  }
  const bad = await request(`${facts.origin}/v1/users/${alice.userId}/balances`)
  assert.equal(bad.status, 401)
})

/** Follows X-Next-Cursor to the last page; every page must be a 200. */
async function pages(path: string): Promise<Answer[]> {
  const all: Answer[] = []
  for (let next: string | null = ''; next !== null; next = all.at(-1)!.headers.get('x-next-cursor')) {
    const answer = await here.alice.get(next === '' ? path : `${path}&cursor=${next}`)
    assert.equal(answer.status, 200, JSON.stringify(answer.body).slice(0, 500))
    all.push(answer)
  }
  return all
}
