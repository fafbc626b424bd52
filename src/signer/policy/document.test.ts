import assert from 'node:assert/strict'
import { test } from 'node:test'
import { getAddress, toFunctionSelector } from 'viem'
import { readPolicy } from './document.ts'
import { PolicyInvalid } from './json.ts'
import { readSignature } from './signature.ts'

const USDC = getAddress(`0x${'1c7d4b196cb0c7b01d743fbc6116a902379c7238'}`)
const SAFE = getAddress(`0x${'7e48'.repeat(10)}`)

const rule = { name: 'rest', effect: 'allow' }
const read = (changes: Record<string, unknown>) => readPolicy(JSON.stringify({ version: 1, rules: [rule], ...changes }))
const readRule = (changes: Record<string, unknown>) => read({ rules: [{ ...rule, ...changes }] }).rules[0]!

test('a whole document is read: amounts as numbers, addresses without their checksum', () => {
  const policy = readPolicy(
    JSON.stringify({
      version: 12,
      freeze: { users: [], clients: ['shop'], chains: [8453] },
      tokens: { [`11155111:${USDC}`]: { symbol: 'USDC', decimals: 6 } },
      rules: [
        { name: 'no-all', effect: 'deny', class: ['APPROVE_ALL', 'APPROVE_UNLIMITED'] },
        {
          name: 'day',
          effect: 'limit',
          per: ['chainId', 'user'],
          native: { perCall: '1', periodAmount: '10', periodDuration: 86_400 },
          fees: { periodAmount: '5', periodDuration: 3_600 },
          count: { periodAmount: '20', periodDuration: 604_800 },
          tokens: [{ chainId: 11_155_111, tokenAddress: USDC, perCall: '20000000' }],
        },
        { name: 'large', effect: 'require', tier: 'approval', native: { perCall: '1000000000000000000' } },
        { ...rule, functions: ['transfer(address,uint256)'], args: { 0: [SAFE] } },
      ],
    }),
  )
  const usdc = USDC.slice(2).toLowerCase()
  assert.equal(policy.version, 12)
  assert.deepEqual([...policy.freeze.clients, ...policy.freeze.chains], ['shop', 8453])
  assert.deepEqual([...policy.tokens], [[`11155111:${usdc}`, { symbol: 'USDC', decimals: 6 }]])
  const [, day, large, rest] = policy.rules
  assert.ok(day?.effect === 'limit' && large?.effect === 'require')
  assert.deepEqual(day.per, ['user', 'chainId'])
  assert.deepEqual(day.limits[3], { of: 'token', name: `tokens 11155111:0x${usdc}`, chainId: 11_155_111, tokenAddress: usdc, perCall: 20_000_000n, period: null, functions: null }) // prettier-ignore
  assert.deepEqual(large.above[0]!.perCall, 10n ** 18n)
  assert.deepEqual(rest!.match.args, [{ index: 0, oneOf: new Set([BigInt(SAFE)]), spare: (2n ** 96n - 1n) << 160n }])
})

test('what is not exactly a policy is refused, with the place', () => {
  const limit = (native: unknown) => ({ effect: 'limit', native })
  const refused: [() => unknown, RegExp][] = [
    [() => readPolicy('{'), /^it is not JSON/],
    [() => readPolicy('{"version":1,"version":2,"rules":[]}'), /"version" is used twice/],
    [() => readPolicy('{"version":1,"rules":[{"name":"a","effect":"allow","effect":"deny"}]}'), /"effect" is used twice/],
    [() => readPolicy(`{"version":1,"rules":[{"name":"a","effect":"allow","effect"${' '.repeat(500)}:"deny"}]}`), /twice/],
    [() => readPolicy('{"version":1,"rules":[{"name":"a","effect":"allow","\\u0065ffect":"deny"}]}'), /twice/],
    [() => readPolicy('[]'), /expected an object/],
    [() => read({ version: 0 }), /^version: expected a whole number/],
    [() => read({ version: 1.5 }), /^version: /],
    [() => read({ version: '1' }), /^version: /],
    [() => read({ rule: [] }), /unknown field "rule"/],
    [() => read({ rules: [] }), /^rules: is an empty list/],
    [() => read({ rules: undefined }), /^rules: expected a list/],
    [() => read({ rules: [rule, rule] }), /^rules\[1\]\.name: rules\[0\] has this name/],
    [() => read({ freeze: { user: [] } }), /^freeze: unknown field "user"/],
    [() => read({ freeze: { everything: 1 } }), /^freeze\.everything: /],
    [() => read({ freeze: { users: ['alice'] } }), /^freeze\.users\[0\]: /],
    [() => read({ tokens: { '1:0x00': {} } }), /^tokens\["1:0x00"\]: /],
    [() => read({ tokens: { [`1:${USDC}`]: { symbol: 'U', decimals: 1.5 } } }), /decimals/],
    [() => readRule({ name: 'max-total-fee' }), /^rules\[0\]\.name: max-total-fee is the name of a built-in rule/],
    [() => readRule({ name: 'Rest' }), /^rules\[0\]\.name: /],
    [() => readRule({ effect: 'permit' }), /^rules\[0\]\.effect: /],
    [() => readRule({ effect: 'toString' }), /^rules\[0\]\.effect: /],
    [() => readRule({ class: ['APROVE'] }), /^rules\[0\]\.class\[0\]: expected one of NATIVE/],
    [() => readRule({ class: [] }), /^rules\[0\]\.class: is an empty list/],
    [() => readRule({ chains: ['1'] }), /^rules\[0\]\.chains\[0\]: /],
    [() => readRule({ chains: [1, 1] }), /^rules\[0\]\.chains\[1\]: is in the list twice/],
    [() => readRule({ to: [USDC.toLowerCase()] }), new RegExp(`checksum \\(EIP-55\\) is wrong: these digits are ${USDC}`)],
    [() => readRule({ to: [USDC.slice(0, -1)] }), /^rules\[0\]\.to\[0\]: expected an address/],
    [() => readRule({ functions: ['transfer(address,uint)'] }), /^rules\[0\]\.functions\[0\]: /],
    [() => readRule({ functions: ['0xA9059CBB'] }), /^rules\[0\]\.functions\[0\]: /],
    [() => readRule({ users: ['\u0000'] }), /^rules\[0\]\.users\[0\]: /],
    [() => readRule({ native: { perCall: '1' } }), /unknown field "native"/],
    [() => readRule({ effect: 'limit' }), /a limit needs native, fees, tokens or count/],
    [() => readRule(limit({ perCall: 1 })), /native\.perCall: expected an amount/],
    [() => readRule(limit({ perCall: '1.0' })), /native\.perCall/],
    [() => readRule(limit({ perCall: '1e18' })), /native\.perCall/],
    [() => readRule(limit({ perCall: '-1' })), /native\.perCall/],
    [() => readRule(limit({ perCall: '01' })), /native\.perCall/],
    [() => readRule(limit({ perCall: (2n ** 256n).toString() })), /native\.perCall/],
    [() => readRule(limit({})), /expected perCall, or periodAmount with periodDuration/],
    [() => readRule(limit({ periodAmount: '1' })), /native\.periodDuration/],
    [() => readRule(limit({ periodDuration: 3_600 })), /native\.periodAmount/],
    [() => readRule(limit({ periodAmount: '1', periodDuration: 60 })), /expected 3600, 86400, 604800, 2592000/],
    [() => readRule({ effect: 'limit', count: { perCall: '1' } }), /count: unknown field "perCall"/],
    [() => readRule({ ...limit({ perCall: '1' }), per: ['country'] }), /per\[0\]: expected user, client or chainId/],
    [() => readRule({ effect: 'limit', tokens: [{ chainId: 1, perCall: '1' }] }), /tokens\[0\]\.tokenAddress/],
    [() => readRule({ effect: 'limit', tokens: [1, 2].map(() => ({ chainId: 1, tokenAddress: USDC, perCall: '1' })) }), /tokens\[1\]: this token is listed twice/],
    [() => readRule({ effect: 'limit', tokens: [{ chainId: 1, tokenAddress: USDC, perCall: '1', functions: [] }] }), /tokens\[0\]\.functions: is an empty list/],
    [() => readRule({ effect: 'limit', tokens: [{ chainId: 1, tokenAddress: USDC, perCall: '1', functions: ['mint'] }] }), /tokens\[0\]\.functions\[0\]: expected a selector/],
    [() => readRule({ effect: 'limit', native: { perCall: '1', functions: ['f()'] } }), /native: unknown field "functions"/],
    [() => readRule({ effect: 'require' }), /tier: expected approval/],
    [() => readRule({ effect: 'require', tier: 'approval', newRecipient: 1 }), /newRecipient: expected true or false/],
    [() => readRule({ effect: 'allow', newRecipient: true }), /unknown field "newRecipient"/],
    [() => readRule({ effect: 'require', tier: 'passkey' }), /tier: passkey is not available: the user approves on a page, so write approval/],
    [() => readRule({ name: 'message-approval' }), /is the name of a built-in rule/],
    [() => readRule({ domains: ['https://shop.example'] }), /^rules\[0\]\.domains\[0\]: expected a host/],
    [() => readRule({ domains: ['Shop.example'] }), /^rules\[0\]\.domains\[0\]: expected a host/],
    [() => readRule({ types: ['Permit'] }), /^rules\[0\]\.types\[0\]: expected an encoded type/],
    [() => readRule({ effect: 'require', tier: 'approval', native: { periodAmount: '1', periodDuration: 3_600 } }), /perCall alone/],
    [() => readRule({ args: { 0: [SAFE] } }), /args: needs functions with one signature/],
    [() => readRule({ functions: ['0xa9059cbb'], args: { 0: [SAFE] } }), /not a selector/],
    [() => readRule({ functions: ['f(bytes,address)'], args: { 1: [SAFE] } }), /args\["1"\]: only for/],
    [() => readRule({ functions: ['f(address)'], args: { 1: [SAFE] } }), /args\["1"\]: expected the index/],
    [() => readRule({ functions: ['f(bool)'], args: { 0: ['true'] } }), /expected true or false/],
    [() => readRule({ functions: ['f(uint8)'], args: { 0: ['256'] } }), /args\["0"\]\[0\]: is out of the range of uint8/],
    [() => readRule({ functions: ['f(uint8)'], args: {} }), /at least one argument/],
  ] // prettier-ignore
  for (const type of [
    'Permit(address owner, address spender)',
    'A(address ab c)',
    'A(address a,)',
    'A(address a',
    'A (address a)',
    `A(${'a a'.repeat(200)}!`,
  ])
    refused.push([() => readRule({ types: [type] }), /^rules\[0\]\.types\[0\]: expected an encoded type/])
  for (const [attempt, text] of refused)
    assert.throws(attempt, (error) => error instanceof PolicyInvalid && text.test(error.message), String(text))
})

test('a key that was named by mistake is not repeated', () => {
  const secret = 'c2VjcmV0IGtleQ'
  for (const text of [`{"kty":"OKP","d":"${secret}"}`, `${secret}`, `{"version":${secret}`])
    assert.throws(() => readPolicy(text), (error: Error) => !error.message.includes(secret)) // prettier-ignore
})

test('a selector is the one that viem computes, and only canonical types make one', () => {
  for (const text of ['f()', 'f((uint8,address[])[3],bytes32)', 'swap(address,bytes[],(int24,(bool,string)))'])
    assert.equal(`0x${readSignature(text)?.selector}`, toFunctionSelector(`function ${text}`), text)
  for (const text of [
    'f',
    'f(uint)',
    'f(uint7)',
    'f(uint264)',
    'f(bytes33)',
    'f(address )',
    'f(,)',
    'f(address,)',
    'f((address)',
    'f(address))',
    '(address)',
    'f(a)',
    'f(uint256[0])',
    'f(uint08)',
  ])
    // prettier-ignore
    assert.equal(readSignature(text), null, text)
})
