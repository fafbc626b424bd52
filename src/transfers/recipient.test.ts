import assert from 'node:assert/strict'
import { after, before, beforeEach, suite, test } from 'node:test'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { presets } from '../oauth/federation/presets.ts'
import { attestingSigner } from '../../test/attesting.ts'
import { madeSealKeys } from '../../test/seal-keys.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { openState } from '../state.ts'
import { forgetPerson, linkIdentity } from '../users/identities.ts'
import { restoreAccount } from '../users/pregenerate.ts'
import { signIn } from '../users/sign-in.ts'
import type { Addressee } from './order.ts'
import { findRecipient, showRecipient, type SubjectForms } from './recipient.ts'
import { standInOf } from './strangers.ts'
import { systemClock } from '../clock.ts'

let database: TestDatabase
let app: App
const signer = attestingSigner((userId) => addressOf(userId))
before(async () => {
  database = await testDatabase()
  app = {
    db: database.db,
    signer,
    clock: systemClock,
    state: openState(),
    sealKeys: madeSealKeys(),
    chains: new Map(),
  } as unknown as App
})
after(() => database.close())
beforeEach(async () => {
  for (const table of ['identities', 'accounts', 'applications'] as const) await app.db.deleteFrom(table).execute()
})

const addressOf = (userId: string) => standInOf({ provider: 'test', subject: userId })
const forms: SubjectForms = new Map([
  ['DISCORD', presets.discord.subjectForm],
  ['CORP', null],
])
const caller = { clientId: 'shop' }
const byId = (provider: string, subject: string): Addressee => ({ by: 'userId', provider, subject })
const byName = (provider: string, username: string): Addressee => ({ by: 'name', provider, username })
const sign = (provider: string, subject: string, username: string) =>
  signIn(app, { provider, subject, username, imageSrc: null, email: null, emailVerified: null })
const find = (to: Addressee) => findRecipient(app, caller, to, forms)
async function refusal(to: Addressee): Promise<string> {
  const error = await find(to).then(
    () => null,
    (thrown: unknown) => thrown,
  )
  assert.ok(error instanceof AppError && error.code === 'unknown_recipient', String(error))
  return error.message
}

const issuerOf = (provider: string) => ({
  ...{
    provider,
    issuer: 'https://id.example',
    audience: 'app',
    jwksUri: null,
    algorithms: ['RS256'],
    subjectClaim: 'sub',
  },
  ...{ usernameClaims: ['name'], pictureClaim: 'picture', maxAgeSeconds: 300, isReusable: false, allowsPrivate: false },
})
const brings = async (clientId: string, provider: string) =>
  app.db
    .insertInto('applications')
    .values({
      ...{ client_id: clientId, name: clientId, chain_id: 1, kind: 'confidential', permissions: '[]' },
      ...{
        redirect_uris: '[]',
        allowed_origins: '[]',
        secret_hashes: '[]',
        issuers: JSON.stringify([issuerOf(provider)]),
      },
    })
    .execute()

suite('a recipient by name', () => {
  test('is the one person who had it at the last sign-in; none, two, and nobody yet are told alike', async () => {
    const ann = await sign('DISCORD', '10000000000000001', 'ann')
    assert.deepEqual(await find(byName('DISCORD', 'ann')), { address: ann.address })
    const none = await refusal(byName('DISCORD', 'anna'))
    await sign('DISCORD', '10000000000000002', 'ann')
    assert.equal(await refusal(byName('DISCORD', 'ann')), none)
    // The first one is called otherwise now: the name is the second one's.
    await sign('DISCORD', '10000000000000001', 'ann the first')
    assert.deepEqual(await find(byName('DISCORD', 'ann')), { address: addressOf('DISCORD-10000000000000002') })
    await restoreAccount(app.db, { userId: 'DISCORD-waiting', address: addressOf('DISCORD-waiting') })
    for (const name of ['waiting', 'ANN', 'ann ', '\0', '\ud800', '%'])
      assert.equal(await refusal(byName('DISCORD', name)), none)
    assert.match(await refusal(byName('CORP', 'ann')), /Nobody, or more than one person/)
  })

  test('is found by any of their identities, and counts once when two of them are called the same', async () => {
    const bea = await sign('DISCORD', '10000000000000003', 'bea')
    const profile = { subject: '7', username: 'bea', imageSrc: null, email: null, emailVerified: null }
    await linkIdentity(app, bea, { ...profile, provider: 'CORP' })
    await linkIdentity(app, bea, { ...profile, provider: 'DISCORD', subject: '10000000000000004' })
    assert.deepEqual(await find(byName('CORP', 'bea')), { address: bea.address })
    assert.deepEqual(await find(byName('DISCORD', 'bea')), { address: bea.address })
    assert.deepEqual(
      await showRecipient(app, byName('CORP', 'bea'), bea.address).then(({ userId, hasSignedIn }) => [
        userId,
        hasSignedIn,
      ]),
      ['CORP-7', true],
    )
  })

  test('who deleted their data is not found', async () => {
    const cat = await sign('DISCORD', '10000000000000005', 'cat')
    await forgetPerson(app.db, cat)
    await refusal(byName('DISCORD', 'cat'))
    await refusal(byName('DISCORD', '10000000000000005'))
  })
})

suite('a recipient by id', () => {
  test('has signed in, or can: the provider is there and the id looks like one of its', async () => {
    const dan = await sign('DISCORD', '10000000000000006', 'dan')
    assert.deepEqual(await find(byId('DISCORD', '10000000000000006')), { address: dan.address })
    const stranger = { provider: 'DISCORD', subject: '80351110224678912' }
    assert.deepEqual(await find({ by: 'userId', ...stranger }), { stranger })
    for (const subject of [
      'dan',
      '1',
      '080351110224678912',
      '80351110224678912 ',
      '803511102246789123456',
      '８0351110224678912',
    ])
      assert.match(await refusal(byId('DISCORD', subject)), /This is not an id of/)
    assert.match(await refusal(byId('NOWHERE', '1')), /no provider NOWHERE/)
    assert.match(await refusal(byId('CORP', '1')), /cannot be checked/)
    // Who has signed in there can be sent to all the same.
    const eve = await sign('CORP', '1', 'eve')
    assert.deepEqual(await find(byId('CORP', '1')), { address: eve.address })
  })

  test('is shown as they were asked for, and not by what else they are', async () => {
    const fay = await sign('DISCORD', '10000000000000007', 'fay')
    await linkIdentity(app, fay, {
      provider: 'CORP',
      subject: 'fay',
      username: 'Fay F.',
      imageSrc: null,
      email: null,
      emailVerified: null,
    })
    const shown = await showRecipient(app, byId('CORP', 'fay'), fay.address)
    assert.deepEqual([shown.userId, shown.hasSignedIn], ['CORP-fay', true])
    assert.deepEqual(
      await showRecipient(app, { by: 'address', address: fay.address }, fay.address).then(({ userId, hasSignedIn }) => [
        userId,
        hasSignedIn,
      ]),
      [null, null],
    )
    const waiting = { userId: 'CORP-waiting', address: addressOf('CORP-waiting') }
    await restoreAccount(app.db, { ...waiting, attestation: signer.attestation(waiting.userId, waiting.address) })
    assert.equal((await showRecipient(app, byId('CORP', 'waiting'), addressOf('CORP-waiting'))).hasSignedIn, false)
  })

  test('of an application’s own people is theirs alone: others are refused in the same words, there or not', async () => {
    await brings('shop', 'APP_SHOP')
    await brings('rival', 'APP_RIVAL')
    const stranger = { provider: 'APP_SHOP', subject: 'any id at all' }
    assert.deepEqual(await find({ by: 'userId', ...stranger }), { stranger })
    const none = await refusal(byId('APP_RIVAL', '1'))
    await sign('APP_RIVAL', '1', 'gus')
    assert.equal(await refusal(byId('APP_RIVAL', '1')), none)
    assert.equal(await refusal(byName('APP_RIVAL', 'gus')), none)
    assert.equal(await refusal(byId('APP_NOBODY', '1')), none)
    const hal = await sign('APP_SHOP', '1', 'hal')
    assert.deepEqual(await find(byName('APP_SHOP', 'hal')), { address: hal.address })
  })
})

test('ids of presets look like real ones, and not like names', () => {
  const real: Record<string, string[]> = {
    google: ['110169484474386276334'],
    apple: ['001234.0123456789abcdef0123456789abcdef.1234'],
    discord: ['80351110224678912', '1234567890123456789'],
    twitch: ['44322889', '1'],
    github: ['583231', '1'],
    x: ['12', '2244994945', '1234567890123456789'],
  }
  for (const [name, preset] of Object.entries(presets)) {
    const form = 'subjectForm' in preset ? preset.subjectForm : null
    // Theirs are other ones for each registration: nobody outside knows them.
    assert.equal(form === null, name === 'microsoft' || name === 'linkedin')
    for (const id of real[name] ?? []) assert.match(id, form!, name)
    for (const id of ['octocat', '@x', '', '0', '-1', '1e5', ' 12', '12 ', 'a@b.example', '1'.repeat(40)]) if (form !== null) assert.doesNotMatch(id, form, `${name} ${id}`) // prettier-ignore
  }
})
