import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decodeFunctionData,
  encodeAbiParameters,
  encodeFunctionData,
  getAddress,
  keccak256,
  parseTransaction,
  serializeTransaction,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { hashAuthorization, recoverAuthorizationAddress } from 'viem/utils'
import { dispatchData, type SignedOperation } from '../../test/gas/dispatch.ts'
import { accountOf, artefact, bytesOf, flat, hexOf, sign } from '../../test/gas/stage.ts'
import { caliburDigest, typedDigest } from '../../test/gas/typed.ts'
import { randomOf } from '../../test/random.ts'
import { authorizationDigest } from './authorization.ts'
import type { Hex } from '../ids.ts'
import { GAS_PAIRS } from './addresses.ts'
import { readGasContracts } from './contracts.ts'
import { compact, executeData, operationDigest, packCalls, type GasOperation, type OperationCall } from './operation.ts'
import { assembleTransaction, transactionDigest, type SponsorTransaction } from './transaction.ts'

const ROUNDS = 300
const below = randomOf(20_261)
const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, () => below(256)))
const number = (maxBytes: number): bigint => BigInt(`0x0${bytes(below(maxBytes + 1)).toString('hex')}`)
const anyCall = (): OperationCall => ({
  to: bytes(20),
  value: number(32),
  data: bytes(below(3) === 0 ? 0 : below(200)),
})
const anyOperation = (): GasOperation => ({
  ...{ chainId: 1 + below(2 ** 31), account: bytes(20), dispatcher: bytes(20), space: bytes(20), sequence: number(12) },
  ...{
    calls: Array.from({ length: 1 + below(5) }, anyCall),
    gasLimit: 1 + below(2 ** 31),
    deadline: 1 + below(2 ** 31),
  },
})
const key = accountOf('a signer')
const signed = (operation: GasOperation): SignedOperation => ({
  operation,
  signature: sign(operationDigest(operation), key.key),
})

test('what an account signs is what viem makes of it as typed data (EIP-712)', () => {
  for (let round = 0; round < ROUNDS; round++) {
    const operation = anyOperation()
    assert.equal(hexOf(operationDigest(operation)), hexOf(typedDigest(operation)))
  }
})

test('nothing that does not fit its bytes is signed: the last that fits is, the next is not', () => {
  const [call] = [{ to: bytes(20), value: 0n, data: Buffer.alloc(0) }]
  const good = { ...anyOperation(), calls: [call] }
  const of = (changes: Partial<OperationCall>): Partial<GasOperation> => ({ calls: [{ ...call, ...changes }] })
  const bounds: [fits: Partial<GasOperation>, not: Partial<GasOperation>][] = [
    [{ chainId: 1 }, { chainId: 0 }],
    [{ chainId: Number.MAX_SAFE_INTEGER }, { chainId: 2 ** 53 }],
    [{ account: bytes(20) }, { account: bytes(19) }],
    [{ dispatcher: bytes(20) }, { dispatcher: bytes(21) }],
    [{ space: bytes(20) }, { space: bytes(32) }],
    [{ sequence: 0n }, { sequence: -1n }],
    [{ sequence: (1n << 96n) - 1n }, { sequence: 1n << 96n }],
    [{ calls: [call] }, { calls: [] }],
    [{ calls: Array.from({ length: 255 }, () => call) }, { calls: Array.from({ length: 256 }, () => call) }],
    [of({ value: (1n << 256n) - 1n }), of({ value: 1n << 256n })],
    [of({ value: 1n }), of({ value: -1n })],
    [of({ to: bytes(20) }), of({ to: bytes(19) })],
    [of({ data: Buffer.alloc((1 << 24) - 1) }), of({ data: Buffer.alloc(1 << 24) })],
    [{ gasLimit: 1 }, { gasLimit: 0 }],
    [{ gasLimit: 2 ** 32 - 1 }, { gasLimit: 2 ** 32 }],
    [{ gasLimit: 2 }, { gasLimit: 1.5 }],
    [{ deadline: 1 }, { deadline: 0 }],
    [{ deadline: 2 ** 40 - 1 }, { deadline: 2 ** 40 }],
    [{ deadline: 2 }, { deadline: 1.5 }],
  ]
  for (const [fits, not] of bounds) {
    assert.equal(operationDigest({ ...good, ...fits }).length, 32)
    assert.throws(() => operationDigest({ ...good, ...not }), { name: 'AssertionError' }, JSON.stringify(not, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)).slice(0, 80)) // prettier-ignore
  }
  const authorization = { chainId: 1, address: bytes(20), nonce: 0 }
  assert.equal(authorizationDigest(authorization).length, 32)
  for (const not of [{ chainId: 0 }, { chainId: 2 ** 53 }, { nonce: -1 }, { nonce: 0.5 }, { address: bytes(19) }])
    assert.throws(() => authorizationDigest({ ...authorization, ...not }), { name: 'AssertionError' })
  // A signature has two halves of 32 bytes, and the lower of the two values of s.
  const [r, s] = [bytes(32), Buffer.concat([Buffer.of(0x7f), bytes(31)])]
  assert.equal(compact({ r, s, recovery: 1 }).vs[0], 0xff)
  for (const not of [{ r: bytes(31) }, { s: s.subarray(1) }, { s: Buffer.concat([Buffer.of(0x80), bytes(31)]) }])
    assert.throws(() => compact({ r, s, recovery: 0, ...not }), { name: 'AssertionError' })
})

test('for Calibur it is what viem makes of its types, and what it is called with reads by its ABI as what was written', () => {
  const { dispatcher } = GAS_PAIRS.calibur
  for (let round = 0; round < ROUNDS; round++) {
    const operation = { ...anyOperation(), dispatcher }
    const digest = operationDigest(operation)
    assert.equal(hexOf(digest), hexOf(caliburDigest(operation)))
    const signature = sign(digest, key.key)
    const data = hexOf(executeData(operation, signature))
    const { functionName, args } = decodeFunctionData({ abi: artefact('CaliburStandIn').abi, data })
    const [order, wrapped] = args as [{ batchedCall: unknown; nonce: bigint; keyHash: Hex; executor: Hex; deadline: bigint }, Hex] // prettier-ignore
    const calls = operation.calls.map(({ to, value, data: bytes }) => ({ to: getAddress(hexOf(to)), value, data: hexOf(bytes) })) // prettier-ignore
    assert.equal(functionName, 'execute')
    assert.deepEqual(order.batchedCall, { calls, revertOnFailure: true })
    assert.deepEqual([BigInt(order.keyHash), order.executor, order.deadline], [0n, getAddress(hexOf(dispatcher)), BigInt(operation.deadline)]) // prettier-ignore
    assert.ok(order.nonce !== 0n && order.nonce % 2n ** 64n === 0n)
    assert.equal(encodeAbiParameters([{ type: 'bytes' }, { type: 'bytes' }], [hexOf(flat(signature)), '0x']), wrapped)
    // Encoding it again by the ABI yields the same bytes.
    assert.equal(encodeFunctionData({ abi: artefact('CaliburStandIn').abi.filter((item) => item.type === 'function' && item.inputs.length === 2), functionName, args }), data) // prettier-ignore
  }
})

test('nothing is signed for every network, and nothing that the contracts could not take', () => {
  const operation = anyOperation()
  const [call] = operation.calls as [OperationCall]
  const wrong: Partial<GasOperation>[] = [
    { chainId: 0 },
    { chainId: -1 },
    { chainId: 1.5 },
    { account: Buffer.alloc(19) },
    { dispatcher: Buffer.alloc(32) },
    { space: Buffer.alloc(0) },
    { sequence: -1n },
    { sequence: 2n ** 96n },
    { calls: [] },
    { calls: Array.from({ length: 256 }, () => call) },
    { calls: [{ ...call, to: Buffer.alloc(0) }] },
    { calls: [{ ...call, value: -1n }] },
    { calls: [{ ...call, value: 2n ** 256n }] },
    { calls: [{ ...call, data: Buffer.alloc(2 ** 24) }] },
    { gasLimit: 0 },
    { gasLimit: 2 ** 32 },
    { deadline: 0 },
    { deadline: 2 ** 40 },
  ]
  const { signature } = signed(operation)
  for (const change of wrong) {
    assert.throws(() => operationDigest({ ...operation, ...change }), JSON.stringify(Object.keys(change)))
    assert.throws(() => executeData({ ...operation, ...change }, signature))
  }
  const authorization = { chainId: 1, address: bytes(20), nonce: 0 }
  for (const change of [{ chainId: 0 }, { nonce: -1 }, { nonce: 0.5 }, { address: bytes(32) }])
    assert.throws(() => authorizationDigest({ ...authorization, ...change }))
})

test('a signature is packed as EIP-2098 has it, and one with a high s is not', () => {
  const { r, s } = sign(bytes(32), key.key)
  const { vs } = compact({ r, s, recovery: 1 })
  assert.equal(BigInt(hexOf(vs)), BigInt(hexOf(s)) + 2n ** 255n)
  assert.throws(() => compact({ r, s: Buffer.alloc(32, 0xff), recovery: 0 }))
  assert.throws(() => compact({ r: Buffer.alloc(31), s, recovery: 0 }))
})

test('what the delegate is called with reads by its ABI as what was written', () => {
  for (let round = 0; round < ROUNDS; round++) {
    const { operation, signature } = signed(anyOperation())
    const data = hexOf(executeData(operation, signature))
    const { functionName, args } = decodeFunctionData({ abi: artefact('Delegate').abi, data })
    const id = BigInt(hexOf(operation.space)) * 2n ** 96n + operation.sequence
    const { r, vs } = compact(signature)
    const expected = [id, BigInt(operation.gasLimit), BigInt(operation.deadline), hexOf(r), hexOf(vs), hexOf(packCalls(operation.calls))] // prettier-ignore
    assert.deepEqual([functionName, args], ['execute', expected])
  }
})

test('packed operations read as what was packed', () => {
  for (let round = 0; round < ROUNDS; round++) {
    const first = anyOperation()
    const rest = Array.from({ length: below(4) }, () => ({
      ...anyOperation(),
      ...{ space: first.space, dispatcher: first.dispatcher, chainId: first.chainId },
    }))
    const operations = [first, ...rest].map(signed)
    const { functionName, args } = decodeFunctionData({ abi: artefact('Dispatcher').abi, data: hexOf(dispatchData(operations)) }) // prettier-ignore
    const [space, packed] = args as [string, string]
    assert.deepEqual([functionName, space.toLowerCase()], ['dispatch', hexOf(first.space)])
    assert.deepEqual(unpack(bytesOf(packed)), operations.map(({ operation, signature }) => ({
      ...{ account: operation.account, sequence: operation.sequence, gasLimit: operation.gasLimit, deadline: operation.deadline },
      ...{ r: Buffer.from(signature.r), s: Buffer.from(signature.s), recovery: signature.recovery, calls: operation.calls },
    }))) // prettier-ignore
  }
  const [one, other] = [signed(anyOperation()), signed(anyOperation())]
  assert.throws(() => dispatchData([one, other]), 'of two spaces')
})

/** Decodes an operation independently, by the layout in contracts/Dispatcher.sol. */
function unpack(packed: Buffer): object[] {
  const found: object[] = []
  for (let at = 0; at < packed.length;) {
    const take = (length: number): Buffer => packed.subarray(at, (at += length))
    const whole = (length: number): bigint => (length === 0 ? 0n : BigInt(hexOf(take(length))))
    const head = { account: take(20), sequence: whole(12), gasLimit: Number(whole(4)), deadline: Number(whole(5)) }
    const [r, vs] = [take(32), whole(32)]
    const s = bytesOf(`0x${(vs % 2n ** 255n).toString(16).padStart(64, '0')}`)
    const end = Number(whole(3)) + at
    const calls = Array.from({ length: Number(whole(1)) }, () => {
      const to = take(20)
      const value = whole(Number(whole(1)))
      return { to, value, data: take(Number(whole(3))) }
    })
    assert.equal(at, end)
    found.push({ ...head, r, s, recovery: vs >= 2n ** 255n ? 1 : 0, calls })
  }
  return found
}

test('an authorization is hashed and signed as viem does it (EIP-7702)', async () => {
  const wallet = privateKeyToAccount(hexOf(key.key))
  for (let round = 0; round < 50; round++) {
    const [chainId, nonce, address] = [1 + below(2 ** 31), below(2) * below(2 ** 31), bytes(20)]
    const digest = authorizationDigest({ chainId, nonce, address })
    assert.equal(hexOf(digest), hashAuthorization({ chainId, nonce, contractAddress: hexOf(address) }))
    const theirs = await wallet.signAuthorization({ chainId, nonce, contractAddress: hexOf(address) })
    const signature = sign(digest, key.key)
    assert.equal(BigInt(hexOf(signature.r)), BigInt(theirs.r))
    const recovered = await recoverAuthorizationAddress({
      authorization: { chainId, nonce, address: hexOf(address) },
      signature: hexOf(flat(signature)),
    })
    assert.equal(recovered.toLowerCase(), key.hex)
  }
})

test('transactions of types 2 and 4 are the bytes that viem makes', () => {
  for (let round = 0; round < ROUNDS; round++) {
    const chainId = 1 + below(2 ** 31)
    const authorizations = Array.from({ length: below(4) }, () => {
      const authorization = { chainId, nonce: below(2) * below(2 ** 31), address: bytes(20) }
      return { ...authorization, ...sign(authorizationDigest(authorization), key.key) }
    })
    const transaction: SponsorTransaction = {
      ...{
        chainId,
        nonce: below(2) * below(2 ** 31),
        maxPriorityFeePerGas: BigInt(below(2)),
        gas: BigInt(below(2 ** 24)),
      },
      ...{
        maxFeePerGas: BigInt(1 + below(2 ** 31)),
        to: bytes(20),
        value: number(12),
        data: bytes(below(300)),
        authorizations,
      },
    }
    const theirs = {
      ...{ chainId, nonce: transaction.nonce, maxPriorityFeePerGas: transaction.maxPriorityFeePerGas },
      ...{ maxFeePerGas: transaction.maxFeePerGas, gas: transaction.gas, to: hexOf(transaction.to) },
      ...{ value: transaction.value, data: hexOf(transaction.data) },
      ...(authorizations.length === 0
        ? { type: 'eip1559' as const }
        : {
            type: 'eip7702' as const,
            authorizationList: authorizations.map(({ nonce, address, r, s, recovery }) => ({
              ...{ chainId, nonce, address: hexOf(address), r: hexOf(r), s: hexOf(s), yParity: recovery },
            })),
          }),
    }
    assert.equal(hexOf(transactionDigest(transaction)), keccak256(serializeTransaction(theirs as never)))
    const signature = sign(transactionDigest(transaction), key.key)
    const { raw, hash } = assembleTransaction(transaction, signature)
    const point = { r: hexOf(signature.r), s: hexOf(signature.s), yParity: signature.recovery }
    assert.equal(hexOf(raw), serializeTransaction(theirs as never, point))
    assert.equal(hexOf(hash), keccak256(raw))
    assert.equal(parseTransaction(hexOf(raw) as `0x02${string}`).type, theirs.type)
  }
})

test('the delegate has no instruction that stores, hands over or makes code, or ends', () => {
  const { delegateCode } = readGasContracts()
  const forbidden = new Map([
    [0x54, 'SLOAD'],
    [0x55, 'SSTORE'],
    [0x5c, 'TLOAD'],
    [0x5d, 'TSTORE'],
    [0xf0, 'CREATE'],
    [0xf2, 'CALLCODE'],
    [0xf4, 'DELEGATECALL'],
    [0xf5, 'CREATE2'],
    [0xff, 'SELFDESTRUCT'],
    [0x32, 'ORIGIN'],
  ])
  const calls: number[] = []
  const code = bytesOf(delegateCode)
  for (let at = 0; at < code.length; at++) {
    const instruction = code[at]!
    assert.ok(!forbidden.has(instruction), `${forbidden.get(instruction)} at ${at}`)
    if (instruction === 0xf1) calls.push(at)
    // Bytes after a PUSH are not instructions.
    if (instruction >= 0x60 && instruction <= 0x7f) at += instruction - 0x5f
  }
  assert.equal(calls.length, 1, 'one place calls others')
})
