import assert from 'node:assert/strict'
import type { World } from '../../../test/world.ts'
import { createClient, Unknown } from '../src/index.ts'
import { instantClock } from './instant-clock.ts'

/**
 * Mints one token with each of `count` writes, while 30 % of the requests get no answer: half of them never arrive, the other half
 * are carried out. Asserts that each write is exactly one transaction.
 */
export async function writeWithLostAnswers(
  here: World,
  { count, seed }: { count: number; seed: number },
): Promise<void> {
  const { origin, contracts } = here.facts
  const person = await here.person(`lossy-${seed}`)
  const random = randomOf(seed)
  let lost = 0
  // One key in ten gets no answer at all at first, so that its call ends as Unknown.
  const silences = new Map<string, number>()
  const fetchOrLose = async (url: string, init?: RequestInit): Promise<Response> => {
    const key = (init!.headers as Record<string, string>)['idempotency-key']!
    const silence = silences.get(key) ?? (random() < 0.1 ? 5 : 0)
    silences.set(key, Math.max(0, silence - 1))
    const fate = random() * (silence > 0 ? 0.3 : 1)
    if (fate < 0.15) throw new TypeError(`lost ${++lost}`)
    const response = await fetch(url, init)
    if (fate > 0.3) return response
    await response.arrayBuffer()
    throw new TypeError(`lost ${++lost}`)
  }
  const options = { origin, token: () => person.token, random: () => 0 }
  const lossy = createClient({ ...options, fetch: fetchOrLose, clock: instantClock() })
  const wallet = createClient({ ...options, clock: instantClock() })
  const address = contracts.erc20!
  const ids: string[] = []
  let resumed = 0
  let begun = 0
  const work = async () => {
    while (begun++ < count) {
      const call = { address, abi: 'mint(address to, uint256 amount)', args: [person.address, 1n] } as const
      let tx = await lossy.write(call).catch((error: unknown) => error)
      while (tx instanceof Unknown) {
        resumed++
        tx = await tx.resume().catch((error: unknown) => error)
      }
      assert.ok(!(tx instanceof Error), String(tx))
      const { id } = tx as { id: string }
      await wallet.transaction(id).mined()
      ids.push(id)
    }
  }
  await Promise.all(Array.from({ length: 12 }, work))
  assert.ok(lost > count * 0.3 && resumed > 0, `${lost} lost, ${resumed} resumed`)
  assert.equal(new Set(ids).size, count)
  const listed: string[] = []
  for await (const { id } of wallet.transactions({ limit: 200 })) listed.push(id)
  assert.deepEqual(listed.toSorted(), ids.toSorted())
  assert.equal((await wallet.balance(address)).value, BigInt(count))
}

/** Numbers from 0 to below 1, the same for one seed. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
