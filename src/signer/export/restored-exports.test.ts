// tier: all, because it restores signers whose keys have left
import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { ALICE, BOB, makePlace, refusal, startSigner } from '../../../test/kit/signer.ts'
import { askAt } from '../programs/ask-operator.ts'
import { newKeyPair } from './hpke.ts'
import { verifyStoreWith } from '../programs/verify.ts'

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
  assert.match(said, /^3 key requests were cancelled[^]*Accepted as record 7 of the ledger/m)
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

test('what the operator freezes again with the restore ends its request, too: lifted, nothing leaves by it', async (t) => {
  const { place, take, operator, accept } = await rolledBack(t)
  const { signer } = await accept('--freeze', `user ${BOB}`, '--freeze', 'application shop')
  await assert.rejects(take(BOB), refusal('account_frozen'))
  await operator('unfreeze', `user ${BOB}`)
  await assert.rejects(take(BOB), refusal('invalid_token'))
  await signer.askKey({ token: await place.exportToken(BOB, 'ask') })
})

test('a name that freezes nobody is refused, by the restore as by the running signer, and nothing is accepted', async (t) => {
  const { operator, run, accept, store } = await rolledBack(t)
  for (const [subject, said] of [
    ['user DISCORD-nobody', /user DISCORD-nobody: the signer has no account for this user/i],
    ['lists', /`lists` can only name a freeze that exists/],
    ['user', /subject is not everything/],
  ] as const) {
    for (const words of [[], ['--accept', '0'.repeat(16)]]) {
      const { code, out, err } = await run('--freeze', subject, ...words)
      assert.deepEqual([code, said.test(err), /--accept [0-9a-f]/.test(out)], [1, true, false], err)
    }
  }
  const db = new DatabaseSync(store, { readOnly: true })
  assert.equal(db.prepare('SELECT count(*) AS rows FROM frozen').get()!.rows, 0)
  db.close()
  await accept()
  await assert.rejects(operator('freeze', 'lists'), /`lists` can only name a freeze that exists/)
  await assert.rejects(operator('freeze', 'user DISCORD-nobody'), /DISCORD-nobody: the signer has no account/i)
})

test('where there is nothing to accept nothing is frozen either, and it says so', async (t) => {
  const { accept, run } = await rolledBack(t)
  const { signer } = await accept()
  await signer.end('SIGTERM')
  const { code, out } = await run('--freeze', `user ${BOB}`)
  assert.deepEqual([code, /nothing to accept[^]*Nothing was frozen/.test(out)], [1, true], out)
})
