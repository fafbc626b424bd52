import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { AppError } from '../errors.ts'
import { parseAbi } from './parse.ts'
import { decodeResult } from './results.ts'

const decode = (types: string, data: string) =>
  decodeResult(parseAbi(types === '' ? 'f() view' : `f() view returns (${types})`).function, data)

const word = (value: bigint | number) => BigInt.asUintN(256, BigInt(value)).toString(16).padStart(64, '0')
const words = (...values: (bigint | number)[]) => values.map(word).join('')
const data = (...values: (bigint | number)[]) => `0x${words(...values)}`
const text = (value: string) => Buffer.from(value).toString('hex').padEnd(64, '0')
const big = (hex: string) => ({ type: 'BigNumber', hex })
const owner = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'

test('no return is null, one is bare, several are an array', () => {
  assert.deepEqual(decode('', '0x'), { response: null, outputs: [] })
  assert.deepEqual(decode('', data(1)).response, null)
  assert.equal(decode('bool', data(0)).response, false)
  assert.deepEqual(decode('bool,uint8', data(1, 2)).response, [true, big('0x02')])
  assert.deepEqual(decode('(bool)', data(1)).response, [true])
})

test('outputs repeat the values with names and types, tuples as lists of outputs', () => {
  const types = 'uint8 id, (address owner, (bool ok, uint8[2] xs)[] parts) info, bytes2'
  const { response, outputs } = decode(
    types,
    `${data(7, 96)}${'beef'.padEnd(64, '0')}${words(BigInt(owner), 64, 1, 1, 8, 9)}`,
  )
  assert.deepEqual(response, [big('0x07'), [owner, [[true, [big('0x08'), big('0x09')]]]], '0xbeef'])
  const parts = [
    [
      { name: 'ok', type: 'bool', value: true },
      { name: 'xs', type: 'uint8[2]', value: [big('0x08'), big('0x09')] },
    ],
  ]
  assert.deepEqual(outputs, [
    { name: 'id', type: 'uint8', value: big('0x07') },
    {
      name: 'info',
      type: 'tuple',
      value: [
        { name: 'owner', type: 'address', value: owner },
        { name: 'parts', type: 'tuple[]', value: parts },
      ],
    },
    { name: '', type: 'bytes2', value: '0xbeef' },
  ])
})

test('invalid UTF-8 becomes U+FFFD and a byte order mark stays', () => {
  assert.equal(decode('string', `${data(32, 4)}${'61ff62ed'.padEnd(64, '0')}`).response, 'a\uFFFDb\uFFFD')
  assert.equal(decode('string', `${data(32, 4)}${'efbbbf61'.padEnd(64, '0')}`).response, '\uFEFFa')
})

test('what follows the values is ignored, and padding may be dirty', () => {
  assert.deepEqual(decode('uint8', data(5, 6)).response, big('0x05'))
  assert.equal(decode('string', `${data(32, 1)}${'61'.padEnd(64, 'f')}`).response, 'a')
})

const most = (1n << 256n) - 1n
const lies: [what: string, types: string, data: string][] = [
  ['no data', 'uint256', '0x'],
  ['half a word', 'uint256', `0x${'00'.repeat(31)}`],
  ['half a byte', 'uint256', `${data(1)}0`],
  ['no hexadecimal', 'uint256', `0x${'zz'.repeat(32)}`],
  ['one of two values', 'uint256,uint256', data(1)],
  ['dirty bits above a uint8', 'uint8', data(256)],
  ['dirty bits above an int8', 'int8', data(128)],
  ['an int8 with half a sign', 'int8', `0x00${'ff'.repeat(31)}`],
  ['a bool of 2', 'bool', data(2)],
  ['dirty bits above an address', 'address', data(1n << 160n)],
  ['dirty bits below a bytes4', 'bytes4', data(1)],
  ['dirty bits below a function', 'function', data(1)],
  ['an offset just past the end', 'string', data(33, 0)],
  ['an offset of 2^256 - 1', 'string', data(most, 0)],
  ['an offset of 2^64 + 32', 'string', data((1n << 64n) + 32n, 0)],
  ['a length past the end', 'bytes', data(32, 33, 0)],
  ['a length of 2^256 - 1', 'bytes', data(32, most, 0)],
  ['a string without its padding', 'string', `${data(32, 1)}61`],
  ['an array past the end', 'uint8[]', data(32, 2, 1)],
  ['an array of 2^255 items', 'uint256[]', data(32, 1n << 255n, 1)],
  ['an array of 2^40 tuples', '(uint256,uint256)[]', data(32, 1n << 40n, 1)],
  ['a fixed array past the end', 'uint8[131072]', data(1)],
  ['a large fixed array of strings', 'string[100000]', data(32, 32)],
  ['an inner offset past the end', 'string[]', data(32, 1, 64)],
]
for (const [what, types, hex] of lies) {
  test(`refused as invalid_return_data: ${what}`, () => {
    assert.throws(
      () => decode(types, hex),
      (error) => error instanceof AppError && error.code === 'invalid_return_data',
    )
  })
}

test('every cut of an honest answer is refused', () => {
  const whole = `${data(7, 64, 2, 64, 128, 1)}${text('a')}${words(2)}${text('bc')}`
  assert.deepEqual(decode('uint8,string[]', whole).response, [big('0x07'), ['a', 'bc']])
  for (let end = 2; end < whole.length; end += 2) {
    assert.throws(() => decode('uint8,string[]', whole.slice(0, end)), AppError)
  }
})

/** An array of `count` offsets that all lead to one array of the same kind, and so on: `count` to the power of `depth`. */
function bomb(count: number, depth: number): string {
  const level = (isLast: boolean) => [count, ...Array<number>(count).fill(isLast ? 1 : count * 32)]
  return data(32, ...Array.from({ length: depth }, (_, index) => level(index === depth - 1)).flat())
}

test('overlapping offsets cannot use the same bytes for many values', () => {
  const shared = data(32, 3, 96, 96, 96, 2, 7, 8)
  const pair = [big('0x07'), big('0x08')]
  assert.deepEqual(decode('uint8[][]', shared).response, [pair, pair, pair])
  for (const [types, hex] of [
    ['uint8[][]', bomb(30, 2)],
    ['uint8[][][][]', bomb(100, 4)],
    ['address[][]', bomb(30, 2)],
    ['(bool a)[][]', bomb(30, 2)],
  ] as const) {
    assert.throws(() => decode(types, hex), /uses the same bytes for many values/, types)
  }
  const long = 'ab'.repeat(65_536)
  const overlapping = (count: number) => `${data(32, count, ...Array<number>(count).fill(count * 32), 65_536)}${long}`
  assert.equal((decode('bytes[]', overlapping(2)).response as unknown[]).length, 2)
  assert.throws(() => decode('bytes[]', overlapping(3)), /uses the same bytes for many values/)
  assert.throws(() => decode('string[]', overlapping(3)), /uses the same bytes for many values/)
})

test('an answer has at most 4 MiB, and 100,000 values or 10,000 addresses', () => {
  const list = (count: number) => `${data(32, count)}${word(1).repeat(count)}`
  // The array is a value too.
  assert.equal((decode('uint8[]', list(99_999)).response as unknown[]).length, 99_999)
  assert.throws(() => decode('uint8[]', list(100_000)), /more than 100000 values/)
  assert.equal((decode('address[]', list(9_999)).response as unknown[]).length, 9_999)
  assert.throws(() => decode('address[]', list(10_000)), /more than 100000 values/)
  assert.throws(() => decode('bytes', `0x${'00'.repeat(4_194_305)}`), /more than 4194304 bytes/)
})

test('offsets that lead back to themselves end with the depth of the type', () => {
  // The tuple is said to start at its own offset, and so is the tuple within it.
  assert.deepEqual(decode('((string a) b)', data(0)).response, [['']])
  assert.deepEqual(decode('uint8[][][][]', data(32, 1, 0)).response, [[]])
})
