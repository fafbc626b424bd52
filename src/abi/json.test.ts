import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { fuzz } from '../../test/abi-fuzz.ts'
import { type JsonNode, JsonError, MAX_JSON_DEPTH, readJson } from './json.ts'

/** The document as JSON.parse would give it, with integers as bigint. */
function plain(node: JsonNode): unknown {
  if (node.kind === 'array') return node.items.map(plain)
  if (node.kind === 'object') return Object.fromEntries([...node.fields].map(([key, item]) => [key, plain(item)]))
  if (node.kind === 'integer') return BigInt(node.text)
  return node.kind === 'null' ? null : node.value
}

function refusal(text: string): { code: string; at: number } {
  try {
    readJson(text)
  } catch (error) {
    assert(error instanceof JsonError)
    return { code: error.code, at: error.at }
  }
  return assert.fail(`accepted: ${text}`)
}

test('an integer of any size comes back digit by digit', () => {
  const digits = `-${'9'.repeat(5000)}`
  assert.deepEqual(readJson(` [ ${digits} ] `), {
    kind: 'array',
    at: 1,
    items: [{ kind: 'integer', at: 3, text: digits }],
  })
})

test('documents without floats read as JSON.parse reads them', () => {
  const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
    tree: fc.oneof(
      { depthSize: 'small' },
      fc.constant(null),
      fc.boolean(),
      fc.maxSafeInteger().map((value) => (Object.is(value, -0) ? 0 : value)),
      fc.string({ unit: 'binary' }),
      fc.array(tie('tree'), { maxLength: 4 }),
      fc.dictionary(fc.string(), tie('tree'), { maxKeys: 4, noNullPrototype: true }),
    ),
  }))
  fc.assert(
    fc.property(tree, fc.constantFrom(0, 1, '\t'), (value, indent) => {
      const numbers = (_: string, part: unknown) => (typeof part === 'bigint' ? Number(part) : part)
      const ours = JSON.stringify(plain(readJson(JSON.stringify(value, null, indent))), numbers)
      assert.deepEqual(JSON.parse(ours), JSON.parse(JSON.stringify(value)))
    }),
    fuzz(300),
  )
})

test('any text is read as JSON.parse reads it, or refused', () => {
  const piece = fc.constantFrom(...'[]{}",:0-1.e\\u n\n'.split(''), 'true', 'null', '"a"', '\\u00e9', '12')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const text = pieces.join('')
      let ours: JsonNode
      try {
        ours = readJson(text)
      } catch (error) {
        assert(error instanceof JsonError)
        assert(error.at <= text.length)
        return
      }
      const numbers = (_: string, part: unknown) => (typeof part === 'bigint' ? Number(part) : part)
      assert.equal(JSON.stringify(plain(ours), numbers), JSON.stringify(JSON.parse(text)))
    }),
    fuzz(2000),
  )
})

const refused: [text: string, code: string, at: number][] = [
  ['', 'invalid_json', 0],
  ['[1,2', 'invalid_json', 4],
  ['[1,]', 'invalid_json', 3],
  ['[1 2]', 'invalid_json', 3],
  ['1.0', 'not_an_integer', 0],
  ['[1e5]', 'not_an_integer', 1],
  ['1E5', 'not_an_integer', 0],
  ['007', 'invalid_json', 0],
  ['+1', 'invalid_json', 0],
  ['-', 'invalid_json', 1],
  ['0x10', 'invalid_json', 1],
  ['NaN', 'invalid_json', 0],
  ['True', 'invalid_json', 0],
  ['truth', 'invalid_json', 0],
  ["'a'", 'invalid_json', 0],
  ['"a', 'invalid_json', 2],
  ['"\\', 'invalid_json', 1],
  ['"\\x41"', 'invalid_json', 1],
  ['"\\u00g0"', 'invalid_json', 1],
  ['"a\nb"', 'invalid_json', 2],
  ['{"a":1,"a":2}', 'duplicate_key', 7],
  ['{"a":1,"\\u0061":2}', 'duplicate_key', 7],
  ['{a:1}', 'invalid_json', 1],
  ['{"a"}', 'invalid_json', 4],
  ['[] []', 'invalid_json', 3],
  ['\ufeff[]', 'invalid_json', 0],
  ['\u00a0[]', 'invalid_json', 0],
]
for (const [text, code, at] of refused) {
  test(`refused as ${code} at index ${at}: ${JSON.stringify(text)}`, () =>
    assert.deepEqual(refusal(text), { code, at }))
}

test('depth ends at the limit, long before the stack does', () => {
  const nested = (depth: number) => `${'['.repeat(depth)}0${']'.repeat(depth)}`
  assert.equal(readJson(nested(MAX_JSON_DEPTH)).kind, 'array')
  assert.deepEqual(refusal(nested(MAX_JSON_DEPTH + 1)), { code: 'too_deep', at: MAX_JSON_DEPTH + 1 })
  assert.deepEqual(refusal('{"a":'.repeat(12_000)).code, 'too_deep')
})
