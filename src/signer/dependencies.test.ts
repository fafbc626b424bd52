import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { skip, softHsm } from '../../test/softhsm.ts'
import { ask, makePlace, startSigner } from '../../test/spawned-signer.ts'
import { openNative } from '../secp256k1.ts'

const at = (file: string) => new URL(`../../test/${file}`, import.meta.url).href
const [RECORD, WITHOUT_NATIVE] = [at('record-modules.mjs'), at('without-native.mjs')]

/** Packages of which a signer has resolved a module, a native one too, after it made an account and signed. */
async function packagesOf(imports: string[], kek: Record<string, string> = {}): Promise<string[]> {
  const place = await makePlace()
  if ('SIGNER_KEK' in kek) delete place.env.SIGNER_KEK_FILE
  Object.assign(place.env, kek)
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
  if (native.length > 0) assert.deepEqual(await packagesOf([RECORD]), native)
  // The WebAssembly one has a dependency of its own.
  assert.deepEqual(await packagesOf([RECORD, WITHOUT_NATIVE]), ['jose', 'tiny-secp256k1', 'uint8array-tools'])
})

test('a master key in a token adds one, and only there', { skip }, async (t) => {
  const hsm = softHsm(t)
  hsm.makeToken('custody')
  const kek = { ...hsm.env, SIGNER_KEK: hsm.uri('custody'), SIGNER_KEK_PIN_FILE: hsm.pinFile }
  const native = openNative() === null ? ['tiny-secp256k1', 'uint8array-tools'] : ['secp256k1']
  assert.deepEqual(await packagesOf([RECORD], kek), ['jose', 'pkcs11js', ...native])
})
