// tier: all, because it starts a signer again and again, with master keys of three kinds
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { command } from '../../test/kit/command.ts'
import { skip, softHsm } from '../../test/softhsm.ts'
import { ask, makePlace, startSigner, type Place, type Running } from '../../test/kit/signer.ts'
import { askAt } from './ask-operator.ts'
import type { RotationState } from './rotation.ts'
import { adminSocketIn } from './socket.ts'

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
  const token = { SIGNER_KEK: hsm.uri('custody'), SIGNER_KEK_PIN_FILE: hsm.pinFile }
  const tokenNext = { SIGNER_KEK_NEXT: hsm.uri('custody'), SIGNER_KEK_NEXT_PIN_FILE: hsm.pinFile }
  const set = (settings: Record<string, string>) => {
    for (const name of Object.keys(place.env)) delete place.env[name]
    Object.assign(place.env, plain, hsm.env, settings)
  }
  const start = async (settings: Record<string, string>, more: Record<string, string> = {}) => {
    set(settings)
    const signer = await startSigner(place, { more })
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
  return { hsm, place, file: { SIGNER_KEK_FILE: file! }, token, tokenNext, start, set, signer, assertSigns }
}

const addressesOf = (signer: Running) =>
  Promise.all(USERS.map(async (userId) => (await signer.createAccount({ userId })).address))

const rotateKek = ({ env }: Place) =>
  askAt<RotationState>(adminSocketIn(env.SIGNER_DIR!), { verb: 'rotateKek', request: {} })

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
    assert.deepEqual([again.code, /There is nothing to do/.test(again.out)], [0, true])
    // Before the settings say so, and after.
    const verified = await command(place.env, ['signer', 'verify'])
    assert.match(verified.out, /MACs of 4 records checked[^]*whole\n$/)
    await both.end('SIGTERM')
    await assertSigns(await start({ ...file, ...tokenNext }))
    const shown = await command(place.env, ['signer', 'accept-restore'])
    assert.deepEqual([shown.code, /The witness agrees/.test(shown.out)], [0, true])
  },
)

test(
  'with its token taken out the signer signs on; what needs the master key says why, and health does',
  { skip },
  async (t) => {
    const { hsm, place, file, token, tokenNext, start, signer, assertSigns } = await world(t)
    await signer.end('SIGTERM')
    const first = await start({ ...file, ...tokenNext })
    await rotateKek(place)
    await first.end('SIGTERM')
    const inToken = await start(token)
    await assertSigns(inToken)
    hsm.takeOut()
    await assertSigns(inToken)
    await inToken.createAccount({ userId: 'X-later' })
    const refused = await command(place.env, ['signer', 'rotate-dek'])
    assert.deepEqual([refused.code, /\(PKCS#11\)/.test(refused.err)], [1, true])
    assert.match((await inToken.health()).masterKey?.fault ?? '', /\(PKCS#11\)/)
    await assertSigns(inToken)
    await inToken.end('SIGTERM')
    await assert.rejects(start(token), /PKCS#11/)
    hsm.putIn()
    const back = await start(token)
    assert.equal((await command(place.env, ['signer', 'rotate-dek'])).code, 0)
    await assertSigns(back)
  },
)
