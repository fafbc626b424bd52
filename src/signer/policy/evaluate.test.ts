import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeFunctionData, getAddress, parseAbi, toFunctionSelector } from 'viem'
import type { JudgedCall } from './calldata.ts'
import { effectOf } from './effect.ts'
import { evaluateCalls } from './evaluate-calls.ts'
import { readPolicy } from './document.ts'
import { evaluate, evaluateFees, type PolicyQuestion, type ReadMeter } from './evaluate.ts'
import { readSignature } from './signature.ts'

const ALICE = 'DISCORD-1'
const [FROM, TOKEN, BOB, EVE] = ['aa', 'cc', 'bb', 'ee'].map((digit) => getAddress(`0x${digit.repeat(20)}`)) as [`0x${string}`, `0x${string}`, `0x${string}`, `0x${string}`] // prettier-ignore
const bytes = (text: string): Buffer => Buffer.from(text.slice(2), 'hex')
const abi = parseAbi([
  'function transfer(address,uint256)',
  'function transferFrom(address,address,uint256)',
  'function approve(address,uint256)',
  'function setApprovalForAll(address,bool)',
  'function mint(address,uint256,bool)',
])
const encode = (functionName: string, args: unknown[]) => encodeFunctionData({ abi, functionName, args } as never)

const ask = ({ encoded = '0x', ...changes }: Partial<JudgedCall> & { encoded?: string } = {}, more: Partial<PolicyQuestion> = {}): PolicyQuestion => ({
  effect: effectOf({ chainId: 1, from: bytes(FROM), to: bytes(BOB), value: 0n, data: bytes(encoded), ...changes }),
  feeWei: 100n,
  userId: ALICE,
  clientId: 'shop',
  ...more,
}) // prettier-ignore
const token = (functionName: string, args: unknown[], changes: Partial<JudgedCall> = {}) =>
  ask({ to: bytes(TOKEN), encoded: encode(functionName, args), ...changes })

const REST = { name: 'rest', effect: 'allow' }
const NEVER: ReadMeter = () => ({ used: 0n, resetsAt: null })
const decide = (rules: unknown[], question: PolicyQuestion, read: ReadMeter = NEVER) =>
  evaluate(readPolicy(JSON.stringify({ version: 1, rules })), question, read)
const ruleOf = (rules: unknown[], question: PolicyQuestion, read?: ReadMeter) => {
  const answer = decide(rules, question, read)
  if (!answer.allowed) return `refused by ${answer.rule}`
  return answer.requires === null ? answer.rule : `approval by ${answer.requires}`
}

test('any deny wins, every limit holds, no allow is a deny, whatever the order of rules', () => {
  const rules = [
    REST,
    { name: 'some', effect: 'limit', native: { perCall: '10' } },
    { name: 'fewer', effect: 'limit', native: { perCall: '5' } },
    { name: 'not-eve', effect: 'deny', recipients: [EVE] },
  ]
  for (const order of [rules, rules.toReversed()]) {
    assert.equal(ruleOf(order, ask({ value: 5n })), 'rest')
    assert.equal(ruleOf(order, ask({ value: 6n })), 'refused by fewer')
    assert.equal(ruleOf(order, ask({ to: bytes(EVE) })), 'refused by not-eve')
    assert.equal(ruleOf(order, token('transfer', [EVE, 1n])), 'refused by not-eve')
    assert.equal(ruleOf(order.slice(0).filter((one) => one !== REST), ask()), 'refused by no-allow') // prettier-ignore
  }
})

test('a rule matches by each of its fields, and all of them have to fit', () => {
  const only = (match: Record<string, unknown>, question: PolicyQuestion) => decide([{ ...REST, ...match }], question).allowed // prettier-ignore
  const mint = token('mint', [BOB, 7n, true])
  const cases: [fits: Record<string, unknown>, differs: Record<string, unknown>][] = [
    [{ chains: [1, 2] }, { chains: [2] }],
    [{ to: [TOKEN] }, { to: [BOB] }],
    [{ recipients: [TOKEN] }, { recipients: [BOB] }],
    [{ functions: ['mint(address,uint256,bool)'] }, { functions: ['burn(address,uint256,bool)'] }],
    [{ class: ['CALL'] }, { class: ['TRANSFER', 'NATIVE'] }],
    [{ clients: ['shop'] }, { clients: ['game'] }],
    [{ users: [ALICE] }, { users: ['DISCORD-2'] }],
    ...([[0, [BOB], [EVE]], [1, ['7'], ['8']], [2, [true], [false]]] as const).map(([index, fits, differs]) => {
      const functions = ['mint(address,uint256,bool)']
      return [{ functions, args: { [index]: fits } }, { functions, args: { [index]: differs } }] as [object, object]
    }),
  ] as never // prettier-ignore
  for (const [fits, differs] of cases) {
    assert.equal(only(fits, mint), true, JSON.stringify(fits))
    assert.equal(only(differs, mint), false, JSON.stringify(differs))
  }
  const everything = Object.assign({}, ...cases.map(([fits]) => fits)) as Record<string, unknown>
  assert.equal(only(everything, mint), true)
  for (const [, differs] of cases) assert.equal(only({ ...everything, ...differs }, mint), false)
})

test('what is allowed carries nothing along: every class and every recipient has to be listed', () => {
  const both = token('transfer', [BOB, 1n], { value: 1n })
  assert.equal(ruleOf([{ ...REST, class: ['TRANSFER'] }], both), 'refused by no-allow')
  assert.equal(ruleOf([{ ...REST, class: ['TRANSFER', 'NATIVE'] }], both), 'rest')
  assert.equal(ruleOf([{ ...REST, recipients: [BOB] }], both), 'refused by no-allow')
  assert.equal(ruleOf([{ ...REST, recipients: [BOB, TOKEN] }], both), 'rest')
  assert.equal(ruleOf([REST, { name: 'no', effect: 'deny', class: ['NATIVE'] }], both), 'refused by no')
  // An approval of everything is not allowed by a list of plain approvals, and denied by one.
  const endless = token('approve', [BOB, 2n ** 256n - 1n])
  assert.equal(ruleOf([{ ...REST, class: ['APPROVE'] }], endless), 'refused by no-allow')
  assert.equal(ruleOf([REST, { name: 'no', effect: 'deny', class: ['APPROVE'] }], endless), 'refused by no')
})

test('amounts of a token: one unit over is refused, another token and another network are not counted', () => {
  const rules = [REST, { name: 'usdc', effect: 'limit', tokens: [{ chainId: 1, tokenAddress: TOKEN, perCall: '50' }] }]
  assert.equal(ruleOf(rules, token('transfer', [BOB, 50n])), 'rest')
  assert.equal(ruleOf(rules, token('transfer', [BOB, 51n])), 'refused by usdc')
  assert.equal(ruleOf(rules, token('approve', [BOB, 51n])), 'refused by usdc')
  assert.equal(ruleOf(rules, token('transfer', [BOB, 51n], { chainId: 2 })), 'rest')
  assert.equal(ruleOf(rules, token('transfer', [BOB, 51n], { to: bytes(EVE) })), 'rest')
  assert.equal(ruleOf(rules, token('approve', [BOB, 0n])), 'rest')
  // All tokens are more than any limit, the largest of limits too.
  const huge = [REST, { name: 'usdc', effect: 'limit', tokens: [{ chainId: 1, tokenAddress: TOKEN, perCall: (2n ** 256n - 1n).toString() }] }] // prettier-ignore
  assert.equal(ruleOf(huge, token('approve', [BOB, 2n ** 256n - 1n])), 'rest')
  assert.equal(ruleOf(huge, token('setApprovalForAll', [BOB, true])), 'refused by usdc')
})

test('calldata that is not whole passes no limit of its token', () => {
  const rules = [REST, { name: 'usdc', effect: 'limit', tokens: [{ chainId: 1, tokenAddress: TOKEN, perCall: '50' }] }]
  const short = encode('transfer', [BOB, 1n]).slice(0, -2)
  assert.equal(ruleOf(rules, ask({ to: bytes(TOKEN), encoded: short })), 'refused by usdc')
  assert.equal(ruleOf(rules, ask({ to: bytes(EVE), encoded: short })), 'rest')
  // Permit2 names the token in what cannot be read.
  assert.equal(ruleOf(rules, ask({ to: bytes(EVE), encoded: '0x87517c45' })), 'refused by usdc')
  assert.equal(ruleOf([REST, { name: 'no', effect: 'deny', recipients: [EVE] }], ask({ encoded: short })), 'refused by no') // prettier-ignore
  assert.equal(ruleOf([{ ...REST, recipients: [BOB] }], ask({ encoded: short })), 'refused by no-allow')
})

test('what cannot be read may be of any class: a restriction of one is about it, and an allow of one is not', () => {
  const dirty = ask({ to: bytes(TOKEN), encoded: `${encode('approve', [BOB, 2n ** 256n - 1n]).slice(0, 10)}${'ff'.repeat(64)}` }) // prettier-ignore
  for (const named of ['APPROVE_UNLIMITED', 'TRANSFER']) {
    assert.equal(ruleOf([REST, { name: 'no', effect: 'deny', class: [named] }], dirty), 'refused by no')
    assert.equal(ruleOf([REST, { name: 'ask', effect: 'require', tier: 'approval', class: [named] }], dirty), 'approval by ask') // prettier-ignore
    const limit = { name: 'usdc', effect: 'limit', class: [named], tokens: [{ chainId: 1, tokenAddress: TOKEN, perCall: '50' }] } // prettier-ignore
    assert.equal(ruleOf([REST, limit], dirty), 'refused by usdc')
    assert.equal(ruleOf([{ ...REST, class: [named] }], dirty), 'refused by no-allow')
  }
  assert.equal(ruleOf([{ ...REST, class: ['UNREADABLE_CALL'] }], dirty), 'rest')
})

test('an argument that is missing or out of range may be any: a restriction is about it, and an allow is not', () => {
  const functions = ['mint(address,uint256,bool)']
  const mint = encode('mint', [BOB, 7n, true])
  const short = mint.slice(0, 10 + 64)
  const high = `${mint.slice(0, 10)}${'01'.padEnd(24, '0')}${BOB.slice(2)}${mint.slice(10 + 64)}`
  const two = `${mint.slice(0, -1)}2`
  const cases: [encoded: string, args: Record<string, unknown>][] = [
    [short, { 1: ['8'] }],
    [short, { 2: [true] }],
    [high, { 0: [BOB] }],
    [high, { 0: [EVE] }],
    [two, { 2: [true] }],
  ]
  for (const [encoded, args] of cases) {
    const question = ask({ to: bytes(EVE), encoded })
    const restrict = (more: object) => ruleOf([REST, { name: 'no', functions, args, ...more }], question)
    assert.equal(restrict({ effect: 'deny' }), 'refused by no', JSON.stringify(args))
    assert.equal(restrict({ effect: 'require', tier: 'approval' }), 'approval by no')
    assert.equal(restrict({ effect: 'limit', count: { periodAmount: '0', periodDuration: 3_600 } }), 'refused by no')
    assert.equal(ruleOf([{ ...REST, functions, args }], question), 'refused by no-allow')
  }
  // The same for what is not as wide as its word: what a contract cuts off is on the other side of bytes.
  const narrow = { functions: ['f(uint8,bytes4)'], args: { 0: ['8'], 1: ['0x01020304'] } }
  const ofNarrow = (first: string, second: string) => {
    const data = `${toFunctionSelector('function f(uint8,bytes4)')}${first.padStart(64, '0')}${second.padEnd(64, '0')}`
    const question = ask({ to: bytes(EVE), encoded: data })
    return [ruleOf([REST, { name: 'no', effect: 'deny', ...narrow }], question), ruleOf([{ ...REST, ...narrow }], question)] // prettier-ignore
  }
  assert.deepEqual(ofNarrow('08', '01020304'), ['refused by no', 'rest'])
  assert.deepEqual(ofNarrow('09', '01020304'), ['rest', 'refused by no-allow'])
  assert.deepEqual(ofNarrow('08', '01020305'), ['rest', 'refused by no-allow'])
  assert.deepEqual(ofNarrow('0108', '01020304'), ['refused by no', 'refused by no-allow'])
  assert.deepEqual(ofNarrow('08', '0102030401'), ['refused by no', 'refused by no-allow'])
})

test('a function of a named token that is not known passes its limit only where it is listed', () => {
  const entry = { chainId: 1, tokenAddress: TOKEN, perCall: '50' }
  const limit = (changes: object = {}) => ({ name: 'usdc', effect: 'limit', tokens: [{ ...entry, ...changes }] })
  const mint = token('mint', [BOB, 1n, true])
  const refused = decide([REST, limit()], mint)
  const { selector } = readSignature('mint(address,uint256,bool)')!
  assert.deepEqual(refused, { allowed: false, rule: 'usdc', reason: `tokens 1:${TOKEN.toLowerCase()}.functions does not list 0x${selector}, so the amount that this function moves is unknown` }) // prettier-ignore
  for (const functions of [['mint(address,uint256,bool)'], [`0x${selector}`, 'f()']])
    assert.equal(ruleOf([REST, limit({ functions })], mint), 'rest')
  assert.equal(ruleOf([REST, limit({ functions: ['f()'] })], mint), 'refused by usdc')
  // Listed or not, what is known is counted.
  assert.equal(ruleOf([REST, limit({ functions: ['transfer(address,uint256)'] })], token('transfer', [BOB, 51n])), 'refused by usdc') // prettier-ignore
  // At another address, on another network, and of a rule that is about something else.
  for (const other of [{ to: bytes(EVE) }, { chainId: 2 }])
    assert.equal(ruleOf([REST, limit()], token('mint', [BOB, 1n, true], other)), 'rest')
  assert.equal(ruleOf([REST, { ...limit(), class: ['TRANSFER'] }], mint), 'rest')
  // What is known and moves nothing, and native currency alone.
  for (const question of [
    token('transferFrom', [EVE, BOB, 51n]),
    token('approve', [BOB, 0n]),
    ask({ to: bytes(TOKEN), value: 1n }),
  ])
    assert.equal(ruleOf([REST, limit()], question), 'rest')
  const require = { ...limit(), name: 'large', effect: 'require', tier: 'approval' }
  assert.equal(ruleOf([REST, require], mint), 'approval by large')
  assert.equal(ruleOf([REST, require], token('transfer', [BOB, 50n])), 'rest')
})

test('meters: charged by scope, refused one unit over what is used, and named with their room', () => {
  const period = { periodDuration: 86_400 }
  const rules = [
    REST,
    { name: 'day', effect: 'limit', per: ['chainId', 'user'], native: { periodAmount: '100', ...period }, fees: { periodAmount: '1000', ...period } }, // prettier-ignore
    { name: 'all', effect: 'limit', count: { periodAmount: '3', ...period } },
    { name: 'app', effect: 'limit', per: ['client'], tokens: [{ chainId: 1, tokenAddress: TOKEN, periodAmount: '9', ...period }] }, // prettier-ignore
  ]
  const answer = decide(rules, ask({ value: 40n }), (meter) =>
    meter.includes('native') ? { used: 60n, resetsAt: 5 } : { used: 0n, resetsAt: null },
  )
  assert.ok(answer.allowed)
  assert.deepEqual(answer.charges, [
    { meter: '["day","native","user DISCORD-1","chain 1"]', amount: 40n, limit: 100n, period: 86_400 },
    { meter: '["day","fees","user DISCORD-1","chain 1"]', amount: 100n, limit: 1_000n, period: 86_400 },
    { meter: '["all","count"]', amount: 1n, limit: 3n, period: 86_400 },
  ])
  assert.deepEqual(answer.room[0], { rule: 'day', limit: 'native.periodAmount', amount: 100n, used: 60n, left: 40n, resetsAt: 5, isOwn: true }) // prettier-ignore
  const over = decide(rules, ask({ value: 41n }), () => ({ used: 60n, resetsAt: 0 }))
  assert.deepEqual(over, { allowed: false, rule: 'day', resetsAt: 0, reason: 'native.periodAmount is 100 in 86400 seconds, used 60, needed 41, more is available from 1970-01-01T00:00:00.000Z' }) // prettier-ignore
  const tokens = decide(rules, token('transfer', [BOB, 9n], { chainId: 1 }))
  assert.ok(tokens.allowed)
  assert.equal(tokens.charges.at(-1)!.meter, `["app","tokens 1:${TOKEN.toLowerCase()}","client shop"]`)
})

test('require names the rule that demands an approval: above its amounts, or always where it names none', () => {
  const large = { name: 'large', effect: 'require', tier: 'approval', native: { perCall: '10' } }
  assert.equal(ruleOf([REST, large], ask({ value: 10n })), 'rest')
  assert.equal(ruleOf([REST, large], ask({ value: 11n })), 'approval by large')
  // An approval lifts nothing else.
  assert.equal(ruleOf([large], ask({ value: 11n })), 'refused by no-allow')
  assert.equal(ruleOf([REST, large, { name: 'no', effect: 'deny' }], ask({ value: 11n })), 'refused by no')
  assert.equal(ruleOf([REST, { name: 'eve', effect: 'require', tier: 'approval', to: [EVE] }], ask()), 'rest')
  assert.equal(
    ruleOf([REST, { name: 'eve', effect: 'require', tier: 'approval', to: [BOB] }], ask()),
    'approval by eve',
  )
})

test('a later attempt is asked for its fees alone, and charged what it makes the nonce dearer', () => {
  const rules = [
    { name: 'none', effect: 'deny' },
    { name: 'fees', effect: 'limit', fees: { perCall: '150', periodAmount: '1000', periodDuration: 3_600 }, count: { periodAmount: '0', periodDuration: 3_600 } }, // prettier-ignore
  ]
  const policy = readPolicy(JSON.stringify({ version: 1, rules }))
  const raised = (feeWei: bigint, used: bigint) => evaluateFees(policy, ask({}, { feeWei }), 50n, () => ({ used, resetsAt: null })) // prettier-ignore
  const fits = raised(150n, 950n)
  assert.ok(fits.allowed)
  assert.deepEqual(fits.charges, [{ meter: '["fees","fees"]', amount: 50n, limit: 1_000n, period: 3_600 }])
  assert.equal(raised(150n, 951n).allowed, false)
  assert.equal(raised(151n, 0n).allowed, false)
})

test('a require for new recipients asks until the user has approved each recipient of that rule, on that network', () => {
  const known = new Set<string>()
  const read: ReadMeter = (meter) => ({ used: 0n, resetsAt: null, exists: known.has(meter) })
  const first = { name: 'first', effect: 'require', tier: 'approval', newRecipient: true }
  const rules = [REST, { ...first, class: ['NATIVE', 'TRANSFER', 'UNREADABLE_CALL'] }, { ...first, name: 'first-large', native: { perCall: '9' } }] // prettier-ignore
  /** Decides, and has what is asked approved. */
  const asks = (question: PolicyQuestion): string | null => {
    const answer = decide(rules, question, read)
    assert.ok(answer.allowed)
    for (const { meter } of answer.charges) known.add(meter)
    return answer.requires
  }
  const pay = (to: string, value: bigint, more: Partial<PolicyQuestion> = {}) => ask({ to: bytes(to), value }, more)
  const asked: [string, PolicyQuestion, string | null][] = [
    ['a first payment', pay(BOB, 1n), 'first'],
    ['the next one', pay(BOB, 9n), null],
    ['the first large one: small ones make nothing known to its rule', pay(BOB, 10n), 'first-large'],
    ['the next large one', pay(BOB, 11n), null],
    ['of another user', pay(BOB, 1n, { userId: 'DISCORD-9' }), 'first'],
    ['on another network', ask({ to: bytes(BOB), value: 1n, chainId: 2 }), 'first'],
    ['by another application of the user', pay(BOB, 2n, { clientId: 'game' }), null],
    ['tokens to a known recipient', token('transfer', [BOB, 1n]), null],
    ['tokens to another one', token('transfer', [EVE, 1n]), 'first'],
    ['a call that the rule does not match', token('mint', [BOB, 7n, true]), null],
    ['its contract is not known by that', pay(TOKEN, 1n), 'first'],
    ['recipients that nobody can read', ask({ to: bytes(TOKEN), encoded: encode('transfer', [BOB, 1n]).slice(0, -2) }), 'first'], // prettier-ignore
    ['again: there is nothing to know', ask({ to: bytes(TOKEN), encoded: encode('transfer', [BOB, 1n]).slice(0, -2) }), 'first'], // prettier-ignore
  ]
  assert.deepEqual(asked.map(([what, question]) => [what, asks(question)]), asked.map(([what, , rule]) => [what, rule])) // prettier-ignore
  known.clear()
  const document = readPolicy(JSON.stringify({ version: 1, rules }))
  const together = evaluateCalls(document, [pay(BOB, 1n), pay(BOB, 2n), pay(EVE, 1n)], read)
  assert.ok(together.allowed)
  assert.deepEqual([together.requires, together.charges.map(({ amount }) => amount)], ['first', [1n, 1n]])
})
