import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkBytes, formatBits, qrModules, qrSvg } from './qr.ts'

test('check bytes and format bits are those of published examples', () => {
  // "HELLO WORLD" in version 1-M, the example of most tutorials, and table C.1 of the standard for level M.
  const data = [32, 91, 11, 120, 209, 114, 220, 77, 67, 64, 236, 17, 236, 17, 236, 17]
  assert.deepEqual(checkBytes(data, 10), [196, 35, 39, 119, 235, 215, 231, 226, 93, 23])
  assert.deepEqual(
    Array.from({ length: 8 }, (_, mask) => formatBits(mask).toString(2).padStart(15, '0')),
    ['101010000010010', '101000100100101', '101111001111100', '101101101001011', '100010111111001', '100000011001110', '100111110010111', '100101010100000'], // prettier-ignore
  )
})

test('what a code says is read back from its modules, in every version', () => {
  for (const length of [0, 1, 14, 15, 26, 27, 42, 43, 62, 63, 84, 85, 106]) {
    const text = Array.from(
      { length },
      (_, index) => 'abcdefghijklmnopqrstuvwxyz0123456789ABCDEF'[(index * 7) % 42],
    ).join('')
    assert.equal(read(qrModules(text)), text, `${length} bytes`)
  }
  assert.equal(
    read(qrModules('0x70997970C51812dc3A010C7d01b50e0d17dc79C8')),
    '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  )
  assert.equal(qrModules('0x70997970C51812dc3A010C7d01b50e0d17dc79C8').length, 29)
  assert.throws(() => qrModules('x'.repeat(107)), RangeError)
})

test('the drawing has a name, a quiet zone and nothing that could run', () => {
  const svg = qrSvg('0x12', 'QR code of "0x12" <b>')
  assert.match(svg, /viewBox="0 0 29 29"/)
  assert.match(svg, /aria-label="QR code of &quot;0x12&quot; &lt;b>"/)
  assert.ok(!/style=|<script|href/.test(svg))
})

/** A reader of undamaged codes, written from the other side: regions by their coordinates, bits by walking the columns. */
function read(modules: boolean[][]): string {
  const size = modules.length
  const version = (size - 17) / 4
  const format = [0, 1, 2, 3, 4, 5, 7].map((column) => modules[8]![column]!).concat([modules[8]![8]!])
  const mask = ((Number(format[2]) * 4 + Number(format[3]) * 2 + Number(format[4])) ^ 0b101) & 7
  assert.deepEqual([format[0], format[1]], [true, false], 'level M')
  const turns = (i: number, j: number): boolean =>
    [(i + j) % 2, i % 2, j % 3, (i + j) % 3, ((i >> 1) + Math.floor(j / 3)) % 2, ((i * j) % 2) + ((i * j) % 3), (((i * j) % 2) + ((i * j) % 3)) % 2, (((i + j) % 2) + ((i * j) % 3)) % 2][mask] === 0 // prettier-ignore
  const isData = (i: number, j: number): boolean => {
    if (i === 6 || j === 6) return false
    if (i <= 8 && (j <= 8 || j >= size - 8)) return false
    if (i >= size - 8 && j <= 8) return false
    const corner = size - 7
    return version === 1 || Math.abs(i - corner) > 2 || Math.abs(j - corner) > 2
  }
  const bits: boolean[] = []
  const columns = Array.from({ length: (size - 1) / 2 }, (_, index) => size - 1 - 2 * index).map((right) =>
    right <= 6 ? right - 1 : right,
  )
  for (const [index, right] of columns.entries())
    for (let step = 0; step < size; step++) {
      const i = index % 2 === 0 ? size - 1 - step : step
      for (const j of [right, right - 1]) if (isData(i, j)) bits.push(modules[i]![j]! !== turns(i, j))
    }
  const words = Array.from({ length: bits.length >> 3 }, (_, at) =>
    bits.slice(at * 8, at * 8 + 8).reduce((word, bit) => word * 2 + Number(bit), 0),
  )
  const [blocks, perBlock, checks] = ([[1, 16, 10], [1, 28, 16], [1, 44, 26], [2, 32, 18], [2, 43, 24], [4, 27, 16]] as const)[version - 1]! // prettier-ignore
  assert.equal(words.length, blocks * (perBlock + checks), 'every codeword has its place')
  const data = Array.from({ length: blocks }, (_, block) =>
    Array.from({ length: perBlock }, (_, at) => words[at * blocks + block]!),
  )
  for (const [block, bytes] of data.entries())
    assert.deepEqual(
      checkBytes(bytes, checks),
      Array.from({ length: checks }, (_, at) => words[blocks * perBlock + at * blocks + block]!),
    )
  const text = data
    .flat()
    .map((word) => word.toString(2).padStart(8, '0'))
    .join('')
  assert.equal(text.slice(0, 4), '0100', 'byte mode')
  const length = Number.parseInt(text.slice(4, 12), 2)
  return Array.from({ length }, (_, at) =>
    String.fromCharCode(Number.parseInt(text.slice(12 + at * 8, 20 + at * 8), 2)),
  ).join('')
}
