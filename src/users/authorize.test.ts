import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fakeApp } from '../../test/fake-app.ts'
import { madeSealKeys } from '../../test/seal-keys.ts'
import { demoApplication } from '../../test/rehearsal.ts'
import { noteUser, saveApplication } from '../applications/registry.ts'
import type { Reader } from '../http/bearer.ts'
import { addConsent } from '../oauth/consents.ts'
import { ownAccount } from './authorize.ts'
import { linkIdentity } from './identities.ts'

/** These tests need no consents. */
const ANY = { redirectUris: [], secretHashes: [] }

test('an application reads nobody by an identity that is not proven to be theirs', async (t) => {
  const { app, db, account, close } = await fakeApp()
  t.after(close)
  Object.assign(app, { sealKeys: madeSealKeys() })
  const { accountId, userId } = await account('ann')
  const { clientId } = demoApplication
  await saveApplication(app, demoApplication)
  await noteUser(db, { clientId, accountId })
  await addConsent(app, { accountId, clientId, permissions: ['users:read'], application: ANY })
  const profile = { provider: 'TWO', subject: '7', username: null, imageSrc: null, email: null, emailVerified: null }
  await linkIdentity(app, { accountId, userId }, profile)
  const reader = { kind: 'machine', clientId } as Reader
  for (const id of [userId, 'TWO-7']) assert.equal((await ownAccount(app, reader, id)).userId, userId)
  await db.updateTable('identities').set({ seal: null }).where('subject', '=', '7').execute()
  await assert.rejects(ownAccount(app, reader, 'TWO-7'), { code: 'identity_not_proven' })
  assert.equal((await ownAccount(app, reader, userId)).userId, userId)
})
