import assert from 'node:assert/strict'
import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { productionSigner } from '../../../test/production-signer.ts'

type Reported = { code: string; severity: string; problem: string; action: string }

test('the doctor of the signer names planted faults of its files and socket, and none of a healthy signer', async (t) => {
  const { env, folder, start, newKey, offer, trust } = await productionSigner(t)
  const key = await newKey('first')
  offer(key.jwk)
  await trust('--accept', key.fingerprint)
  // Separate from the store, as in production.
  await mkdir(join(folder, 'elsewhere'))
  const kek = join(folder, 'elsewhere', 'kek')
  await rename(env.SIGNER_KEK_FILE!, kek)
  env.SIGNER_KEK_FILE = kek
  const examine = async (changes: Record<string, string> = {}) => {
    const { code, out, err } = await command({ ...env, ...changes }, ['doctor', '--json'])
    assert.equal(err, '')
    const found = JSON.parse(out) as Reported[]
    for (const { problem, action } of found) assert.match(`${problem}\n${action}`, /^[A-Z][^]*\.\n[A-Z].*\.$/)
    return [code, found.map((one) => one.code).toSorted()]
  }
  assert.deepEqual(await examine(), [2, ['signer_unavailable']])
  const signer = await start()
  t.after(() => signer.end('SIGKILL'))
  await signer.bringRevocations([await key.list()])
  assert.deepEqual(await examine(), [0, []])

  const beside = join(folder, 'kek')
  await writeFile(beside, Buffer.alloc(32, 7), { mode: 0o600 })
  assert.deepEqual(await examine({ SIGNER_KEK_FILE: beside }), [1, ['kek_beside_store']])
  assert.deepEqual(await examine({ SIGNER_KEK_FILE: join(env.SIGNER_DIR!, 'kek') }), [2, ['settings_rejected']])
  assert.deepEqual(await examine({ SIGNER_CHAINS: '' }), [2, ['settings_rejected']])
  assert.deepEqual(await examine({ SIGNER_DIR: join(folder, 'nothing') }), [1, ['store_missing']])
  assert.deepEqual(await examine({ SIGNER_JWKS_FILE: join(folder, 'nothing') }), [1, ['token_keys_missing']])
  for (const [mode, repaired, path, code] of [
    [0o644, 0o600, kek, 'kek_unusable'],
    [0o755, 0o700, env.SIGNER_DIR!, 'store_open'],
    [0o666, 0o600, env.SIGNER_SOCKET!, 'signer_socket_open'],
  ] as const) {
    await chmod(path, mode)
    assert.deepEqual(await examine(), [2, [code]])
    await chmod(path, repaired)
  }
  await rm(kek)
  assert.deepEqual(await examine(), [2, ['kek_unusable']])
})
