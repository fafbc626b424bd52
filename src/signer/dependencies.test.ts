import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ask, makePlace, startSigner } from '../../test/spawned-signer.ts'
import { openNative } from '../secp256k1.ts'

const at = (file: string) => new URL(`../../test/${file}`, import.meta.url).href
const [RECORD, WITHOUT_NATIVE] = [at('record-modules.mjs'), at('without-native.mjs')]

/** Packages of which a signer has resolved a module, a native one too, after it made an account and signed. */
async function packagesOf(...imports: string[]): Promise<string[]> {
  const place = await makePlace()
  const record = join(place.folder, 'modules')
  const NODE_OPTIONS = imports.map((url) => `--import=${url}`).join(' ')
  try {
    const signer = await startSigner(place, { more: { NODE_OPTIONS, RECORD_MODULES: record } })
    const { address } = await signer.createAccount({ userId: 'X-alice' })
    await signer.sign(ask(address, { accessToken: await place.token('X-alice') }))
    await signer.health()
    await signer.end('SIGTERM')
    const names = readFileSync(record, 'utf8').matchAll(/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules)/g)
    return [...new Set([...names].map(([, name]) => name!))].toSorted()
  } finally {
    place.clear()
  }
}

test('the process that holds the keys runs the code of at most three packages', async () => {
  const native = openNative() === null ? [] : ['jose', 'secp256k1']
  if (native.length > 0) assert.deepEqual(await packagesOf(RECORD), native)
  // The WebAssembly one has a dependency of its own.
  assert.deepEqual(await packagesOf(RECORD, WITHOUT_NATIVE), ['jose', 'tiny-secp256k1', 'uint8array-tools'])
})
