import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makePlace, startSigner } from '../../test/kit/signer.ts'
import { connectSigner } from '../signer-wire/client.ts'
import { openBeside } from './beside.ts'

const busyMs = (ms: number) => {
  const until = performance.now() + ms
  while (performance.now() < until);
}

test('pieces run one at a time, and what else there is has three quarters of the time', async () => {
  const beside = openBeside()
  let turns = 0
  let isEnding = false
  const others = (async () => {
    // As signatures come: each in a turn of its own.
    for (; !isEnding; turns++) {
      busyMs(0.1)
      await new Promise((resolve) => setImmediate(resolve))
    }
  })()
  const began = process.hrtime.bigint()
  const done = Array.from({ length: 20 }, (_, n) => beside(() => (busyMs(4), n)))
  assert.deepEqual(
    await Promise.all(done),
    Array.from({ length: 20 }, (_, n) => n),
  )
  const tookMs = Number(process.hrtime.bigint() - began) / 1e6
  isEnding = true
  await others
  // 20 pieces of 4 ms with 19 pauses of at least 12 between them.
  assert.ok(tookMs >= 20 * 4 + 19 * 12, `${tookMs}`)
  assert.ok(turns > 100, `${turns}`)
})

test('beyond what may wait they are refused as busy; one that fails stops none behind it', async () => {
  const beside = openBeside(3)
  const wrong = new Error('wrong')
  const first = beside(() => {
    throw wrong
  })
  const rest = [beside(() => 1), beside(() => 2)]
  await assert.rejects(
    beside(() => 3),
    { code: 'overloaded' },
  )
  await assert.rejects(first, wrong)
  assert.deepEqual(await Promise.all(rest), [1, 2])
  assert.equal(await beside(() => 4), 4)
})

test('a flood of proofs is refused beyond its bound, and an account is made beside it in time', async (t) => {
  const place = await makePlace()
  const started = await startSigner(place)
  // What is asked here takes as long as the machine needs.
  const signer = connectSigner({ path: place.env.SIGNER_SOCKET!, timeoutMs: 120_000 })
  t.after(async () => {
    signer.close()
    await started.end('SIGKILL')
    place.clear()
  })
  await Promise.all(Array.from({ length: 300 }, (_, n) => signer.createAccount({ userId: `X-${n}` })))
  const asked = 1_000
  let answered = 0
  const flood = Promise.all(
    Array.from({ length: asked }, (_, n) =>
      signer.prove({ seq: 1 + (n % 300) }).then(
        () => (answered += 1),
        (error: { code: string }) => assert.equal(error.code, 'overloaded'),
      ),
    ),
  )
  // Behind all of them in the socket.
  await signer.createAccount({ userId: 'X-late' })
  const before = answered
  await flood
  assert.ok(before < 20, `${before} proofs were made before the account was`)
  assert.ok(answered >= 64 && answered < asked, `${answered}`)
})
