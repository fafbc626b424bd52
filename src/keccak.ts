/**
 * Keccak-256 as Ethereum uses it. It differs from SHA3-256 in its padding, and OpenSSL in Node offers only SHA-3. This
 * implementation is WebAssembly, assembled at start: JavaScript has no fast 64-bit integers and takes 9× as long.
 * Source: FIPS 202 §3.2 and §4; the padding of the original submission, pad10*1
 */

// Node provides WebAssembly, but its types declare it only together with those of a browser.
declare const WebAssembly: {
  Module: new (code: Uint8Array<ArrayBuffer>) => object
  Instance: new (module: object) => {
    exports: { memory: { buffer: ArrayBuffer }; absorb: (from: number, to: number) => void }
  }
}

const RATE = 136
const STATE = 0
const CONSTANTS = 256
const INPUT = 1_024
const PAGE = 65_536
/** largest number of input bytes in memory at a time: whole blocks */
const MAX_LENGTH = Math.floor((PAGE - INPUT) / RATE) * RATE

const { memory, absorb } = new WebAssembly.Instance(new WebAssembly.Module(assemble())).exports
const bytes = new Uint8Array(memory.buffer)
new BigUint64Array(memory.buffer).set(roundConstants(), CONSTANTS / 8)

/** Returns the Keccak-256 hash, 32 bytes. All calls share one state, which each call resets and finishes with. */
export function keccak(input: Uint8Array): Buffer {
  bytes.fill(0, STATE, STATE + 200)
  let at = 0
  for (; input.length - at >= RATE;) {
    const length = Math.min(MAX_LENGTH, Math.floor((input.length - at) / RATE) * RATE)
    bytes.set(input.subarray(at, at + length), INPUT)
    absorb(INPUT, INPUT + length)
    at += length
  }
  const rest = input.length - at
  bytes.set(input.subarray(at), INPUT)
  bytes.fill(0, INPUT + rest, INPUT + RATE)
  bytes[INPUT + rest]! ^= 0x01
  bytes[INPUT + RATE - 1]! ^= 0x80
  absorb(INPUT, INPUT + RATE)
  return Buffer.from(bytes.subarray(STATE, STATE + 32))
}

/**
 * Computes the 24 round constants. FIPS 202 algorithm 5: bit 2^j - 1 of the constant of round i is the output of a
 * shift register at step j + 7i.
 */
function roundConstants(): bigint[] {
  let register = 1
  return Array.from({ length: 24 }, () => {
    let constant = 0n
    for (let j = 0; j < 7; j++) {
      if ((register & 1) === 1) constant |= 1n << BigInt(2 ** j - 1)
      register = (register << 1) ^ ((register >> 7) * 0x171)
    }
    return constant
  })
}

/**
 * Assembles a module with one page of memory and `absorb(from, to)`, which absorbs the blocks between the two addresses
 * into the state. All 25 lanes are locals, and the steps of a round follow each other without a loop. Source:
 * WebAssembly Core 1.0 §5
 */
function assemble(): Uint8Array<ArrayBuffer> {
  const [FROM, TO, ROUND] = [0, 1, 2]
  const a = (lane: number) => 3 + lane
  const b = (lane: number) => 28 + lane
  const c = (column: number) => 53 + (column % 5)
  const get = (local: number) => [0x20, local]
  const set = (local: number) => [0x21, local]
  const i32 = (value: number) => [0x41, ...signed(value)]
  const load = (offset: number) => [0x29, 3, ...leb(offset)]
  const rotate = (bits: number) => (bits === 0 ? [] : [0x42, ...signed(bits), 0x89])
  const XOR = 0x85
  const all = (count: number, code: (index: number) => number[]) => Array.from({ length: count }, (_, i) => code(i)).flat() // prettier-ignore

  const round = [
    // theta
    ...all(5, (x) => [...get(a(x)), ...[5, 10, 15, 20].flatMap((y) => [...get(a(x + y)), XOR]), ...set(c(x))]),
    // rho and pi, applied to the result of theta for each lane
    ...all(25, (lane) => {
      const x = lane % 5
      const y = (lane - x) / 5
      const theta = [...get(a(lane)), ...get(c(x + 4)), XOR, ...get(c(x + 1)), ...rotate(1), XOR]
      return [...theta, ...rotate(rotations()[lane]!), ...set(b(y + 5 * ((2 * x + 3 * y) % 5)))]
    }),
    // chi
    ...all(25, (lane) => {
      const row = lane - (lane % 5)
      const next = (by: number) => get(b(row + ((lane + by) % 5)))
      return [...get(b(lane)), ...next(1), 0x42, 0x7f, XOR, ...next(2), 0x83, XOR, ...set(a(lane))]
    }),
    // iota
    ...[...get(a(0)), ...get(ROUND), ...load(CONSTANTS), XOR, ...set(a(0))],
  ]
  const loop = (body: number[]) => [0x03, 0x40, ...body, 0x0d, 0, 0x0b]
  const code = [
    ...all(25, (lane) => [...i32(0), ...load(STATE + 8 * lane), ...set(a(lane))]),
    ...loop([
      ...all(RATE / 8, (lane) => [...get(a(lane)), ...get(FROM), ...load(8 * lane), XOR, ...set(a(lane))]),
      ...[...i32(0), ...set(ROUND)],
      ...loop([...round, ...get(ROUND), ...i32(8), 0x6a, 0x22, ROUND, ...i32(24 * 8), 0x49]),
      ...[...get(FROM), ...i32(RATE), 0x6a, 0x22, FROM, ...get(TO), 0x49],
    ]),
    ...all(25, (lane) => [...i32(0), ...get(a(lane)), 0x37, 3, ...leb(STATE + 8 * lane)]),
    0x0b,
  ]
  const sized = (content: number[]) => [...leb(content.length), ...content]
  const text = (name: string) => sized([...Buffer.from(name)])
  const functionBody = sized([2, 1, 0x7f, 55, 0x7e, ...code])
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...[1, ...sized([1, 0x60, 2, 0x7f, 0x7f, 0])],
    ...[3, ...sized([1, 0])],
    ...[5, ...sized([1, 0, 1])],
    ...[7, ...sized([2, ...text('memory'), 2, 0, ...text('absorb'), 0, 0])],
    ...[10, ...sized([1, ...functionBody])],
  ])
}

/** Computes the rotation of each lane, at index x + 5y. Source: FIPS 202 algorithm 2 */
function rotations(): number[] {
  const turns = Array.from({ length: 25 }, () => 0)
  let [x, y] = [1, 0]
  for (let t = 0; t < 24; t++) {
    turns[x + 5 * y] = (((t + 1) * (t + 2)) / 2) % 64
    ;[x, y] = [y, (2 * x + 3 * y) % 5]
  }
  return turns
}

function leb(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...leb(value >>> 7)]
}

/** Encodes a non-negative number as signed LEB128. */
function signed(value: number): number[] {
  return value < 0x40 ? [value] : [(value & 0x7f) | 0x80, ...signed(value >>> 7)]
}
