import assert from 'node:assert/strict'
import { test } from 'node:test'
import { browserNameOf } from './browser-name.ts'

test('browsers and systems are known by what they say, though each also names others', () => {
  const named = (userAgent: string) => Object.values(browserNameOf(userAgent)).join(', ')
  assert.equal(named('Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0'), 'Edge, Windows') // prettier-ignore
  assert.equal(named('Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0'), 'Firefox, Linux')
  assert.equal(named('Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1'), 'Safari, iPhone') // prettier-ignore
  assert.equal(named('Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0 Mobile/15E148 Safari/604.1'), 'Chrome, iPhone') // prettier-ignore
  assert.equal(named('Mozilla/5.0 (Linux; Android 14; SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/26.0 Chrome/122.0.0.0 Mobile Safari/537.36'), 'Samsung Internet, Android') // prettier-ignore
  assert.equal(named('Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15'), 'Safari, macOS') // prettier-ignore
})

test('nothing, nonsense and what is far too long are no browser, and cost nothing', () => {
  for (const userAgent of ['', 'node', '\0', `${'x'.repeat(2_000)}Firefox/1`])
    assert.deepEqual(browserNameOf(userAgent), { browser: null, system: null })
})
