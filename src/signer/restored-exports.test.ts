import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { command } from '../../test/command.ts'
import { ALICE, BOB, makePlace, refusal, startSigner } from '../../test/spawned-signer.ts'
import { askAt } from './ask-operator.ts'
import { newKeyPair } from './hpke.ts'
import { verifyStoreWith } from './verify.ts'

const CAROL = 'DISCORD-3'

/** Requests of three people are ready, a copy is made, and only then the first is cancelled, the second frozen, and the third's key leaves. */
async function rolledBack(t: TestContext) {
  const place = await makePlace()
  const start = () => startSigner(place, { more: { SIGNER_EXPORT: 'on', SIGNER_EXPORT_DELAY_SECONDS: '0' } })
  let signer = await start()
  t.after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })
  const ids: Record<string, string> = {}
  for (const userId of [ALICE, BOB, CAROL]) {
    await signer.createAccount({ userId })
    ids[userId] = (await signer.askKey({ token: await place.exportToken(userId, 'ask') })).id!
  }
  await signer.end('SIGTERM')
  const [store, copy] = [join(place.env.SIGNER_DIR!, 'signer.sqlite'), join(place.folder, 'copy')]
  copyFileSync(store, copy)
  const take = async (userId: string, request = ids[userId]!) => {
    const recipient = newKeyPair().getPublicKey('base64url')
    return signer.takeKey({ token: await place.exportToken(userId, 'take', { request, recipient }) })
  }
  const operator = (verb: string, subject: string) =>
    askAt(join(place.env.SIGNER_DIR!, 'admin.sock'), { verb, request: { subject } })
  signer = await start()
  await signer.cancelKey({ userId: ALICE, by: 'person' })
  await operator('freeze', `user ${BOB}`)
  await take(CAROL)
  await signer.end('SIGTERM')
  copyFileSync(copy, store)
  const run = (...words: string[]) => command(place.env, ['signer', 'accept-restore', '--without-networks', ...words])
  return {
    ...{ place, take, operator, run, store },
    async accept(...words: string[]) {
      const [, confirmation] = /--accept ([0-9a-f]{16})$/m.exec((await run(...words)).out)!
      const accepted = await run(...words, '--accept', confirmation!)
      assert.equal(accepted.code, 0, accepted.err)
      signer = await start()
      return { signer, said: accepted.out }
    },
  }
}

test('a copy from before requests for keys were cancelled, frozen and answered gives no key: each begins anew', async (t) => {
  const { place, take, accept, store } = await rolledBack(t)
  const { signer, said } = await accept()
  assert.match(said, /^3 requests for keys are ended[^]*Accepted, as record 7 of the ledger/m)
  for (const userId of [ALICE, BOB, CAROL]) {
    assert.equal((await signer.keyExport({ userId })).state, 'none')
    await assert.rejects(take(userId), refusal('invalid_token'), userId)
  }
  assert.deepEqual((await signer.keyExports()).exports, [])
  const db = new DatabaseSync(store, { readOnly: true })
  const cancelled = db.prepare(`SELECT user_id AS who FROM ledger WHERE rule = 'export-cancelled-by-restore'`).all()
  db.close()
  assert.deepEqual(
    cancelled.map(({ who }) => who),
    [ALICE, BOB, CAROL],
  )
  const kek = { provider: 'file' as const, file: place.env.SIGNER_KEK_FILE! }
  assert.deepEqual((await verifyStoreWith(place.env.SIGNER_DIR!, { kek, kekNext: undefined })).problems, [])
  const { id } = await signer.askKey({ token: await place.exportToken(ALICE, 'ask') })
  await take(ALICE, id!)
})
