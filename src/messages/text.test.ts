import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hashMessage as ethersHash } from 'ethers'
import { hashMessage, type Hex } from 'viem'
import { classify } from './classify.ts'
import { digestOf, MessageInvalid, messageText, readMessage } from './message.ts'
import { visible } from './text.ts'

const facts = { address: Buffer.alloc(20, 1), chainId: 1, at: Date.UTC(2026, 10, 28), domains: ['app.example'] }
const HASH = `0x${'ab'.repeat(32)}`
const hexOf = (text: string): Hex => `0x${Buffer.from(text).toString('hex')}`
const classOfText = (text: string) => classify(readMessage({ text }), facts)
const classOfHex = (hex: string) => classify(readMessage({ hex }), facts)

test('texts and bytes hash as viem and ethers hash them, and stay the same message in the stored form', () => {
  for (const text of [
    '',
    'Hello',
    'Grüße 🐄\n',
    'a'.repeat(9),
    'a'.repeat(10),
    'ä'.repeat(100),
    '\u0019Ethereum',
    HASH,
  ]) {
    const message = readMessage({ text })
    assert.equal(`0x${digestOf(message).toString('hex')}`, hashMessage(text))
    assert.equal(hashMessage(text), ethersHash(text))
    assert.deepEqual(messageText(message), { kind: 'text', content: text })
    const bytes = readMessage({ hex: hexOf(text) })
    assert.deepEqual(digestOf(bytes), digestOf(message))
    assert.deepEqual(readMessage({ hex: messageText(bytes).content }), bytes)
  }
  for (const raw of ['0x', '0x00', '0xff80', HASH] as Hex[])
    assert.equal(`0x${digestOf(readMessage({ hex: raw })).toString('hex')}`, hashMessage({ raw }))
})

test('a readable text needs a user, as text or as bytes', () => {
  for (const text of ['', 'Hello', 'Grüße\r\n\tund 🐄', 'abc\u202Edef', '0x1234', `hash: ${HASH}`])
    for (const found of [classOfText(text), classOfHex(hexOf(text))]) {
      assert.deepEqual([found.class, found.needs, found.moves, found.calls], ['text', 'approval', false, []], text)
      assert.equal(found.summary.sentence, 'text')
    }
})

test('what nobody can read needs a rule: a digest in any form, control characters, bytes that are no UTF-8', () => {
  const opaque = [
    ...[HASH, HASH.toUpperCase().replace('X', 'x'), HASH.slice(2), ` ${HASH}\n`, 'a'.repeat(64)].map(classOfText),
    ...['\u0000', 'a\u001b[2K', '\u007f', '\u0085', 'a\u0008b'].flatMap((text) => [
      classOfText(text),
      classOfHex(hexOf(text)),
    ]),
    ...['0xff', '0xc0af', '0xeda080', '0xf4908080', HASH].map(classOfHex),
    // A hash that was searched for until it reads as text.
    classOfHex(hexOf('Sign in to our shop, number 0042')),
    classOfHex(hexOf(HASH)),
  ]
  for (const [index, found] of opaque.entries()) {
    assert.deepEqual([found.class, found.needs, found.moves], ['opaque', 'rule', true], String(index))
    assert.deepEqual(found.summary.warnings, ['unknown'])
  }
})

test('a message of more than 32 KiB, a lone surrogate and anything else are refused', () => {
  const wrong = [
    ...['a'.repeat(32_769), 'ä'.repeat(16_385), '\ud800', 'a\udc00b', 1, null, undefined, {}, ['text']].map((text) => {
      return { text }
    }),
    ...[`0x${'00'.repeat(32_769)}`, '0x0', '0xzz', 'ff', '', '0X00', 1, null, undefined, ['0x']].map((hex) => ({
      hex,
    })),
  ]
  for (const input of wrong)
    assert.throws(
      () => readMessage(input),
      (error) => error instanceof MessageInvalid && error.code === 'invalid_message' && error.pointer === '',
      JSON.stringify(input).slice(0, 80),
    )
  assert.equal(digestOf(readMessage({ text: 'a'.repeat(32_768) })).length, 32)
})

test('characters that hide or reorder others are shown as their code points, and all others as they are', () => {
  assert.equal(visible('pay \u202E001\u202C to Bob'), 'pay ⟨U+202E⟩001⟨U+202C⟩ to Bob')
  assert.equal(visible('a\u200Bb\u2060c\uFEFFd\u00ADe\u3164f\u2028g'), 'a⟨U+200B⟩b⟨U+2060⟩c⟨U+FEFF⟩d⟨U+00AD⟩e⟨U+3164⟩f⟨U+2028⟩g') // prettier-ignore
  assert.equal(visible('a\rb\r\nc'), 'a⟨U+000D⟩b\r\nc')
  assert.equal(visible('\u{E0041}'), '⟨U+E0041⟩')
  for (const text of ['', 'Hello\n\tBob', 'Grüße 🐄', 'ありがとう', 'مرحبا']) assert.equal(visible(text), text)
})
