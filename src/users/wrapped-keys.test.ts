// tier: all, because it restores installations from their keys
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { noSealKeys } from '../../test/seal-keys.ts'
import { command } from '../../test/kit/command.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { makePlace, startSigner } from '../../test/kit/signer.ts'
import { until } from '../../test/kit/until.ts'
import type { App } from '../app.ts'
import { SignerRefused } from '../signer-wire/client.ts'
import { openState } from '../state.ts'
import { pregenerate } from './pregenerate.ts'
import { signIn } from './sign-in.ts'
import { copyWrappedKeys, exportWrappedKeys, startCopyingKeys } from './wrapped-keys.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

async function world(t: TestContext) {
  const [place, { db, close }] = await Promise.all([makePlace(), testDatabase()])
  let signer = await startSigner(place)
  t.after(async () => {
    await signer.end('SIGKILL')
    await close()
    place.clear()
  })
  const errors: unknown[] = []
  const log = { error: (event: string, fields: unknown) => errors.push([event, fields]) }
  const app = {
    clock: stoppedClock(),
    db,
    signer,
    chains: new Map(),
    state: openState(),
    telemetry: { log },
    sealKeys: noSealKeys,
  } as unknown as App
  const person = (n: number) => ({ provider: 'X', subject: String(n), username: `x${n}`, imageSrc: null, email: null, emailVerified: null }) // prettier-ignore
  const stored = async () => (await db.selectFrom('wrapped_keys').select(({ fn }) => fn.countAll<string>().as('n')).executeTakeFirstOrThrow()).n // prettier-ignore
  const exported = async () => {
    let text = ''
    for await (const line of exportWrappedKeys(db)) text += `${line}\n`
    return text
  }
  return {
    ...{ place, db, app, errors, person, exported, stored: async () => Number(await stored()) },
    signer: () => signer,
    async restart() {
      signer = await startSigner(place)
      app.signer = signer
    },
  }
}

test('a key is in the database before its address is, and a signer without its disk has it from there', async (t) => {
  const { place, db, app, person, exported, signer, restart } = await world(t)
  const people = await Promise.all(Array.from({ length: 40 }, (_, n) => signIn(app, person(n))))
  await signer().end('SIGKILL')
  rmSync(place.env.SIGNER_DIR!, { recursive: true })
  const file = join(place.folder, 'keys.jsonl')
  writeFileSync(file, await exported())
  const { code, out, err } = await command(place.env, ['signer', 'restore-keys', file])
  assert.deepEqual([code, err], [0, ''])
  assert.match(out, /^40 keys restored, 0 already present, 0 rejected\./)
  // After the ledger lost signatures, the signer refuses to sign before the chains were asked.
  await restart()
  await assert.rejects(signer().createAccount({ userId: 'X-1' }), { code: 'ledger_damaged' })
  await signer().end('SIGTERM')
  const shown = await command(place.env, ['signer', 'accept-restore'])
  const [, record] = /--accept ([0-9a-f]{16})$/m.exec(shown.out)!
  assert.equal(
    (await command(place.env, ['signer', 'accept-restore', '--without-networks', '--accept', record!])).code,
    0,
  )
  await restart()
  for (const { userId, address } of people) assert.equal((await signer().createAccount({ userId })).address, address)
  // The second copy has the keys as this signer wraps them.
  assert.equal(await copyWrappedKeys(app), 40)
  const ids = await db.selectFrom('wrapped_data_keys').select('id').execute()
  assert.equal(ids.length, 1, 'and no data key that nothing needs')
})

test('a key counts as new for the row that it was made for, and not for one that was lost and made again', async (t) => {
  const { db, app, person, signer } = await world(t)
  const isKeyNew = async (userId: string) =>
    (await db.selectFrom('accounts').select('is_key_new').where('user_id', '=', userId).executeTakeFirstOrThrow())
      .is_key_new
  const { address } = await signIn(app, person(1))
  await pregenerate(app, { provider: 'X', providerUserId: '2' })
  assert.deepEqual([await isKeyNew('X-1'), await isKeyNew('X-2')], [true, true])
  for (const table of ['identities', 'accounts'] as const) await db.deleteFrom(table).execute()
  assert.equal((await signIn(app, person(1))).address, address)
  await pregenerate(app, { provider: 'X', providerUserId: '2' })
  // Simulate a process killed between the signer's answer and the row. The address may already have been returned.
  await signer().createAccount({ userId: 'X-3' })
  await signIn(app, person(3))
  assert.deepEqual(await Promise.all(['X-1', 'X-2', 'X-3'].map(isKeyNew)), [false, false, false])
})

test('an account whose key cannot be stored is not told', async (t) => {
  const { db, app, person } = await world(t)
  await db.schema.alterTable('wrapped_keys').renameTo('away').execute()
  await assert.rejects(signIn(app, person(1)))
  assert.deepEqual(await db.selectFrom('accounts').selectAll().execute(), [])
})

test('keys that the database lacks come in batches, once', async (t) => {
  const { app, signer, stored } = await world(t)
  await Promise.all(Array.from({ length: 600 }, (_, n) => signer().createAccount({ userId: `X-${n}` })))
  assert.equal(await copyWrappedKeys(app), 600)
  assert.equal(await stored(), 600)
  assert.equal(await copyWrappedKeys(app), 0)
  await signer().createAccount({ userId: 'X-late' })
  assert.equal(await copyWrappedKeys(app), 1)
})

test('a signer that began anew takes nobody’s key out of the database', async (t) => {
  const { place, app, errors, person, signer, restart, stored, exported } = await world(t)
  await signIn(app, person(1))
  await copyWrappedKeys(app)
  assert.deepEqual(errors, [])
  const before = await exported()
  await signer().end('SIGTERM')
  rmSync(place.env.SIGNER_DIR!, { recursive: true })
  await restart()
  await signer().createAccount({ userId: 'X-1' })
  await signer().createAccount({ userId: 'X-2' })
  await copyWrappedKeys(app)
  assert.equal(await stored(), 2)
  const kept = (text: string) => text.split('\n').find((line) => line.includes('"X-1"'))
  assert.equal(kept(await exported()), kept(before))
  await copyWrappedKeys(app)
  // The key that this signer made is stored only once. The problem is logged once.
  assert.deepEqual(errors, [['wrapped_key_of_another_address', { userId: 'X-1' }]])
})

test('a signer that gives no keys is told of once', async (t) => {
  const { db } = await world(t)
  const warned: string[] = []
  let asked = 0
  const refuse = () => {
    asked += 1
    return Promise.reject(new SignerRefused('bad_request', 'wrapped is asked on SIGNER_AUTH_SOCKET only.'))
  }
  const log = { warn: (event: string) => warned.push(event), info: () => {} }
  const clock = stoppedClock()
  const app = { clock, db, signer: { wrapped: refuse }, telemetry: { log } } as unknown as App
  const copying = startCopyingKeys(app)
  for (let looks = 1; looks < 3; looks += 1) {
    await until('a look', () => asked >= looks && clock.sleepers() === 1)
    await clock.advance(60_000)
  }
  await copying.stop()
  assert.deepEqual(warned, ['wrapped_keys_not_copied'])
})
