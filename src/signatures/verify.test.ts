import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { privateKeyToAccount } from 'viem/accounts'
import { encodeFunctionData, getContractAddress, hashMessage, hashTypedData, numberToHex, serializeErc6492Signature } from 'viem/utils' // prettier-ignore
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'

let world: Writing
let alice: Writer
before(async () => {
  world = await writing()
  alice = await world.writer('alice')
})
after(() => world.close())

const owner = privateKeyToAccount(`0x${'11'.repeat(32)}`)
const stranger = privateKeyToAccount(`0x${'22'.repeat(32)}`)
const message = 'Hello'
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
async function verify(body: object): Promise<{ status: number; body: any }> {
  const answer = await world.first.server.inject({
    method: 'POST',
    url: '/v1/signatures/verify',
    headers: { authorization: `Bearer ${alice.token}`, 'content-type': 'application/json' },
    payload: JSON.stringify(body),
  })
  return { status: answer.statusCode, body: answer.json() }
}

/** Checks one signature of `message`. */
async function check(address: string, signature: string): Promise<string | null> {
  const { status, body } = await verify({ address, message, signature })
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.hash, hashMessage(message))
  assert.equal(body.valid, body.method !== null)
  return body.method
}

const artefact = (name: string): { abi: readonly unknown[]; bytecode: Hex } =>
  JSON.parse(readFileSync(join(import.meta.dirname, `../../contracts/out/${name}.json`), 'utf8'))

async function send(call: { to?: Hex; data: Hex }): Promise<Hex> {
  const [from] = await world.rpc<Hex[]>('eth_accounts')
  const hash = await world.rpc<Hex>('eth_sendTransaction', { from, gas: '0x4c4b40', ...call })
  await world.mine()
  const { status, contractAddress } = await world.rpc<{ status: Hex; contractAddress: Hex }>('eth_getTransactionReceipt', hash) // prettier-ignore
  assert.equal(status, '0x1')
  return contractAddress
}

const deploy = (name: string, argument = ''): Promise<Hex> => send({ data: `${artefact(name).bytecode}${argument}` })
const word = (hex: string): string => hex.slice(2).toLowerCase().padStart(64, '0')

test('a signature of a key is valid in its long and its short form, and in no other', async () => {
  const signature = await owner.signMessage({ message })
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), Number.parseInt(signature.slice(130), 16)]
  const vs = numberToHex(BigInt(`0x${s}`) | (BigInt(v - 27) << 255n), { size: 32 }).slice(2)
  const high = numberToHex(ORDER - BigInt(`0x${s}`), { size: 32 }).slice(2)
  const cases: [string, string, string | null][] = [
    ['as it is made', signature, 'eoa'],
    ['short (EIP-2098)', `0x${r}${vs}`, 'eoa'],
    ['with the other s of the same point (EIP-2)', `0x${r}${high}${(55 - v).toString(16)}`, null],
    ['with v as a parity', `0x${r}${s}0${v - 27}`, null],
    ['with v of the other point', `0x${r}${s}${(55 - v).toString(16)}`, null],
    ['two bytes short', signature.slice(0, -4), null],
    ['one byte long', `${signature}00`, null],
    ['of zeros', `0x${'00'.repeat(65)}`, null],
    ['of nothing', '0x', null],
    ['of a stranger', await stranger.signMessage({ message }), null],
  ]
  for (const [name, given, method] of cases) assert.equal(await check(owner.address, given), method, name)
})

test('typed data and bytes are verified as viem hashes them', async () => {
  const typedData = {
    types: { Mail: [{ name: 'text', type: 'string' }] },
    primaryType: 'Mail',
    domain: { name: 'Post', chainId: 31_337 },
    message: { text: 'Hello' },
  } as const
  const signature = await owner.signTypedData(typedData)
  for (const given of [typedData, JSON.stringify(typedData)]) {
    const { body } = await verify({ address: owner.address, typedData: given, signature })
    assert.deepEqual(body, { valid: true, method: 'eoa', hash: hashTypedData(typedData) })
  }
  const raw = await owner.signMessage({ message: { raw: '0x00ff' } })
  assert.equal((await verify({ address: owner.address, hex: '0x00ff', signature: raw })).body.valid, true)
})

test('a contract decides about its signatures (ERC-1271), and everything but its exact yes is a no', async () => {
  const wallet = await deploy('SmartWallet', word(owner.address))
  const signature = await owner.signMessage({ message })
  assert.equal(await check(wallet, signature), 'erc1271')
  assert.equal(await check(wallet, await stranger.signMessage({ message })), null)
  const moods: [number, string | null][] = [[1, 'erc1271'], [2, null], [3, null], [4, null], [5, null], [6, null], [7, null]] // prettier-ignore
  const { abi } = artefact('SmartWallet')
  for (const [mood, method] of moods) {
    await send({ to: wallet, data: encodeFunctionData({ abi, functionName: 'become', args: [mood] }) })
    assert.equal(await check(wallet, signature), method, `mood ${mood}`)
  }
  assert.equal(await check(world.probe, signature), null)
})

test('a wallet that is not deployed yet is asked as its factory would make it (ERC-6492), and stays so', async () => {
  const factory = await deploy('SmartWalletFactory')
  const salt: Hex = `0x${'05'.repeat(32)}`
  const wallet = getContractAddress({ opcode: 'CREATE2', from: factory, salt, bytecode: `${artefact('SmartWallet').bytecode}${word(owner.address)}` }) // prettier-ignore
  const data = encodeFunctionData({ abi: artefact('SmartWalletFactory').abi, functionName: 'make', args: [owner.address, salt] }) // prettier-ignore
  const wrapped = (signature: Hex, address: Hex = factory) => serializeErc6492Signature({ address, data, signature })
  const signature = await owner.signMessage({ message })
  assert.equal(await check(wallet, wrapped(signature)), 'erc6492')
  assert.equal(await check(wallet, wrapped(await stranger.signMessage({ message }))), null)
  assert.equal(await check(wallet, wrapped(signature, world.probe)), null)
  assert.equal(await check(stranger.address, wrapped(signature)), null)
  assert.equal(await check(wallet, signature), null)
  // Malformed, but with the mark of the form.
  assert.equal(await check(wallet, `0x${'ff'.repeat(64)}${'6492'.repeat(16)}`), null)
  assert.equal(await check(wallet, `0x${'6492'.repeat(16)}`), null)
  assert.equal(await world.rpc('eth_getCode', wallet, 'latest'), '0x')
  await send({ to: factory, data })
  assert.equal(await check(wallet, wrapped(signature)), 'erc6492')
  assert.equal(await check(wallet, signature), 'erc1271')
})

test('an account that delegates to our code answers a contract that asks it for the plain signature, as Permit2 does', async () => {
  const delegate = await deploy('Delegate')
  await world.rpc('anvil_setCode', owner.address, `0xef0100${delegate.slice(2)}`)
  try {
    const signature = await owner.signMessage({ message })
    const isValidSignature = (by: Hex) =>
      encodeFunctionData({ abi: artefact('Delegate').abi, functionName: 'isValidSignature', args: [hashMessage(message), by] }) // prettier-ignore
    const ask = (by: Hex) => world.rpc<Hex>('eth_call', { to: owner.address, data: isValidSignature(by) }, 'latest')
    assert.equal(await ask(signature), `0x1626ba7e${'00'.repeat(28)}`)
    assert.equal(await ask(await stranger.signMessage({ message })), `0xffffffff${'00'.repeat(28)}`)
    assert.equal(await check(owner.address, signature), 'eoa')
    assert.equal(await check(owner.address, await stranger.signMessage({ message })), null)
  } finally {
    await world.rpc('anvil_setCode', owner.address, '0x')
  }
})

test('without a node, only what a key decides is answered', async () => {
  const signature = await owner.signMessage({ message })
  world.first.misbehave(() => Promise.reject(new RpcUnavailable('away', { timedOut: false })))
  try {
    assert.equal(await check(owner.address, signature), 'eoa')
    for (const given of ['0x', `0x${'6492'.repeat(16)}`]) {
      // No call of an earlier test has the answer to this one.
      const { status, body } = await verify({ address: owner.address, message: 'New', signature: given })
      assert.deepEqual([status, body.code], [502, 'chain_unavailable'])
    }
  } finally {
    world.first.misbehave(null)
  }
})

test('what cannot be verified is refused with the place of the fault', async () => {
  const good = { address: owner.address, message, signature: '0x' }
  const cases: [object, number, string, string][] = [
    [{ ...good, address: '0x12' }, 400, 'invalid_address', '/address'],
    [{ ...good, address: owner.address.replace(/[a-f]/, (digit) => digit.toUpperCase()) }, 400, 'invalid_address', '/address'], // prettier-ignore
    [{ ...good, signature: '0x1' }, 400, 'invalid_request', '/signature'],
    [{ address: owner.address, message }, 400, 'invalid_request', '/signature'],
    [{ ...good, hex: '0x' }, 400, 'invalid_request', '/message'],
    [{ ...good, message: undefined, typedData: {} }, 422, 'invalid_typed_data', '/typedData/types'],
  ]
  for (const [given, status, code, pointer] of cases) {
    const { status: found, body } = await verify(given)
    assert.deepEqual([found, body.code, body.errors?.[0].pointer], [status, code, pointer], JSON.stringify(body))
  }
})
