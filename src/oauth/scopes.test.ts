import assert from 'node:assert/strict'
import { test } from 'node:test'
import { domainsClaim, webOriginsOf } from './scopes.ts'

const registered = {
  allowedOrigins: ['https://shop.example', 'http://localhost:3000'],
  redirectUris: [
    'https://shop.example/callback',
    'https://back.shop.example:8443/callback',
    'http://127.0.0.1/*',
    // The authority of a private-use scheme belongs to nobody.
    ...['com.shop.app:/callback', 'com.evil.app://victim.example/callback', 'com.evil.https://victim.example/'],
    // No operator can register these; a row that somebody edited may have them.
    ...['http://victim.example/callback', 'ftp://victim.example/', 'ws://victim.example/', 'nonsense', ''],
  ],
}

test('an application signs in only to hosts of its https addresses and of loopback', () => {
  const domains = ['shop.example', 'localhost:3000', 'back.shop.example:8443', '127.0.0.1']
  assert.deepEqual(domainsClaim('openid messages:sign', registered), { domains })
  assert.deepEqual(
    webOriginsOf(registered).map((origin) => new URL(origin).host),
    domains,
  )
})

test('only a token that may sign messages names hosts', () => {
  for (const scope of [undefined, '', 'openid contracts:write', 'messages:signs'])
    assert.deepEqual(domainsClaim(scope, registered), {})
})
