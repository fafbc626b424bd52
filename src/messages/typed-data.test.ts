import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TypedDataEncoder } from 'ethers'
import { hashTypedData } from 'viem'
import { randomOf } from '../../test/random.ts'
import { checksummed } from './address.ts'
import { digestOf, messageText, MessageInvalid, readMessage } from './message.ts'
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

test('whatever names are accepted, viem and ethers hash them alike', () => {
  const starts = ['', '$', '_', 'int', 'uint', 'bytes', 'byte', 'bool', 'string', 'address', 'fixed', 'function', 'mapping', 'tuple', 'Int', 'x'] // prettier-ignore
  const names = starts.flatMap((start) => ['', '$', '_', '1', '8', '32', '256', 'er', 'Box', 'a$b', '$1'].map((end) => start + end)) // prettier-ignore
  const counts = { structs: 0, members: 0 }
  const hashesAlike = ({ types, primaryType, domain, message }: Source): boolean => {
    const source = { types, primaryType, domain, message }
    try {
      readMessage({ typedData: source })
    } catch {
      return false
    }
    assert.equal(digest(source), hashTypedData(source as Parameters<typeof hashTypedData>[0]), JSON.stringify(types))
    assert.equal(digest(source), TypedDataEncoder.hash(domain, types, message))
    return true
  }
  const item = [{ name: 'value', type: 'uint8' }]
  for (const name of names) {
    const rest = { domain: { name: 'Test' }, message: { item: { value: 7 }, items: [{ value: 8 }] } }
    const members = [{ name: 'item', type: name }, { name: 'items', type: `${name}[]` }] // prettier-ignore
    if (hashesAlike({ ...rest, types: { One: members, [name]: item }, primaryType: 'One' })) counts.structs++
    if (hashesAlike({ types: { [name]: item }, primaryType: name, domain: rest.domain, message: { value: 7 } })) counts.structs++ // prettier-ignore
    if (hashesAlike({ types: { One: [{ name, type: 'uint8' }] }, primaryType: 'One', domain: rest.domain, message: { [name]: 7 } })) counts.members++ // prettier-ignore
  }
  assert.ok(counts.structs > 100 && counts.members > 100, JSON.stringify(counts))
  for (const name of ['intent', 'internalOrder', 'uintBox', 'bytesHolder', 'A$B', '$Mail'])
    refused({ types: { One: [{ name: 'item', type: name }], [name]: item }, primaryType: 'One', domain: { name: 'Test' }, message: { item: { value: 7 } } }, /^\/types\//, name) // prettier-ignore
})

test('the order in which types are declared does not matter, and whether the domain is declared', () => {
  const { EIP712Domain, Person, Mail } = MAIL.types
  for (const types of [
    { Mail, Person },
    { Mail, EIP712Domain, Person },
  ] as Source['types'][]) {
    const other = readMessage({ typedData: { ...MAIL, types } })
    assert.deepEqual(messageText(other), messageText(readMessage({ typedData: MAIL })))
  }
})

/** One field of one type, and its value. */
const one = (type: string, value: unknown): Source => ({
  types: { One: [{ name: 'field', type }] },
  primaryType: 'One',
  domain: { name: 'Test' },
  message: { field: value },
})

const BOB = '0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB'

test('an integer is a JSON number, decimal digits or hexadecimal digits, and the same message', () => {
  const expected = digest(one('uint256', '4660'))
  for (const value of [4660, '0x1234', '0x001234']) assert.equal(digest(one('uint256', value)), expected)
  assert.equal(digest(one('int8', -128)), digest(one('int8', '-128')))
  assert.equal(digest(one('uint256', 2 ** 53 - 1)), digest(one('uint256', '9007199254740991')))
  assert.equal(digest(one('uint256', `0x${'f'.repeat(64)}`)), digest(one('uint256', (2n ** 256n - 1n).toString())))
})

test('an address is read in one case, or with its checksum', () => {
  const expected = digest(one('address', BOB))
  for (const text of [BOB.toLowerCase(), `0x${BOB.slice(2).toUpperCase()}`])
    assert.equal(digest(one('address', text)), expected)
})

test('a value that is not exactly of its type is refused, and nothing is coerced', () => {
  const wrong: [type: string, ...values: unknown[]][] = [
    ['uint8', 256, '256', '0x100', -1, '-1', 1.5, '1.5', '1e2', ' 1', '01', '', '0x', '+1', '1n', null, true, [1], {}],
    ['int8', 128, -129, '0x80'],
    ['uint256', 2 ** 53, 2 ** 256, (2n ** 256n).toString(), `0x1${'0'.repeat(64)}`, Number.NaN, '9'.repeat(79)],
    ['int256', (2n ** 255n).toString(), (-(2n ** 255n) - 1n).toString()],
    ['address', `${BOB}00`, BOB.slice(0, -2), BOB.slice(2), BOB.replace('0xb', '0xB'), 0, null, '', 'vitalik.eth'],
    ['bool', 0, 1, 'true', '', null],
    ['string', 1, null, true, ['text'], '\ud800', 'a\udc00'],
    ['bytes', '', '0x0', '0xzz', 'ff', 1, null, [255], '0X00'],
    ['bytes4', '0x', '0x112233', '0x1122334455', '11223344', null],
    ['uint8[]', 1, '1', null, { 0: 1 }, { length: 0 }],
    ['uint8[2]', [], [1], [1, 2, 3], [1, null]],
    ['uint8[2][]', [1, 2], [[1]], [[1, 2, 3]]],
    ['uint8[][2]', [[1]], [[1], [2], [3]], [1, 2]],
  ]
  for (const [type, ...values] of wrong)
    for (const value of values) refused(one(type, value), /^\/message\/field/, `${type} ${JSON.stringify(value)}`)
})

function refused(typedData: unknown, pointer: RegExp | string, what: string): void {
  assert.throws(
    () => readMessage({ typedData }),
    (error) => {
      assert.ok(error instanceof MessageInvalid, what)
      assert.equal(error.code, 'invalid_typed_data')
      if (typeof pointer === 'string') assert.equal(error.pointer, pointer, what)
      else assert.match(error.pointer, pointer, what)
      return true
    },
    what,
  )
}

test('what is not a type of EIP-712 is refused', () => {
  for (const type of [
    'uint',
    'int',
    'uint7',
    'uint0',
    'uint264',
    'uint08',
    'int512',
    'bytes0',
    'bytes33',
    'bytes01',
    'byte',
    'fixed',
    'ufixed128x18',
    'function',
    'address payable',
    'uint8[0]',
    'uint8[01]',
    'uint8[-1]',
    'uint8[',
    'uint8]',
    'uint8[][',
    '[]',
    '',
    ' uint8',
    'uint8 ',
    'uint8 []',
    'EIP712Domain',
    'a-b',
    '1a',
    'mapping(address=>bool)',
    'tuple()',
  ])
    // prettier-ignore
    refused(one(type, 1), '/types/One/0/type', type)
  for (const name of ['__proto__', 'constructor', 'prototype', '', '1a', 'a b', 'a)', 'uint8 a', 'ä'])
    refused({ ...one('uint8', 1), types: { One: [{ name, type: 'uint8' }] } }, '/types/One/0/name', name)
  for (const name of ['uint256', 'uint7', 'bytes33', 'string', 'address', 'constructor', 'A:B', 'A(uint8 a)', ''])
    refused({ ...one('uint8', 1), types: { [name]: [{ name: 'field', type: 'uint8' }] }, primaryType: name }, /^\/types\//, name) // prettier-ignore
})

/** Mail with some places changed; those without a value are removed. */
function mail(changes: Record<string, unknown>): Source {
  const copy = structuredClone(MAIL)
  for (const [path, value] of Object.entries(changes)) {
    const names = path.split('.')
    const last = names.pop()!
    const place = names.reduce((at, name) => at[name] as Record<string, unknown>, copy as Record<string, unknown>)
    if (value === undefined) delete place[last]
    else place[last] = value
  }
  return copy
}

test('what is shown beside the message, and is not signed, is refused', () => {
  // metamask-mobile#32758 and metamask-extension#45941: fields that no type declares were shown.
  refused(mail({ 'message.amount': '0' }), '/message/amount', 'a sibling of signed fields')
  refused(mail({ 'message.from.note': 'safe' }), '/message/from/note', 'a sibling further in')
  refused(mail({ 'domain.salt': `0x${'00'.repeat(32)}` }), '/domain/salt', 'a field of the domain')
  refused({ ...MAIL, description: 'safe' }, '/description', 'a sibling of all')
  refused(mail({ 'types.Permit': [{ name: 'value', type: 'uint256' }] }), '/types/Permit', 'a type that nothing uses')
  refused(mail({ 'types.Mail.0.label': 'safe' }), '/types/Mail/0', 'a label of a member')
})

test('names that objects inherit are fields like others: undeclared, or missing', () => {
  const text = JSON.stringify(MAIL)
  for (const [what, pointer, from, to] of [
    [
      'a prototype of the message',
      '/message/__proto__',
      '"contents":"Hello',
      '"__proto__":{"contents":"x"},"contents":"Hello',
    ],
    [
      'only a prototype has the field',
      '/message/__proto__',
      '"contents":"Hello, Bob!"',
      '"__proto__":{"contents":"x"}',
    ],
    ['a constructor', '/message/constructor', '"contents":"Hello', '"constructor":{},"contents":"Hello'],
    ['a prototype of everything', '/__proto__', '{"types"', '{"__proto__":{},"types"'],
    ['a prototype of the types', '/types/__proto__', '"Person":[', '"__proto__":[],"Person":['],
    ['an inherited primary type', '/primaryType', '"primaryType":"Mail"', '"primaryType":"toString"'],
  ] as const) {
    assert.equal(text.split(from).length, 2, what)
    refused(text.replace(from, to), pointer, `${what}, as text`)
    refused(JSON.parse(text.replace(from, to)), pointer, `${what}, as an object`)
  }
  refused(mail({ 'types.Mail.2.type': 'toString' }), '/types/Mail/2/type', 'an inherited type')
  const inherited = Object.assign(Object.create({ contents: 'x' }) as object, { ...MAIL.message, contents: undefined })
  delete (inherited as { contents?: unknown }).contents
  refused({ ...MAIL, message: inherited }, '/message/contents', 'a field of the prototype')
})

test('an error repeats little of what it is about', () => {
  const name = 'a~/'.repeat(10_000)
  for (const text of [{ ...MAIL, [name]: 1 }, `{"${name}":1,"${name}":2}`])
    assert.throws(
      () => readMessage({ typedData: text }),
      (error) =>
        error instanceof MessageInvalid && error.message.length < 512 && /^(?:\/a~0~1a.*)?$/.test(error.pointer),
    )
})

test('JSON text in which a name occurs twice is refused: a reader sees the first, a parser takes the last', () => {
  const text = JSON.stringify(MAIL)
  for (const [from, to] of [
    ['"contents":"Hello, Bob!"', '"contents":"Hello, Bob!","contents":"Hello, Eve!"'],
    ['"contents":"Hello, Bob!"', '"contents":"Hello, Bob!","c\\u006fntents":"Hello, Eve!"'],
    ['"primaryType":"Mail"', '"primaryType":"Mail","primaryType":"Person"'],
    ['"Mail":[', '"Mail":[],"Mail":['],
    ['"chainId":1', '"chainId":1,"chainId":137'],
  ] as const)
    refused(text.replace(from, to), '', to)
  for (const broken of ['', '{', 'null', '[]', '"text"', '1', `${text},`, `${text}${text}`]) refused(broken, '', broken)
})

test('fields that are missing or of another kind are refused at their place', () => {
  for (const name of ['types', 'primaryType', 'domain', 'message']) {
    const { [name]: _, ...rest } = MAIL as Record<string, unknown>
    refused(rest, `/${name}`, `without ${name}`)
    for (const value of [null, 1, 'text', [], undefined])
      refused({ ...MAIL, [name]: value }, new RegExp(`^/${name}|^/types`), `${name}: ${JSON.stringify(value)}`)
  }
  for (const value of [null, 1, true, [], undefined]) refused(value, '', String(value))
  refused(mail({ 'message.to.wallet': undefined }), '/message/to/wallet', 'a missing member')
  refused(mail({ 'message.to': null }), '/message/to', 'null for a struct')
  refused(mail({ 'types.Person': undefined }), '/types/Mail/0/type', 'an undeclared type')
  refused(mail({ 'types.Person.2': { name: 'name', type: 'bytes' } }), '/types/Person/2/name', 'a member twice')
  refused({ ...MAIL, primaryType: 'EIP712Domain' }, '/primaryType', 'the domain alone')
})

test('a type that contains itself is refused, by any way', () => {
  refused(mail({ 'types.Person.2': { name: 'friends', type: 'Person[]' } }), '/types/Person', 'itself')
  refused(mail({ 'types.Person.2': { name: 'letters', type: 'Mail[]' } }), /^\/types\//, 'in a circle')
})

test('a domain has fields of EIP-712 only, in its order, and those that it declares', () => {
  const field = (name: string, type: string) => ({ name, type })
  const declared = (...fields: object[]) => mail({ 'types.EIP712Domain': fields })
  const [name, version, chainId, contract] = MAIL.types.EIP712Domain!
  refused(declared(version!, name!, chainId!, contract!), '/types/EIP712Domain/1', 'another order')
  refused(declared(name!, version!, contract!), '/domain/chainId', 'a field that is not declared')
  refused(declared(name!, version!, chainId!, contract!, field('salt', 'bytes32')), '/domain/salt', 'a missing field')
  refused(declared(name!, version!, field('chainId', 'uint64'), contract!), '/types/EIP712Domain/2', 'another type')
  refused(declared(name!, version!, chainId!, contract!, field('owner', 'address')), '/types/EIP712Domain/4', 'a field of its own') // prettier-ignore
  refused(declared(), '/domain/name', 'no field declared')
  refused(mail({ 'types.EIP712Domain': [], domain: {} }), '/domain', 'no field at all')
  refused(mail({ 'types.EIP712Domain': undefined, 'domain.owner': BOB }), '/domain/owner', 'undeclared')
  refused(mail({ 'domain.chainId': (2n ** 53n).toString() }), '/domain/chainId', 'beyond every network')
})

test('a message is 8 levels deep and 32 KiB long at most', () => {
  const nested = (levels: number) => {
    let [type, value]: [string, unknown] = ['uint8', 1]
    for (let level = 1; level < levels; level++) [type, value] = [`${type}[]`, [value]]
    return one(type, value)
  }
  const chain = (levels: number): Source => {
    const types: Source['types'] = { [`S${levels}`]: [{ name: 'a', type: 'uint8' }] }
    let message: Record<string, unknown> = { a: 1 }
    for (let level = levels - 1; level > 0; level--) {
      types[`S${level}`] = [{ name: 'a', type: `S${level + 1}` }]
      message = { a: message }
    }
    return { types, primaryType: 'S1', domain: { name: 'Test' }, message }
  }
  for (const source of [nested(8), chain(8)])
    assert.equal(digest(source), hashTypedData(source as Parameters<typeof hashTypedData>[0]))
  for (const source of [nested(9), chain(9)]) refused(source, '/types', '9 levels')
  const rest = messageText(readMessage({ typedData: one('string', '') })).content.length
  assert.ok(digest(one('string', 'a'.repeat(32_768 - rest))))
  refused(one('string', 'a'.repeat(32_769 - rest)), '', 'a byte too long')
  refused(one('string', 'ä'.repeat(16_384)), '', 'bytes, not characters')
  refused(`${JSON.stringify(MAIL)}${' '.repeat(200_000)}`, '', 'white space')
  refused('['.repeat(100_000), '', 'a deep text')
  const deep = `${'['.repeat(60_000)}1${']'.repeat(60_000)}`
  refused(JSON.stringify(MAIL).replace('"Hello, Bob!"', deep), '/message/contents', 'a deep value')
  refused(one(`uint8${'[]'.repeat(50_000)}`, []), '/types/One/0/type', 'a deep type')
})
