// tier: all, because it starts signers with every key service
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { keyServices, type KeyService } from '../../../test/key-services/opened.ts'
import { randomOf } from '../../../test/random.ts'
import { skip, softHsm } from '../../../test/softhsm.ts'
import { ask, makePlace, startSigner, type Running } from '../../../test/kit/signer.ts'
import { until } from '../../../test/kit/until.ts'
import { askAt } from '../programs/ask-operator.ts'
import type { RotationState } from './rotation.ts'
import { adminSocketIn } from '../socket.ts'
import { verifyStore } from '../programs/verify.ts'

/** `KEK_ROTATIONS=all`: killed at every point of every step, where otherwise a seed chooses one. */
const isLong = process.env.KEK_ROTATIONS === 'all'
const SEED = Number(process.env.KEK_SEED ?? 11)
const COMMIT = ['signer.before-commit', 'signer.after-commit']
const KEK_POINTS = ['rotation.wrapping', ...COMMIT, 'rotation.wrapped']
const DEK_POINTS = ['rotation.begun', 'rotation.moving', 'rotation.moved', ...COMMIT.map((point) => `${point}:2`)]

/** In the long form more than one batch. */
const USERS = Array.from({ length: isLong ? 140 : 20 }, (_, n) => `X-${n}`)

type Settings = Record<string, string>
type Context = { after: (end: () => void | Promise<void>) => void }

/** As SIGNER_KEK names it, or SIGNER_KEK_NEXT. */
function settingsOf({ uri, files }: Pick<KeyService, 'uri' | 'files'>, name: string): Settings {
  const names = { pinFile: 'PIN_FILE', tokenFile: 'TOKEN_FILE', credentialsFile: 'CREDENTIALS_FILE', caFile: 'CA_FILE' }
  const beside = Object.entries(files).map(([key, path]) => [`${name}_${names[key as keyof typeof names]}`, path])
  return { [name]: uri, ...Object.fromEntries(beside) }
}

/** A signer with accounts, whose master key is in a file. */
async function world(t: Context) {
  const place = await makePlace()
  const running: Running[] = []
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
  })
  const { SIGNER_KEK_FILE: file, ...plain } = place.env
  const start = async (settings: Settings, more: Settings = {}) => {
    for (const name of Object.keys(place.env)) delete place.env[name]
    Object.assign(place.env, plain, settings)
    const signer = await startSigner(place, { more })
    running.push(signer)
    return signer
  }
  const signer = await start({ SIGNER_KEK_FILE: file! })
  const addressesOf = (now: Running) =>
    Promise.all(USERS.map(async (userId) => (await now.createAccount({ userId })).address))
  const addresses = await addressesOf(signer)
  await signer.end('SIGTERM')
  let nonce = 0
  return {
    ...{ place, start, inFile: (name: string) => ({ uri: `file:${join(place.folder, name)}`, files: {} }) },
    operator: (verb: string) => askAt<RotationState>(adminSocketIn(place.env.SIGNER_DIR!), { verb, request: {} }),
    async assertUnchanged(now: Running) {
      assert.deepEqual(await addressesOf(now), addresses)
      await now.sign(ask(addresses[0]!, { accessToken: await place.token('X-0'), nonce, intentId: `signs_${nonce}` }))
      nonce += 1
      assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
    },
    /** what wraps the data keys, and whether keys are still being moved */
    read() {
      const db = new DatabaseSync(join(place.env.SIGNER_DIR!, 'signer.sqlite'), { readOnly: true })
      try {
        const deks = db.prepare('SELECT provider, wrapped FROM deks ORDER BY epoch').all() as { provider: string; wrapped: Uint8Array }[] // prettier-ignore
        const { below } = db.prepare('SELECT rewrap_below AS below FROM wrapping').get() as { below: number | null }
        return { deks, isMoving: below !== null }
      } finally {
        db.close()
      }
    },
  }
}

test(
  'the master key moves through all providers and back into a file, killed at each step; data keys are rotated in each; no address changes',
  { skip },
  async (t) => {
    const undo: (() => void)[] = []
    const hsm = softHsm({ after: (end) => void undo.push(end) })
    t.after(() => undo.forEach((end) => end()))
    hsm.makeToken('custody')
    const services = {
      vault: await keyServices.vault(t),
      aws: await keyServices['aws-kms'](t),
      gcp: await keyServices['gcp-kms'](t),
    }
    const { start, operator, assertUnchanged, read, inFile } = await world(t)
    const token = { uri: hsm.uri('custody'), files: { pinFile: hsm.pinFile } }
    const ring = [inFile('kek'), token, services.vault, services.aws, services.gcp, inFile('kek-last')]
    const choose = randomOf(SEED)
    const dekStep = choose(ring.length - 1)
    const pointsOf = (points: string[]) => (isLong ? points : [points[choose(points.length)]!])
    let signer: Running
    const killedAt = async (points: string[], settings: Settings, verb: string) => {
      for (const [n, point] of points.entries()) {
        const isOver = verb === 'rotateKek' && read().deks.every(({ provider }) => provider === providerOf(settings.SIGNER_KEK_NEXT!)) // prettier-ignore
        const doomed = await start({ ...settings, ...hsm.env }, { CRASH_AT: point })
        await operator(verb).catch(() => {})
        // Done already: nothing is left to be killed in.
        if (isOver) await doomed.end('SIGKILL')
        else assert.equal(await doomed.ended, 'SIGKILL', point)
        signer = await start({ ...settings, ...hsm.env })
        await assertUnchanged(signer)
        if (n < points.length - 1) await signer.end('SIGTERM')
      }
    }
    for (const [at, to] of ring.slice(1).entries()) {
      const both = { ...settingsOf(ring[at]!, 'SIGNER_KEK'), ...settingsOf(to, 'SIGNER_KEK_NEXT') }
      await killedAt(pointsOf(KEK_POINTS), both, 'rotateKek')
      await operator('rotateKek')
      assert.equal((await signer!.health()).masterKey?.provider, providerOf(to.uri))
      // A newer version of the key in the service, and new data keys.
      const { key } = to as Partial<KeyService>
      key?.rotate()
      const alone = settingsOf(to, 'SIGNER_KEK')
      if (isLong || at === dekStep) {
        await signer!.end('SIGTERM')
        await killedAt(pointsOf(DEK_POINTS), alone, 'rotateDek')
      }
      await operator('rotateDek')
      await until('all keys are moved', async () => !read().isMoving)
      await assertUnchanged(signer!)
      await signer!.end('SIGTERM')
    }
    for (const one of ring.slice(0, -1))
      await assert.rejects(start({ ...settingsOf(one, 'SIGNER_KEK'), ...hsm.env }), /does not open this store/)
    await assertUnchanged(await start(settingsOf(ring.at(-1)!, 'SIGNER_KEK')))
    for (const { faults } of Object.values(services)) assert.deepEqual(faults, [])
  },
)

const providerOf = (uri: string): string => /^[a-z0-9-]+/.exec(uri)![0]

test('rotate-dek wraps the data keys that stay by the newest version of the key, too: the older ones can be switched off', async (t) => {
  const { start, inFile, read, assertUnchanged, place } = await world(t)
  const vault = await keyServices.vault(t)
  const both = { ...settingsOf(inFile('kek'), 'SIGNER_KEK'), ...settingsOf(vault, 'SIGNER_KEK_NEXT') }
  const signer = await start(both)
  const moved = await command(place.env, ['signer', 'rotate-kek'])
  assert.match(moved.out, /wrapped by the master key: vault\n$/)
  const versions = () => read().deks.map(({ wrapped }) => Buffer.from(wrapped).toString('utf8').slice(0, 9))
  assert.deepEqual(versions(), ['vault:v1:'])
  vault.key.rotate()
  assert.equal((await command(place.env, ['signer', 'rotate-dek'])).code, 0)
  assert.deepEqual(versions(), ['vault:v2:', 'vault:v2:'])
  await until('all keys are moved', async () => !read().isMoving)
  await assertUnchanged(signer)
})

test('a key service is away while the signer runs: it signs on, what needs the master key says why, health does, and nothing secret is in the log', async (t) => {
  const { start, inFile, assertUnchanged, place, operator } = await world(t)
  const service = await keyServices.vault(t)
  const first = await start({ ...settingsOf(inFile('kek'), 'SIGNER_KEK'), ...settingsOf(service, 'SIGNER_KEK_NEXT') })
  await operator('rotateKek')
  await first.end('SIGTERM')
  const alone = settingsOf(service, 'SIGNER_KEK')
  const signer = await start(alone)
  await service.leave()
  await assertUnchanged(signer)
  await signer.createAccount({ userId: 'X-later' })
  const refused = await command(place.env, ['signer', 'rotate-dek'])
  assert.deepEqual([refused.code, /cannot be reached/.test(refused.err)], [1, true])
  assert.match((await signer.health()).masterKey?.fault ?? '', /cannot be reached/)
  await assertUnchanged(signer)
  await signer.end('SIGTERM')
  const error = await start(alone).then(
    () => assert.fail('it started'),
    (cause: Error) => cause.message,
  )
  assert.match(error, /cannot be reached/)
  await service.comeBack()
  const back = await start(alone)
  assert.equal((await command(place.env, ['signer', 'rotate-dek'])).code, 0)
  assert.deepEqual((await back.health()).masterKey, { provider: 'vault', fault: null })
  await assertUnchanged(back)
  for (const secret of service.secrets)
    assert.ok(
      ![signer.stderr(), back.stderr(), first.stderr(), refused.err, error].some((text) => text.includes(secret)),
    )
  assert.deepEqual(service.faults, [])
})

test('of two key services of one kind the one that is away stops no start where the other opens the store', async (t) => {
  const { start, inFile, assertUnchanged, operator } = await world(t)
  const [current, next] = [await keyServices.vault(t), await keyServices.vault(t)]
  const first = await start({ ...settingsOf(inFile('kek'), 'SIGNER_KEK'), ...settingsOf(current, 'SIGNER_KEK_NEXT') })
  await operator('rotateKek')
  await first.end('SIGTERM')
  const both = { ...settingsOf(current, 'SIGNER_KEK'), ...settingsOf(next, 'SIGNER_KEK_NEXT') }
  await next.leave()
  const signer = await start(both)
  await assertUnchanged(signer)
  await assert.rejects(operator('rotateKek'), /cannot be reached/)
  await next.comeBack()
  await operator('rotateKek')
  await signer.end('SIGTERM')
  await current.leave()
  await assertUnchanged(await start(both))
})
