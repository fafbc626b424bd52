// tier: all, because encrypting a keystore is slow on purpose
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { encryptKeystoreJson, Wallet } from 'ethers'
import { command } from '../../../test/kit/command.ts'
import { ask as signRequest, makePlace, refusal, startSigner } from '../../../test/kit/signer.ts'
import { askAt } from '../programs/ask-operator.ts'
import { exportAll } from '../programs/export-all.ts'
import { newKeyPair } from './hpke.ts'
import { importKeys, openKeystores, openSealed } from '../programs/import-keys.ts'
import { openKeystore } from './keystore.ts'
import { verifyStoreWith } from '../programs/verify.ts'

/** An installation's signer, with what its own user may ask. */
async function installation(t: TestContext, more: Record<string, string> = {}) {
  const place = await makePlace()
  const signer = await startSigner(place, { more })
  t.after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })
  const path = join(place.env.SIGNER_DIR!, 'admin.sock')
  const ask = <T>(question: { verb: string; request: object }): Promise<T> => askAt<T>(path, question)
  return { place, signer, ask, problems: async () => (await verifyStoreWith(place.env.SIGNER_DIR!, { kek: { provider: 'file', file: place.env.SIGNER_KEK_FILE! }, kekNext: undefined })).problems } // prettier-ignore
}

async function* of(lines: (object | string)[]): AsyncGenerator<string> {
  for (const line of lines) yield typeof line === 'string' ? line : JSON.stringify(line)
}

const quick = { scrypt: { N: 1_024, r: 8, p: 1 } }

test('a whole installation moves: every key to its address in the other one, which signs with it; twice is the same as once', async (t) => {
  const from = await installation(t, { SIGNER_EXPORT_ALL: 'on' })
  const to = await installation(t)
  const addresses = new Map<string, string>()
  for (let n = 0; n < 70; n++) addresses.set(`X-${n}`, (await from.signer.createAccount({ userId: `X-${n}` })).address)
  const pair = newKeyPair()
  const secret = Buffer.concat([Buffer.alloc(32), pair.getPrivateKey()]).subarray(-32)
  const lines: object[] = []
  const before = (await from.signer.health()).ledgerEntries
  const { exported } = await exportAll(pair.getPublicKey('base64url'), {
    ask: from.ask,
    write: (line) => lines.push(line),
  })
  assert.equal(exported, 70)
  assert.equal((await from.signer.health()).ledgerEntries, before + 70, 'a record each')
  const manifest: string[] = []
  const take = (some: (object | string)[], key = secret) =>
    importKeys(of(some), { ask: to.ask, open: openSealed(key), manifest: (line) => manifest.push(line) })
  // Ended in the middle, and begun again.
  const part = await take(lines.slice(0, 40))
  assert.deepEqual([part.imported, part.refused.length], [39, 1])
  manifest.length = 0
  assert.deepEqual(await take(lines), { imported: 31, present: 39, refused: [] })
  assert.deepEqual(
    manifest.slice(0, -1).map((line) => JSON.parse(line) as object),
    [...addresses].map(([userId, address]) => ({ userId, address })),
  )
  assert.equal(manifest.at(-1), '{"end":{"keys":70}}')
  for (const [userId, address] of addresses) assert.equal((await to.signer.createAccount({ userId })).address, address)
  const [userId, address] = ['X-69', addresses.get('X-69') as `0x${string}`]
  await to.signer.sign(signRequest(address, { nonce: 7, accessToken: await to.place.token(userId) }))
  // It may have been used elsewhere meanwhile.
  const later = signRequest(address, { nonce: 90, intentId: 'later', accessToken: await to.place.token(userId) })
  assert.equal((await to.signer.sign(later)).nonce, 90)
  assert.deepEqual([await from.problems(), await to.problems()], [[], []])
  // Sealed to somebody else, of another batch, or moved to another user or address, nothing opens.
  const [header, first, second] = lines as Record<string, string>[]
  const third = await installation(t)
  const refusedThere = async (some: object[], key = secret) =>
    (await importKeys(of([...some, { end: { keys: 1 } }]), { ask: third.ask, open: openSealed(key), manifest: () => {} })).refused.length // prettier-ignore
  assert.equal(await refusedThere([header!, first!], randomBytes(32)), 1)
  assert.equal(await refusedThere([{ ...header, batch: 'other' }, first!]), 1)
  assert.equal(await refusedThere([header!, { ...first, userId: 'X-other' }]), 1)
  assert.equal(await refusedThere([header!, { ...first, address: second!.address }]), 1)
  assert.equal((await third.signer.health()).accounts, 0)
})

test('keystores come in by their password; what does not fit is named, and the rest comes', async (t) => {
  const { ask, signer } = await installation(t)
  const [amy, ben, eve] = [Wallet.createRandom(), Wallet.createRandom(), Wallet.createRandom()]
  const stored = async ({ address, privateKey }: { address: string; privateKey: string }, password = 'pässword') =>
    JSON.parse(await encryptKeystoreJson({ address, privateKey }, password, quick)) as object
  const { address: taken } = await signer.createAccount({ userId: 'X-taken' })
  const rows = [
    { userId: 'X-amy', address: amy.address, keystore: await stored(amy) },
    { userId: 'X-ben', address: ben.address, keystore: await stored(ben, 'other') },
    { userId: 'X-two', address: amy.address, keystore: await stored(amy) },
    { userId: 'X-false', address: ben.address, keystore: await stored(eve) },
    { userId: 'X-taken', address: eve.address, keystore: await stored(eve) },
    { userId: 'X-none', address: eve.address },
    'no line',
  ]
  const manifest: string[] = []
  const { imported, refused } = await importKeys(of(rows), { ask, open: openKeystores('pässword'), manifest: (line) => manifest.push(line) }) // prettier-ignore
  assert.equal(imported, 1)
  assert.deepEqual(
    refused.map(({ row, reason }) => `${row}: ${reason}`).toSorted(),
    [
      'X-ben: the password does not open it',
      'X-false: its key gives another address',
      'X-none: it is no keystore of version 3',
      'X-taken: the signer has another account of this user',
      'X-two: the signer has this address under another user',
      'line 7: the line has no userId and address',
    ].toSorted(),
  )
  assert.deepEqual(manifest, [JSON.stringify({ userId: 'X-amy', address: amy.address.toLowerCase() }), '{"end":{"keys":1}}']) // prettier-ignore
  assert.equal((await signer.createAccount({ userId: 'X-amy' })).address, amy.address.toLowerCase())
  assert.equal((await signer.createAccount({ userId: 'X-taken' })).address, taken)
  assert.ok(!signer.stderr().includes(amy.privateKey.slice(2)))
})

test('no operator gets all keys unless that is switched on, nor by the server’s socket, nor those of the frozen', async (t) => {
  const { ask, signer } = await installation(t)
  const recipient = newKeyPair().getPublicKey('base64url')
  await assert.rejects(exportAll(recipient, { ask, write: () => {} }), /SIGNER_EXPORT_ALL/)
  const open = await installation(t, { SIGNER_EXPORT_ALL: 'on' })
  await open.signer.createAccount({ userId: 'X-free' })
  await open.signer.createAccount({ userId: 'X-cold' })
  await open.ask({ verb: 'freeze', request: { subject: 'user X-cold' } })
  const { exported, refused } = await exportAll(recipient, { ask: open.ask, write: () => {} })
  assert.deepEqual([exported, refused.map(({ userId }) => userId)], [1, ['X-cold']])
  await assert.rejects(exportAll('A'.repeat(87), { ask: open.ask, write: () => {} }), /not a public key/)
  for (const verb of ['exportKeys', 'importKeys', 'importRecipient'])
    await assert.rejects(askAt(open.place.env.SIGNER_SOCKET!, { verb, request: {} }), /does not have this verb/)
  assert.equal((await signer.health()).accounts, 0)
})

test('a keystore by either derivation is opened as wallets open it, and what would take minutes is refused', async () => {
  const { address, privateKey } = Wallet.createRandom()
  const scrypt = JSON.parse(await encryptKeystoreJson({ address, privateKey }, 'ﬁne', quick)) as { Crypto?: object; crypto?: object } // prettier-ignore
  assert.equal(`0x${openKeystore(scrypt, 'ﬁne').toString('hex')}`, privateKey)
  const parts = (scrypt.crypto ?? scrypt.Crypto) as { kdfparams: object }
  const costly = { ...scrypt, Crypto: undefined, crypto: { ...parts, kdfparams: { ...parts.kdfparams, n: 2 ** 21 } } }
  assert.throws(() => openKeystore(costly, 'ﬁne'), /too costly/)
  for (const none of [null, {}, { version: 3 }, { ...scrypt, version: 2 }, 'text'])
    assert.throws(() => openKeystore(none, 'x'), /no keystore of version 3/)
})

// Web3 Secret Storage Definition, test vector of PBKDF2-SHA-256.
test('the vector of the definition is opened', () => {
  const keystore = {
    crypto: {
      cipher: 'aes-128-ctr',
      cipherparams: { iv: '6087dab2f9fdbbfaddc31a909735c1e6' },
      ciphertext: '5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46',
      kdf: 'pbkdf2',
      kdfparams: { c: 262_144, dklen: 32, prf: 'hmac-sha256', salt: 'ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd' }, // prettier-ignore
      mac: '517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2',
    },
    id: '3198bc9c-6672-5ab3-d995-4942343ae5b6',
    version: 3,
  }
  assert.equal(
    openKeystore(keystore, 'testpassword').toString('hex'),
    '7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d',
  )
})

test('whose keys left is read in pages, over records of other kinds and many of exports', async (t) => {
  const { signer, ask } = await installation(t, { SIGNER_EXPORT_ALL: 'on' })
  const users = Array.from({ length: 410 }, (_, n) => `X-${n}`)
  for (const userId of users) await signer.createAccount({ userId })
  const recipient = newKeyPair().getPublicKey('base64url')
  for (let n = 0; n < 10; n++) await exportAll(recipient, { ask, write: () => {} })
  const { ledgerEntries } = await signer.health()
  const left: string[] = []
  const pages: number[] = []
  for (let after = 0; ;) {
    const { exported, through, isEnd } = await signer.exported({ after })
    left.push(...exported.map(({ userId }) => userId))
    pages.push(exported.length)
    if (isEnd) break
    after = through
  }
  assert.deepEqual(left, Array.from({ length: 10 }, () => users).flat())
  assert.ok(Math.max(...pages) === 100, String(pages))
  const end = { exported: [], through: ledgerEntries, isEnd: true, restored: '' }
  assert.deepEqual(await signer.exported({ after: ledgerEntries }), end)
  assert.deepEqual(await signer.exported({ after: ledgerEntries + 1 }), end)
})

test('files that hold a secret are refused when others can read them, and a manifest that exists stays as it is', async (t) => {
  const { place, signer } = await installation(t)
  const at = (name: string) => join(place.folder, name)
  const { address, privateKey } = Wallet.createRandom()
  const row = { userId: 'X-amy', address, keystore: JSON.parse(await encryptKeystoreJson({ address, privateKey }, 'pässword', quick)) as object } // prettier-ignore
  writeFileSync(at('keys.jsonl'), `${JSON.stringify(row)}\n`)
  writeFileSync(at('password'), 'pässword\n')
  writeFileSync(at('there'), 'mine')
  const run = (manifest: string, ...words: string[]) =>
    command(place.env, ['signer', 'import-keys', at('keys.jsonl'), '--manifest', at(manifest), ...words])
  for (const mode of [0o644, 0o640]) {
    chmodSync(at('password'), mode)
    const by = await run('new', '--password-file', at('password'))
    assert.deepEqual(
      [by.code, /The password file is readable by .+ Run chmod 600 on it\./.test(by.err)],
      [1, true],
      by.err,
    )
    const key = await run('new', '--recipient-key', at('password'))
    assert.deepEqual(
      [key.code, /The recipient key is readable by .+ Run chmod 600 on it\./.test(key.err)],
      [1, true],
      key.err,
    )
  }
  chmodSync(at('password'), 0o600)
  const over = await run('there', '--password-file', at('password'))
  assert.deepEqual(
    [over.code, /manifest.*exists/i.test(over.err), readFileSync(at('there'), 'utf8')],
    [1, true, 'mine'],
  )
  assert.equal((await signer.health()).accounts, 0, 'nothing came before it was refused')
  const done = await run('new', '--password-file', at('password'))
  assert.equal(done.code, 0, done.err)
  assert.deepEqual([statSync(at('new')).mode & 0o777, readFileSync(at('new'), 'utf8').split('\n').length], [0o600, 3])
})

test('a key that an operator takes along ends the request of its person, in the ledger too', async (t) => {
  const { ask, signer, place, problems } = await installation(t, { SIGNER_EXPORT_ALL: 'on', SIGNER_EXPORT: 'on', SIGNER_EXPORT_DELAY_SECONDS: '0' }) // prettier-ignore
  for (const userId of ['X-asked', 'X-quiet']) await signer.createAccount({ userId })
  const { id } = await signer.askKey({ token: await place.exportToken('X-asked', 'ask') })
  const recipient = newKeyPair().getPublicKey('base64url')
  assert.equal((await exportAll(recipient, { ask, write: () => {} })).exported, 2)
  assert.equal((await signer.keyExport({ userId: 'X-asked' })).state, 'none')
  const take = place.exportToken('X-asked', 'take', { request: id, recipient })
  await assert.rejects(signer.takeKey({ token: await take }), refusal('invalid_token'))
  const db = new DatabaseSync(join(place.env.SIGNER_DIR!, 'signer.sqlite'), { readOnly: true })
  const rules = db.prepare(`SELECT user_id AS who, rule FROM ledger WHERE kind LIKE 'export%' ORDER BY seq`).all()
  db.close()
  assert.deepEqual(
    rules.map(({ who, rule }) => `${String(who)} ${String(rule)}`),
    [
      'X-asked export-asked',
      'X-asked export-cancelled-by-export-all',
      'X-asked export-by-operator',
      'X-quiet export-by-operator',
    ],
  )
  assert.deepEqual(await problems(), [])
})
