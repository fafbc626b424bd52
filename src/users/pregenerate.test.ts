import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { attestingSigner } from '../../test/attesting.ts'
import { madeSealKeys } from '../../test/seal-keys.ts'
import { testDatabase } from '../../test/kit/database.ts'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { openState } from '../state.ts'
import { findUser } from './find.ts'
import { linkIdentity } from './identities.ts'
import { pregenerate } from './pregenerate.ts'
import { signIn } from './sign-in.ts'
import { systemClock } from '../clock.ts'

async function house(t: TestContext) {
  const { db, close } = await testDatabase()
  t.after(close)
  const given: string[] = []
  const app = {
    db,
    signer: attestingSigner((userId) => `0x${createHash('sha256').update(userId).digest('hex').slice(0, 40)}`),
    clock: systemClock,
    state: openState(),
    sealKeys: madeSealKeys(),
    chains: new Map([[1, { chainId: 1, faucet: async (address: string) => void given.push(address) }]]),
    telemetry: { log: { warn: () => {} } },
  } as unknown as App
  return { app, given }
}

const profile = { provider: 'ONE', imageSrc: null, email: null, emailVerified: null }

test('an account made before its owner came is exactly the one the owner gets, and nobody else by name', async (t) => {
  const { app } = await house(t)
  const made = await pregenerate(app, { provider: 'ONE', providerUserId: '77' })
  assert.deepEqual([made.userId, made.isNew], ['ONE-77', true])
  const namesake = await signIn(app, { ...profile, subject: '78', username: '77' })
  assert.notEqual(namesake.address, made.address)
  const owner = await signIn(app, { ...profile, subject: '77', username: 'ann' })
  assert.deepEqual([owner.address, owner.userId, owner.isNew], [made.address, 'ONE-77', false])
  assert.equal((await findUser(app, 'ONE-77'))?.username, 'ann')
})

test('making it twice, at once, or after its owner came gives the same account', async (t) => {
  const { app } = await house(t)
  const all = await Promise.all(
    Array.from({ length: 6 }, () => pregenerate(app, { provider: 'ONE', providerUserId: 'a-b' })),
  )
  assert.equal(new Set(all.map(({ address }) => address)).size, 1)
  assert.equal(all.filter(({ isNew }) => isNew).length, 1)
  await signIn(app, { ...profile, subject: 'a-b', username: 'ann' })
  const again = await pregenerate(app, { provider: 'ONE', providerUserId: 'a-b' })
  assert.deepEqual([again.address, again.isNew], [all[0]!.address, false])
  assert.equal((await findUser(app, 'ONE-a-b'))?.username, 'ann', 'what the provider said stays')
})

test('an identity that was added to an account leads there; one that waits for its owner cannot be added', async (t) => {
  const { app } = await house(t)
  const ann = await signIn(app, { ...profile, subject: '1', username: 'ann' })
  assert.equal(await linkIdentity(app, ann, { ...profile, subject: '2', username: 'ann2' }), 'linked')
  const there = await pregenerate(app, { provider: 'ONE', providerUserId: '2' })
  assert.deepEqual([there.userId, there.address, there.isNew], ['ONE-1', ann.address, false])
  await pregenerate(app, { provider: 'ONE', providerUserId: '3' })
  assert.equal(await linkIdentity(app, ann, { ...profile, subject: '3', username: 'x' }), 'has_own_account')
})

test('what is no provider name or no id is refused with its place', async (t) => {
  const { app } = await house(t)
  for (const [provider, providerUserId, pointer] of [
    ['one', '1', '/provider'],
    ['', '1', '/provider'],
    ['A-B', '1', '/provider'],
    ['ONE', '', '/providerUserId'],
    ['ONE', 'a\0', '/providerUserId'],
    ['ONE', 'x'.repeat(256), '/providerUserId'],
  ] as const)
    await assert.rejects(
      pregenerate(app, { provider, providerUserId }),
      (error) =>
        error instanceof AppError && error.code === 'invalid_request' && error.errors?.[0]?.pointer === pointer,
    )
})
