import { concatHex, encodeAbiParameters, numberToHex, padHex, stringToHex, type Hex } from 'viem'
import {
  answer,
  answerOp,
  answerZeros,
  contract,
  forward,
  loop,
  mint,
  op,
  overflow,
  raw,
  revert,
  revertZeros,
  type Fragment,
} from './assembler.ts'

/**
 * Contracts that break what a reader of tokens may hope for. `answersVary`: what it says depends on more than the
 * block, so two calls may differ honestly. `mints`: it can make the history see it.
 */
export type HostileToken = { name: string; code: Hex; answersVary?: true; mints: boolean }

const word = (number: bigint): Hex => numberToHex(number, { size: 32 })
const text = (string: string): Hex => encodeAbiParameters([{ type: 'string' }], [string])
const bytesAsText = (bytes: Hex): Hex => encodeAbiParameters([{ type: 'bytes' }], [bytes])
const words = (...numbers: bigint[]): Hex => concatHex(numbers.map(word))
const MAX = 2n ** 256n - 1n
const NOBODY = '0x00000000000000000000000000000000deadc0de'

/** Ways to answer that are wrong for every function. */
const endings: Record<string, Fragment> = {
  'runs for ever': loop(),
  'hashes for ever': loop('6020 5f 20 50'),
  'reads storage for ever': loop('5a 54 50'),
  'writes storage for ever': loop('6001 5a 55'),
  'asks the identity precompile for ever': loop('5f 5f 61ffff 5f 5f 6004 5a f1 50'),
  'creates contracts for ever': loop('5f 5f 5f f0 50'),
  'calls itself for ever': raw('5f 5f 36 5f 5f 30 5a f1 5f f3'),
  'logs for ever': loop('61ffff 5f a0'),
  'overflows the stack': overflow,
  'underflows the stack': raw('50'),
  'jumps to nowhere': raw('61ffff 56'),
  'jumps into data': raw('6001 56 605b'),
  'is no opcode': raw('0c'),
  'is the invalid opcode': raw('fe'),
  'is an opcode of EOF': raw('ef'),
  'asks for all memory': raw('6001 7f ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff 52'),
  'asks for a gigabyte of memory': raw('6001 633fffffff 52'),
  'copies return data that is not there': raw('60ff 5f 5f 3e'),
  'destroys itself': raw('33 ff'),
  stops: raw('00'),
  'answers 1 byte': answer('0x07'),
  'answers 31 bytes': answer(`0x${'ff'.repeat(31)}`),
  'answers zero': answer(word(0n)),
  'answers one': answer(word(1n)),
  'answers the largest number': answer(word(MAX)),
  'answers the lowest int256': answer(word(2n ** 255n)),
  'answers 33 bytes': answer(concatHex([word(1n), '0xff'])),
  'answers 64 bytes': answer(words(3n, MAX)),
  'answers 64 zero bytes': answerZeros(64),
  'answers 100 kB of zeros': answerZeros(100_000),
  'answers 1 MB of zeros': answerZeros(1_000_000),
  'answers 1 MiB and a byte': answerZeros(1_048_577),
  'answers 3 MB of zeros': answerZeros(3_000_000),
  'answers 10 MB of zeros': answerZeros(10_000_000),
  'answers 20 kB of ff': answer(`0x${'ff'.repeat(20_000)}`),
  'reverts with nothing': revertZeros(0),
  'reverts with a byte': revert('0x08'),
  'reverts with a reason': revert(concatHex(['0x08c379a0', text('no')])),
  'reverts with a hostile reason': revert(concatHex(['0x08c379a0', bytesAsText('0x00e280ae1b5b33316deda080ff')])),
  'reverts with a reason that lies': revert(concatHex(['0x08c379a0', words(MAX, MAX)])),
  'reverts with half a reason': revert(concatHex(['0x08c379a0', word(32n), word(1_000n)])),
  'reverts with a panic of no meaning': revert(concatHex(['0x4e487b71', word(MAX)])),
  'reverts with a panic cut off': revert('0x4e487b7100'),
  'reverts with insufficient funds': revert(
    concatHex(['0x08c379a0', text('insufficient funds for gas * price + value')]),
  ),
  'reverts with header not found': revert(concatHex(['0x08c379a0', text('header not found')])),
  'reverts with rate limit exceeded': revert(concatHex(['0x08c379a0', text('rate limit exceeded -32005 429')])),
  'reverts with 1 MB': revertZeros(1_000_000),
  'reverts with 3 MB': revertZeros(3_000_000),
  'answers an offset of everything': answer(words(MAX, 1n)),
  'answers an offset into itself': answer(words(0n, 0n)),
  'answers a length of everything': answer(words(32n, MAX)),
  'answers a length of 2^53': answer(words(32n, 2n ** 53n)),
  'answers a length of 4 GiB': answer(words(32n, 2n ** 32n)),
  'answers a length one too long': answer(concatHex([words(32n, 33n), word(1n)])),
  'answers its caller': answerOp('33'),
  'answers its own address': answerOp('30'),
  'answers the block number': answerOp('43'),
  'answers the coinbase': answerOp('41'),
  'asks a precompile with nonsense': raw('6080 6080 61ffff 5f 5f 6005 5a f1 6080 6080 f3'),
  'hands on to nobody': forward(NOBODY),
  'calls nobody': forward(NOBODY, 'call'),
  'hands on to the hash precompile': forward('0x0000000000000000000000000000000000000002'),
  'hands on to the identity precompile': forward('0x0000000000000000000000000000000000000004'),
  'hands on to the pairing precompile': forward('0x0000000000000000000000000000000000000008'),
}

/** Ways to answer that differ from call to call. */
const moods: Record<string, Fragment> = {
  'answers the gas it has': answerOp('5a'),
  'answers the time': answerOp('42'),
  'answers the price of gas': answerOp('3a'),
  'answers the gas limit of the block': answerOp('45'),
}

/** Texts that only `name` and `symbol` can break something with; the bytes as they are between offset and padding. */
const texts: Record<string, Hex> = {
  'a name of nothing': text(''),
  'a name as bytes32': stringToHex('OLD', { size: 32 }),
  'a name as full bytes32': stringToHex('THIRTY-TWO LETTERS, NOT ONE LESS', { size: 32 }),
  'a name as bytes32 that is no text': `0x${'fe'.repeat(32)}`,
  'a name as bytes32 of zeros': word(0n),
  'a name of NULs': text('\0\0\0'),
  'a name around a NUL': text('AB\0CD'),
  'a name that turns around': text('\u202eCDSU\u2066\u2067\u2068\u2069\u200f\u061c'),
  'a name of nothing to see': text('\u200b\u200c\u200d\u2060\ufeff\u00ad\u{e0001}'),
  'a name of terminal colours': text('\u001b[31mred\u001b[0m\u0007\b\b'),
  'a name of markup': text(`<script>alert('x')</script>"'&`),
  'a name of SQL': text(`'; drop table tokens; --`),
  'a name of JSON': text('","decimals":"0'),
  'a name of line breaks': text('a\r\nb\u2028c\u2029d\u0085e'),
  'a name of a lone high surrogate': bytesAsText('0xeda080'),
  'a name of a lone low surrogate': bytesAsText('0xedbfbf'),
  'a name cut off inside a letter': bytesAsText('0x41e282'),
  'a name of wrong bytes': bytesAsText('0xc0afc1bff5808080feff'),
  'a name with marks upon marks': text(`Z${'\u0301'.repeat(500)}`),
  'a name of keys with modifiers': text('👩\u200d👩\u200d👧\u200d👦🏳\ufe0f\u200d🌈'),
  'a name of 64 keys': text('🔑'.repeat(64)),
  'a name of 65 keys': text('🔑'.repeat(65)),
  'a name of noncharacters': text('\uffff\ufffe\u{1ffff}'),
  'a name of private letters': text('\ue000\u{10fffd}'),
  'a name of blanks': text(' \u00a0\u3000\t'),
  'a name of 20 kB': text('N'.repeat(20_000)),
  'a name of 5 kB of nothing and a letter': text(`${'\u200b'.repeat(1_700)}x`),
  'a name without padding': concatHex([words(32n, 3n), stringToHex('ABC')]),
  'a name with dirty padding': concatHex([words(32n, 3n), padHex(stringToHex('ABC'), { dir: 'right', size: 31 }), '0xff']), // prettier-ignore
  'a name behind itself': words(64n, 0n, 3n, BigInt(padHex(stringToHex('ABC'), { dir: 'right', size: 32 }))),
  'a name beside the beat': concatHex([word(33n), '0x00', word(1n), padHex('0x41', { dir: 'right', size: 32 })]),
  'a name that is a list': encodeAbiParameters([{ type: 'string[]' }], [['A', 'B']]),
}

const decimals: Record<string, Fragment> = Object.fromEntries(
  [0n, 1n, 18n, 36n, 77n, 78n, 255n, 256n, 2n ** 31n, 2n ** 53n, 2n ** 64n, 2n ** 128n, 2n ** 255n, MAX].map(
    (number) => [`decimals ${number}`, answer(word(number))],
  ),
)
decimals['decimals as text'] = answer(text('18'))
decimals['decimals as bytes32 text'] = answer(stringToHex('18', { size: 32 }))

/** One word and one text, as decent tokens say them. */
const decent = {
  'balanceOf(address)': answer(word(1_500_000n)),
  'symbol()': answer(text('FINE')),
  'name()': answer(text('A decent token')),
  'decimals()': answer(word(6n)),
}
const token = (more: Record<string, Fragment>, otherwise?: Fragment): Hex =>
  contract({ 'mint(address)': mint, ...decent, ...more }, otherwise)

/** Every hostile contract there is, by construction at least 200. */
export function hostileTokens(): HostileToken[] {
  const made: HostileToken[] = []
  const add = (name: string, code: Hex, more: { answersVary?: true; mints?: boolean } = {}) =>
    made.push({ name, code, mints: true, ...more })
  for (const [name, ending] of Object.entries(endings)) {
    add(`balanceOf ${name}`, token({ 'balanceOf(address)': ending }))
    add(`symbol ${name}`, token({ 'symbol()': ending }))
    add(`decimals ${name}`, token({ 'decimals()': ending }))
    add(`everything ${name}`, contract({ 'mint(address)': mint }, ending))
    add(`any call ${name}`, contract({}, ending), { mints: false })
  }
  for (const [name, ending] of Object.entries(moods)) {
    add(`balanceOf ${name}`, token({ 'balanceOf(address)': ending }), { answersVary: true })
    add(`everything ${name}`, contract({ 'mint(address)': mint }, ending), { answersVary: true })
  }
  for (const [name, data] of Object.entries(texts))
    add(name, token({ 'symbol()': answer(data), 'name()': answer(data) }))
  for (const [name, fragment] of Object.entries(decimals)) add(name, token({ 'decimals()': fragment }))
  for (const [name, code] of Object.entries(shells)) add(name, code, { mints: false })
  return made
}

/** Code that is not what it seems: proxies to nothing, delegations of EIP-7702, what no compiler makes. */
const minimalProxy = (to: Hex): Hex => concatHex(['0x363d3d373d3d3d363d73', to, '0x5af43d82803e903d91602b57fd5bf3'])
const shells: Record<string, Hex> = {
  'a minimal proxy to nobody': minimalProxy(NOBODY),
  'a minimal proxy to a precompile': minimalProxy('0x0000000000000000000000000000000000000001'),
  'a proxy to nobody': forward(NOBODY)(0),
  'a delegation to nobody': concatHex(['0xef0100', NOBODY]),
  'a delegation to a precompile': '0xef01000000000000000000000000000000000000000004',
  // Other code that starts with ef cannot come onto a chain (EIP-3541), and ends anvil.
  'nothing but the invalid opcode': '0xfe',
  'nothing but a stop': '0x00',
  'a push that ends nowhere': '0x7f',
  'half a megabyte of landing places': op('5b'.repeat(500_000)),
}
