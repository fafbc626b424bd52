// tier: all, because it restores signers whose keys have left
import assert from 'node:assert/strict'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { Wallet } from 'ethers'
import { command } from '../../../test/kit/command.ts'
import { ALICE, ask, BOB, makePlace, refusal, startSigner, type Running } from '../../../test/kit/signer.ts'
import { askAt } from '../programs/ask-operator.ts'
import { newKeyPair, seal } from './hpke.ts'
import { exportInfo } from './exports.ts'
import { IMPORT } from './bulk.ts'
import { verifyStoreWith } from '../programs/verify.ts'
import type { HeldElsewhere } from '../../signer-wire/wire.ts'

const CAROL = 'DISCORD-3'
const FAR = 1_000

/** A signer of which a copy was made before Alice's key left; what it said of that, as a server keeps it. */
async function rolledBack(t: TestContext) {
  const place = await makePlace()
  const start = () => startSigner(place, { more: { SIGNER_EXPORT: 'on', SIGNER_EXPORT_DELAY_SECONDS: '0' } })
  let signer = await start()
  t.after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })
  const far = async (from: Running, userId: string) => {
    const { address } = await from.createAccount({ userId })
    return from.sign(ask(address, { nonce: FAR, intentId: `far_${userId}`, accessToken: await place.token(userId) }))
  }
  for (const userId of [ALICE, BOB]) {
    const { address } = await signer.createAccount({ userId })
    await signer.sign(ask(address, { intentId: `first_${userId}`, accessToken: await place.token(userId) }))
  }
  const store = join(place.env.SIGNER_DIR!, 'signer.sqlite')
  const copy = join(place.folder, 'copy')
  const { id } = await signer.askKey({ token: await place.exportToken(ALICE, 'ask') })
  await signer.end('SIGTERM')
  copyFileSync(store, copy)
  signer = await start()
  const recipient = newKeyPair().getPublicKey('base64url')
  await signer.takeKey({ token: await place.exportToken(ALICE, 'take', { request: id, recipient }) })
  const page = await signer.exported({ after: 0 })
  const exportedAt = (await signer.keyExport({ userId: ALICE })).exportedAt!
  await signer.end('SIGTERM')
  copyFileSync(copy, store)
  const run = (...words: string[]) => command(place.env, ['signer', 'accept-restore', '--without-networks', ...words])
  const [, confirmation] = /--accept ([0-9a-f]{16})$/m.exec((await run()).out)!
  assert.equal((await run('--accept', confirmation!)).code, 0)
  signer = await start()
  return {
    ...{ place, far, page, exportedAt, kept: page.exported as HeldElsewhere[] },
    signer: () => signer,
    async again() {
      await signer.end('SIGTERM')
      return (signer = await start())
    },
    async problems() {
      const kek = { provider: 'file' as const, file: place.env.SIGNER_KEK_FILE! }
      return (await verifyStoreWith(place.env.SIGNER_DIR!, { kek, kekNext: undefined })).problems
    },
  }
}

test('a signer that was restored from before a key left learns of it by its own word, once, and from then on its nonces are free', async (t) => {
  const { signer, far, kept, page, exportedAt, again, problems } = await rolledBack(t)
  assert.deepEqual(kept.map(({ userId, at }) => ({ userId, at })), [{ userId: ALICE, at: exportedAt }]) // prettier-ignore
  const restored = await signer().exported({ after: 0 })
  assert.deepEqual([page.restored, restored.exported, restored.restored?.length], ['', [], 64])
  await assert.rejects(far(signer(), ALICE), refusal('nonce_gap'))
  assert.deepEqual(await signer().heldElsewhere({ accounts: kept }), { taken: 1, refused: 0 })
  assert.deepEqual(await signer().heldElsewhere({ accounts: kept }), { taken: 0, refused: 0 })
  await far(signer(), ALICE)
  await assert.rejects(far(signer(), BOB), refusal('nonce_gap'))
  const next = await again()
  const state = await next.keyExport({ userId: ALICE })
  assert.deepEqual([state.state, state.exportedAt], ['none', exportedAt])
  // Said again to the next server, of the time that it left.
  assert.deepEqual((await next.exported({ after: 0 })).exported, kept)
  assert.deepEqual(await problems(), [])
})

test('a server that lies gains nothing: no other account, time, kind or signer counts, and the ledger stays as it is', async (t) => {
  const { signer, far, kept } = await rolledBack(t)
  const other = await makePlace()
  const foreign = await startSigner(other, { more: { SIGNER_EXPORT_ALL: 'on' } })
  t.after(async () => {
    await foreign.end('SIGKILL')
    other.clear()
  })
  await foreign.createAccount({ userId: ALICE })
  const recipient = newKeyPair().getPublicKey('base64url')
  const path = join(other.env.SIGNER_DIR!, 'admin.sock')
  await askAt(path, { verb: 'exportKeys', request: { recipient, batch: 'all', after: 0 } })
  const [of] = kept as [HeldElsewhere]
  const attested = (await signer().attest({ userIds: [ALICE] })).attested[0]!.attestation
  const { ledgerEntries } = await signer().health()
  const lies: HeldElsewhere[] = [
    { ...of, userId: BOB },
    { ...of, at: of.at - 1 },
    { ...of, isBrought: true },
    { ...of, statement: `0x${'00'.repeat(64)}` },
    { ...of, statement: attested },
    (await foreign.exported({ after: 0 })).exported[0] as HeldElsewhere,
  ]
  for (const lie of lies) assert.deepEqual(await signer().heldElsewhere({ accounts: [lie] }), { taken: 0, refused: 1 })
  assert.deepEqual(await signer().heldElsewhere({ accounts: lies }), { taken: 0, refused: lies.length })
  // Nobody's account: neither.
  assert.deepEqual(await signer().heldElsewhere({ accounts: [{ ...of, userId: CAROL }] }), { taken: 0, refused: 0 })
  assert.equal((await signer().health()).ledgerEntries, ledgerEntries)
  for (const userId of [ALICE, BOB]) await assert.rejects(far(signer(), userId), refusal('nonce_gap'))
  const malformed = [{}, { accounts: {} }, { accounts: [{ ...of, more: 1 }] }, { accounts: [{ ...of, at: -1 }] }, { accounts: [{ ...of, statement: '0x' }] }, { accounts: [{ ...of, isBrought: 'yes' }] }, { accounts: Array.from({ length: 101 }, () => of) }] // prettier-ignore
  for (const request of malformed)
    await assert.rejects(signer().heldElsewhere(request as { accounts: HeldElsewhere[] }), refusal('bad_request'))
})

test('what it is told ends no request of a person that is under way, and a key that leaves again is the newest', async (t) => {
  const { place, signer, kept, exportedAt, problems } = await rolledBack(t)
  const { id } = await signer().askKey({ token: await place.exportToken(ALICE, 'ask') })
  assert.deepEqual(await signer().heldElsewhere({ accounts: kept }), { taken: 1, refused: 0 })
  const { state, exportedAt: before } = await signer().keyExport({ userId: ALICE })
  assert.deepEqual([state, before], ['ready', exportedAt])
  assert.deepEqual((await signer().keyExports()).exports.map(({ userId }) => userId), [ALICE]) // prettier-ignore
  const recipient = newKeyPair().getPublicKey('base64url')
  await signer().takeKey({ token: await place.exportToken(ALICE, 'take', { request: id, recipient }) })
  assert.ok((await signer().keyExport({ userId: ALICE })).exportedAt! > exportedAt)
  assert.deepEqual(await problems(), [])
})

test('a record that someone put into the store frees no nonce, and no statement is made of it', async (t) => {
  const { place, signer, far, again } = await rolledBack(t)
  // More than a start looks at of the ledger's end.
  await Promise.all(Array.from({ length: 1_001 }, (_, n) => signer().createAccount({ userId: `X-${n}` })))
  await signer().end('SIGTERM')
  const db = new DatabaseSync(join(place.env.SIGNER_DIR!, 'signer.sqlite'))
  db.exec(`UPDATE ledger SET rule = 'imported-key' WHERE kind = 'account' AND user_id = '${BOB}'`)
  db.close()
  const next = await again()
  await assert.rejects(far(next, BOB), refusal('nonce_gap'))
  await assert.rejects(next.exported({ after: 0 }), refusal('internal_error'))
})

test('keys that come back to an empty store bring with them that they left or were brought, by the word of the lost signer', async (t) => {
  const { place, signer, kept } = await rolledBack(t)
  const operator = <T>(verb: string, request: object) => askAt<T>(join(place.env.SIGNER_DIR!, 'admin.sock'), { verb, request }) // prettier-ignore
  const { recipient } = await operator<{ recipient: string }>('importRecipient', {})
  const { address, privateKey } = Wallet.createRandom()
  const info = exportInfo({ userId: CAROL, address: Buffer.from(address.slice(2), 'hex'), id: IMPORT })
  const { enc, ciphertext } = seal(Buffer.from(recipient, 'base64url'), Buffer.from(privateKey.slice(2), 'hex'), {
    info,
  })
  const key = { userId: CAROL, address, enc: enc.toString('base64url'), ciphertext: ciphertext.toString('base64url') }
  const { outcomes } = await operator<{ outcomes: { outcome: string }[] }>('importKeys', { keys: [key] })
  assert.equal(outcomes[0]!.outcome, 'imported')
  const [brought] = (await signer().exported({ after: 0 })).exported as [HeldElsewhere]
  assert.deepEqual([brought.userId, brought.isBrought], [CAROL, true])

  const identity = await signer().identity()
  const { keys, dataKeys } = await signer().wrapped({ after: 0 })
  const users = keys.map(({ userId }) => userId)
  const { attested } = await signer().attest({ userIds: users })
  await signer().end('SIGTERM')
  const elsewhere = new Map([kept[0]!, brought].map(({ userId, ...said }) => [userId, said]))
  const lines = [
    ...dataKeys.map((dataKey) => ({ dataKey })),
    ...keys.map((one, n) => ({ key: { ...one, attestation: attested[n]!.attestation, elsewhere: elsewhere.get(one.userId) ?? null } })), // prettier-ignore
    { end: { keys: keys.length } },
  ]
  const file = join(place.folder, 'keys.jsonl')
  writeFileSync(file, lines.map((line) => JSON.stringify(line)).join('\n'))
  Object.assign(place.env, { SIGNER_DIR: join(place.folder, 'new') })
  const restore = (...words: string[]) => command(place.env, ['signer', 'restore-keys', file, ...words])
  const unknown = await restore()
  assert.match(unknown.out, /^3 keys restored[^]*2 accounts were marked as externally held by another signer identity/m)
  const known = await restore('--identity', identity)
  assert.match(known.out, /^0 keys restored, 3 already present, 0 rejected\.\n2 accounts count as externally held/m)
  assert.doesNotMatch((await restore('--identity', identity)).out, /elsewhere/)
  const accept = (...words: string[]) => command(place.env, ['signer', 'accept-restore', '--without-networks', ...words]) // prettier-ignore
  const [, confirmation] = /--accept ([0-9a-f]{16})$/m.exec((await accept()).out)!
  assert.equal((await accept('--accept', confirmation!)).code, 0)

  const next = await startSigner(place)
  t.after(() => next.end('SIGKILL'))
  const far = async (userId: string, nonce = FAR) => {
    const account = await next.createAccount({ userId })
    return next.sign(
      ask(account.address, { nonce, intentId: `${userId}_${nonce}`, accessToken: await place.token(userId) }),
    )
  }
  for (const userId of [ALICE, BOB, CAROL]) await far(userId, 0)
  for (const userId of [ALICE, CAROL]) await far(userId)
  await assert.rejects(far(BOB), refusal('nonce_gap'))
  const exportedAt = async (userId: string) => (await next.keyExport({ userId })).exportedAt
  assert.deepEqual([await exportedAt(ALICE), await exportedAt(CAROL)], [kept[0]!.at, null])
  // By its own word from now on.
  const said = (await next.exported({ after: 0 })).exported.map(({ userId, at, isBrought }) => ({
    userId,
    at,
    isBrought,
  }))
  assert.deepEqual(said.toSorted((a, b) => (a.userId < b.userId ? -1 : 1)), [
    { userId: ALICE, at: kept[0]!.at, isBrought: false },
    { userId: CAROL, at: brought.at, isBrought: true },
  ]) // prettier-ignore
})
