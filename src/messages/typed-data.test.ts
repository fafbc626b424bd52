import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TypedDataEncoder } from 'ethers'
import { hashTypedData } from 'viem'
import { randomOf } from '../../test/random.ts'
import { checksummed } from './address.ts'
import { digestOf, messageText, readMessage } from './message.ts'
import { domainSeparator } from './typed-data.ts'

type Member = { name: string; type: string }
type Source = {
  types: Record<string, Member[]>
  primaryType: string
  domain: Record<string, unknown>
  message: Record<string, unknown>
}

const digest = (typedData: unknown): string => `0x${digestOf(readMessage({ typedData })).toString('hex')}`

/** Source: EIP-712, example */
const MAIL: Source = {
  types: {
    EIP712Domain: [
      { name: 'name', type: 'string' },
      { name: 'version', type: 'string' },
      { name: 'chainId', type: 'uint256' },
      { name: 'verifyingContract', type: 'address' },
    ],
    Person: [
      { name: 'name', type: 'string' },
      { name: 'wallet', type: 'address' },
    ],
    Mail: [
      { name: 'from', type: 'Person' },
      { name: 'to', type: 'Person' },
      { name: 'contents', type: 'string' },
    ],
  },
  primaryType: 'Mail',
  domain: {
    name: 'Ether Mail',
    version: '1',
    chainId: 1,
    verifyingContract: '0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC',
  },
  message: {
    from: { name: 'Cow', wallet: '0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826' },
    to: { name: 'Bob', wallet: '0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB' },
    contents: 'Hello, Bob!',
  },
}

test('the example of EIP-712 has its type, domain separator and digest', () => {
  const message = readMessage({ typedData: MAIL })
  assert.ok(message.kind === 'typedData')
  assert.equal(
    message.typed.encodedType,
    'Mail(Person from,Person to,string contents)Person(string name,address wallet)',
  )
  assert.equal(
    domainSeparator(message.typed.domain).toString('hex'),
    'f2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f',
  )
  assert.equal(digest(MAIL), '0xbe609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2')
  assert.equal(digest(JSON.stringify(MAIL, null, 2)), digest(MAIL))
})

/** Generates typed data with structs in structs, arrays in arrays and every elementary type. */
function generated(seed: number): Source {
  const whole = randomOf(seed)
  const hex = (length: number) => `0x${Array.from({ length }, () => whole(256).toString(16).padStart(2, '0')).join('')}`
  const elementary = (): string =>
    [
      ...['address', 'bool', 'string', 'bytes'],
      `bytes${1 + whole(32)}`,
      `uint${8 * (1 + whole(32))}`,
      `int${8 * (1 + whole(32))}`,
    ][whole(7)]!
  const names = ['Zebra', 'Alpha', '_Item', 'tree2'].slice(0, 1 + whole(4))
  const types: Record<string, Member[]> = {}
  for (const [index, name] of names.entries()) {
    const next = names[index + 1]
    const members = Array.from({ length: 1 + whole(4) }, elementary)
    // Each type has the next one, so that all are used and none contains itself.
    if (next !== undefined) members.push(next)
    types[name] = members.map((type, at) => {
      return {
        name: `${'abcdef'[at]}${whole(100)}`,
        type: type + ['', '', '[]', '[2]', '[][2]'][whole(type === next || names.length === 4 ? 4 : 5)]!,
      }
    })
  }
  const integer = (bits: number, isSigned: boolean): string => {
    const number = BigInt(hex(32)) >> BigInt(256 - bits + whole(bits))
    return isSigned ? BigInt.asIntN(bits, number).toString() : number.toString()
  }
  const value = (type: string): unknown => {
    const [, element, length] = /^(.+)\[(\d*)\]$/.exec(type) ?? []
    if (element !== undefined) return Array.from({ length: length === '' ? whole(3) : Number(length) }, () => value(element)) // prettier-ignore
    if (types[type] !== undefined) return Object.fromEntries(types[type].map((one) => [one.name, value(one.type)]))
    if (type === 'address') return checksummed(Buffer.from(hex(20).slice(2), 'hex'))
    if (type === 'bool') return whole(2) === 0
    if (type === 'string') return ['', 'text', 'Grüße\n"\\', '🐄'][whole(4)]
    if (type === 'bytes') return hex(whole(70))
    const [, kind, size] = /^(bytes|u?int)(\d+)$/.exec(type)!
    return kind === 'bytes' ? hex(Number(size)) : integer(Number(size), kind === 'int')
  }
  const domain = Object.fromEntries(
    Object.entries({
      name: 'Test',
      version: '1',
      chainId: whole(1e9),
      verifyingContract: checksummed(Buffer.from(hex(20).slice(2), 'hex')),
      salt: hex(32),
    }).filter((_, index) => index === whole(5) || whole(10) < 7),
  )
  if (Object.keys(domain).length === 0) domain.name = 'Test'
  return { types, primaryType: names[0]!, domain, message: value(names[0]!) as Record<string, unknown> }
}

test('200 generated messages hash as viem and ethers hash them, from an object, from its text and from the one form', () => {
  for (let index = 0; index < 200; index++) {
    const source = generated(index)
    const expected = hashTypedData(source as Parameters<typeof hashTypedData>[0])
    assert.equal(TypedDataEncoder.hash(source.domain, source.types, source.message), expected, 'the libraries agree')
    assert.equal(digest(source), expected, JSON.stringify(source))
    assert.equal(digest(JSON.stringify(source)), expected)
    const payload = TypedDataEncoder.getPayload(source.domain, source.types, source.message) as unknown
    assert.equal(digest(payload), expected, 'as ethers sends it to a wallet')
    const { content } = messageText(readMessage({ typedData: source }))
    assert.equal(digest(content), expected)
    assert.equal(messageText(readMessage({ typedData: content })).content, content, 'there is one form')
  }
})
