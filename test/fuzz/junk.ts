import fc from 'fast-check'

/** Texts that programs stumble over. Written as escapes: some of them would hide in this file too. */
const awkward = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\u001b[31m',
  '\r\n',
  'x\r\nSet-Cookie: a=b',
  '\u202eabc\u202c',
  '\u200b\u200d\ufeff',
  '\ud800',
  'a\udfffb',
  '\ud800\ud800\udc00',
  '\uffff\ufffe',
  '\u{10ffff}',
  '\u{1f511}'.repeat(300),
  `e${'\u0301'.repeat(300)}`,
  'İıſẞﬃ',
  'null',
  'undefined',
  'NaN',
  'true',
  '-0',
  '1e309',
  '0x',
  '0x0',
  '9'.repeat(400),
  '-1',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  "'; drop table transfers; --",
  '" or 1=1',
  '${7*7}{{7*7}}',
  '<script>alert(1)</script>',
  '../../../etc/passwd',
  '..%2f..%2f',
  '%00',
  '%',
  '%ff',
  '%ed%a0%80',
  '\\u0000',
  '[['.repeat(40),
  '{"a":'.repeat(40),
  'A'.repeat(5_000),
  '\u65e5'.repeat(3_000),
]

/** Any text at all, hostile more often than not. */
export const anyText = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...awkward) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 60 }) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 60 }) },
  { weight: 1, arbitrary: fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 40 }).map((units) => String.fromCharCode(...units)) }, // prettier-ignore
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...awkward), fc.constantFrom(...awkward)).map((two) => two.join('')) }, // prettier-ignore
)

const anyAddress = fc
  .tuple(
    fc.constantFrom('0x', '0X', ''),
    fc.string({ unit: fc.constantFrom(...'0123456789abcdefABCDEFg'.split('')), minLength: 38, maxLength: 42 }),
  ) // prettier-ignore
  .map((parts) => parts.join(''))

const abiWords =
  'function ( ) uint256 uint8 int address string bytes bytes32 bool tuple [] [3] [0] view pure public external payable nonpayable virtual override returns memory calldata error a b $x _ 1 , , ; { } " \\ \n -- /* [ ] uint257 []()'.split(
    ' ',
  )
/** Texts made of what ABIs are made of, in any order. */
export const anyAbi = fc.oneof(
  fc.array(fc.constantFrom(...abiWords), { maxLength: 60 }).map((words) => words.join(' ')),
  fc.array(fc.constantFrom('(', ')', '[', ']', ','), { maxLength: 200 }).map((marks) => `f(${marks.join('')}) view`),
  fc.json().map((json) => `{"type":"function","name":"f","inputs":${json},"outputs":[],"stateMutability":"view"}`),
  fc.json(),
  anyText.map((text) => `f(uint256 ${text}) view returns (string ${text})`),
  anyText,
)

/** Times at the ends of what calendars, JavaScript and databases hold. */
export const TIMES = ['0000-01-01', '0001-01-01T00:00:00+14:00', '9999-12-31T23:59:59-12:00', '-271821-04-20T00:00:00Z', '+275760-09-13T00:00:00.000Z', '1970-01-01', '2024-02-29', '2023-02-29', '2026-01-01T24:00:00Z', '2026-06-30T23:59:60Z'] // prettier-ignore

/** Any text, or one that looks like something. */
export const plausibleText = fc.oneof(
  { weight: 3, arbitrary: anyText },
  { weight: 1, arbitrary: anyAddress },
  { weight: 1, arbitrary: fc.bigInt({ min: -(2n ** 257n), max: 2n ** 257n }).map(String) },
  { weight: 1, arbitrary: fc.json({ maxDepth: 3 }) },
  { weight: 1, arbitrary: fc.constantFrom('mined', 'ERC20', 'in', 'finalized', '50', 'DEV-alice', '2026-01-31', '2026-02-30T25:00:00Z', ...TIMES) }, // prettier-ignore
)

/** Values of JSON, of every kind, as JSON text: numbers that no float holds and keys that poison among them. */
export const anyJson = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('null', 'true', '0', '-1', '1e400', '1.5', '9007199254740993', '[]', '{}', '""', '[null]', '{"__proto__":{"a":1}}', '{"constructor":{"prototype":1}}', '"\\u0000"', '"\\ud800"') }, // prettier-ignore
  { weight: 2, arbitrary: plausibleText.map((text) => JSON.stringify(text)) },
  { weight: 1, arbitrary: fc.json({ maxDepth: 4 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 30 }).map((depth) => '['.repeat(depth) + ']'.repeat(depth)) },
)

const anyTime = fc.oneof(
  fc.constantFrom(...TIMES),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
)
const anyPart = fc.oneof(
  anyText,
  anyTime,
  fc.constantFrom<unknown[]>('', 'balances', '0', 'SUBMITTED', 'tx_00000000-0000-4000-8000-000000000000', 0, -1, 1.5, 1e300, Number.MAX_SAFE_INTEGER, 2_147_483_648, null, true, [], {}), // prettier-ignore
)
const cursorOf = (parts: unknown): string => Buffer.from(JSON.stringify(parts)).toString('base64url')
/** Cursors as their makers would forge them: the right frame around wrong parts. */
export const forgedCursor = fc.oneof(
  fc.array(anyPart, { maxLength: 5 }).map(cursorOf),
  fc.tuple(fc.constantFrom('', 'SUBMITTED', 'MINED'), anyTime, anyText).map(cursorOf),
  fc.tuple(fc.constantFrom('', 'balances'), anyText).map(cursorOf),
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString('base64url')),
)
