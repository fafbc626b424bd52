import { strict as assert } from 'node:assert'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { fuzz } from '../../test/abi-fuzz.ts'
import { encodeCall } from './args.ts'
import { knownError } from './known-errors.ts'
import { parseAbi, selectorOf } from './parse.ts'
import { decodeRevert, type RevertedCall } from './reverts.ts'

const revertData = (signature: string, ...args: string[]) => encodeCall(parseAbi(signature).function, args)
const errorsOf = (items: string) => parseAbi(`f() ${items}`).errors
const someone = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'

test('Error(string) gives the contract’s own sentence', () => {
  const data = revertData('Error(string)', 'ERC20: transfer amount exceeds balance')
  assert.deepEqual(decodeRevert(data, []), {
    name: 'Error',
    signature: 'Error(string)',
    args: ['ERC20: transfer amount exceeds balance'],
    selector: '0x08c379a0',
    data,
    reason: 'ERC20: transfer amount exceeds balance',
  })
  assert.equal(decodeRevert(revertData('Error(string)', ''), []).reason, 'The contract gave no reason.')
})

test('Panic(code) is put in words', () => {
  const revert = decodeRevert(revertData('Panic(uint256)', '0x11'), [])
  assert.equal(revert.name, 'Panic')
  assert.deepEqual(revert.args, [{ type: 'BigNumber', hex: '0x11' }])
  assert.match(revert.reason, /overflowed or underflowed \(0x11\)/)
  for (const code of ['0', '1', '0x12', '0x21', '0x22', '0x31', '0x32', '0x41', '0x51']) {
    assert.doesNotMatch(decodeRevert(revertData('Panic(uint256)', code), []).reason, /unknown/)
  }
  assert.match(decodeRevert(revertData('Panic(uint256)', '0x99'), []).reason, /unknown code 0x99/)
})

test('the caller’s error items are decoded, nested tuples included', () => {
  const errors = errorsOf('error Other(); error Refused((address who, uint256[] amounts) order, string why)')
  const data = revertData('Refused((address,uint256[]),string)', `["${someone}",[1,256]]`, 'late')
  const revert = decodeRevert(data, errors)
  assert.equal(revert.signature, 'Refused((address,uint256[]),string)')
  const amounts = [
    { type: 'BigNumber', hex: '0x01' },
    { type: 'BigNumber', hex: '0x0100' },
  ]
  assert.deepEqual(revert.args, [[someone, amounts], 'late'])
  assert.equal(revert.reason, `The contract reverted with Refused(order: (${someone}, [1, 256]), why: "late").`)
})

test('the caller’s item wins over the built-in one of the same selector', () => {
  const data = revertData('EnforcedPause()')
  assert.equal(decodeRevert(data, errorsOf('error EnforcedPause()')).name, 'EnforcedPause')
  const named = revertData('OwnableInvalidOwner(address)', someone)
  assert.match(decodeRevert(named, errorsOf('error OwnableInvalidOwner(address boss)')).reason, /boss: 0xd8dA/)
  assert.match(decodeRevert(named, []).reason, /owner: 0xd8dA/)
})

test('every error of ERC-6093 and of the OpenZeppelin contracts is known', () => {
  const root = dirname(createRequire(import.meta.url).resolve('@openzeppelin/contracts/package.json'))
  // Enums and contracts have no name in a signature.
  const aliases = {
    IERC20: 'address',
    CallType: 'bytes1',
    ExecType: 'bytes1',
    ProposalState: 'uint8',
    HeaderField: 'uint8',
    ProofError: 'uint8',
  }
  let found = 0
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.sol'))) {
    for (const [, item] of readFileSync(join(root, file), 'utf8').matchAll(/^\s*error\s+([^;]+);/gm)) {
      const text = item!.replaceAll(/\b[A-Z]\w+(?=[ )])/g, (word) => aliases[word as keyof typeof aliases] ?? word)
      const [error] = errorsOf(`error ${text}`)
      assert.deepEqual(
        knownError(selectorOf(error!)),
        { ...error, inputs: knownError(selectorOf(error!))?.inputs },
        text,
      )
      found++
    }
  }
  assert(found > 150)
  for (const text of ['ReentrancyGuardReentrantCall()', 'FailedInnerCall()', 'SafeERC20FailedOperation(address)']) {
    assert(knownError(selectorOf(parseAbi(text).function)), text)
  }
})

test('OffchainLookup (ERC-3668) is named, and what to do, whether or not it decodes', () => {
  const signature = 'OffchainLookup(address,string[],bytes,bytes4,bytes)'
  const data = revertData(
    signature,
    someone,
    '["https://gateway.example/{sender}/{data}.json"]',
    '0x1234',
    '0xb4a85801',
    '0x',
  )
  const decoded = decodeRevert(data, [])
  assert.equal(decoded.name, 'OffchainLookup')
  assert.equal(decoded.signature, signature)
  assert.deepEqual(decoded.args, [
    someone,
    ['https://gateway.example/{sender}/{data}.json'],
    '0x1234',
    '0xb4a85801',
    '0x',
  ])
  const own = decodeRevert(data, errorsOf('error OffchainLookup(address s, string[] u, bytes c, bytes4 f, bytes e)'))
  for (const { reason } of [
    decoded,
    own,
    decodeRevert(data.slice(0, 74), []),
    decodeRevert(`${data}${'00'.repeat(40_000)}`, []),
  ]) {
    assert.match(reason, /outside the network \(OffchainLookup, ERC-3668\)\. This service does not fetch that data\./)
    assert.ok(reason.length <= 256)
    assert.doesNotMatch(reason, /gateway\.example/, 'a contract writes no links into our sentences')
  }
})

test('an unknown error stays raw, with its selector', () => {
  assert.deepEqual(decodeRevert('0xDEADBEEF00', []), {
    name: null,
    signature: null,
    args: null,
    selector: '0xdeadbeef',
    data: '0xdeadbeef00',
    reason: 'The contract reverted with the unknown error 0xdeadbeef.',
  })
})

test('a known selector with data that does not fit stays raw', () => {
  for (const data of ['0x08c379a0', `0x08c379a0${'ff'.repeat(64)}`, '0x4e487b71', '0xe450d38c00']) {
    const revert = decodeRevert(data, [])
    assert.equal(revert.name, null)
    assert.equal(revert.args, null)
    assert.equal(revert.data, data)
  }
})

test('no data, less than a selector, and no bytes at all', () => {
  for (const data of [null, '0x', 'x', '0xabc']) {
    const revert = decodeRevert(data, [])
    assert.equal(revert.reason, 'The contract gave no reason.')
    assert.equal(revert.data, '0x')
    const reasonOf = (called: RevertedCall) => decodeRevert(data, [], called).reason
    const { function: fn } = parseAbi('mint(address to, uint256 amount) public')
    const call = { data: '0xa9059cbb00', value: 0n, fn }
    assert.match(reasonOf(call), /not have a function with the selector 0xa9059cbb\./)
    assert.match(reasonOf({ ...call, value: 1n }), /sent 1 wei, and a function that is not payable accepts no value/)
    assert.match(reasonOf({ ...call, value: 1n, fn: null }), /accepts no value/)
    assert.match(reasonOf({ data: '0x', value: 1n }), /may not accept native currency/)
    const payable = parseAbi('mint(address to, uint256 amount) public payable').function
    assert.equal(reasonOf({ ...call, value: 1n, fn: payable }), reasonOf(call))
  }
  assert.deepEqual(decodeRevert('0xabcdef', []).selector, null)
  assert.equal(decodeRevert('0xabcdef', []).data, '0xabcdef')
})

test('the padding of a string may be missing, as contracts that build reverts by hand leave it out', () => {
  const data = revertData('Error(string)', 'STF')
  assert.equal(decodeRevert(data.slice(0, -58), []).reason, 'STF')
})

test('hostile text reaches the reason without control or bidirectional characters, and args without NUL', () => {
  const hostile = 'pay\0\u202e\u200b me\n\u001b[31m'
  const revert = decodeRevert(revertData('Error(string)', hostile), [])
  assert.equal(revert.reason, 'pay me[31m')
  assert.deepEqual(revert.args, [hostile.replace('\0', '\uFFFD')])
  const custom = decodeRevert(revertData('E(string[] a)', JSON.stringify([hostile])), errorsOf('error E(string[] a)'))
  assert.doesNotMatch(custom.reason, /\p{C}/u)
  const long = decodeRevert(revertData('Error(string)', '😀'.repeat(5000)), [])
  assert.equal(Array.from(long.reason).length, 256)
  assert(long.reason.isWellFormed())
})

test('data over 32 KiB is cut and not decoded', () => {
  const data = revertData('Error(string)', 'a'.repeat(40_000))
  const revert = decodeRevert(data, [])
  assert.equal(revert.data, data.slice(0, 2 + 2 * 32_768))
  assert.equal(revert.name, null)
  assert.match(revert.reason, /truncated from 40068 to 32768 bytes/)
})

/** A `uint256[][]` of `count` arrays that are all the same one, behind a uint8 that does not fit. */
function overlapping(count: number): string {
  const words = [64, 256, count, ...Array<number>(count).fill(count * 32), count, ...Array<number>(count).fill(1)]
  return words.map((value) => value.toString(16).padStart(64, '0')).join('')
}

test('many items of one selector cost no more words than one, whatever the data claims', () => {
  const item = 'error A(uint256[][] a, uint8 b) '
  const readsFor = (count: number): number => {
    const errors = errorsOf(item.repeat(count))
    const data = selectorOf(errors[0]!) + overlapping(60)
    const { readBigUInt64BE } = Buffer.prototype
    let reads = 0
    Buffer.prototype.readBigUInt64BE = function (offset?: number) {
      reads++
      return readBigUInt64BE.call(this, offset)
    }
    try {
      assert.equal(decodeRevert(data, errors).name, null)
    } finally {
      Buffer.prototype.readBigUInt64BE = readBigUInt64BE
    }
    return reads
  }
  const one = readsFor(1)
  assert(one > 500, 'the data costs many words')
  assert(readsFor(64) < 2 * one, `${readsFor(64)} reads for 64 items, ${one} for one`)
})

test('overlapping offsets make no revert that is much larger than its data', () => {
  const errors = errorsOf('error A(uint256[][] a, uint16 b) error S(string[] a)')
  const arrays = (count: number) => decodeRevert(selectorOf(errors[0]!) + overlapping(count), errors)
  assert.equal(arrays(10).name, 'A')
  assert.equal(arrays(20).name, null)
  const strings = [32, 3, 96, 96, 96, 20_000].map((value) => value.toString(16).padStart(64, '0')).join('')
  assert.equal(decodeRevert(`${selectorOf(errors[1]!)}${strings}${'61'.repeat(20_000)}`, errors).name, null)
  const words = Array.from({ length: 1000 }, () => someone)
  const honest = revertData('H(address[])', JSON.stringify(words))
  assert.deepEqual(decodeRevert(honest, errorsOf('error H(address[] all)')).args, [words])
})

test('no data makes it throw', () => {
  const errors = errorsOf('error A(uint8[] a, string b, (bool, address)[2] c) error B()')
  const selectors = ['08c379a0', '4e487b71', 'e450d38c', ...errors.map((item) => selectorOf(item).slice(2))]
  const word = fc.oneof(fc.bigInt({ min: 0n, max: 320n }), fc.bigInt({ min: 0n, max: (1n << 256n) - 1n }))
  const data = fc.tuple(fc.constantFrom(...selectors), fc.array(word, { maxLength: 10 }), fc.nat({ max: 40 }))
  fc.assert(
    fc.property(data, ([selector, words, cut]) => {
      const digits = selector + words.map((value) => value.toString(16).padStart(64, '0')).join('')
      const revert = decodeRevert(`0x${digits.slice(0, Math.max(0, digits.length - 2 * cut))}`, errors)
      assert(revert.reason.length > 0)
      assert.doesNotMatch(revert.reason, /\p{Cc}|\p{Cf}|\p{Cs}/u)
    }),
    fuzz(500),
  )
})
