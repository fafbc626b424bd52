import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makePlace, startSigner } from '../../test/kit/signer.ts'
import { connectSigner } from '../signer-wire/client.ts'
import { openBeside } from './beside.ts'
import { systemClock } from '../clock.ts'

test('pieces run one at a time, and what else there is has three quarters of the time', async () => {
  let at = 0
  const rests: number[] = []
  const sleep = async (ms: number) => {
    rests.push(ms)
    at += ms
  }
  const beside = openBeside(64, { ...systemClock, ticks: () => at, sleep })
  let turns = 0
  let isEnding = false
  const others = (async () => {
    // As signatures come: each in a turn of its own.
    for (; !isEnding; turns++) await new Promise((resolve) => setImmediate(resolve))
  })()
  const turnsBefore: number[] = []
  const takes4Ms = (n: number) => {
    turnsBefore.push(turns)
    at += 4
    return n
  }
  const done = Array.from({ length: 20 }, (_, n) => beside(() => takes4Ms(n)))
  assert.deepEqual(
    await Promise.all(done),
    Array.from({ length: 20 }, (_, n) => n),
  )
  isEnding = true
  await others
  assert.deepEqual(rests.slice(0, 19), Array(19).fill(12))
  for (const [n, count] of turnsBefore.entries()) assert.ok(n === 0 || count > turnsBefore[n - 1]!, `${turnsBefore.join(' ')}`) // prettier-ignore
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
  // A slow disk takes as long for the account as some of the 64 take that may wait.
  assert.ok(before < 50, `${before} proofs were made before the account was`)
  assert.ok(answered >= 64 && answered < asked, `${answered}`)
})
