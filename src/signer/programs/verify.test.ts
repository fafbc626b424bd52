import assert from 'node:assert/strict'
import { createCipheriv, generateKeyPairSync, hash, randomBytes, sign as signBytes } from 'node:crypto'
import { test } from 'node:test'
import { sign, signingLogStore } from '../../../test/signing-log-store.ts'
import { canonical } from '../canonical.ts'
import { signNote } from '../ledger/heads.ts'
import { openWitness } from '../ledger/witness.ts'
import { verifyStore, verifyStoreWith } from './verify.ts'

const FOREIGN = 'The identity key of the signer was altered.'

/** A store with three records, and what `verify` says of its identity with the master key and without. */
async function world(t: Parameters<typeof signingLogStore>[0]) {
  const store = signingLogStore(t)
  const log = await store.open()
  sign(log, store.db, 3)
  openWitness(`${store.storeFolder}/witness`, log.ledger.head()).close()
  const settings = { kek: { provider: 'file' as const, file: store.kekFile }, kekNext: undefined }
  const says = async (withKek: boolean) =>
    (withKek ? await verifyStoreWith(store.storeFolder, settings) : verifyStore(store.storeFolder)).problems
  return { ...store, log, says }
}

test('an identity that is not the signer’s, with a head by it, is found with the master key', async (t) => {
  const { db, log, says } = await world(t)
  assert.ok(!(await says(true)).includes(FOREIGN))
  const before = await says(false)
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(12)
  const identity = {
    ...{ publicKey: raw, origin: `chatelaine-signing-log/${hash('sha256', raw, 'hex').slice(0, 16)}` },
    ...{ sign: (text: string) => signBytes(null, Buffer.from(text), privateKey), isSigned: () => true, isNew: false },
  }
  db.prepare('UPDATE identity SET public = ?').run(raw)
  db.prepare('UPDATE heads SET note = ?').run(signNote({ size: 3, root: log.ledger.tree.root(), at: 0 }, identity))
  assert.deepEqual(await says(false), before)
  assert.deepEqual(
    (await says(true)).filter((one) => !before.includes(one)),
    [FOREIGN],
  )
})

test('an identity key that opens, and is of another public half, is found', async (t) => {
  const { db, log, says, open } = await world(t)
  const { epoch, public: raw } = db.prepare('SELECT epoch, public FROM identity').get() as {
    epoch: number
    public: Uint8Array
  }
  const other = generateKeyPairSync('ed25519').privateKey.export({ format: 'der', type: 'pkcs8' })
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', log.deks.of(epoch)!, iv)
  cipher.setAAD(canonical('chatelaine identity 1', raw, epoch))
  const wrapped = Buffer.concat([cipher.update(other), cipher.final()])
  db.prepare('UPDATE identity SET iv = ?, tag = ?, wrapped = ?').run(iv, cipher.getAuthTag(), wrapped)
  assert.ok(!(await says(false)).includes(FOREIGN))
  assert.ok((await says(true)).includes(FOREIGN))
  await assert.rejects(open, { name: 'LedgerDamaged', message: FOREIGN })
})

for (const [what, sql] of [
  ['secret half', 'UPDATE identity SET wrapped = zeroblob(48)'],
  ['data key', 'PRAGMA foreign_keys = OFF; UPDATE identity SET epoch = 9'],
  ['tag, cut to two bytes,', `PRAGMA ignore_check_constraints = ON; UPDATE identity SET tag = x'0102'`],
] as const) {
  test(`an identity key whose ${what} is another is found`, async (t) => {
    const { db, says, open } = await world(t)
    db.exec(sql)
    assert.ok((await says(true)).includes(FOREIGN))
    await assert.rejects(open, { name: 'LedgerDamaged', message: FOREIGN })
  })
}

test('a store whose data keys and MACs were taken away is no new store', async (t) => {
  const { db, says, open } = await world(t)
  db.exec(
    `PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; DELETE FROM deks; DELETE FROM identity; DELETE FROM heads; UPDATE ledger SET mac = x''`,
  )
  for (const withKek of [false, true]) {
    const problems = await says(withKek)
    for (const said of ['The data keys are missing: no MAC can be checked, and no account key can be decrypted.', 'The identity key of the signer is missing.']) assert.ok(problems.includes(said), said) // prettier-ignore
  }
  await assert.rejects(open, /not written by this signer/)
})
