import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../../test/kit/database.ts'
import { guarded } from '../../test/seal-keys.ts'
import type { Application } from './application.ts'
import { coversRedirect, explainRedirect } from './redirects.ts'
import { findApplication, isOriginAllowed, isPostLogoutAllowed, noteUser, saveApplication } from './registry.ts'
import { openState } from '../state.ts'
import { systemClock } from '../clock.ts'

const shop: Application = {
  clientId: 'shop',
  name: 'Shop',
  chainId: 1,
  kind: 'public',
  redirectUris: ['https://shop.example/callback'],
  permissions: ['wallet:read'],
  allowedOrigins: ['https://shop.example', 'http://localhost'],
  secretHashes: [],
  logoUri: null,
  isSuspended: false,
  sponsor: null,
}

/** What an application is unless said. */
const unsaid = {
  ...{ needsPkce: true, needsDpop: false, isFirstParty: false, postLogoutRedirectUris: [] },
  ...{ quotas: [], weight: 1, issuers: [] },
}

test('what is saved is found again, and changed by saving it again', async (t) => {
  const { db, close } = await testDatabase()
  const own = { db, ...guarded() }
  t.after(close)
  await saveApplication(own, shop)
  assert.deepEqual(await findApplication({ ...own, state: openState(), clock: systemClock }, 'shop'), {
    ...shop,
    ...unsaid,
  })
  await saveApplication(own, { ...shop, name: 'Other', isSuspended: true })
  assert.deepEqual(await findApplication({ ...own, state: openState(), clock: systemClock }, 'shop'), {
    ...shop,
    ...unsaid,
    ...{ name: 'Other', isSuspended: true },
  })
  await saveApplication(own, { ...shop, needsDpop: true })
  assert.equal((await findApplication({ ...own, state: openState(), clock: systemClock }, 'shop'))!.needsDpop, true)
  for (const unknown of ['nobody', 'shop\0', 'x'.repeat(300), ''])
    assert.equal(await findApplication({ ...own, state: openState(), clock: systemClock }, unknown), null)
  const user = { clientId: 'shop', accountId: '00000000-0000-8000-8000-000000000000' }
  await noteUser(db, user)
  await noteUser(db, user)
  assert.equal((await db.selectFrom('application_users').selectAll().execute()).length, 1)
})

test('an application that cannot be used safely is not saved, and every reason is named', async (t) => {
  const { db, close } = await testDatabase()
  const own = { db, ...guarded() }
  t.after(close)
  await saveApplication(own, shop)
  const bad = {
    ...shop,
    clientId: 'a b',
    name: ' ',
    redirectUris: ['http://shop.example/'],
    permissions: ['everything' as never],
    kind: 'confidential' as const,
  }
  await assert.rejects(saveApplication(own, bad), (error: Error) => {
    for (const part of ['client id', 'name', 'http and not loopback', 'everything', 'secret'])
      assert.ok(error.message.includes(part), part)
    return true
  })
  await assert.rejects(saveApplication(own, { ...shop, redirectUris: [] }), /redirect/)
  assert.deepEqual(await findApplication({ ...own, state: openState(), clock: systemClock }, 'shop'), {
    ...shop,
    ...unsaid,
  })
})

test('addresses that may be registered', () => {
  for (const good of [
    'https://a.example/x',
    'https://a.example/x?y=z',
    'http://localhost:3000/x',
    'http://127.0.0.1/',
    'http://[::1]/x',
    'http://localhost/*',
    'com.example.app:/x',
  ])
    assert.equal(explainRedirect(good), null, good)
  for (const bad of [
    'x',
    '/x',
    'http://a.example/',
    'https://a.example/*',
    'https://*.example/',
    'http://localhost/a/*',
    'https://a.example/#x',
    'https://u:p@a.example/',
    'javascript:alert(1)',
    'data:text/html,x',
    'myapp:/x',
    'ftp://a.example/',
  ])
    assert.notEqual(explainRedirect(bad), null, bad)
})

test('a wildcard is never an address itself, and covers loopback only', () => {
  assert.equal(coversRedirect('https://a.example/*', 'https://a.example/*'), false)
  assert.equal(coversRedirect('https://a.example/*', 'https://a.example/x'), false)
  assert.equal(coversRedirect('http://localhost/*', 'http://localhost:1/x'), true)
  assert.equal(coversRedirect('http://localhost/*', 'http://127.0.0.1:1/x'), false)
})

test('origins and the way out', () => {
  assert.equal(isOriginAllowed(shop, 'https://shop.example'), true)
  assert.equal(isOriginAllowed(shop, 'http://localhost:5173'), true)
  for (const other of ['https://shop.example.evil.example', 'http://shop.example', 'null', ''])
    assert.equal(isOriginAllowed(shop, other), false, other)
  const server: Application = {
    ...shop,
    allowedOrigins: [],
    postLogoutRedirectUris: ['https://shop.example/bye', 'com.shop.app:/bye', 'http://localhost:3000/bye'],
  }
  for (const [application, asked, isAllowed] of [
    [shop, 'https://shop.example/', true],
    [shop, 'https://shop.example', true],
    [shop, 'https://shop.example/callback', true],
    [shop, 'https://shop.example/elsewhere', false],
    [server, 'https://shop.example/bye', true],
    [server, 'com.shop.app:/bye', true],
    [server, 'http://localhost:9/bye', true],
    [server, 'https://shop.example/callback', true],
    [server, 'https://shop.example/', false],
    [server, 'https://shop.example/bye/', false],
    [server, 'https://shop.example/bye?to=https://evil.example', false],
    [server, 'https://shop.example.evil.example/bye', false],
    [server, 'https://evil.example/bye', false],
  ] as const)
    assert.equal(isPostLogoutAllowed(application, asked), isAllowed, asked)
})
