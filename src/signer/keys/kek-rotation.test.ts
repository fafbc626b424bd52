// tier: all, because it starts a signer again and again, with master keys of two kinds
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { skip, softHsm } from '../../../test/softhsm.ts'
import { ask, makePlace, startSigner, type Running } from '../../../test/kit/signer.ts'

const USERS = ['X-0', 'X-1', 'X-2']

/** A signer whose master key is in a file, a token beside it, and what its settings say. */
async function world(t: { after: (end: () => Promise<void>) => void }) {
  const undo: (() => void)[] = []
  const hsm = softHsm({ after: (end) => void undo.push(end) })
  hsm.makeToken('custody')
  const place = await makePlace()
  const running: Running[] = []
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
    for (const end of undo) end()
  })
  const { SIGNER_KEK_FILE: file, ...plain } = place.env
  const tokenNext = { SIGNER_KEK_NEXT: hsm.uri('custody'), SIGNER_KEK_NEXT_PIN_FILE: hsm.pinFile }
  const start = async (settings: Record<string, string>) => {
    for (const name of Object.keys(place.env)) delete place.env[name]
    Object.assign(place.env, plain, hsm.env, settings)
    const signer = await startSigner(place)
    running.push(signer)
    return signer
  }
  const signer = await start({ SIGNER_KEK_FILE: file! })
  const addresses = await addressesOf(signer)
  let nonce = 0
  const assertSigns = async (now: Running) => {
    assert.deepEqual(await addressesOf(now), addresses)
    await now.sign(ask(addresses[0]!, { accessToken: await place.token('X-0'), nonce, intentId: `signs_${nonce}` }))
    nonce += 1
  }
  return { place, file: { SIGNER_KEK_FILE: file! }, tokenNext, start, signer, assertSigns }
}

const addressesOf = (signer: Running) =>
  Promise.all(USERS.map(async (userId) => (await signer.createAccount({ userId })).address))

test(
  'the master key moves from a file into a token; no address changes, and every tool opens the store',
  { skip },
  async (t) => {
    const { place, file, tokenNext, start, signer, assertSigns } = await world(t)
    await signer.end('SIGTERM')
    const both = await start({ ...file, ...tokenNext })
    const { out } = await command(place.env, ['signer', 'rotate-kek'])
    assert.match(out, /3 keys under 1 data keys, wrapped by the master key: pkcs11\n$/)
    assert.deepEqual((await both.health()).masterKey, { provider: 'pkcs11', fault: null })
    await assertSigns(both)
    const again = await command(place.env, ['signer', 'rotate-kek'])
    assert.deepEqual([again.code, /The next master key already wraps all data keys/.test(again.out)], [0, true])
    // Before the settings say so, and after.
    const verified = await command(place.env, ['signer', 'verify'])
    assert.match(verified.out, /MACs of 4 records checked[^]*whole\n$/)
    await both.end('SIGTERM')
    await assertSigns(await start({ ...file, ...tokenNext }))
    const shown = await command(place.env, ['signer', 'accept-restore'])
    assert.deepEqual([shown.code, /The witness matches/.test(shown.out)], [0, true])
  },
)
