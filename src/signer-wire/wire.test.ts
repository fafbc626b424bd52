import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { encodeFrame, FrameError, frameReader, MAX_FRAME_BYTES } from './frames.ts'

test('messages arrive whole and in order however their bytes are cut', () => {
  const messages = fc.array(fc.tuple(fc.nat(), fc.string({ unit: 'grapheme' })), { maxLength: 8 })
  fc.assert(
    fc.property(messages, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (sent, cuts) => {
      const bytes = Buffer.concat(sent.map(encodeFrame))
      const received: unknown[] = []
      const read = frameReader((message) => received.push(message))
      for (let at = 0, turn = 0; at < bytes.length; turn++) {
        const length = cuts[turn % cuts.length]!
        read(bytes.subarray(at, at + length))
        at += length
      }
      assert.deepEqual(received, sent)
    }),
    { numRuns: 200 },
  )
})

test('a frame at the limit passes; one byte more is refused by its length alone, and is not sent', () => {
  const text = 'x'.repeat(MAX_FRAME_BYTES - 2)
  const received: unknown[] = []
  frameReader((message) => received.push(message))(encodeFrame(text))
  assert.deepEqual(received, [text])
  assert.throws(() => encodeFrame(`${text}x`), FrameError)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(MAX_FRAME_BYTES + 1)
  assert.throws(() => frameReader(() => {})(length), FrameError)
})

test('bytes that are no JSON in UTF-8 are refused without being repeated', () => {
  for (const body of [Buffer.from('{"accessToken":"secret"'), Buffer.from([0x22, 0xff, 0x22]), Buffer.alloc(0)]) {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(body.length)
    const read = frameReader(() => {})
    assert.throws(
      () => read(Buffer.concat([length, body])),
      (error: Error) => error instanceof FrameError && !error.message.includes('secret') && error.cause === undefined,
    )
  }
})
