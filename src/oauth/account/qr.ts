/**
 * QR codes of short texts, such as an address: byte mode, error correction level M, versions 1 to 6 (106 bytes).
 * Source: ISO/IEC 18004:2015; paragraph numbers below are of that edition.
 */

/** Table 9, level M: check bytes of a block and data bytes of each block, by version. */
const BLOCKS = [
  { check: 10, data: [16] },
  { check: 16, data: [28] },
  { check: 26, data: [44] },
  { check: 18, data: [32, 32] },
  { check: 24, data: [43, 43] },
  { check: 16, data: [27, 27, 27, 27] },
] as const

/** Mode indicator and length take 12 bits in these versions. */
const HEADER_BITS = 12

type Matrix = { dark: boolean[][]; isFunction: boolean[][] }

/**
 * The dark modules of the code, row by row, without the quiet zone.
 * @throws RangeError for more than 106 bytes
 */
export function qrModules(text: string): boolean[][] {
  const bytes = new TextEncoder().encode(text)
  const at = BLOCKS.findIndex(({ data }) => bytes.length * 8 + HEADER_BITS <= sum(data) * 8)
  if (at === -1) throw new RangeError('the text is too long for a QR code')
  const codewords = withChecks(dataCodewords(bytes, sum(BLOCKS[at]!.data)), BLOCKS[at]!)
  const candidates = MASKS.map((_, mask) => drawn(at + 1, codewords, mask))
  return candidates.toSorted((a, b) => penalty(a) - penalty(b))[0]!
}

/** An SVG drawing with its quiet zone; black on white in every colour scheme, because readers want that. */
export function qrSvg(text: string, label: string): string {
  const modules = qrModules(text)
  const size = modules.length + 2 * QUIET
  const path = modules
    .flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x + QUIET} ${y + QUIET}h1v1h-1z`] : [])))
    .join('')
  const escaped = label.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
  return `<svg class="qr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size} ${size}" role="img" aria-label="${escaped}" shape-rendering="crispEdges"><rect width="${size}" height="${size}" fill="#fff"/><path d="${path}" fill="#000"/></svg>`
}

/** §6.3.8: modules of light around the code */
const QUIET = 4

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)

/** §7.4: mode, length, bytes, terminator, and padding up to the capacity. */
function dataCodewords(bytes: Uint8Array, capacity: number): number[] {
  const bits = [...bitsOf(0b0100, 4), ...bitsOf(bytes.length, 8), ...[...bytes].flatMap((byte) => bitsOf(byte, 8))]
  bits.push(...Array.from({ length: Math.min(4, capacity * 8 - bits.length) }, () => 0))
  while (bits.length % 8 !== 0) bits.push(0)
  const words: number[] = []
  for (let at = 0; at < bits.length; at += 8) words.push(Number.parseInt(bits.slice(at, at + 8).join(''), 2))
  for (let pad = 0xec; words.length < capacity; pad ^= 0xec ^ 0x11) words.push(pad)
  return words
}

const bitsOf = (value: number, count: number): number[] =>
  Array.from({ length: count }, (_, index) => (value >> (count - 1 - index)) & 1)

/** §7.6: the bytes of all blocks taken in turn, then their check bytes in turn. */
function withChecks(words: number[], { check, data }: (typeof BLOCKS)[number]): number[] {
  let from = 0
  const blocks = data.map((length) => words.slice(from, (from += length)))
  const checks = blocks.map((block) => checkBytes(block, check))
  const inTurn = (lists: number[][]): number[] => lists[0]!.flatMap((_, index) => lists.map((list) => list[index]!))
  return [...inTurn(blocks), ...inTurn(checks)]
}

/** §7.5.2: the remainder of the data, as a polynomial over GF(256), by the generator of so many roots. */
export function checkBytes(data: readonly number[], count: number): number[] {
  let generator = [1]
  for (let root = 0, power = 1; root < count; root++, power = times(power, 2))
    generator = [...generator, 0].map((value, index) => value ^ times(index === 0 ? 0 : generator[index - 1]!, power))
  const rest = [...data, ...Array.from({ length: count }, () => 0)]
  for (let at = 0; at < data.length; at++) {
    const lead = rest[at]!
    for (const [index, factor] of generator.entries()) rest[at + index]! ^= times(factor, lead)
  }
  return rest.slice(data.length)
}

/** Product in GF(256) modulo x⁸ + x⁴ + x³ + x² + 1. */
function times(a: number, b: number): number {
  let product = 0
  for (let bit = 7; bit >= 0; bit--) product = (product << 1) ^ ((product >> 7) * 0x11d) ^ (((b >> bit) & 1) * a)
  return product
}

/** Table 10: which modules a mask turns round. */
const MASKS: readonly ((row: number, column: number) => boolean)[] = [
  (i, j) => (i + j) % 2 === 0,
  (i) => i % 2 === 0,
  (_, j) => j % 3 === 0,
  (i, j) => (i + j) % 3 === 0,
  (i, j) => (Math.floor(i / 2) + Math.floor(j / 3)) % 2 === 0,
  (i, j) => ((i * j) % 2) + ((i * j) % 3) === 0,
  (i, j) => (((i * j) % 2) + ((i * j) % 3)) % 2 === 0,
  (i, j) => (((i + j) % 2) + ((i * j) % 3)) % 2 === 0,
]

function drawn(version: number, codewords: number[], mask: number): boolean[][] {
  const size = 17 + 4 * version
  const grid = (): boolean[][] => Array.from({ length: size }, () => Array.from({ length: size }, () => false))
  const matrix: Matrix = { dark: grid(), isFunction: grid() }
  drawPatterns(matrix, version)
  drawFormat(matrix, mask)
  drawData(matrix, codewords, mask)
  return matrix.dark
}

function set({ dark, isFunction }: Matrix, row: number, column: number, value: boolean): void {
  dark[row]![column] = value
  isFunction[row]![column] = true
}

/** §6.3: finders with their separators, timing, alignment, the one module that is always dark. */
function drawPatterns(matrix: Matrix, version: number): void {
  const size = matrix.dark.length
  for (let at = 0; at < size; at++) {
    set(matrix, 6, at, at % 2 === 0)
    set(matrix, at, 6, at % 2 === 0)
  }
  const square = (row: number, column: number, reach: number, isDark: (ring: number) => boolean): void => {
    for (let i = -reach; i <= reach; i++)
      for (let j = -reach; j <= reach; j++)
        if (row + i >= 0 && row + i < size && column + j >= 0 && column + j < size)
          set(matrix, row + i, column + j, isDark(Math.max(Math.abs(i), Math.abs(j))))
  }
  const finder = (ring: number): boolean => ring !== 2 && ring !== 4
  square(3, 3, 4, finder)
  square(3, size - 4, 4, finder)
  square(size - 4, 3, 4, finder)
  if (version > 1) square(size - 7, size - 7, 2, (ring) => ring !== 1)
  set(matrix, size - 8, 8, true)
}

/** §7.9.1: level and mask with ten check bits, twice. */
function drawFormat(matrix: Matrix, mask: number): void {
  const size = matrix.dark.length
  const format = formatBits(mask)
  for (let bit = 0; bit < 15; bit++) {
    const value = ((format >> bit) & 1) === 1
    if (bit < 6) set(matrix, bit, 8, value)
    else if (bit < 8) set(matrix, bit + 1, 8, value)
    else if (bit === 8) set(matrix, 8, 7, value)
    else set(matrix, 8, 14 - bit, value)
    if (bit < 8) set(matrix, 8, size - 1 - bit, value)
    else set(matrix, size - 15 + bit, 8, value)
  }
}

/** Level M is 00; the rest is a BCH (15, 5) code, turned round so that it is never all light. */
export function formatBits(mask: number): number {
  let rest = mask << 10
  for (let bit = 14; bit >= 10; bit--) if (((rest >> bit) & 1) === 1) rest ^= 0x537 << (bit - 10)
  return ((mask << 10) | rest) ^ 0x5412
}

/** §7.7.3: up and down in columns of two from the right, past the vertical timing pattern, leaving functions out. */
function drawData({ dark, isFunction }: Matrix, codewords: number[], mask: number): void {
  const size = dark.length
  const bits = codewords.flatMap((word) => bitsOf(word, 8))
  let next = 0
  for (let right = size - 1, isUp = true; right >= 1; right -= 2, isUp = !isUp) {
    if (right === 6) right = 5
    for (let step = 0; step < size; step++) {
      const row = isUp ? size - 1 - step : step
      for (const column of [right, right - 1])
        if (!isFunction[row]![column]!) dark[row]![column] = (bits[next++] === 1) !== MASKS[mask]!(row, column)
    }
  }
}

/** §7.8.3.1: what makes a code hard to read. The mask with the least of it is taken; any mask is valid. */
function penalty(dark: boolean[][]): number {
  const size = dark.length
  const columns = dark.map((_, column) => dark.map((row) => row[column]!))
  let points = 0
  for (const line of [...dark, ...columns]) {
    const text = line.map((module) => (module ? '1' : '0')).join('')
    for (const run of text.match(/0{5,}|1{5,}/g) ?? []) points += run.length - 2
    points += 40 * [...text.matchAll(/(?=10111010000|00001011101)/g)].length
  }
  for (let i = 0; i < size - 1; i++)
    for (let j = 0; j < size - 1; j++)
      if (new Set([dark[i]![j], dark[i]![j + 1], dark[i + 1]![j], dark[i + 1]![j + 1]]).size === 1) points += 3
  const share = dark.flat().filter((module) => module).length / size ** 2
  return points + 10 * Math.floor(Math.abs(share * 100 - 50) / 5)
}
