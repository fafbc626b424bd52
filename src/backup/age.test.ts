import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { makeIdentity, readIdentities, readRecipient, seal, unseal } from './age.ts'
import { decodeBech32, encodeBech32 } from './bech32.ts'
import { pack, unpack } from './tar.ts'

const hasAge = spawnSync('age', ['--version']).status === 0
const CHUNK = 65_536
/** Around every edge of a piece. */
const SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 200_000]

async function* inPieces(bytes: Buffer, length = 10_007): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length)
}

async function all(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of source) pieces.push(piece)
  return Buffer.concat(pieces)
}

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'chatelaine-age-'))
  t.after(() => rmSync(path, { recursive: true }))
  return path
}

test('what is sealed to several recipients each of them opens, at every size, and nobody else does', async () => {
  const [one, two, stranger] = [makeIdentity(), makeIdentity(), makeIdentity()]
  for (const size of SIZES) {
    const plain = randomBytes(size)
    const sealed = await all(seal([readRecipient(one.recipient), readRecipient(two.recipient)], inPieces(plain)))
    for (const { identity } of [one, two])
      assert.ok((await all(unseal(readIdentities(identity), inPieces(sealed)))).equals(plain), String(size))
    await assert.rejects(
      all(unseal(readIdentities(stranger.identity), inPieces(sealed))),
      /no given identity can open it/,
    )
  }
})

test(
  'the age program opens what we seal, and we what it seals',
  { skip: !hasAge && 'age is not installed' },
  async (t) => {
    const place = folder(t)
    const [ours, keyFile] = [makeIdentity(), join(place, 'theirs')]
    execFileSync('age-keygen', ['-o', keyFile], { stdio: 'ignore' })
    const theirs = readFileSync(keyFile, 'utf8')
    const recipient = execFileSync('age-keygen', ['-y', keyFile], { encoding: 'utf8' }).trim()
    writeFileSync(join(place, 'ours'), `# a comment\n${ours.identity}\n`)
    for (const size of SIZES) {
      const plain = randomBytes(size)
      const sealed = await all(seal([readRecipient(recipient)], inPieces(plain)))
      assert.ok(
        execFileSync('age', ['-d', '-i', keyFile], { input: sealed, stdio: 'pipe' }).equals(plain),
        `open ${size}`,
      )
      // Its first recipient is one that we do not know: it is passed over.
      const foreign = execFileSync('age', ['-r', recipient, '-r', ours.recipient], { input: plain, stdio: 'pipe' })
      for (const text of [theirs, readFileSync(join(place, 'ours'), 'utf8')])
        assert.ok((await all(unseal(readIdentities(text), inPieces(foreign)))).equals(plain), `read ${size}`)
    }
    assert.equal(execFileSync('age-keygen', ['-y', join(place, 'ours')], { encoding: 'utf8' }).trim(), ours.recipient)
  },
)

test('a byte that was changed anywhere, a cut at any place and what is appended are refused', async () => {
  const { identity, recipient } = makeIdentity()
  const keys = readIdentities(identity)
  const sealed = await all(seal([readRecipient(recipient)], inPieces(randomBytes(CHUNK + 50))))
  const refused = (bytes: Buffer) =>
    assert.rejects(all(unseal(keys, inPieces(bytes))), (error: Error) => error.constructor.name === 'AgeError')
  const places = new Set([0, 20, 30, 60, 100, 130, 150, 180, 210, 230, 300, CHUNK, CHUNK + 240, sealed.length - 1])
  for (const at of places) {
    const bent = Buffer.from(sealed)
    bent[at] = bent[at]! ^ 1
    await refused(bent)
    await refused(sealed.subarray(0, at))
  }
  await refused(sealed.subarray(0, sealed.length - 50 - 16))
  await refused(Buffer.concat([sealed, Buffer.of(0)]))
  // Two whole files, one behind the other, are not one.
  await refused(Buffer.concat([sealed, sealed]))
})

test('keys are read as age writes them, and what is none is refused without being repeated', () => {
  // BIP 173.
  assert.equal(
    decodeBech32('abcdef', 'abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw')!.toString('hex'),
    '00443214c74254b635cf84653a56d7c675be77df',
  )
  assert.equal(encodeBech32('a', Buffer.alloc(0)).toUpperCase(), 'A12UEL5L')
  const { identity, recipient } = makeIdentity()
  assert.match(identity, /^AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}$/)
  assert.match(recipient, /^age1[02-9ac-hj-np-z]{58}$/)
  assert.equal(decodeBech32('age', recipient)!.length, 32)
  const last = recipient.at(-1) === 'q' ? 'p' : 'q'
  for (const text of ['', 'age1', recipient.slice(0, -1) + last, recipient.toUpperCase() + 'a', `x${recipient}`])
    assert.throws(() => readRecipient(text), /A recipient must be age1/)
  for (const text of ['', '# nothing', identity.slice(0, -1), `${identity}\nrubbish`])
    assert.throws(
      () => readIdentities(text),
      ({ message }: Error) => /identity file/.test(message) && !message.includes(identity.slice(20, 40)),
    )
})

test('an archive has its files again; tar reads it; one that is cut, bent or longer than it says is refused', async (t) => {
  const place = folder(t)
  const files = { 'manifest.json': Buffer.from('{}'), empty: Buffer.alloc(0), store: randomBytes(3_000_000) }
  const packed = await all(
    pack(
      Object.entries(files).map(([name, data]) => ({ name, size: data.length, data: inPieces(data) })),
      1_700_000_000,
    ),
  )
  const found: Record<string, Buffer> = {}
  for await (const { name, data } of unpack(inPieces(packed))) found[name] = await all(data)
  assert.deepEqual(Object.keys(found), Object.keys(files))
  for (const [name, data] of Object.entries(files)) assert.ok(found[name]!.equals(data), name)
  writeFileSync(join(place, 'a.tar'), packed)
  execFileSync('tar', ['-xf', 'a.tar'], { cwd: place })
  assert.ok(readFileSync(join(place, 'store')).equals(files.store))

  const read = async (bytes: Buffer) => {
    for await (const { data } of unpack(inPieces(bytes))) await all(data)
  }
  const bent = Buffer.from(packed)
  bent[3] = bent[3]! ^ 1
  for (const bytes of [bent, packed.subarray(0, 100), packed.subarray(0, 2_000_000), Buffer.alloc(0)])
    await assert.rejects(read(bytes), (error: Error) => error.constructor.name === 'ArchiveError')
  const [header] = await pack([{ name: 'huge', size: 2 ** 33 + 1, data: inPieces(Buffer.alloc(0)) }], 0)[Symbol.asyncIterator]().next().then(({ value }) => [value!]) // prettier-ignore
  for await (const { size } of unpack(inPieces(header!))) {
    assert.equal(size, 2 ** 33 + 1)
    break
  }
  const lying = pack([{ name: 'x', size: 5, data: inPieces(Buffer.alloc(4)) }], 0)
  await assert.rejects(all(lying), /has 4 bytes instead of 5/)
})
