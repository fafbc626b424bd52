import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { saveApplication } from '../applications/registry.ts'
import { sha256 } from '../sha256.ts'
import { sealOf } from '../store/seal.ts'

import { authorizationUrl, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../test/kit/browser.ts'
import { de } from '../texts/de.ts'
import { en } from '../texts/en.ts'
import { es } from '../texts/es.ts'
import { fr } from '../texts/fr.ts'
import { ja } from '../texts/ja.ts'

let world: Rehearsal
before(async () => {
  world = await rehearse({
    others: () => [
      {
        name: 'DOWN',
        label: 'Down',
        issuer: 'http://localhost:1/idp',
        clientId: 'x',
        clientSecret: null,
        scopes: ['openid'],
        subjectClaim: 'sub',
        usernameClaims: ['name'],
        pictureClaim: 'picture',
        parameters: {},
        isDevelopment: true,
      },
    ],
  })
})
after(() => world.close())

const start = (parameters: Record<string, string> = {}) => authorizationUrl(world.origin, parameters).url
const shows = (page: Page, status: number, code: string): void => {
  assert.equal(page.status, status)
  assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
  assert.ok(page.text.includes(`<code>${code}</code>`), page.text)
}

const signIns = () => world.logged.filter((line) => (line as { event: string }).event === 'signed_in').length

/** Stops where the development provider would send the browser back to us. */
async function answerOf(browser: ReturnType<typeof openBrowser>, username: string): Promise<URL> {
  const login = await browser.go(start({ login_provider: 'DEV' }))
  const csrf = /name="csrf" value="([^"]*)"/.exec(login.text)![1]!
  const cookie = [...browser.cookies.values()].map(({ name, value }) => `${name}=${value}`).join('; ')
  const step = await fetch(login.url, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie },
    body: new URLSearchParams({ csrf, username }),
  })
  const back = await fetch(step.headers.get('location')!, { redirect: 'manual', headers: { cookie } })
  return new URL(back.headers.get('location')!)
}

test('every page forbids frames, scripts, storing and referrers', async () => {
  const browser = openBrowser(world.origin)
  const chooser = await browser.go(start())
  const dev = await browser.submit(chooser, '/DEV')
  const consent = await browser.submit(dev, '/sign-in/', { username: 'alice' })
  const refused = await browser.go(start({ redirect_uri: 'https://evil.example/' }))
  const signOut = await browser.go(`${world.origin}/oauth/session/end`)
  for (const page of [chooser, dev, consent, refused, signOut]) {
    const csp = page.headers.get('content-security-policy')!
    assert.match(csp, /default-src 'none'/, page.url.pathname)
    assert.match(csp, /frame-ancestors 'none'/)
    assert.ok(!csp.includes('unsafe'))
    assert.equal(page.headers.get('cache-control'), 'no-store', page.url.pathname)
    assert.equal(page.headers.get('referrer-policy'), 'no-referrer', page.url.pathname)
    assert.equal(page.headers.get('x-content-type-options'), 'nosniff', page.url.pathname)
    assert.ok(!/<script|style=| on\w+=/.test(page.text), page.url.pathname)
  }
  assert.match(chooser.text, /Demo application/)
  assert.match(chooser.text, /Ethereum test network/)
  assert.match(dev.text, /class="notice/)
})

const WISHES = { 'de-AT,de;q=0.9,en;q=0.5': de, 'fr-CA': fr, 'es;q=0.4, nl': es, ja, 'nl, sv': en }

for (const [wish, words] of Object.entries(WISHES))
  test(`every page of a sign-in speaks ${words.language} to a browser that asks for “${wish}”`, async () => {
    const browser = openBrowser(world.origin, wish)
    const shown: [Page, string][] = []
    const chooser = await browser.go(start())
    shown.push([chooser, words.chooser.title('Demo application')])
    const dev = await browser.submit(chooser, '/DEV')
    shown.push([dev, words.development.heading])
    const consent = await browser.submit(dev, '/sign-in/', { username: `speaks-${words.language}` })
    shown.push([consent, words.consent.spends('Demo application')])
    assert.ok((await browser.submit(consent, '/consent/', { answer: 'allow' })).url.searchParams.get('code'))
    shown.push([await browser.go('/account/security'), words.account.sessionsHint])
    shown.push([await browser.go('/account/erase'), words.erase.sure])
    shown.push([await browser.go('/oauth/session/end'), words.leaving.question])
    shown.push([await browser.go('/login/nothing'), words.codes.sign_in_expired[0]])
    shown.push([await browser.go('/login/callback/DEV?state=x'), words.refused.over])
    shown.push([await browser.go(start({ client_id: 'nobody' })), words.refused.badSignIn.title])
    shown.push([await browser.go('/nowhere'), words.missing.heading])
    for (const [page, text] of shown) {
      assert.ok(page.text.includes(`<html lang="${words.language}">`), page.url.pathname)
      assert.ok(textOf(page.text).includes(textOf(text)), `${page.url.pathname}: ${textOf(page.text)}`)
    }
  })

test('an application that knows what its user reads is believed before the browser', async () => {
  const browser = openBrowser(world.origin, 'de')
  const chooser = await browser.go(start({ ui_locales: 'nl fr-CA' }))
  assert.match(chooser.text, /<html lang="fr">/)
  const dev = await browser.submit(chooser, '/DEV')
  const consent = await browser.submit(dev, '/sign-in/', { username: 'told' })
  assert.match(consent.text, /<html lang="fr">/)
  const refused = await browser.go(start({ ui_locales: 'ja', redirect_uri: 'https://evil.example/' }))
  assert.match(refused.text, /<html lang="ja">/)
  const { ui_locales_supported: supported } = (await (
    await fetch(`${world.origin}/oauth/.well-known/openid-configuration`)
  ).json()) as { ui_locales_supported: string[] }
  assert.deepEqual(supported, ['en', 'de', 'fr', 'es', 'ja'])
})

const consentOf = async (parameters: Record<string, string>, username: string) => {
  const browser = openBrowser(world.origin)
  const first = await browser.go(start(parameters))
  const dev = first.url.pathname.startsWith('/login/') ? await browser.submit(first, '/DEV') : first
  return { browser, consent: await browser.submit(dev, '/sign-in/', { username }) }
}

test('an application of the operator’s own is asked about once, in words of its own and without the warning', async () => {
  const redirect_uri = 'https://own.example/callback'
  const own = { ...world.demo, clientId: 'own', name: 'Ours', isFirstParty: true }
  await saveApplication(world.app, { ...own, redirectUris: [redirect_uri, 'http://localhost:9/callback'] })
  const scope = 'openid wallet:read contracts:write'
  const { consent: words } = en
  const { browser, consent } = await consentOf({ client_id: 'own', redirect_uri, scope }, 'customer')
  const text = textOf(consent.text)
  for (const part of [words.ownQuestion('Ours'), words.ownHint('Ours', 'Chatelaine'), en.meanings['contracts:write']!])
    assert.ok(text.includes(part), part)
  assert.ok(!text.includes(words.spends('Ours')) && !consent.text.includes('class="spends'))
  assert.ok((await browser.submit(consent, '/consent/', { answer: 'allow' })).url.searchParams.get('code'))
  const again = await browser.go(start({ client_id: 'own', redirect_uri, scope }))
  assert.ok(again.url.searchParams.get('code'), again.url.href)
  // Where any program may wait, anyone may call themselves that.
  const open = await consentOf({ client_id: 'own', redirect_uri: 'http://localhost:9/callback', scope }, 'customer')
  assert.ok(textOf(open.consent.text).includes(words.spends('Ours')))
  assert.match(open.consent.text, /class="spends /)
})

test('who is signed in as somebody else signs in as another person from the consent page', async () => {
  const { browser, consent } = await consentOf(
    { login_provider: 'DEV', login_hint: 'carol', prompt: 'consent' },
    'carol',
  )
  const chooser = await browser.submit(consent, '/consent/', { answer: 'switch' })
  assert.match(chooser.text, /Sign in to Demo application/)
  const dev = await browser.submit(chooser, '/DEV')
  assert.equal(dev.url.searchParams.get('login_hint'), null)
  const other = await browser.submit(dev, '/sign-in/', { username: 'dave' })
  assert.match(textOf(other.text), /dave DEV/)
  const code = await browser.submit(other, '/consent/', { answer: 'allow' })
  assert.ok(code.url.searchParams.get('code'))
  assert.match(textOf((await browser.go('/account')).text), /dave/)
})

test('after a denial the next sign-in of the application asks who it is, and another application’s does not', async () => {
  await saveApplication(world.app, { ...world.demo, clientId: 'neighbour', name: 'Neighbour' })
  const { browser, consent } = await consentOf({}, 'erin')
  const denied = await browser.submit(consent, '/consent/', { answer: 'deny' })
  assert.equal(denied.url.searchParams.get('error'), 'access_denied')
  assert.match((await browser.go(start({ client_id: 'neighbour' }))).url.pathname, /^\/consent\//)
  const silent = await browser.go(start({ prompt: 'none' }))
  assert.equal(silent.url.searchParams.get('error'), 'account_selection_required')
  const chooser = await browser.go(start())
  assert.match(chooser.text, /Sign in to Demo application/)
  const dev = await browser.submit(chooser, '/DEV')
  const other = await browser.submit(dev, '/sign-in/', { username: 'frank' })
  assert.match(textOf(other.text), /frank DEV/)
  assert.ok((await browser.submit(other, '/consent/', { answer: 'allow' })).url.searchParams.get('code'))
  // That question is answered.
  assert.ok((await browser.go(start())).url.searchParams.get('code'))
})

test('the consent page shows the application’s picture without telling it who looks, and says how long it holds', async () => {
  const logoUri = 'https://app.example/logo.png?a="b'
  await saveApplication(world.app, { ...world.demo, clientId: 'pictured', name: 'Pictured', logoUri })
  const browser = openBrowser(world.origin)
  const dev = await browser.submit(await browser.go(start({ client_id: 'pictured' })), '/DEV')
  const consent = await browser.submit(dev, '/sign-in/', { username: 'viewer' })
  assert.match(
    consent.text,
    /<img class="logo" src="https:\/\/app\.example\/logo\.png\?a&#61;&#34;b" alt="" [^>]*referrerpolicy="no-referrer"/,
  )
  assert.match(consent.text, /until you revoke it/)
})

test('a client id that nobody has is said plainly', async () => {
  for (const client_id of ['nobody', 'demo ', 'DEMO', '\0', 'x'.repeat(300)]) {
    const page = await openBrowser(world.origin).go(start({ client_id }))
    assert.equal(page.status, 400)
    if (!client_id.includes('\0')) assert.match(page.text, /No application has this client_id/, client_id)
  }
})

test('cookies are invisible to scripts and stay on this site', async () => {
  const response = await fetch(start(), { redirect: 'manual' })
  const cookies = response.headers.getSetCookie()
  assert.ok(cookies.length > 0)
  for (const cookie of cookies) assert.match(cookie, /httponly/i)
  for (const cookie of cookies) assert.match(cookie, /samesite=lax/i)
})

test('login and consent refuse a form without our token, or with that of another sign-in', async () => {
  const browser = openBrowser(world.origin)
  const login = await browser.go(start())
  const other = await openBrowser(world.origin).go(start())
  const foreign = /name="csrf" value="([^"]*)"/.exec(other.text)![1]!
  for (const csrf of ['', 'x', foreign]) {
    shows(await browser.submit(login, '/DEV', { csrf }), 400, 'sign_in_refused')
    shows(await browser.submit(login, '/cancel', { csrf }), 400, 'sign_in_refused')
  }
  const dev = await browser.submit(login, '/DEV')
  assert.equal((await browser.submit(dev, '/sign-in/', { username: 'alice', csrf: foreign })).status, 400)
  const consent = await browser.submit(dev, '/sign-in/', { username: 'csrf' })
  for (const csrf of ['', foreign])
    shows(await browser.submit(consent, '/consent/', { answer: 'allow', csrf }), 400, 'sign_in_refused')
  assert.ok((await browser.submit(consent, '/consent/', { answer: 'allow' })).url.searchParams.get('code'))
})

test('a page of one browser is of no use in another', async () => {
  const login = await openBrowser(world.origin).go(start())
  const stranger = openBrowser(world.origin)
  shows(await stranger.go(login.url.href), 400, 'sign_in_expired')
  shows(await stranger.submit(login, '/DEV'), 400, 'sign_in_expired')
  shows(await stranger.go(`${world.origin}/consent/unknown`), 400, 'sign_in_expired')
})

test('a page cannot be used for another step', async () => {
  const browser = openBrowser(world.origin)
  const login = await browser.go(start())
  shows(await browser.go(login.url.href.replace('/login/', '/consent/')), 400, 'sign_in_expired')
})

test('in development a refused address is shown with those that are registered, and in production neither', async () => {
  const { app } = world
  const { config } = app
  const refused = async () => [
    await openBrowser(world.origin).go(start({ redirect_uri: 'http://demo.example/callback' })),
    await openBrowser(world.origin).go('/oauth/session/end?client_id=demo&post_logout_redirect_uri=http://demo.example/bye'), // prettier-ignore
  ]
  const [signIn, signOut] = (await refused()).map(({ text }) => textOf(text))
  assert.match(
    signIn!,
    /Sent http:\/\/demo\.example\/callback Registered https:\/\/demo\.example\/callback http:\/\/localhost\/\*/,
  )
  assert.match(
    signOut!,
    /Sent http:\/\/demo\.example\/bye Registered https:\/\/demo\.example\/callback [^]* http:\/\/127\.0\.0\.1\//,
  )
  const other = await openBrowser(world.origin).go(start({ client_id: 'nobody', redirect_uri: 'http://demo.example/callback' })) // prettier-ignore
  assert.doesNotMatch(other.text, /Registered/)
  try {
    Object.assign(config, { NODE_ENV: 'production' })
    for (const { status, text } of await refused()) {
      assert.equal(status, 400)
      assert.doesNotMatch(text, /Registered|demo\.example/)
    }
  } finally {
    Object.assign(config, { NODE_ENV: 'test' })
  }
})

test('the answer of a provider counts once, in the browser that left, at the provider it left for', async () => {
  const browser = openBrowser(world.origin)
  const answer = await answerOf(browser, 'visitor')
  assert.equal(answer.pathname, '/login/callback/DEV')
  shows(await openBrowser(world.origin).go(answer.href), 400, 'sign_in_expired')
  const elsewhere = new URL(answer)
  elsewhere.pathname = '/login/callback/DOWN'
  shows(await browser.go(elsewhere.href), 400, 'sign_in_expired')
  const signedIn = signIns()
  assert.match((await browser.go(answer.href)).url.pathname, /^\/consent\//)
  // What they did there is done: the same browser is led on, and signs nobody in again.
  const again = await browser.go(answer.href)
  assert.match(again.url.pathname, /^\/consent\//)
  assert.equal(signIns(), signedIn + 1)
  shows(await openBrowser(world.origin).go(answer.href), 400, 'sign_in_expired')
  assert.ok((await browser.submit(again, '/consent/', { answer: 'allow' })).url.searchParams.get('code'))
})

test('an answer that one browser brings several times at once is read once, and each is led on', async () => {
  const browser = openBrowser(world.origin)
  const answer = await answerOf(browser, 'hasty')
  const signedIn = signIns()
  const cookie = [...browser.cookies.values()].map(({ name, value }) => `${name}=${value}`).join('; ')
  const bring = () => fetch(answer, { redirect: 'manual', headers: { cookie } })
  const ways = (await Promise.all([bring(), bring(), bring()])).map(({ headers }) => headers.get('location')!)
  assert.match(ways[0]!, /\/oauth\/auth\/[\w-]+$/)
  assert.deepEqual([ways[1], ways[2]], [ways[0], ways[0]])
  assert.equal(signIns(), signedIn + 1)
  // The first response was lost: the same browser still finds the way that it was to go.
  assert.match((await browser.go(answer.href)).url.pathname, /^\/consent\//)
})

test('after a refusal or too late the same browser begins again, at the request that it was about', async () => {
  const browser = openBrowser(world.origin)
  const refused = await answerOf(browser, 'late')
  refused.searchParams.set('code', 'guessed')
  shows(await browser.go(refused.href), 400, 'sign_in_refused')
  assert.match((await browser.go(refused.href)).url.pathname, /^\/devnet\/idp\/sign-in\//)
  const slow = openBrowser(world.origin)
  const late = await answerOf(slow, 'late')
  const { db, sealKeys } = world.app
  const row = await db.selectFrom('sign_ins').selectAll().where('state_hash', '=', sha256(late.searchParams.get('state')!)).executeTakeFirstOrThrow() // prettier-ignore
  const over = { ...row, expires_at: new Date(0) }
  await db
    .updateTable('sign_ins')
    .set({ expires_at: over.expires_at, seal: sealOf(sealKeys, 'sign_ins', over) })
    .where('state_hash', '=', row.state_hash)
    .execute()
  const signedIn = signIns()
  assert.match((await slow.go(late.href)).url.pathname, /^\/devnet\/idp\/sign-in\//)
  assert.equal(signIns(), signedIn)
  shows(await openBrowser(world.origin).go(late.href), 400, 'sign_in_expired')
})

test('what a browser fetches ahead consumes nothing', async () => {
  const browser = openBrowser(world.origin)
  const answer = await answerOf(browser, 'ahead')
  for (const headers of [
    { 'sec-purpose': 'prefetch' },
    { 'sec-purpose': 'prefetch;prerender' },
    { purpose: 'prefetch' },
    { 'x-moz': 'prefetch' },
  ] as Record<string, string>[])
    for (const address of [answer.href, start(), `${world.origin}/oauth/auth/uid`]) {
      const ahead = await browser.go(address, { headers })
      assert.deepEqual([ahead.status, ahead.text, ahead.headers.get('cache-control')], [425, '', 'no-store'])
    }
  assert.match((await browser.go(answer.href)).url.pathname, /^\/consent\//)
})

test('an answer without state, with another state, another issuer or an injected code is refused', async () => {
  const bend = async (change: (answer: URL) => void): Promise<Page> => {
    const browser = openBrowser(world.origin)
    const answer = await answerOf(browser, 'bent')
    change(answer)
    return browser.go(answer.href)
  }
  shows(await bend(({ searchParams }) => searchParams.delete('state')), 400, 'sign_in_refused')
  shows(await bend(({ searchParams }) => searchParams.set('state', 'x'.repeat(43))), 400, 'sign_in_expired')
  shows(await bend(({ searchParams }) => searchParams.set('iss', 'https://evil.example')), 400, 'sign_in_refused')
  shows(await bend(({ searchParams }) => searchParams.delete('iss')), 400, 'sign_in_refused')
  shows(await bend(({ searchParams }) => searchParams.set('code', 'guessed')), 400, 'sign_in_refused')
  const stolen = (await answerOf(openBrowser(world.origin), 'victim')).searchParams.get('code')!
  shows(await bend(({ searchParams }) => searchParams.set('code', stolen)), 400, 'sign_in_refused')
})

test('a nonce that is not the one we sent is refused', async () => {
  const browser = openBrowser(world.origin)
  const answer = await answerOf(browser, 'nonce')
  // Even if the row were ours.
  const { db, sealKeys } = world.app
  const open = await db.selectFrom('sign_ins').selectAll().where('consumed_at', 'is', null).execute()
  for (const row of open) {
    const changed = { ...row, nonce: 'another' }
    const seal = sealOf(sealKeys, 'sign_ins', changed)
    await db.updateTable('sign_ins').set({ nonce: 'another', seal }).where('state_hash', '=', row.state_hash).execute()
  }
  shows(await browser.go(answer.href), 400, 'sign_in_refused')
})

test('who cancels at the provider is told so, and can go back to the chooser', async () => {
  const browser = openBrowser(world.origin)
  const login = await browser.go(start({ login_provider: 'DEV' }))
  const page = await browser.submit(login, '/sign-in/', { answer: 'cancel', username: '' })
  shows(page, 400, 'sign_in_refused')
  const back = /href="(\/login\/[^"]*)"/.exec(page.text)![1]!
  assert.match((await browser.go(back)).text, /Sign in to Demo application/)
})

test('a provider that is down is said to be down, with a way back', async () => {
  const browser = openBrowser(world.origin)
  const page = await browser.submit(await browser.go(start()), '/DOWN')
  shows(page, 502, 'provider_unavailable')
  assert.match(page.text, /href="\/login\/[\w-]+\?choose"/)
  const named = await browser.go(start({ login_provider: 'down' }))
  shows(named, 502, 'provider_unavailable')
})

test('an unknown provider is a page of its own', async () => {
  const browser = openBrowser(world.origin)
  const login = await browser.go(start())
  const page = await browser.go(`${login.url.href}/NOWHERE`, {
    method: 'POST',
    body: new URLSearchParams({ csrf: /name="csrf" value="([^"]*)"/.exec(login.text)![1]! }),
  })
  shows(page, 400, 'unknown_provider')
  shows(await browser.go(`${world.origin}/login/callback/NOWHERE?state=x&code=y`), 400, 'unknown_provider')
})

test('what a person typed is shown as text, not as a page', async () => {
  const browser = openBrowser(world.origin)
  const login = await browser.go(start({ login_provider: 'DEV', login_hint: '"><script>alert(1)</script>' }))
  assert.ok(!login.text.includes('<script>'))
  const again = await browser.submit(login, '/sign-in/', { username: '<img src=x>' })
  assert.equal(again.status, 400)
  assert.ok(!again.text.includes('<img src=x>'))
})

test('an avatar of the development network is a picture that runs nothing', async () => {
  const response = await fetch(`${world.origin}/devnet/avatar/alice.svg`)
  assert.equal(response.headers.get('content-type'), 'image/svg+xml')
  assert.match(response.headers.get('content-security-policy')!, /sandbox/)
  const again = await fetch(`${world.origin}/devnet/avatar/ALICE.svg`)
  assert.equal(await response.text(), await again.text())
})

test('a logo of the installation runs nothing when somebody opens it, and the pages load no more than their own files', async () => {
  const page = await openBrowser(world.origin).go(start())
  const links = [...page.text.matchAll(/<(?:link|script)[^>]* (?:href|src)="([^"]*)"/g)].map(([, href]) => href!)
  assert.ok(links.length >= 2)
  for (const link of links) assert.match(link, /^\/assets\//)
  for (const link of links) {
    const { headers } = await fetch(new URL(link.replaceAll('&#61;', '='), world.origin))
    assert.match(headers.get('content-security-policy')!, /^default-src 'none';.*sandbox$/)
  }
})
