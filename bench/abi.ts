/**
 * How long the ABI blocks the event loop: hostile texts of 8 KiB through our parser, beside viem's parser on a
 * text half as long, and the everyday calls. Run: `node bench/abi.ts`. Prints milliseconds per call, median and
 * worst of the runs after warming up; the goal is under 5 ms for any text at the limit.
 */
import { decodeFunctionResult, encodeFunctionData, parseAbiItem } from 'viem'
import { encodeCall } from '../src/abi/args.ts'
import { parseAbi } from '../src/abi/parse.ts'
import { decodeResult } from '../src/abi/results.ts'
import { decodeRevert } from '../src/abi/reverts.ts'

const LIMIT = 8192
const fill = (start: string, part: string, length = LIMIT) => start.padEnd(length, part)
const json = (items: string) => `[{"name":"f","inputs":[${items}]}]`

const errorItems = `f() ${'error Abcdefg(uint256 a, address[][] b, (bool c, (int d, bytes e)[2] f)[] g, string[4] memory h, bool) '.repeat(64)}`

const hostile: Record<string, string> = {
  '((((': fill('f', '('),
  'tuple(tuple(': fill('f(', 'tuple('),
  '[][][]': fill('f(uint256', '[]'),
  spaces: fill('f(', ' '),
  'one word': fill('f(uint256 ', 'a'),
  'address and one word': fill('f(address ', 'a'),
  'error items': fill('f() ', 'error A() '),
  '64 error items': errorItems,
  'override(A,A,': fill('f() override(', 'A,'),
  'tuples in tuples': `f(${Array(40).fill('((((((((uint8 a,bytes memory b)[2] c,int)[] d))))))').join()})`,
  'JSON ([([': fill('', '['),
  'JSON {"a":': fill('', '{"a":'),
  'JSON keys': `{${Array.from({ length: 800 }, (_, index) => `"k${index}":0`).join()}}`,
  'JSON escapes': fill('{"', '\\u0041'),
  'JSON digits': fill('{"a":', '9'),
  'JSON brackets in a type': json(`{"type":"${fill('uint8', '[]', 8000)}"}`),
  'JSON tuples': json(
    Array(64).fill('{"type":"tuple","components":[{"type":"uint8","name":"someName"},{"type":"bytes[]"}]}').join(),
  ),
}

type Times = { median: number; worst: number }

/** Milliseconds per call; a refusal is an answer too. */
function time(call: () => unknown, runs: number): Times {
  const times: number[] = []
  for (let run = 0; run < runs * 2; run++) {
    const start = performance.now()
    try {
      call()
    } catch {}
    if (run >= runs) times.push(performance.now() - start)
  }
  times.sort((a, b) => a - b)
  return { median: times[times.length >> 1] ?? 0, worst: times.at(-1) ?? 0 }
}

function print(name: string, { median, worst }: Times): void {
  console.log(`${name.padEnd(44)} ${median.toFixed(4).padStart(10)} ${worst.toFixed(3).padStart(10)}`)
}

console.log(`${'ms per call'.padEnd(44)} ${'median'.padStart(10)} ${'worst'.padStart(10)}`)
for (const [name, text] of Object.entries(hostile))
  print(
    `ours, ${text.length} B: ${name}`,
    time(() => parseAbi(text), 200),
  )
// viem keeps what it has parsed: another name within makes each text a new one.
let made = 0
for (const length of [1000, 2000, 4000]) {
  const pairs = length / 2 - 16
  const nested = () => `function f(${'('.repeat(pairs)}uint256 x${made++}${')'.repeat(pairs)})` as 'function f()'
  const times = time(() => parseAbiItem(nested()), 3)
  print(`viem, ${nested().length} B: nested parentheses`, times)
}

const readText = 'balanceOf(address) public view returns (uint256)'
const owner = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'
const balanceOf = parseAbi(readText).function
const viemItem = parseAbiItem('function balanceOf(address) public view returns (uint256)')
const word = `0x${'1'.padStart(64, '0')}` as const
print(
  'ours: parse balanceOf',
  time(() => parseAbi(readText), 5000),
)
print(
  'ours: encode balanceOf',
  time(() => encodeCall(balanceOf, [owner]), 5000),
)
print(
  'ours: decode balanceOf',
  time(() => decodeResult(balanceOf, word), 5000),
)
print(
  'viem: encode balanceOf',
  time(() => encodeFunctionData({ abi: [viemItem], args: [owner] }), 5000),
)
print(
  'viem: decode balanceOf',
  time(() => decodeFunctionResult({ abi: [viemItem], data: word }), 5000),
)

const reverts = parseAbi(errorItems).errors
print(
  `ours: revert beside ${reverts.length} error items`,
  time(() => decodeRevert('0x12345678', reverts), 200),
)

const list = (type: string, count: number, item: string) => {
  const { function: fn } = parseAbi(`f() view returns (${type}[])`)
  const head = `${'20'.padStart(64, '0')}${count.toString(16).padStart(64, '0')}`
  print(
    `ours: decode ${count} × ${type}`,
    time(() => decodeResult(fn, `0x${head}${item.repeat(count)}`), 5),
  )
}
list('uint256', 32_000, 'ab'.repeat(32))
list('address', 9_900, 'ab'.repeat(20).padStart(64, '0'))
const numbers = JSON.stringify(
  Array(5000).fill('115792089237316195423570985008687907853269984665640564039457584007913129639935'.slice(0, 8)),
)
const sum = parseAbi('f(uint256[])').function
print(
  'ours: encode 5000 × uint256 from JSON',
  time(() => encodeCall(sum, [numbers]), 20),
)
