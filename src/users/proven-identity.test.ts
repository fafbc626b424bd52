import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { madeSealKeys, noSealKeys } from '../../test/seal-keys.ts'
import { openBrowser } from '../../test/kit/browser.ts'
import { world, type World } from '../../test/world.ts'
import { verifyAccessToken } from '../http/bearer.ts'
import { accountIdOf } from '../ids.ts'
import { openState } from '../state.ts'
import { attestAccounts } from './attest.ts'
import { findNamed, findOwner, findUser } from './find.ts'
import { linkIdentity } from './identities.ts'
import { pregenerate } from './pregenerate.ts'
import { isIdentityProven, identitySealOf } from './proven-identity.ts'
import { signIn } from './sign-in.ts'

const linked = { provider: 'TWO', subject: '7', account_id: accountIdOf('ONE', '1'), user_id: 'ONE-1' }
const first = { provider: 'ONE', subject: '1', account_id: accountIdOf('ONE', '1'), user_id: 'ONE-1', seal: null }

test('a first identity proves itself; a linked one with a seal that is of exactly this identity and this user', () => {
  const keys = madeSealKeys()
  const seal = identitySealOf(keys, linked)!
  assert.equal(isIdentityProven(keys, first), true)
  assert.equal(isIdentityProven(keys, { ...linked, seal }), true)
  const other = { user_id: 'ONE-2', account_id: accountIdOf('ONE', '2') }
  const tampered = {
    'no seal': { ...linked, seal: null },
    'another subject': { ...linked, subject: '8', seal },
    'another provider': { ...linked, provider: 'TREE', seal },
    'another user': { ...linked, ...other, seal },
    'a first identity moved to another account': { ...first, ...other },
    'an account id of another user': { ...linked, account_id: other.account_id, seal },
    'a first identity of an account with the id of another': { ...first, account_id: other.account_id },
    'parts that read the same together': { ...linked, provider: 'TWO-7', subject: '', seal },
    'a key that is not ours': { ...linked, seal: identitySealOf(madeSealKeys(), linked) },
    'our key, named over a foreign signature': { ...linked, seal: `${keys.signing!.kid} ${identitySealOf(madeSealKeys(), linked)!.split(' ')[1]}` }, // prettier-ignore
    'no signature': { ...linked, seal: keys.signing!.kid },
    nonsense: { ...linked, seal: '\0 ÿ' },
  }
  for (const [name, row] of Object.entries(tampered)) assert.equal(isIdentityProven(keys, row), false, name)
  assert.equal(identitySealOf(keys, first), null)
  assert.equal(isIdentityProven({ ...keys, macs: null }, { ...linked, seal }), true, 'a program that only checks')
  assert.equal(identitySealOf({ ...keys, signing: null }, linked), null)
  assert.equal(isIdentityProven(noSealKeys, { ...linked, seal }), false, 'a program without keys')
})

test('a seal by an older key holds while that is known', () => {
  const [old, fresh] = [madeSealKeys(), madeSealKeys()]
  const seal = identitySealOf(old, linked)
  assert.equal(isIdentityProven({ ...fresh, known: new Map([...fresh.known, ...old.known]) }, { ...linked, seal }), true) // prettier-ignore
  assert.equal(isIdentityProven(fresh, { ...linked, seal }), false)
})

suite('what someone writes into the table of identities', () => {
  let here: World
  before(async () => {
    here = await world()
    await attestAccounts(here.app)
  })
  after(() => here.close())

  const nobody = { imageSrc: null, email: null, emailVerified: null }
  const notProven = { code: 'identity_not_proven' }
  const move = (subject: string, to: string) =>
    here.app.db
      .updateTable('identities')
      .set({ account_id: accountIdOf('DEV', to) })
      .where('provider', '=', 'DEV')
      .where('subject', '=', subject)
      .execute()
  const times = async () => (await here.app.telemetry.identitiesNotProven.get()).values[0]?.value ?? 0

  test('leads nobody to another’s account: not by an inserted row, nor by one that was moved', async () => {
    const { app, facts } = here
    const victim = await here.person('rich')
    await here.person('thief')
    const before = await times()
    await move('thief', 'rich')
    await app.db
      .insertInto('identities')
      .values({ provider: 'EVIL', subject: '1', account_id: accountIdOf('DEV', 'rich'), username: 'x' })
      .execute()
    await assert.rejects(here.person('thief'), notProven)
    const profile = { provider: 'EVIL', subject: '1', username: null, ...nobody }
    await assert.rejects(signIn(app, profile), notProven)
    for (const id of ['DEV-thief', 'EVIL-1']) {
      await assert.rejects(findUser(app, id), notProven)
      await assert.rejects(findOwner(app, id), notProven)
    }
    await assert.rejects(openBrowser(facts.origin).signIn('/account', 'thief'), (error: Error) => {
      assert.match(error.message, /: 503 .*Code: identity_not_proven/)
      assert.doesNotMatch(error.message, new RegExp(victim.address, 'i'))
      return true
    })
    assert.ok((await times()) - before >= 7)
    await move('thief', 'thief')
    assert.equal((await here.person('thief')).userId, 'DEV-thief')
  })

  test('leads in no circle, and is not shown as somebody’s own', async () => {
    const { app } = here
    const [ada, ben] = [await here.person('ada'), await here.person('ben')]
    await move('ada', 'ben')
    await move('ben', 'ada')
    for (const id of ['DEV-ada', 'DEV-ben'] as const) {
      assert.equal(await findNamed(app.db, id), null)
      await assert.rejects(findUser(app, id), notProven)
    }
    await move('ada', 'ada')
    await move('ben', 'ben')
    const { accountId, userId } = (await findOwner(app, ada.userId))!
    const second = { provider: 'TWO', subject: 'ada', username: 'ada', ...nobody }
    assert.equal(await linkIdentity(app, { accountId, userId }, second), 'linked')
    assert.equal((await findUser(app, 'TWO-ada'))?.userId, ada.userId)
    await app.db
      .insertInto('identities')
      .values({ provider: 'EVIL', subject: 'ada', account_id: accountId, username: 'x' })
      .execute()
    assert.deepEqual((await ada.get('/v1/me')).body.linked, ['DEV-ada', 'TWO-ada'])
    assert.deepEqual((await ben.get('/v1/me')).body.linked, ['DEV-ben'])
  })

  test('takes no money that was sent to someone by their id or name, and shows no address', async () => {
    const { app, alice } = here
    await here.person('thief')
    const payee = await here.person('payee')
    const pay = (to: object) => alice.post('/v1/tokens/transfers', { tokenType: 'NATIVE', amount: '0.001', ...to })
    const byName = { toUserProviderType: 'DEV', toUserUsername: 'payee' }
    await move('payee', 'thief')
    for (const to of [{ toUserId: 'DEV-payee' }, byName]) {
      const { status, body } = await pay(to)
      assert.deepEqual([status, body.code], [503, 'identity_not_proven'])
    }
    await assert.rejects(pregenerate(app, { provider: 'DEV', providerUserId: 'payee' }), notProven)
    // The user whose identity was moved cannot sign in to the other account, and neither can their browser.
    await assert.rejects(here.person('payee'), notProven)
    await move('payee', 'payee')
    for (const to of [{ toUserId: 'DEV-payee' }, byName]) assert.equal((await pay(to)).body.recipient.address.toLowerCase(), payee.address.toLowerCase()) // prettier-ignore
  })

  test('takes no session along: a browser of whom it was done to is signed in as nobody else', async () => {
    const browser = openBrowser(here.facts.origin)
    assert.equal((await browser.signIn('/account', 'moved')).status, 200)
    await here.person('thief')
    await move('moved', 'thief')
    assert.match((await browser.go('/account')).url.pathname, /^\/login\//)
    await move('moved', 'moved')
    assert.equal((await browser.go('/account')).status, 200)
  })

  test('an identity that was linked by its owner signs in, until its row is changed; proven again it does again', async () => {
    const { app } = here
    const ann = await here.person('ann')
    const owner = { accountId: accountIdOf('DEV', 'ann'), userId: 'DEV-ann' }
    const second = { provider: 'DEV', subject: 'ann-two', username: null, ...nobody }
    assert.equal(await linkIdentity(app, owner, second), 'linked')
    assert.equal((await here.person('ann-two')).address, ann.address)
    assert.equal((await ann.get('/v1/users/DEV-ann-two')).status, 200)
    const set = (seal: string | null) => app.db.updateTable('identities').set({ seal }).where('subject', '=', 'ann-two').execute() // prettier-ignore
    await set(null)
    await assert.rejects(here.person('ann-two'), notProven)
    assert.deepEqual((({ status, body }) => [status, body.code])(await ann.get('/v1/users/DEV-ann-two')), [503, 'identity_not_proven']) // prettier-ignore
    assert.equal(await linkIdentity(app, owner, second), 'already_linked')
    assert.equal((await here.person('ann-two')).address, ann.address)
    assert.equal(await linkIdentity(app, { accountId: accountIdOf('DEV', 'thief'), userId: 'DEV-thief' }, second), 'has_own_account') // prettier-ignore
    assert.equal((await here.person('ann-two')).userId, 'DEV-ann')
  })

  test('does not end what is right: a token of before is of who it was', async () => {
    const eve = await here.person('eve')
    await here.person('thief')
    await move('eve', 'thief')
    const reader = await verifyAccessToken({ ...here.app, state: openState() }, eve.token)
    assert.equal('userId' in reader && reader.userId, 'DEV-eve')
    await move('eve', 'eve')
  })
})
