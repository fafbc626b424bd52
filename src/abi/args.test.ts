import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { AppError, type FieldError } from '../errors.ts'
import { encodeCall, readAddress } from './args.ts'
import { parseAbi } from './parse.ts'

const encode = (types: string, ...args: string[]) => encodeCall(parseAbi(`f(${types})`).function, args)

/** Words of 32 bytes after the selector. */
const words = (data: string) => data.slice(10).match(/.{64}/g) ?? []

function problems(types: string, ...args: string[]): FieldError[] {
  try {
    encode(types, ...args)
  } catch (error) {
    assert(error instanceof AppError)
    assert.equal(error.code, 'invalid_argument')
    assert(error.errors && error.errors.length > 0)
    return error.errors
  }
  return assert.fail(`accepted for ${types}: ${args.join(' ')}`)
}
const places = (types: string, ...args: string[]) =>
  problems(types, ...args).map(({ pointer, code }) => `${pointer} ${code}`)

const vitalik = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'

test('integers are decimal or 0x-hexadecimal, up to the ends of their range', () => {
  const word = (type: string, text: string) => BigInt.asIntN(256, BigInt(`0x${words(encode(type, text))[0]}`))
  assert.equal(word('uint8', '255'), 255n)
  assert.equal(word('uint8', '0xFf'), 255n)
  assert.equal(word('uint8', `0x${'0'.repeat(60)}ff`), 255n)
  assert.equal(word('uint8', `0x${'0'.repeat(60_000)}ff`), 255n)
  assert.equal(word('int8', `-0x${'0'.repeat(100)}`), 0n)
  assert.equal(word('int8', '-128'), -128n)
  assert.equal(word('int8', '-0x05'), -5n)
  assert.equal(word('int256', `-${1n << 255n}`), -(1n << 255n))
  assert.equal(word('uint256', `${(1n << 256n) - 1n}`), -1n)
})

const notIntegers = [
  '',
  ' 1',
  '1 ',
  '+1',
  '1.0',
  '1e5',
  '0x',
  '0X1',
  '1n',
  '007',
  '--1',
  'true',
  'NaN',
  '１',
  '[1]',
  '"1"',
  '1_000',
  '-0',
]
for (const text of notIntegers) {
  test(`no integer: ${JSON.stringify(text)}`, () =>
    assert.deepEqual(places('int256', text), ['/args/0 not_an_integer']))
}

const outside: [type: string, text: string][] = [
  ['uint8', '256'],
  ['uint8', '-1'],
  ['int8', '128'],
  ['int8', '-129'],
  ['int8', '0x80'],
  ['uint256', `${1n << 256n}`],
  ['uint256', '9'.repeat(60_000)],
  ['int256', `0x${'f'.repeat(60_000)}`],
]
for (const [type, text] of outside) {
  test(`out of range of ${type}: ${text.slice(0, 80)}`, () =>
    assert.deepEqual(places(type, text), ['/args/0 out_of_range']))
}

test('booleans are true and false and nothing else', () => {
  assert.deepEqual(words(encode('bool,bool', 'true', 'false')), ['1'.padStart(64, '0'), '0'.repeat(64)])
  for (const text of ['', 'True', 'TRUE', '1', '0', ' true', '"true"', 'yes', 'null']) {
    assert.deepEqual(places('bool', text), ['/args/0 not_a_boolean'], text)
  }
})

test('addresses are in one case, or in mixed case with the right checksum', () => {
  const word = vitalik.slice(2).toLowerCase().padStart(64, '0')
  for (const text of [vitalik, vitalik.toLowerCase(), `0x${vitalik.slice(2).toUpperCase()}`]) {
    assert.equal(words(encode('address', text))[0], word)
    assert.equal(readAddress(text), vitalik)
  }
  const wrong = [
    vitalik.replace('d8dA', 'D8dA'),
    vitalik.slice(0, -1),
    `${vitalik}0`,
    vitalik.slice(2),
    vitalik.replace('0x', '0X'),
    'vitalik.eth',
    '',
    ` ${vitalik}`,
    `${vitalik}\n`,
  ]
  for (const text of wrong) {
    const code = text.length === 42 && text.startsWith('0x') ? 'bad_checksum' : 'not_an_address'
    assert.deepEqual(places('address', text), [`/args/0 ${code}`], text)
    assert.throws(
      () => readAddress(text),
      (error) => error instanceof AppError && error.code === 'invalid_address',
    )
  }
})

test('bytes are 0x-hexadecimal of whole bytes, and of the right number for bytesN and function', () => {
  assert.equal(words(encode('bytes4', '0xABcdef01'))[0], 'abcdef01'.padEnd(64, '0'))
  assert.equal(words(encode('function', `0x${'ab'.repeat(24)}`))[0], 'ab'.repeat(24).padEnd(64, '0'))
  assert.deepEqual(words(encode('bytes', '0x')), ['20'.padStart(64, '0'), '0'.repeat(64)])
  assert.deepEqual(places('bytes4,bytes4', '0xabcdef', '0xabcdef0102'), [
    '/args/0 wrong_length',
    '/args/1 wrong_length',
  ])
  assert.deepEqual(places('function', `0x${'ab'.repeat(20)}`), ['/args/0 wrong_length'])
  for (const text of ['', '0xabc', '0xgg', 'abcd', '0Xabcd', ' 0x', 'hello']) {
    assert.deepEqual(places('bytes', text), ['/args/0 not_bytes'], text)
  }
})

test('a string is taken as it is, and refused only when it has no UTF-8 form', () => {
  const [, length, text] = words(encode('string', ' "é\0\u202e'))
  assert.equal(Number(`0x${length}`), 8)
  assert.equal(Buffer.from(text!, 'hex').subarray(0, 8).toString('utf8'), ' "é\0\u202e')
  assert.deepEqual(words(encode('string', '')), ['20'.padStart(64, '0'), '0'.repeat(64)])
  assert.deepEqual(places('string,string[]', '\ud800', '["\\udc00"]'), ['/args/0 not_text', '/args/1/0 not_text'])
})

test('in JSON, integers may be bare or quoted and booleans bare or quoted', () => {
  const most = (1n << 256n) - 1n
  assert.equal(
    encode('uint256[]', `[${most}, "${most}", "0x${most.toString(16)}"]`),
    encode('uint256[]', `["${most}",${most},${most}]`),
  )
  assert.equal(encode('bool[2]', '[true,"false"]'), encode('bool[2]', '["true", false]'))
})

test('a tuple is an array, or an object by name in any order', () => {
  const types = '(address to, (uint256 amount, string note)[] parts) order'
  const byPosition = encode(types, `["${vitalik}", [[1,"a"],["0x2","b"]]]`)
  assert.equal(
    encode(types, `{"parts":[{"note":"a","amount":"1"},{"amount":2,"note":"b"}],"to":"${vitalik}"}`),
    byPosition,
  )
})

test('names that poison objects are ordinary names of values', () => {
  const types = '(uint256 __proto__, uint256 valueOf) x'
  assert.equal(encode(types, '{"valueOf":2,"__proto__":1}'), encode(types, '[1,2]'))
  assert.deepEqual(places('(uint256 a) x', '{"a":1,"__proto__":{}}'), ['/args/0/__proto__ unknown_field'])
  assert.deepEqual(places('(uint256 toString) x', '{}'), ['/args/0/toString missing'])
})

const order = 'uint8 n, (address to, (uint8 amount, bool isPaid)[] parts)[] orders'
const misplaced: [what: string, types: string, args: string[], expected: string[]][] = [
  ['too few arguments', 'uint8,uint8', ['1'], ['/args wrong_count']],
  ['too many arguments', '', ['1'], ['/args wrong_count']],
  ['no JSON', 'uint8[]', ['1,2'], ['/args/0 invalid_json']],
  ['an empty text for an array', 'uint8[]', [''], ['/args/0 invalid_json']],
  ['JSON of another kind', 'uint8[]', ['{"0":1}'], ['/args/0 wrong_kind']],
  ['null', 'uint8[],(bool)', ['[null]', 'null'], ['/args/0/0 wrong_kind', '/args/1 wrong_kind']],
  ['a float', 'uint8[]', ['[1.0]'], ['/args/0/0 not_an_integer']],
  ['an exponent', 'uint256[]', ['[1e21]'], ['/args/0/0 not_an_integer']],
  [
    'a float behind deeper values',
    order,
    ['1', `[[${'[],'.repeat(3)}0],{"to":[[0],1],"b":{"c/~":2.5}}]`],
    ['/args/1/1/b/c~1~0 not_an_integer'],
  ],
  ['a float alone', '(uint8 a)', ['1.5'], ['/args/0 not_an_integer']],
  ['a key twice', '(uint8 a)', ['{"a":1,"a":2}'], ['/args/0/a duplicate_key']],
  ['a key twice, deeper', '(uint8 a)[]', ['[[1],{"a":{},"a":2}]'], ['/args/0/1/a duplicate_key']],
  [
    '1 for a bool, true for an integer',
    'bool[],uint8[]',
    ['[1]', '[true]'],
    ['/args/0/0 wrong_kind', '/args/1/0 wrong_kind'],
  ],
  [
    'a bare integer for an address, bytes or string',
    '(address,bytes,string)',
    ['[1,2,3]'],
    ['/args/0/0 wrong_kind', '/args/0/1 wrong_kind', '/args/0/2 wrong_kind'],
  ],
  ['JSON text inside JSON', 'uint8[][]', ['["[1]"]'], ['/args/0/0 wrong_kind']],
  [
    'a fixed array of another length',
    'uint8[2][]',
    ['[[1],[1,2],[1,2,3]]'],
    ['/args/0/0 wrong_count', '/args/0/2 wrong_count'],
  ],
  ['a tuple of another length', '(uint8,uint8)', ['[1]'], ['/args/0 wrong_count']],
  ['an object for unnamed values', '(uint8 a,uint8)', ['{"a":1}'], ['/args/0 unnamed_components']],
  ['an object for two values of one name', '(uint8 a,uint8 a)', ['{"a":1}'], ['/args/0 unnamed_components']],
  [
    'several places at any depth',
    order,
    ['256', `[["${vitalik}",[[1,true],[300,"no"]]],{"to":"0x1","parts":[{"amount":-1}],"a/~b":0}]`],
    [
      ...['/args/0 out_of_range', '/args/1/0/1/1/0 out_of_range', '/args/1/0/1/1/1 not_a_boolean'],
      ...['/args/1/1/a~1~0b unknown_field', '/args/1/1/to not_an_address', '/args/1/1/parts/0/amount out_of_range'],
      '/args/1/1/parts/0/isPaid missing',
    ],
  ],
]
for (const [what, types, args, expected] of misplaced) {
  test(`refused with a pointer to each place: ${what}`, () => assert.deepEqual(places(types, ...args), expected))
}

test('a refusal lists at most 64 places and repeats nothing of what was sent', () => {
  const found = problems('string[],bool[]', '["\\ud800"]', JSON.stringify(Array(5000).fill('secret')))
  assert.equal(found.length, 64)
  assert(!JSON.stringify(found).includes('secret'))
})

test('refusals that are not listed cost nothing', () => {
  const types = `(${Array.from({ length: 64 }, (_, index) => `bool a${index}`).join()})[]`
  const { get } = Map.prototype
  let lookups = 0
  Map.prototype.get = function (key: unknown) {
    lookups++
    return get.call(this, key) as unknown
  }
  try {
    assert.equal(problems(types, `[${Array(10_000).fill('{}').join()}]`).length, 64)
  } finally {
    Map.prototype.get = get
  }
  assert(lookups < 1000, `${lookups} lookups`)
})
