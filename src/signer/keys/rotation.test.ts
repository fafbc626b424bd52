// tier: all, because it kills a signer at each step of a rotation
import assert from 'node:assert/strict'
import { existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { ask, makePlace, startSigner, type Place, type Running } from '../../../test/kit/signer.ts'
import { askAt } from '../programs/ask-operator.ts'
import type { RotationState } from './rotation.ts'
import { adminSocketIn } from '../socket.ts'
import { verifyStore } from '../programs/verify.ts'
import { until } from '../../../test/kit/until.ts'

const operator = ({ env }: Place, verb: string) =>
  askAt<RotationState>(adminSocketIn(env.SIGNER_DIR!), { verb, request: {} })

/** A batch, and one that is not full. */
const MANY = 150

/** A place with accounts, and a next master key in its settings. */
async function world(t: { after: (end: () => Promise<void>) => void }) {
  const place = await makePlace()
  place.env.SIGNER_KEK_NEXT_FILE = join(place.folder, 'kek-next')
  const running: Running[] = []
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
  })
  const start = async (more: Record<string, string> = {}) => {
    const signer = await startSigner(place, { more })
    running.push(signer)
    return signer
  }
  const signer = await start()
  const users = Array.from({ length: MANY }, (_, n) => `X-${n}`)
  const addresses = await Promise.all(users.map(async (userId) => (await signer.createAccount({ userId })).address))
  let nonce = 0
  return {
    ...{ place, signer, start, accessToken: await place.token('X-0') },
    address: addresses[0]!,
    /** every address is what it was, and every key opens: none is damaged when all are wrapped anew */
    async assertUnchanged(now: Running) {
      const found = await Promise.all(users.map(async (userId) => (await now.createAccount({ userId })).address))
      assert.deepEqual(found, addresses)
      nonce += 1
      const accessToken = await place.token('X-9')
      await now.sign(ask(addresses[9]!, { accessToken, nonce: nonce - 1, intentId: `unchanged_${nonce}` }))
      assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
    },
  }
}

const untilDone = (place: Place): Promise<RotationState> =>
  until('all keys are wrapped anew', async () => {
    const state: RotationState = await operator(place, 'rotation')
    return state.left === 0 && epochs(place).below === null ? state : null
  })

function epochs({ env }: Place): { used: number[]; kept: number[]; below: number | null } {
  const db = new DatabaseSync(join(env.SIGNER_DIR!, 'signer.sqlite'), { readOnly: true })
  const list = (sql: string) => db.prepare(sql).all().map((row) => (row as { epoch: number }).epoch) // prettier-ignore
  try {
    return {
      used: list('SELECT DISTINCT epoch FROM accounts ORDER BY epoch'),
      kept: list('SELECT epoch FROM deks ORDER BY epoch'),
      below: (db.prepare('SELECT rewrap_below AS below FROM wrapping').get() as { below: number | null }).below,
    }
  } finally {
    db.close()
  }
}

test('keys are wrapped by a new data key while the signer signs, and no address changes', async (t) => {
  const { place, signer, address, accessToken, assertUnchanged } = await world(t)
  const before = await signer.wrapped({ after: 0 })
  let isDone = false
  let signed = 0
  const signing = (async () => {
    for (let nonce = 0; !isDone || nonce < 20; nonce++) {
      await signer.sign(ask(address, { nonce, intentId: `meanwhile_${nonce}`, accessToken }))
      signed += 1
    }
  })()
  const { code, out } = await command(place.env, ['signer', 'rotate-dek'])
  isDone = true
  await signing
  assert.equal(code, 0)
  assert.match(out, /150 keys under 2 data keys, wrapped by the master key: file\n$/)
  await untilDone(place)
  assert.ok(signed >= 20)
  assert.deepEqual(epochs(place), { used: [2], kept: [1, 2], below: null })
  const after = await signer.wrapped({ after: 0 })
  assert.notEqual(after.generation, before.generation)
  assert.deepEqual(after.dataKeys.map(({ epoch }) => epoch), [1, 2]) // prettier-ignore
  await assertUnchanged(signer)
})

for (const point of [
  'rotation.begun',
  'rotation.moving',
  'rotation.moving:100',
  'signer.before-commit:2',
  'signer.after-commit:3',
  'rotation.moved',
])
  // prettier-ignore
  test(`killed at ${point}, the new data keys take over after the next start`, async (t) => {
    const { place, signer, start, assertUnchanged } = await world(t)
    await signer.end('SIGTERM')
    const doomed = await start({ CRASH_AT: point })
    await operator(place, 'rotateDek').catch(() => {})
    if (point !== 'rotation.moving:100') assert.equal(await doomed.ended, 'SIGKILL')
    else await doomed.end('SIGKILL')
    const revived = await start()
    if (epochs(place).kept.length === 1 && epochs(place).used[0] === 1) await operator(place, 'rotateDek')
    await untilDone(place)
    const { used, kept } = epochs(place)
    assert.deepEqual([used, kept], [[2], [1, 2]])
    assert.equal((await operator(place, 'rotation')).damaged, 0)
    await assertUnchanged(revived)
  })

for (const point of ['none', 'rotation.wrapping', 'signer.before-commit', 'signer.after-commit', 'rotation.wrapped'])
  test(`another master key takes over, killed at ${point}: the signer starts with whichever opens its store`, async (t) => {
    const { place, signer, start, assertUnchanged } = await world(t)
    await signer.end('SIGTERM')
    const doomed = await start(point === 'none' ? {} : { CRASH_AT: point })
    await operator(place, 'rotateKek').catch(() => {})
    if (point === 'none') await doomed.end('SIGTERM')
    assert.ok(['SIGKILL', 0].includes(await doomed.ended))
    const revived = await start()
    await assertUnchanged(revived)
    // Done already or not: once more does no harm.
    await operator(place, 'rotateKek')
    const { dataKeys } = await revived.wrapped({ after: 0 })
    assert.equal(dataKeys.length, 1)
    await revived.end('SIGTERM')
    const next = place.env.SIGNER_KEK_NEXT_FILE!
    delete place.env.SIGNER_KEK_NEXT_FILE
    await assert.rejects(start(), /does not open this store/)
    renameSync(next, place.env.SIGNER_KEK_FILE!)
    await assertUnchanged(await start())
  })

test('without a next master key nothing is begun', async (t) => {
  const { place, signer, start } = await world(t)
  await signer.end('SIGTERM')
  delete place.env.SIGNER_KEK_NEXT_FILE
  await start()
  await assert.rejects(operator(place, 'rotateKek'), /SIGNER_KEK_NEXT_FILE/)
  assert.ok(!existsSync(join(place.folder, 'kek-next')))
})

test('a key that was altered is left as it is and counted, with its data key; the others move', async (t) => {
  const { place, signer, start } = await world(t)
  await signer.end('SIGTERM')
  const db = new DatabaseSync(join(place.env.SIGNER_DIR!, 'signer.sqlite'))
  db.exec(`UPDATE accounts SET tag = zeroblob(16) WHERE user_id = 'X-5'`)
  db.close()
  await start()
  const { code, out } = await command(place.env, ['signer', 'rotate-dek'])
  assert.deepEqual([code, /1 keys are damaged/.test(out)], [1, true])
  await untilDone(place)
  assert.deepEqual(epochs(place), { used: [1, 2], kept: [1, 2], below: null })
})
