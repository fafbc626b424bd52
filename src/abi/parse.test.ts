import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { AppError } from '../errors.ts'
import { parseAbi, signatureOf, selectorOf } from './parse.ts'

const signature = (text: string) => signatureOf(parseAbi(text).function)

function refusal(text: string): { code: string; position: number } {
  try {
    parseAbi(text)
  } catch (error) {
    assert(error instanceof AppError)
    assert.equal(error.code, 'invalid_abi')
    assert.equal(error.errors?.length, 1)
    const [place] = error.errors
    assert.equal(place!.pointer, '/abi')
    const position = /, at character (\d+)$/.exec(place!.detail)
    assert(position, 'the detail ends with the position')
    assert(error.message.includes(place!.detail))
    return { code: place!.code, position: Number(position[1]) }
  }
  return assert.fail(`accepted: ${text}`)
}

const transfer = 'transfer(address,uint256)'
const sameFunction = [
  'transfer(address,uint256) public returns (bool)',
  'transfer(address,uint) public',
  'transfer(address,uint256)',
  'function transfer(address to, uint256 amount) external returns (bool success);',
  'function transfer(address payable to,uint256 amount)virtual override(IERC20, ERC20.Base) public;',
  '\t function\n transfer ( address\r\n to , uint256 amount )\f public\v override virtual returns ( bool ) ;  \n',
  '{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"type":"uint"}],"outputs":[]}',
  ' [ {"name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"v","type":"uint256"}]} ] ',
]
for (const text of sameFunction) {
  test(`accepted: ${JSON.stringify(text)}`, () => {
    assert.equal(signature(text), transfer)
    assert.equal(selectorOf(parseAbi(text).function), '0xa9059cbb')
  })
}

test('the specification’s read form gives names, types and mutability', () => {
  assert.deepEqual(parseAbi('balanceOf(address owner) public view returns (uint256 balance)'), {
    function: {
      name: 'balanceOf',
      inputs: [{ name: 'owner', type: 'address' }],
      outputs: [{ name: 'balance', type: 'uint256' }],
      stateMutability: 'view',
    },
    errors: [],
  })
})

test('mutability is null when nothing is written and nonpayable only on purpose', () => {
  const mutability = (text: string) => parseAbi(text).function.stateMutability
  assert.equal(mutability('f() public'), null)
  assert.equal(mutability('f() public nonpayable'), 'nonpayable')
  assert.equal(mutability('f() payable external'), 'payable')
  assert.equal(mutability('f() pure virtual'), 'pure')
  const json = (fields: string) => mutability(`{"name":"f","inputs":[]${fields}}`)
  assert.equal(json(''), null)
  assert.equal(json(',"stateMutability":"nonpayable"'), 'nonpayable')
  assert.equal(json(',"stateMutability":"view","constant":false'), 'view')
  assert.equal(json(',"constant":true,"payable":false'), 'view')
  assert.equal(json(',"constant":false,"payable":false'), 'nonpayable')
  assert.equal(json(',"constant":false,"payable":true'), 'payable')
})

test('structs are written tuple(…) or (…), nested, in arrays, with data locations and names', () => {
  const text =
    'f(tuple(uint a, (bytes32[2][] b, string) c)[3][] memory orders, (bool)calldata x, string memory, int8[] storage)'
  assert.equal(signature(text), 'f((uint256,(bytes32[2][],string))[3][],(bool),string,int8[])')
  assert.deepEqual(parseAbi(text).function.inputs[0], {
    name: 'orders',
    type: 'tuple[3][]',
    components: [
      { name: 'a', type: 'uint256' },
      {
        name: 'c',
        type: 'tuple',
        components: [
          { name: 'b', type: 'bytes32[2][]' },
          { name: '', type: 'string' },
        ],
      },
    ],
  })
})

test('every elementary type of Solidity is known, and uint and int mean 256 bits', () => {
  const widths = Array.from({ length: 32 }, (_, index) => index + 1)
  const types = [
    ...widths.flatMap((width) => [`uint${width * 8}`, `int${width * 8}`, `bytes${width}`]),
    ...['address', 'bool', 'string', 'bytes', 'function'],
  ]
  for (const type of types) assert.equal(signature(`f(${type}, ${type}[2] x)`), `f(${type},${type}[2])`)
  assert.equal(signature('f(uint,int[])'), 'f(uint256,int256[])')
})

test('error items follow or precede the function, with any separator', () => {
  const names = (text: string) => parseAbi(text).errors.map(signatureOf)
  const expected = ['A(uint256)', 'B((address,bool)[])']
  assert.deepEqual(names('f() public; error A(uint x); error B((address who, bool)[] list);'), expected)
  assert.deepEqual(names('error A(uint256)\nerror B(tuple(address,bool)[])\nf() view returns (uint)'), expected)
  assert.deepEqual(names('error A(uint) function f() external error B((address,bool)[])'), expected)
  const item = (name: string, type: string) => `{"type":"error","name":"${name}","inputs":[{"type":"${type}"}]}`
  assert.deepEqual(names(`[${item('A', 'uint')},{"name":"f","inputs":[]},${item('C', 'bool')}]`), [
    'A(uint256)',
    'C(bool)',
  ])
})

test('error, fallback and tuple are names where they cannot be anything else', () => {
  assert.equal(signature('error(string) public'), 'error(string)')
  assert.equal(signature('function error(string) public'), 'error(string)')
  assert.equal(signature('function receive(address) public'), 'receive(address)')
  assert.equal(signature('f(uint256 error, address from)'), 'f(uint256,address)')
  assert.equal(signature('f((bool ok) tuple, uint256 nonpayable)'), 'f((bool),uint256)')
  assert.equal(signature('function tuple(uint256) external error tuple(bool tuple)'), 'tuple(uint256)')
})

const refused: [text: string, code: string, position: number][] = [
  ['', 'empty', 1],
  [' \n ', 'empty', 4],
  ['f', 'unexpected_end', 2],
  ['f(', 'unexpected_end', 3],
  ['f(uint256', 'unexpected_end', 10],
  ['f(uint256))', 'unexpected_character', 11],
  ['f((uint256)', 'unexpected_end', 12],
  ['f)uint256(', 'unexpected_character', 2],
  ['f(uint256,)', 'unexpected_character', 11],
  ['f(,uint256)', 'unexpected_character', 3],
  ['f() returns', 'unexpected_end', 12],
  ['f() returns ()', 'empty_returns', 14],
  ['f() returns (uint256) view', 'unexpected_word', 23],
  ['f() {}', 'unexpected_character', 5],
  ['f() => 1', 'unexpected_character', 5],
  ['f();;', 'unexpected_character', 5],
  [';f()', 'unexpected_character', 1],
  ['f() // view', 'unexpected_character', 5],
  ['f() public; g() public', 'second_function', 13],
  ['f()\nfunction g()', 'second_function', 5],
  ['f() g()', 'unexpected_word', 5],
  ['error A()', 'no_function', 10],
  ['constructor(uint256)', 'not_a_function', 1],
  ['event Transfer(address)', 'not_a_function', 1],
  ['receive() external payable', 'not_a_function', 1],
  ['fallback() external', 'not_a_function', 1],
  ['struct S { uint256 a; }', 'not_a_function', 1],
  ['function (uint256)', 'unexpected_character', 10],
  ['function view(uint256)', 'unexpected_word', 10],
  ['tuple(uint256)', 'not_a_function', 1],
  ['uint256(uint256)', 'unexpected_word', 1],
  ['f() public public', 'duplicate_modifier', 12],
  ['f() public external', 'conflicting_modifiers', 12],
  ['f() view view', 'duplicate_modifier', 10],
  ['f() view pure', 'conflicting_modifiers', 10],
  ['f() payable view', 'conflicting_modifiers', 13],
  ['f() nonpayable payable', 'conflicting_modifiers', 16],
  ['f() override override', 'duplicate_modifier', 14],
  ['f() override()', 'unexpected_character', 14],
  ['f() internal', 'unexpected_word', 5],
  ['f() private', 'unexpected_word', 5],
  ['f() constant', 'unexpected_word', 5],
  ['f() onlyOwner', 'unexpected_word', 5],
  ['f(uint7)', 'unknown_type', 3],
  ['f(uint0)', 'unknown_type', 3],
  ['f(uint08)', 'unknown_type', 3],
  ['f(uint264)', 'unknown_type', 3],
  ['f(int12 x)', 'unknown_type', 3],
  ['f(bytes0)', 'unknown_type', 3],
  ['f(bytes33)', 'unknown_type', 3],
  ['f(byte)', 'unknown_type', 3],
  ['f(Uint256)', 'unknown_type', 3],
  ['f(IERC20 token)', 'unknown_type', 3],
  ['f(__proto__)', 'unknown_type', 3],
  ['f(fixed)', 'unsupported_type', 3],
  ['f(ufixed128x18)', 'unsupported_type', 3],
  ['f(mapping(address => bool))', 'unsupported_type', 3],
  ['f(function(uint256) external)', 'unexpected_character', 11],
  ['f(uint256[0])', 'invalid_array_length', 11],
  ['f(uint256[01])', 'invalid_array_length', 11],
  ['f(uint256[-1])', 'unexpected_character', 11],
  ['f(uint256[n])', 'unexpected_character', 11],
  ['f(uint256[2)', 'unexpected_character', 12],
  ['f(uint256[9999999])', 'too_large', 11],
  ['f(uint256[131073])', 'too_large', 1],
  ['f((uint256[1000])[1000])', 'too_large', 1],
  ['f(uint256[][][][][])', 'too_deep', 19],
  ['f(())', 'empty_tuple', 3],
  ['f(tuple)', 'unexpected_character', 8],
  ['f(tuple x)', 'unexpected_character', 9],
  ['f(uint256 memory x)', 'unexpected_word', 11],
  ['f(string memory memory x)', 'unexpected_word', 17],
  ['f(uint256 indexed x)', 'unexpected_word', 11],
  ['f(uint256 a b)', 'unexpected_character', 13],
  ['f(uint256 uint8)', 'unexpected_word', 11],
  ['f(uint256 payable)', 'unexpected_word', 11],
  ['é(uint256)', 'unexpected_character', 1],
  ['f(uint256 é)', 'unexpected_character', 11],
  ['f(uint256\u00a0a)', 'unexpected_character', 10],
  ['f(\u{1f600})', 'unexpected_character', 3],
  ['f(\0)', 'unexpected_character', 3],
  ['\ufefff()', 'unexpected_character', 1],
  ['{', 'invalid_json', 2],
  ['{}', 'invalid_name', 1],
  ['[]', 'no_function', 1],
  ['["f()"]', 'invalid_item', 2],
  ['[[]]', 'invalid_item', 2],
  ['{"name":"f"}', 'missing_field', 1],
  ['{"name":"f","inputs":{}}', 'invalid_item', 22],
  ['{"name":"f","inputs":[{}]}', 'missing_field', 23],
  ['{"name":"f","inputs":[],"inputs":[]}', 'duplicate_key', 25],
  ['{"name":"f","inputs":[],"gas":1.5}', 'not_an_integer', 31],
  ['{"name":"f","inputs":[],"stateMutability":"none"}', 'unexpected_word', 43],
  ['{"name":"a b","inputs":[]}', 'invalid_name', 1],
  ['{"name":"f","inputs":[{"type":"uint256","name":"a b"}]}', 'invalid_name', 23],
  ['{"name":"f","inputs":[{"type":"uint7"}]}', 'unknown_type', 31],
  ['{"name":"f","inputs":[{"type":"uint256["}]}', 'unknown_type', 31],
  ['{"name":"f","inputs":[{"type":"uint256[0]"}]}', 'invalid_array_length', 31],
  ['{"name":"f","inputs":[{"type":"uint256[][][][][]"}]}', 'too_deep', 31],
  ['{"name":"f","inputs":[{"type":"tuple"}]}', 'missing_field', 23],
  ['{"name":"f","inputs":[{"type":"tuple","components":[]}]}', 'empty_tuple', 23],
  ['{"type":"event","name":"f","inputs":[]}', 'not_a_function', 1],
  ['[{"name":"f","inputs":[]},{"name":"g","inputs":[]}]', 'second_function', 27],
  ['{"name":"f","inputs":[]} g()', 'invalid_json', 26],
  ['{"x":"\ud83d\ude00\ud800","name":"f","inputs":[]}', 'not_text', 9],
  ['{"name":"f","inputs":[],"x":"\udc00"}', 'not_text', 30],
]
for (const [text, code, position] of refused) {
  test(`refused as ${code} at character ${position}: ${JSON.stringify(text)}`, () => {
    assert.deepEqual(refusal(text), { code, position })
  })
}

test('keys that poison objects are keys like any other', () => {
  const abi = '{"__proto__":{"name":"x"},"constructor":1,"name":"f","inputs":[{"type":"bool","name":"__proto__"}]}'
  assert.deepEqual(parseAbi(abi).function.inputs, [{ name: '__proto__', type: 'bool' }])
  assert.equal(({} as { name?: string }).name, undefined)
})

test('the limits are reached and not passed: text, names, parameters, depth, error items', () => {
  const nested = (depth: number) => `f(${'('.repeat(depth)}uint256${')'.repeat(depth)})`
  assert.equal(signature(nested(8)), nested(8))
  assert.deepEqual(refusal(nested(9)), { code: 'too_deep', position: 11 })
  const component = (depth: number): string =>
    depth === 0 ? '{"type":"bool"}' : `{"type":"tuple","components":[${component(depth - 1)}]}`
  const json = (depth: number) => `{"name":"f","inputs":[${component(depth)}]}`
  assert.equal(signature(json(8)), `f(${'('.repeat(8)}bool${')'.repeat(8)})`)
  assert.equal(refusal(json(9)).code, 'too_deep')
  const list = (count: number) => `f(${Array(count).fill('bool').join(',')})`
  assert.equal(parseAbi(list(64)).function.inputs.length, 64)
  assert.equal(refusal(list(65)).code, 'too_many_parameters')
  assert.equal(
    refusal(`{"name":"f","inputs":[${Array(65).fill('{"type":"bool"}').join()}]}`).code,
    'too_many_parameters',
  )
  assert.equal(parseAbi(`f()${' '.repeat(8189)}`).function.name, 'f')
  assert.deepEqual(refusal(`f()${' '.repeat(8190)}`), { code: 'too_long', position: 8193 })
  assert.equal(refusal(`{"name":"f","inputs":[],"x":"${'é'.repeat(4090)}"}`).code, 'too_long')
  const long = 'n'.repeat(128)
  assert.equal(parseAbi(`f((uint8 ${long})[] ${long})`).function.inputs[0]!.name, long)
  assert.deepEqual(refusal(`f((uint8 ${long}n)[])`), { code: 'too_long', position: 10 })
  assert.equal(refusal(`f() returns (uint8 ${long}n)`).code, 'too_long')
  const namedJson = (name: string) => `{"name":"f","inputs":[{"type":"bool","name":"${name}"}]}`
  assert.equal(parseAbi(namedJson(long)).function.inputs[0]!.name, long)
  assert.deepEqual(refusal(namedJson(`${long}n`)), { code: 'too_long', position: 23 })
  assert.equal(parseAbi(`f() ${'error A() '.repeat(64)}`).errors.length, 64)
  assert.equal(refusal(`f() ${'error A() '.repeat(65)}`).code, 'too_many_errors')
})

const hostile: Record<string, (size: number) => string> = {
  parentheses: (size) => 'f'.padEnd(size, '('),
  'tuple words': (size) => 'f('.padEnd(size, 'tuple('),
  brackets: (size) => 'f(uint'.padEnd(size, '[][][]'),
  spaces: (size) => 'f('.padEnd(size),
  'spaces between words': (size) => 'f(uint8 a)   virtual   override(  A  ,'.padEnd(size, '   A   ,'),
  'one long word': (size) => 'f(uint256 '.padEnd(size, 'a'),
  'a long word after address': (size) => 'f(address '.padEnd(size, 'a'),
  'overridden contracts': (size) => 'f() override('.padEnd(size, 'A.B,'),
  'array length': (size) => 'f(uint256['.padEnd(size, '9'),
  'error items': (size) => 'f() '.padEnd(size, 'error A(uint8 a,(int)[] b) '),
  'errors in parentheses': (size) => 'f() '.padEnd(size, 'error '),
  parameters: (size) => 'f('.padEnd(size, '((bool[4] a,bytes memory b)[] memory c,uint)[2],'),
  'JSON arrays': (size) => ''.padEnd(size, '['),
  'JSON objects': (size) => ''.padEnd(size, '{"a":'),
  'JSON keys': (size) => `{${Array.from({ length: size / 10 }, (_, n) => `"k${n}":0`).join()}}`,
  'JSON escapes': (size) => '{"'.padEnd(size, '\\u0041'),
  'JSON digits': (size) => '{"a":'.padEnd(size, '9'),
  'JSON dimensions': (size) => `{"name":"f","inputs":[{"type":"${'uint8'.padEnd(size - 60, '[]')}"}]}`,
}
for (const [name, make] of Object.entries(hostile)) {
  test(`hostile text costs a constant number of looks at each character: ${name}`, () => {
    const small = looksAt(make(4000))
    const large = looksAt(make(8000))
    assert(large <= 8 * 8000, `${large} looks at 8,000 characters`)
    assert(large <= 2 * small + 1000, `${small} looks at 4,000 characters, ${large} at 8,000`)
  })
}

/** Characters of any text that the parser reads or copies, counted at the methods it does so with. */
function looksAt(text: string): number {
  let looks = 0
  const undo = [
    count(String.prototype, 'charCodeAt', () => looks++),
    count(String.prototype, 'slice', (_, part) => (looks += String(part).length)),
    count(String.prototype, 'split', (subject) => (looks += String(subject).length)),
    count(RegExp.prototype, 'exec', (_, __, subject) => (looks += String(subject).length)),
  ]
  try {
    parseAbi(text)
  } catch (error) {
    assert(error instanceof AppError)
  } finally {
    for (const restore of undo) restore()
  }
  assert(looks > 0)
  return looks
}

/** Reports each call of a built-in method; returns what takes the reporting away again. */
function count(
  target: object,
  name: string,
  report: (self: unknown, result: unknown, first: unknown) => void,
): () => void {
  const original = Reflect.get(target, name) as (...args: unknown[]) => unknown
  const replace = (value: unknown) => Object.assign(target, { [name]: value })
  replace(function (this: unknown, ...args: unknown[]) {
    const result = Reflect.apply(original, this, args)
    report(this, result, args[0])
    return result
  })
  return () => replace(original)
}
