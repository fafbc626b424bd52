import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { command } from '../../test/kit/command.ts'
import { ask, makePlace, refusal as refused, startSigner } from '../../test/kit/signer.ts'
import { AppError } from '../errors.ts'
import { accountIdOf, type UserId } from '../ids.ts'
import { askAt } from '../signer/programs/ask-operator.ts'
import type { Signer } from '../signer-wire/client.ts'
import { exportAll } from '../signer/programs/export-all.ts'
import { newKeyPair } from '../signer/export/hpke.ts'
import type { KeyExport } from '../signer-wire/wire.ts'
import { stopLane } from '../transactions/recovery/stop-lane.ts'
import {
  markExported,
  readExported,
  readKeptStatement,
  settleExported,
  startMarkingExports,
  takeKey,
  tellHeldElsewhere,
  type ExportedPlace,
} from './exported.ts'
import { pregenerate } from './pregenerate.ts'
import { insertAccount } from './sign-in.ts'
import { exportWrappedKeys } from './wrapped-keys.ts'
import { withWall } from '../../test/kit/clock.ts'
import { systemClock } from '../clock.ts'

let world: Rehearsal
before(async () => void (world = await rehearse()))
after(() => world.close())

const LEFT = new Date('2026-01-02T03:04:05.678Z')
const saying = (exportedAt: number | null): KeyExport => ({
  ...{ state: 'none', id: null, askedAt: null, readyAt: null, lapsesAt: null, delaySeconds: 0 },
  exportedAt,
})
const refusal = () => new AppError('invalid_token', 'The token is for another export.')

async function account(subject: string) {
  const { userId } = await pregenerate(world.app, { provider: 'X', providerUserId: subject })
  const accountId = accountIdOf('X', subject)
  return {
    ...{ accountId, userId, marked: () => readExported(world.app.db, accountId) },
    settle: (exportedAt: number | null) => settleExported(world.app.db, accountId, saying(exportedAt)),
    take: (signer: { takeKey: () => Promise<unknown>; keyExport?: () => Promise<KeyExport> }) =>
      takeKey(
        { db: world.app.db, clock: withWall(() => LEFT.getTime()), signer: { keyExport: async () => saying(null), ...signer } as unknown as Signer }, // prettier-ignore
        { accountId, userId: userId as UserId, token: 'a token' },
      ),
  }
}

test('a key that left stays one that left, whatever a signer from before says', async () => {
  const { settle, marked, take } = await account('1')
  await settle(LEFT.getTime())
  assert.deepEqual(await marked(), LEFT)
  await settle(null)
  assert.deepEqual(await marked(), LEFT)
  await settle(LEFT.getTime() - 1_000)
  assert.deepEqual(await marked(), LEFT, 'the newest')
  await assert.rejects(take({ takeKey: () => Promise.reject(refusal()) }), { code: 'invalid_token' })
  assert.deepEqual(await marked(), LEFT)
  await settle(LEFT.getTime() + 1_000)
  assert.deepEqual(await marked(), new Date(LEFT.getTime() + 1_000))
})

test('a refused request takes back its own mark; one without an answer leaves it', async () => {
  const { marked, take } = await account('2')
  let during: Date | null = null
  const refuse = async () => {
    during = await marked()
    throw refusal()
  }
  await assert.rejects(take({ takeKey: refuse }), { code: 'invalid_token' })
  assert.deepEqual([during, await marked()], [LEFT, null])
  const unknown = () => Promise.reject(new AppError('signer_unavailable', 'It does not answer.'))
  await assert.rejects(take({ takeKey: unknown }), { code: 'signer_unavailable' })
  assert.deepEqual(await marked(), LEFT)
})

test('a tab that saw the state before another took the key forgets nothing', async () => {
  const { settle, marked, take } = await account('3')
  await take({ takeKey: async () => ({}) })
  await settle(null)
  assert.notEqual(await marked(), null)
})

test('two tabs take at once: the one that is refused does not take back the mark of the one that got the key', async () => {
  for (const first of ['refused', 'given'] as const) {
    const { marked, take } = await account(`race-${first}`)
    const [mayRefuse, maySay, mayGive] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()] // prettier-ignore
    const [inRefused, inGiven] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const refused = () =>
      take({
        takeKey: async () => {
          inRefused.resolve()
          await mayRefuse.promise
          throw refusal()
        },
        // The signer's answer from before the other export arrives after it.
        keyExport: async () => {
          const said = saying(null)
          await maySay.promise
          return said
        },
      })
    const given = () =>
      take({
        takeKey: async () => {
          inGiven.resolve()
          await mayGive.promise
          return {}
        },
      })
    const running = { refused, given }
    const other = first === 'refused' ? 'given' : 'refused'
    const one = running[first]().catch((error: AppError) => error.code)
    await (first === 'refused' ? inRefused : inGiven).promise
    const two = running[other]().catch((error: AppError) => error.code)
    await (first === 'refused' ? inGiven : inRefused).promise
    mayRefuse.resolve()
    mayGive.resolve()
    await (first === 'refused' ? two : one)
    maySay.resolve()
    assert.deepEqual(await Promise.all([one, two]), first === 'refused' ? ['invalid_token', {}] : [{}, 'invalid_token'])
    assert.notEqual(await marked(), null, first)
  }
})

test('keys that the signer’s operator takes out count as exported by the next look, and lanes of theirs go on', async (t) => {
  const place = await makePlace()
  const signer = await startSigner(place, { more: { SIGNER_EXPORT_ALL: 'on' } })
  t.after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })
  const { db, telemetry } = world.app
  const [users, late] = [['X-all1', 'X-all2'] as const, 'X-all3']
  const rows = []
  for (const userId of [...users, late]) {
    const { address } = await signer.createAccount({ userId })
    await insertAccount(db, { userId, address })
    rows.push({ userId, address, accountId: accountIdOf('X', userId.slice(2)) })
  }
  const recipient = newKeyPair().getPublicKey('base64url')
  const path = join(place.env.SIGNER_DIR!, 'admin.sock')
  const where = { through: 0 }
  assert.equal(await markExported({ db, signer }, where), 0)
  await exportAll(recipient, { ask: (question) => askAt(path, question), write: () => {} })
  assert.equal(await markExported({ db, signer }, where), 3)
  assert.equal(await markExported({ db, signer }, where), 0)
  for (const { address, accountId, userId } of rows) {
    const at = (await signer.keyExport({ userId })).exportedAt!
    assert.deepEqual(await readExported(db, accountId), new Date(at))
    const isExpected = await stopLane(db, { chainId: 31_337, sender: address, nonce: 5, hash: null, reason: 'foreign_nonce' }) // prettier-ignore
    assert.equal(isExpected, true)
  }
  // The position is from a longer ledger, so an older ledger is read from its start, as in a new process.
  await db.updateTable('accounts').set({ exported_at: null }).where('user_id', 'in', users).execute()
  const longer = { through: where.through + 9 }
  assert.equal(await markExported({ db, signer }, longer), 2)
  assert.deepEqual(longer, where)
  await db.updateTable('accounts').set({ exported_at: null }).where('user_id', '=', late).execute()
  const worker = startMarkingExports({ clock: systemClock, db, signer, telemetry })
  await worker.stop()
  assert.notEqual(await readExported(db, rows[2]!.accountId), null)
})

test('what the signer says of keys that left is kept, and a signer that was restored from before is told, once', async (t) => {
  const place = await makePlace()
  const start = () => startSigner(place, { more: { SIGNER_EXPORT_ALL: 'on' } })
  let signer = await start()
  t.after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })
  const { db } = world.app
  const [left, stays] = ['X-told1', 'X-told2'] as const
  for (const userId of [left, stays]) {
    const { address } = await signer.createAccount({ userId })
    await insertAccount(db, { userId, address })
    await signer.sign(ask(address, { intentId: userId, accessToken: await place.token(userId) }))
  }
  const far = async (userId: string) => {
    const { address } = await signer.createAccount({ userId })
    return signer.sign(ask(address, { nonce: 500, intentId: `${userId}_500`, accessToken: await place.token(userId) }))
  }
  await signer.end('SIGTERM')
  const [store, copy] = [join(place.env.SIGNER_DIR!, 'signer.sqlite'), join(place.folder, 'copy')]
  copyFileSync(store, copy)
  signer = await start()
  const where: ExportedPlace = { through: 0 }
  await markExported({ db, signer }, where)
  assert.deepEqual(await tellHeldElsewhere({ db, signer }, where), { taken: 0, refused: 0 })
  await askAt(join(place.env.SIGNER_DIR!, 'admin.sock'), { verb: 'freeze', request: { subject: `user ${stays}` } })
  const recipient = newKeyPair().getPublicKey('base64url')
  await exportAll(recipient, { ask: (question) => askAt(join(place.env.SIGNER_DIR!, 'admin.sock'), question), write: () => {} }) // prettier-ignore
  assert.equal(await markExported({ db, signer }, where), 1)
  assert.deepEqual(await tellHeldElsewhere({ db, signer }, where), { taken: 0, refused: 0 }, 'it knows')
  const kept = async (userId: string) =>
    (await db.selectFrom('accounts').select('elsewhere').where('user_id', '=', userId).executeTakeFirstOrThrow()).elsewhere // prettier-ignore
  const said = readKeptStatement((await kept(left))!)!
  assert.deepEqual([said.at, said.isBrought], [(await signer.keyExport({ userId: left })).exportedAt, false])
  assert.equal(await kept(stays), null)

  await signer.end('SIGTERM')
  copyFileSync(copy, store)
  const run = (...words: string[]) => command(place.env, ['signer', 'accept-restore', '--without-networks', ...words])
  const [, confirmation] = /--accept ([0-9a-f]{16})$/m.exec((await run()).out)!
  assert.equal((await run('--accept', confirmation!)).code, 0)
  signer = await start()
  await assert.rejects(far(left), refused('nonce_gap'))
  // The process continues: its ledger is longer now.
  for (let n = 0; n < 9; n++) await signer.createAccount({ userId: `X-more${n}` })
  assert.ok((await signer.health()).ledgerEntries > where.through)
  await markExported({ db, signer }, where)
  assert.deepEqual(await tellHeldElsewhere({ db, signer }, where), { taken: 1, refused: 0 })
  assert.deepEqual(await tellHeldElsewhere({ db, signer }, { ...where, isTold: false }), { taken: 0, refused: 0 })
  await far(left)
  await assert.rejects(far(stays), refused('nonce_gap'))

  // A process that passed these records in another ledger.
  await db.updateTable('accounts').set({ elsewhere: null }).where('user_id', '=', left).execute()
  const passed: ExportedPlace = {
    through: (await signer.health()).ledgerEntries,
    restored: 'ab'.repeat(32),
    isTold: true,
  }
  await markExported({ db, signer }, passed)
  assert.deepEqual([readKeptStatement((await kept(left))!)!.at, passed.isTold], [said.at, false])

  // A row that cannot be parsed does not block other users' rows.
  for (const wrong of [
    'x',
    'null',
    '[]',
    '{}',
    JSON.stringify({ ...said, at: 'x' }),
    JSON.stringify({ ...said, statement: '0x' }),
  ]) {
    await db.updateTable('accounts').set({ elsewhere: wrong }).where('user_id', '=', stays).execute()
    assert.deepEqual(await tellHeldElsewhere({ db, signer }, { ...where, isTold: false }), { taken: 0, refused: 1 })
    const lines: string[] = []
    for await (const line of exportWrappedKeys(db)) lines.push(line)
    assert.ok(JSON.parse(lines.at(-1)!).end, wrong)
  }

  // An attacker wrote into the database: the signer rejects statements that it never signed.
  await db
    .updateTable('accounts')
    .set({ elsewhere: (await kept(left))! })
    .where('user_id', '=', stays)
    .execute()
  assert.deepEqual(await tellHeldElsewhere({ db, signer }, { ...where, isTold: false }), { taken: 0, refused: 1 })
  await assert.rejects(far(stays), refused('nonce_gap'))
  await db.updateTable('accounts').set({ elsewhere: null }).where('user_id', 'in', [left, stays]).execute()
  const worker = startMarkingExports({ clock: systemClock, db, signer, telemetry: world.app.telemetry })
  await worker.stop()
  assert.equal(readKeptStatement((await kept(left))!)!.at, said.at)
})
