import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeFunctionData, encodeFunctionData, parseAbi, toFunctionSelector } from 'viem'
import { randomOf } from '../../../test/random.ts'
import { ALL_TOKENS, effectOfCall, type CallClass, type JudgedCall } from './calldata.ts'

const FROM = 'aa'.repeat(20)
const TOKEN = 'cc'.repeat(20)
const BOB = 'bb'.repeat(20)
const hex = (digits: string): Buffer => Buffer.from(digits, 'hex')
const word = (value: bigint | string): string =>
  (typeof value === 'string' ? value : value.toString(16)).padStart(64, '0')

const call = (data: string, changes: Partial<JudgedCall> = {}): JudgedCall => ({
  chainId: 1,
  from: hex(FROM),
  to: hex(TOKEN),
  value: 0n,
  data: hex(data),
  ...changes,
})

/** The table of selectors by another library, in the words of the design. */
const TABLE: [selector: string, signature: string][] = [
  ['a9059cbb', 'function transfer(address,uint256)'],
  ['23b872dd', 'function transferFrom(address,address,uint256)'],
  ['4000aea0', 'function transferAndCall(address,uint256,bytes)'],
  ['1296ee62', 'function transferAndCall(address,uint256)'],
  ['095ea7b3', 'function approve(address,uint256)'],
  ['39509351', 'function increaseAllowance(address,uint256)'],
  ['cae9ca51', 'function approveAndCall(address,uint256,bytes)'],
  ['3177029f', 'function approveAndCall(address,uint256)'],
  ['87517c45', 'function approve(address,address,uint160,uint48)'],
  ['a22cb465', 'function setApprovalForAll(address,bool)'],
  ['959b8c3f', 'function authorizeOperator(address)'],
  ['a457c2d7', 'function decreaseAllowance(address,uint256)'],
  ['d73dd623', 'function increaseApproval(address,uint256)'],
  ['c04a8a10', 'function approveDelegation(address,uint256)'],
  ['66188463', 'function decreaseApproval(address,uint256)'],
  ['110496e5', 'function allow(address,bool)'],
  ['9bd9bbc6', 'function send(address,uint256,bytes)'],
  ['62ad1b83', 'function operatorSend(address,address,uint256,bytes,bytes)'],
  ['fad8b32a', 'function revokeOperator(address)'],
]

test('every function of the table is known by the selector that viem gives it', () => {
  for (const [selector, signature] of TABLE) {
    assert.equal(toFunctionSelector(signature), `0x${selector}`)
    assert.notDeepEqual(effectOfCall(call(selector)).classes, ['CALL'], signature)
  }
})

type Expected = { classes: CallClass[]; token: { address: string; amount: bigint } | null; to: string }

/** The same by viem: what it decodes, put into the words of a rule by hand. */
function expected(signature: string, args: readonly unknown[]): Expected {
  const address = (value: unknown) => (value as string).slice(2).toLowerCase()
  const name = signature.slice('function '.length, signature.indexOf('('))
  const spend = (classes: CallClass[], to: unknown, amount: bigint, token = TOKEN) => ({
    classes,
    to: address(to),
    token: { address: token, amount },
  })
  const approve = (to: unknown, amount: bigint, token = TOKEN): Expected => {
    const isEndless = amount >= (1n << 127n) - 1n || amount === (1n << 96n) - 1n
    return spend(isEndless ? ['APPROVE', 'APPROVE_UNLIMITED'] : ['APPROVE'], to, amount, token)
  }
  const revoke = (to: unknown): Expected => ({ classes: ['REVOKE'], to: address(to), token: null })
  if (['transfer', 'transferAndCall', 'send'].includes(name)) return spend(['TRANSFER'], args[0], args[1] as bigint)
  if (name === 'transferFrom' || name === 'operatorSend')
    return address(args[0]) === FROM
      ? spend(['TRANSFER'], args[1], args[2] as bigint)
      : { classes: ['CALL'], to: TOKEN, token: null }
  if (name === 'approve' && args.length === 4)
    return args[2] === 0n ? revoke(args[1]) : approve(args[1], args[2] as bigint, address(args[0]))
  if (name === 'approveAndCall') return approve(args[0], args[1] as bigint)
  if (['decreaseAllowance', 'decreaseApproval', 'revokeOperator'].includes(name)) return revoke(args[0])
  if ((name === 'setApprovalForAll' || name === 'allow') && args[1] === false) return revoke(args[0])
  if (['setApprovalForAll', 'allow', 'authorizeOperator'].includes(name))
    return spend(['APPROVE', 'APPROVE_ALL'], args[0], ALL_TOKENS)
  return args[1] === 0n ? revoke(args[0]) : approve(args[0], args[1] as bigint)
}

/** 12,000 calldata, the half of them damaged. */
test('what a call does is what viem reads in it, and what viem cannot read is unreadable', () => {
  const random = randomOf(7)
  const bytes = (length: number) => Array.from({ length }, () => random(256).toString(16).padStart(2, '0')).join('')
  const amounts = [
    0n,
    1n,
    (1n << 96n) - 1n,
    (1n << 127n) - 2n,
    (1n << 127n) - 1n,
    (1n << 128n) - 1n,
    (1n << 160n) - 1n,
    (1n << 256n) - 1n,
  ]
  const seen = new Map<string, number>()
  const abis = new Map(TABLE.map(([, signature]) => [signature, parseAbi([signature])]))
  for (let round = 0; round < 12_000; round++) {
    const [selector, signature] = TABLE[random(TABLE.length)]!
    const abi = abis.get(signature)!
    const { inputs } = abi[0] as { inputs: readonly { type: string }[] }
    const args = inputs.map(({ type }, index) => {
      if (type === 'address') return `0x${index === 0 && random(2) === 0 ? FROM : bytes(20)}`
      if (type === 'bool') return random(2) === 0
      if (type === 'bytes') return `0x${bytes(random(70))}`
      const bits = Number(type.slice(4))
      const amount = random(2) === 0 ? amounts[random(amounts.length)]! : BigInt(`0x${bytes(bits / 8)}`)
      return BigInt.asUintN(bits, amount)
    })
    const good = encodeFunctionData({ abi, args } as never).slice(2)
    assert.equal(good.slice(0, 8), selector)
    let data = good
    const damage = random(6)
    if (damage === 1) data = good.slice(0, 8 + 2 * random((good.length - 8) / 2 + 1))
    if (damage === 2) data = good + bytes(1 + random(100))
    if (damage === 3) {
      const at = 8 + random(good.length - 8)
      data = good.slice(0, at) + random(16).toString(16) + good.slice(at + 1)
    }
    const effect = effectOfCall(call(data))
    let decoded: readonly unknown[] | null = null
    try {
      decoded = (decodeFunctionData({ abi, data: `0x${data}` } as never) as { args: readonly unknown[] }).args
    } catch {
      assert.deepEqual(effect.classes, ['UNREADABLE_CALL'], `${signature} ${data}`)
    }
    // viem cuts an address out of its word and a number to nothing; whatever is not exactly so encoded may be refused.
    const isUnreadable = effect.classes.includes('UNREADABLE_CALL')
    if (decoded !== null && isUnreadable) assert.equal(damage === 1 || damage === 3, true, `${signature} ${data}`)
    if (decoded !== null && !isUnreadable) {
      const want = expected(signature, decoded)
      assert.deepEqual(effect.classes, want.classes, `${signature} ${data}`)
      assert.deepEqual(effect.token, want.token)
      assert.deepEqual(effect.recipients, [want.to])
    }
    for (const each of effect.classes) seen.set(each, (seen.get(each) ?? 0) + 1)
  }
  for (const one of ['TRANSFER', 'APPROVE', 'APPROVE_UNLIMITED', 'APPROVE_ALL', 'REVOKE', 'UNREADABLE_CALL', 'CALL'])
    assert.ok((seen.get(one) ?? 0) > 100, `${one}: ${seen.get(one)}`)
})

test('an approval hidden behind padding is the approval that a contract reads', () => {
  const plain = `095ea7b3${word(BOB)}${word((1n << 256n) - 1n)}`
  for (const padding of ['00', '00'.repeat(64), 'ff'.repeat(3), 'a9059cbb'])
    assert.deepEqual(effectOfCall(call(plain + padding)).classes, ['APPROVE', 'APPROVE_UNLIMITED'])
})

test('short calldata, high bits of an address and a bool of 2 are unreadable', () => {
  const transfer = `a9059cbb${word(BOB)}${word(5n)}`
  for (const data of [
    'a9',
    'a9059c',
    'a9059cbb',
    transfer.slice(0, -2),
    `a9059cbb${'01'.padEnd(24, '0')}${BOB}${word(5n)}`,
    `a22cb465${word(BOB)}${word(2n)}`,
    `87517c45${word(TOKEN)}${word(BOB)}${word(1n << 160n)}${word(1n)}`,
    `87517c45${word(TOKEN)}${word(BOB)}${word(1n)}${word(1n << 48n)}`,
    // bytes that begin, or end, outside
    `4000aea0${word(BOB)}${word(5n)}${word(96n)}`,
    `4000aea0${word(BOB)}${word(5n)}${word(96n)}${word(1n)}`,
    `4000aea0${word(BOB)}${word(5n)}${word((1n << 256n) - 4n)}${word(0n)}`,
  ]) {
    const effect = effectOfCall(call(data))
    assert.deepEqual(effect.classes, ['UNREADABLE_CALL'], data)
    assert.equal(effect.recipients, null)
    assert.equal(effect.token, null)
  }
  assert.deepEqual(effectOfCall(call(transfer)).classes, ['TRANSFER'])
})

test('tokens of another account are not the account’s own', () => {
  const from = (owner: string) => effectOfCall(call(`23b872dd${word(owner)}${word(BOB)}${word(5n)}`))
  assert.deepEqual(from(FROM), { classes: ['TRANSFER'], selector: '23b872dd', token: { address: TOKEN, amount: 5n }, recipients: [BOB] }) // prettier-ignore
  assert.deepEqual(from(BOB), { classes: ['CALL'], selector: '23b872dd', token: null, recipients: [TOKEN] })
})

test('value beside a call is of both classes and goes to both', () => {
  const effect = effectOfCall(call(`a9059cbb${word(BOB)}${word(5n)}`, { value: 1n }))
  assert.deepEqual(effect.classes, ['NATIVE', 'TRANSFER'])
  assert.deepEqual(effect.recipients, [TOKEN, BOB])
  assert.deepEqual(effectOfCall(call('')).classes, ['NATIVE'])
  assert.deepEqual(effectOfCall(call('12345678', { value: 1n })).classes, ['NATIVE', 'CALL'])
})
