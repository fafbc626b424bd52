import assert from 'node:assert/strict'
import { createPublicKey, hash, verify } from 'node:crypto'
import { test } from 'node:test'
import { sign, signingLogStore } from '../../../test/signing-log-store.ts'
import { signNote, verifierKeyOf } from './heads.ts'
import { readSignedHead } from '../../signer-wire/wire.ts'
import { isHeadOf, readVerifierKey } from '../../signer-wire/verifier.ts'
import { LedgerDamaged } from '../refusal.ts'

const damaged = (reason: RegExp) => (error: unknown) => error instanceof LedgerDamaged && reason.test(error.message)

test('a head is a checkpoint that anyone with the public key can read: size, root, time, signature', async (t) => {
  const { open, db } = signingLogStore(t)
  const log = await open()
  sign(log, db, 3)
  const [, key] = /^chatelaine-signing-log\/[0-9a-f]{16}\+[0-9a-f]{8}\+(.+)$/.exec(verifierKeyOf(log.identity))!
  const publicKey = Buffer.from(key!, 'base64').subarray(1)
  assert.equal(log.identity.origin, `chatelaine-signing-log/${hash('sha256', publicKey, 'hex').slice(0, 16)}`)
  const note = log.heads.newest()
  const [origin, size, root, at, empty, line, end] = note.split('\n')
  assert.deepEqual([origin, size, root, empty, end], [log.identity.origin, '3', log.ledger.tree.root().toString('base64'), '', '']) // prettier-ignore
  assert.match(at!, /^at 2026-01-01T00:00:\d\d\.000Z$/)
  const bytes = Buffer.from(line!.split(' ')[2]!, 'base64')
  const keyId = hash('sha256', Buffer.concat([Buffer.from(`${origin}\n\x01`), publicKey]), 'buffer').subarray(0, 4)
  assert.deepEqual(bytes.subarray(0, 4), keyId)
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), publicKey])
  const object = createPublicKey({ key: spki, format: 'der', type: 'spki' })
  assert.ok(verify(null, Buffer.from(note.slice(0, note.indexOf('\n\n') + 1)), object, bytes.subarray(4)))
  assert.equal(readSignedHead(note)!.size, 3)
  for (const bad of ['', note.slice(0, -1), note.replace('\n3\n', '\n03\n'), note.replace('— ', '- '), `${note}x`])
    assert.equal(readSignedHead(bad), null)

  const [verifier, head] = [readVerifierKey(verifierKeyOf(log.identity))!, readSignedHead(note)!]
  assert.ok(isHeadOf(verifier, head))
  const foreign = 'chatelaine-signing-log/0000000000000000'
  const bent = Buffer.from(head.signature.map((byte, n) => (n === 40 ? byte ^ 1 : byte)))
  for (const change of [{ signature: bent }, { text: `${head.text}x` }, { origin: foreign }])
    assert.equal(isHeadOf(verifier, { ...head, ...change }), false, JSON.stringify(change))
  assert.equal(
    readVerifierKey(verifierKeyOf({ ...log.identity, origin: foreign })),
    null,
    'the name is made of the key',
  )
})

test('the same identity and the same head are there after a start, and a new head only when something was signed', async (t) => {
  const { open, db } = signingLogStore(t)
  const first = await open()
  sign(first, db, 2)
  const second = await open()
  assert.deepEqual(second.identity.publicKey, first.identity.publicKey)
  second.heads.seal()
  assert.equal(second.heads.newest(), first.heads.newest())
})

test('a clock that is set back makes no head older than the one before it, of which servers keep the newest', async (t) => {
  const { open, db, setBack } = signingLogStore(t)
  const log = await open()
  sign(log, db, 1)
  const before = readSignedHead(log.heads.newest())!
  setBack()
  sign(log, db, 1)
  const after = readSignedHead(log.heads.newest())!
  assert.deepEqual([after.size, after.at], [2, before.at])
  const again = await open()
  sign(again, db, 1)
  assert.equal(readSignedHead(again.heads.newest())!.at, before.at)
})

for (const [what, sql, reason] of [
  ['whose newest head is gone', `DELETE FROM heads`, /newest head of the ledger is missing/],
  ['whose head has another size', `UPDATE heads SET note = replace(note, x'0a' || '3' || x'0a', x'0a' || '2' || x'0a')`, /not signed by this signer/], // prettier-ignore
  ['whose identity is gone', 'DELETE FROM identity', /identity key of the signer is missing/],
  ['with another public key', `UPDATE identity SET public = zeroblob(32)`, /identity key of the signer was altered/],
  ['with another secret key', `UPDATE identity SET wrapped = zeroblob(48)`, /identity key of the signer was altered/],
] as const) {
  test(`a store ${what} does not open`, async (t) => {
    const { open, db } = signingLogStore(t)
    sign(await open(), db, 3)
    db.exec(sql)
    await assert.rejects(open, damaged(reason))
  })
}

test('a store whose own head has another root than its records does not open', async (t) => {
  const { open, db } = signingLogStore(t)
  const log = await open()
  sign(log, db, 3)
  db.prepare('UPDATE heads SET note = ?').run(signNote({ size: 3, root: Buffer.alloc(32, 1), at: 0 }, log.identity))
  await assert.rejects(open, damaged(/does not end where its newest head says, at record 3/))
})

test('a head that the ledger continues changes nothing; one that it does not stops it, also after a start', async (t) => {
  const [mine, later] = [signingLogStore(t), signingLogStore(t)]
  const log = await mine.open()
  sign(log, mine.db, 5)
  const at5 = log.heads.newest()
  sign(log, mine.db, 4)
  assert.equal(log.heads.show(at5), true)
  assert.equal(log.heads.show(log.heads.newest()), true)
  assert.equal(log.heads.behind(), null)
  // Heads of another signer, and invalid ones, must not stop the signer.
  const foreign = await later.open()
  sign(foreign, later.db, 50)
  for (const head of [foreign.heads.newest(), at5.replace('\n5\n', '\n6\n'), 'x', ''])
    assert.equal(log.heads.show(head), false)
  assert.equal(log.heads.behind(), null)

  const ahead = signNote({ size: 12, root: Buffer.alloc(32, 1), at: 0 }, log.identity)
  assert.equal(log.heads.show(ahead), true)
  assert.match(log.heads.behind()!, /older than what it has answered for: 12 records, of which it has 9/)
  assert.match((await mine.open()).heads.behind()!, /older than what it has answered for/)
})

test('a head of the same size with another root stops the signer: the store took another way', async (t) => {
  const { open, db } = signingLogStore(t)
  const log = await open()
  sign(log, db, 9)
  for (const size of [1, 7, 9]) {
    const fresh = await open()
    fresh.heads.show(signNote({ size, root: Buffer.alloc(32, 1), at: 0 }, log.identity))
    assert.match(fresh.heads.behind()!, new RegExp(`another one than that which has answered: its first ${size} rec`))
    db.exec(`DELETE FROM heads WHERE which = 'shown'`)
  }
})

test('what an operator overruled stops it no more, and nothing but that', async (t) => {
  const { open, db } = signingLogStore(t)
  const log = await open()
  sign(log, db, 4)
  const lost = (size: number) => signNote({ size, root: Buffer.alloc(32, size), at: 0 }, log.identity)
  db.exec('BEGIN')
  const restored = { witness: { count: 6, record: '' }, shown: 8, floors: [] }
  log.ledger.append({ at: 1, userId: '', address: Buffer.alloc(0), rule: 'accept-restore', kind: 'restore', restored })
  log.heads.seal()
  db.exec('COMMIT')
  const shownTo = async (size: number) => {
    const { heads } = await open()
    heads.show(lost(size))
    db.exec(`DELETE FROM heads WHERE which = 'shown'`)
    return heads.behind()
  }
  assert.deepEqual(await Promise.all([5, 6, 7, 8].map(shownTo)), [null, null, null, null])
  assert.match((await shownTo(4))!, /another one/)
  assert.match((await shownTo(9))!, /older than/)
  // A head of the ledger as it continued: the same size, signed after the overruled ones.
  const later = signNote({ size: 7, root: Buffer.alloc(32, 7), at: 1 }, log.identity)
  const { heads } = await open()
  heads.show(later)
  assert.match(heads.behind()!, /older than/)
})

test('of several heads that the ledger does not continue the longest is kept: accepting it answers every server', async (t) => {
  const { open, db } = signingLogStore(t)
  const log = await open()
  sign(log, db, 4)
  for (const size of [5, 8, 6]) log.heads.show(signNote({ size, root: Buffer.alloc(32, size), at: 0 }, log.identity))
  assert.match(log.heads.behind()!, /: 8 records, of which it has 4/)
  assert.match((await open()).heads.behind()!, /: 8 records, of which it has 4/)
})
