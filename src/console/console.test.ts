import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { openBrowser, textOf, type Page } from '../../test/kit/browser.ts'
import { rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { reseal } from '../../test/reseal.ts'
import { operatorActs } from '../operator/acts.ts'
import { CONSOLE_ROLES, putOperator, type ConsoleRole } from '../operator/operators.ts'
import { listActions } from '../operator/actions.ts'
import { ACTIONS, type ActionName } from './actions.ts'
import { en } from '../texts/en.ts'

let world: Rehearsal
before(async () => void (world = await rehearse({ env: { RATE_LIMITS: 'off' } })))
after(() => world.close())

type Browser = ReturnType<typeof openBrowser>

/** Signs a user in, with a role or without one. */
async function visit(username: string, role: ConsoleRole | null): Promise<{ browser: Browser; page: Page }> {
  if (role !== null) await putOperator(world.app, { userId: `DEV-${username}`, role })
  const browser = openBrowser(world.origin)
  return { browser, page: await browser.signIn('/console', username) }
}

const post = (browser: Browser, action: string, form: Record<string, string>): Promise<Page> =>
  browser.go(`/console/act/${action}`, { method: 'POST', body: new URLSearchParams(form) })

const csrfOf = ({ text }: Page): string => /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? ''

/** Makes every sign-in older than sensitive actions allow. */
async function growOld(): Promise<void> {
  await sql`update oauth_records set payload = jsonb_set(payload, '{loginTs}', to_jsonb(((payload->>'loginTs')::bigint - 301))) where kind = 'Session' and payload ? 'loginTs'`.execute(world.app.db) // prettier-ignore
  await reseal(world.app)
}

test('without a role there is no console, and nothing is said about it', async () => {
  const { browser, page } = await visit('nobody', null)
  assert.equal(page.status, 404)
  assert.ok(!textOf(page.text).includes(en.console.title))
  assert.equal((await browser.go('/console/operators')).status, 404)
  const stranger = await openBrowser(world.origin).go('/console')
  assert.match(stranger.url.pathname, /^\/login\//)
})

test('a sign-in comes back to the page that was asked for, and to nothing outside the console', async () => {
  await putOperator(world.app, { userId: 'DEV-deep', role: 'viewer' })
  const page = await openBrowser(world.origin).signIn('/console/operators', 'deep')
  assert.equal(page.url.pathname, '/console/operators')
  const browser = openBrowser(world.origin)
  for (const state of ['open.//evil.example', 'open./consoles', 'act./console/../account', 'open./console/\\evil']) {
    const { url } = await browser.go(`/account/signed-in?state=${encodeURIComponent(state)}`)
    assert.ok(!url.pathname.startsWith('/console'), state)
    assert.equal(url.origin, world.origin, state)
  }
})

test('a role ends at the next request, and a sign-out ends the console', async () => {
  const { browser, page } = await visit('brief', 'viewer')
  assert.equal(page.status, 200)
  await world.app.db.deleteFrom('operators').where('user_id', '=', 'DEV-brief').execute()
  assert.equal((await browser.go('/console')).status, 404)
  await putOperator(world.app, { userId: 'DEV-brief', role: 'support' })
  assert.equal((await browser.go('/console')).status, 200)
  const account = await browser.go('/account/security')
  await browser.submit(account, '/account/sessions/end-everywhere')
  assert.match((await browser.go('/console')).url.pathname, /^\/login\//)
})

test('a role of a row that the authorization server did not write is none', async () => {
  const { browser } = await visit('forged', 'viewer')
  await world.app.db.updateTable('operators').set({ role: 'owner' }).where('user_id', '=', 'DEV-forged').execute()
  assert.equal((await browser.go('/console')).status, 404)
  const { page } = await visit('witness', 'viewer')
  assert.equal(page.status, 200)
})

test('a role belongs to the identity that signs in, not to its account', async () => {
  const { browser } = await visit('first', null)
  const account = await browser.go('/account/security')
  const away = await browser.submit(account, '/account/identities/add')
  await browser.submit(away, '/sign-in/', { username: 'second' })
  await putOperator(world.app, { userId: 'DEV-second', role: 'owner' })
  assert.equal((await browser.go('/console')).status, 404)
  const other = await openBrowser(world.origin).signIn('/console', 'second')
  assert.equal(other.status, 200)
})

/** Forms that each action would accept from an owner, whatever they name: refusals come first. */
const TARGET = 'DEV-target'
const fieldsOf = (name: ActionName): Record<string, string> =>
  ({ 'add-operator': { role: 'viewer' } } as Partial<Record<ActionName, Record<string, string>>>)[name] ?? {}

/** Who may do what, as docs/operate/console.md says: written here again, so that a change of the product is seen. */
const MAY: Record<ActionName, ConsoleRole[]> = {
  freeze: ['owner', 'operator', 'support'],
  'sign-out': ['owner', 'operator', 'support'],
  'cancel-export': ['owner', 'operator', 'support'],
  'cancel-transaction': ['owner', 'operator', 'support'],
  'speed-up-transaction': ['owner', 'operator', 'support'],
  'test-webhook': ['owner', 'operator', 'support'],
  'redeliver-event': ['owner', 'operator', 'support'],
  'replay-webhook': ['owner', 'operator'],
  'enable-webhook': ['owner', 'operator'],
  'rotate-webhook-secret': ['owner', 'operator'],
  unfreeze: ['owner', 'operator'],
  'resume-account': ['owner', 'operator'],
  suspend: ['owner', 'operator'],
  resume: ['owner', 'operator'],
  'rotate-secret': ['owner', 'operator'],
  'reset-secret': ['owner', 'operator'],
  'update-application': ['owner', 'operator'],
  'create-sponsor': ['owner', 'operator'],
  'set-network': ['owner', 'operator'],
  'add-operator': ['owner'],
  'remove-operator': ['owner'],
}
const SENSITIVE: ActionName[] = ['unfreeze', 'resume-account', 'resume', 'rotate-secret', 'reset-secret', 'update-application', 'set-network', 'enable-webhook', 'rotate-webhook-secret', 'add-operator', 'remove-operator'] // prettier-ignore

test('each role may do only its actions: the table of refusals', async (t) => {
  const actions = Object.keys(ACTIONS) as ActionName[]
  const browsers = new Map<ConsoleRole, { browser: Browser; csrf: string }>()
  for (const role of CONSOLE_ROLES) {
    const { browser } = await visit(`the-${role}`, role)
    // The token is of the session, whatever form it was in.
    const session = [...browser.cookies.values()].map(({ value }) => value)
    assert.ok(session.length > 0)
    browsers.set(role, { browser, csrf: await csrfFor(browser, role) })
  }
  const before = (await listActions(world.app.db)).length
  let refusals = 0
  const refused = async (what: string, page: Page, status: number): Promise<void> => {
    await t.test(what, () => assert.equal(page.status, status, textOf(page.text)))
    refusals += 1
  }
  const stranger = openBrowser(world.origin)
  const { browser: none } = await visit('roleless', null)
  for (const name of actions) {
    const form = { target: TARGET, confirm: TARGET, ...fieldsOf(name) }
    const signedOut = await post(stranger, name, form)
    await t.test(`${name} signed out`, () => assert.match(signedOut.url.pathname, /^\/login\//))
    refusals += 1
    await refused(`${name} without a role`, await post(none, name, form), 404)
    for (const [role, { browser, csrf }] of browsers) {
      if (MAY[name].includes(role)) {
        await refused(`${name} as ${role}, from another site`, await post(browser, name, { ...form, csrf: 'x' }), 400)
        if (SENSITIVE.includes(name))
          await refused(`${name} as ${role}, name not typed`, await post(browser, name, { ...form, csrf, confirm: 'x' }), 400) // prettier-ignore
      } else await refused(`${name} as ${role}`, await post(browser, name, { ...form, csrf }), 403)
    }
  }
  await growOld()
  for (const name of actions) {
    if (!SENSITIVE.includes(name)) continue
    const { browser, csrf } = browsers.get('owner')!
    const page = await post(browser, name, { target: TARGET, confirm: TARGET, ...fieldsOf(name), csrf })
    await t.test(`${name} with an old sign-in`, () => assert.match(page.url.pathname, /^\/login\//))
    refusals += 1
  }
  assert.ok(refusals >= 60, String(refusals))
  assert.equal((await listActions(world.app.db)).length, before, 'nothing was done, and nothing recorded')
})

/** The token of a session, from a form that only an owner sees: other roles are owners for a moment. */
async function csrfFor(browser: Browser, role: ConsoleRole): Promise<string> {
  const userId = `DEV-the-${role}`
  await putOperator(world.app, { userId, role: 'owner' })
  const csrf = csrfOf(await browser.go('/console/operators'))
  assert.notEqual(csrf, '')
  await putOperator(world.app, { userId, role })
  return csrf
}

test('no role locks out a higher one: freezes and sign-outs of operators, by every identity of their accounts', async () => {
  const { app } = world
  const browsers = new Map<ConsoleRole, { browser: Browser; csrf: string }>()
  for (const role of CONSOLE_ROLES) {
    const { browser } = await visit(`the-${role}`, role)
    browsers.set(role, { browser, csrf: await csrfFor(browser, role) })
  }
  // An account whose first identity has no role, and whose second one is an owner's.
  const { browser: linked } = await visit('plain', null)
  await linked.submit(await linked.submit(await linked.go('/account/security'), '/account/identities/add'), '/sign-in/', { username: 'crown' }) // prettier-ignore
  await putOperator(app, { userId: 'DEV-crown', role: 'owner' })
  for (const role of CONSOLE_ROLES) {
    await visit(`a-${role}`, role)
    await visit(`b-${role}`, role)
  }
  for (const action of ['freeze', 'sign-out'] as const)
    for (const by of ['owner', 'operator', 'support'] as const)
      for (const [target, of] of [
        ['DEV-plain', 'owner'],
        ['DEV-crown', 'owner'],
        ...CONSOLE_ROLES.map((role) => [`DEV-${action === 'freeze' ? 'a' : 'b'}-${role}`, role] as const),
      ] as const) {
        const { browser, csrf } = browsers.get(by)!
        const isLower = CONSOLE_ROLES.indexOf(by) > CONSOLE_ROLES.indexOf(of)
        const offered = (await browser.go(`/console/users/${target}`)).text.includes(`/console/act/${action}"`)
        const page = await post(browser, action, { target, csrf })
        const what = `${action} of ${target} by ${by}`
        assert.equal(page.status, isLower ? 403 : 200, `${what}: ${textOf(page.text)}`)
        if (isLower) assert.match(textOf(page.text), /belongs to an operator with a higher role/)
        if (isLower) assert.ok(!offered, what)
        if (action === 'freeze') await app.db.updateTable('accounts').set({ frozen_at: null }).execute()
      }
  const { db, sealKeys } = app
  const none = { clock: app.clock, end: async () => {} }
  // The command line and the operator API have the power of an owner: they give roles.
  for (const via of ['command', 'api'] as const)
    await operatorActs({ db, readSealKeys: async () => sealKeys }, { name: 'mira', via }).signOut('DEV-crown', none)
  // A row that the authorization server did not write protects nobody.
  await db.updateTable('operators').set({ seal: 'forged' }).where('user_id', '=', 'DEV-crown').execute()
  const { browser, csrf } = browsers.get('support')!
  assert.equal((await post(browser, 'sign-out', { target: 'DEV-plain', csrf })).status, 200)
})

test('an owner gives and ends roles, under their own name in the record, but never their own', async () => {
  const { browser } = await visit('olga', 'owner')
  const page = await browser.go('/console/operators')
  const given = await browser.submit(page, '/act/add-operator', { target: 'DEV-newbie', confirm: 'DEV-newbie', role: 'support' }) // prettier-ignore
  assert.match(textOf(given.text), /Done\. The action is in the audit log\./)
  assert.match(textOf(given.text), /DEV-newbie support/)
  assert.match(given.text, /chatelaine operator remove --provider DEV --user-id newbie/)
  const own = await browser.submit(page, '/act/add-operator', { target: 'DEV-olga', confirm: 'DEV-olga', role: 'viewer' }) // prettier-ignore
  assert.equal(own.status, 409)
  const csrf = csrfOf(page)
  const ended = await post(browser, 'remove-operator', { csrf, target: 'DEV-newbie', confirm: 'DEV-newbie' })
  assert.ok(!textOf(ended.text).includes('DEV-newbie'))
  const [last, first] = await listActions(world.app.db)
  assert.deepEqual(
    [first, last].map((one) => [one!.actor, one!.via, one!.action, one!.target, one!.after]),
    [
      ['DEV-olga', 'console', 'add-operator', 'DEV-newbie', { role: 'support' }],
      ['DEV-olga', 'console', 'remove-operator', 'DEV-newbie', null],
    ],
  )
})

test('two owners who remove or demote each other at once leave one owner', async () => {
  const { db, sealKeys } = world.app
  const ends = ['remove', 'demote'] as const
  for (const [first, second] of ends.flatMap((one) => ends.map((other) => [one, other] as const))) {
    await db.deleteFrom('operators').execute()
    for (const userId of ['DEV-olga', 'DEV-otto'] as const)
      await putOperator({ db, sealKeys }, { userId, role: 'owner' })
    // Both roles were read before: each request has passed the check of its page.
    const end = (by: 'DEV-olga' | 'DEV-otto', how: 'remove' | 'demote') => {
      const acts = operatorActs({ db, readSealKeys: async () => sealKeys }, { name: by, via: 'console', role: 'owner' })
      const other = by === 'DEV-olga' ? 'DEV-otto' : 'DEV-olga'
      return how === 'remove' ? acts.removeOperator(other) : acts.addOperator(other, 'viewer')
    }
    const done = await Promise.allSettled([end('DEV-olga', first), end('DEV-otto', second)])
    assert.deepEqual(done.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'], `${first}, ${second}`)
    const owners = await db.selectFrom('operators').select('user_id').where('role', '=', 'owner').execute()
    assert.equal(owners.length, 1, `${first}, ${second}`)
  }
})

test('the table of actions in the documentation is that of the code', async () => {
  const text = await readFile(new URL('../../docs/operate/console.md', import.meta.url), 'utf8')
  const rows = [...text.matchAll(/^\| `([a-z-]+)` \| .+ \| (owner|operator|support) \| (yes|no) \|$/gm)]
  const said = rows.map(([, name, least, sensitive]) => [name, least, sensitive === 'yes'])
  const coded = Object.entries(ACTIONS).map(([name, { least, isSensitive }]) => [name, least, isSensitive])
  assert.deepEqual(said, coded)
})
