// tier: all, because it starts programs without the native packages
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ask, makePlace, startSigner } from './kit/signer.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const NODE_OPTIONS = `--import=${new URL('without-native.mjs', import.meta.url).href}`

/** What asks the library, and the program as a whole. */
const FILES = ['src/signer/main.test.ts', 'src/signer/transaction.test.ts', 'src/follower/transaction.test.ts']

test('where there is no native library the signer says so and gives the same bytes', async (t) => {
  const place = await makePlace()
  t.after(() => place.clear())
  const signed = async (more: Record<string, string>) => {
    const signer = await startSigner(place, { more })
    const { address } = await signer.createAccount({ userId: 'X-alice' })
    const accessToken = await place.token('X-alice')
    const { raw } = await signer.sign(ask(address, { accessToken, intentId: 'native_0' }))
    await signer.end('SIGTERM')
    return { raw, events: signer.stderr().match(/"curve_in_webassembly"/g)?.length ?? 0 }
  }
  const wasm = await signed({ NODE_OPTIONS })
  assert.equal(wasm.events, 1)
  // Asked for again, the same intent is answered from the ledger: the native one checks what the other one signed.
  assert.deepEqual(await signed({ NODE_OPTIONS: '' }), { raw: wasm.raw, events: 0 })
})

test('the tests of what signs and checks signatures pass without the native library', () => {
  const { PATH, NODE_COMPILE_CACHE } = process.env
  const run = spawnSync(process.execPath, ['--test', ...FILES], { cwd: ROOT, env: { PATH, NODE_COMPILE_CACHE, NODE_OPTIONS }, encoding: 'utf8' }) // prettier-ignore
  assert.equal(run.status, 0, run.stdout)
})
