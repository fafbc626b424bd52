import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { Transaction } from 'ethers'
import { mostInAnySpan, openGoverned } from '../../../test/policy-world.ts'
import { randomOf } from '../../../test/random.ts'
import { ask } from '../../../test/kit/signer.ts'
import type { Hex } from '../../ids.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from '../programs/verify.ts'

/** `TOP_UP_SCHEDULES=500` for the long form, `TOP_UP_SEED=…` to repeat one. */
const SCHEDULES = Number(process.env.TOP_UP_SCHEDULES ?? 15)
const FIRST_SEED = Number(process.env.TOP_UP_SEED ?? 1)
const CALLS = 200
const DAY = 86_400
const LIMITS = { perUser: 2_000n, perSponsor: 4_500n }

const CHAINS = [1, 10]
const SPONSORS = ['SPONSOR-HOUSE', 'SPONSOR-RESERVE']
const PEOPLE = ['DISCORD-1', 'DISCORD-2', 'DISCORD-3', 'DISCORD-4']

test(`in ${SCHEDULES} seeded schedules of tokens that ask for anything, deaths and clocks that step, nobody is given more than a limit`, async () => {
  let [signed, refused, deaths, reached] = [0, 0, 0, 0]
  for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEDULES; seed++) {
    const random = randomOf(seed)
    let clock = 1_700_000_000_000 + random(DAY * 1_000)
    let newest = clock
    const policy = JSON.stringify({ version: 1, rules: [{ name: 'none', effect: 'deny' }] })
    const signer = await openGoverned({ policy, now: () => clock, startsAt: () => newest, topUp: LIMITS })
    try {
      const addresses = new Map<string, Hex>()
      for (const userId of [...SPONSORS, ...PEOPLE]) addresses.set(userId, await signer.account(userId))
      const next = new Map<string, number>()
      for (let calls = 0; calls < CALLS;) {
        clock += stepOf(random)
        newest = Math.max(newest, clock)
        if (random(8) === 0) signer.dieAfter(1 + random(6), random(2) === 0 ? 'before-commit' : 'after-commit')
        const burst = Array.from({ length: 1 + random(16) }, () => {
          calls += 1
          const [by, chainId, userId] = [SPONSORS[random(2)]!, CHAINS[random(2)]!, PEOPLE[random(4)]!]
          const lane = `${by} ${chainId}`
          const nonce = next.get(lane) ?? 0
          // Some requests have a nonce that another request of the burst has as well.
          if (random(6) > 0) next.set(lane, nonce + 1)
          const to = addresses.get(random(8) === 0 ? PEOPLE[random(4)]! : userId)!
          const kind = random(12) === 0 ? ('replace' as const) : ('send' as const)
          const [value, gas, price] = [random(400), random(20), 1 + random(12)]
          const fees = { gas: String(gas), maxFeePerGas: String(price), maxPriorityFeePerGas: '1' }
          const intentId = `${seed}_${lane.replace(' ', '_')}_${nonce}_${random(2)}`
          const data: Hex = random(20) === 0 ? '0x01' : '0x'
          const request = ask(addresses.get(by)!, { chainId, nonce, kind, to, data, value: String(value), intentId, ...fees }) // prettier-ignore
          return signer.sign(request, { userId, clientId: 'shop' })
        })
        for (const { status } of await Promise.allSettled(burst)) {
          if (status === 'fulfilled') signed += 1
          else refused += 1
        }
        // A rejected request left a gap: continue at a lower nonce.
        for (const lane of next.keys()) if (random(3) === 0) next.set(lane, Math.max(0, next.get(lane)! - random(8)))
      }
      deaths += signer.deaths()
      const gifts = readGifts(signer.folder)
      const isPerson = new Map(PEOPLE.map((userId) => [addresses.get(userId)!.toLowerCase(), userId]))
      for (const { to, token, data } of gifts) assert.deepEqual([token.split(' ')[1], data], [isPerson.get(to), '0x'])
      for (const [most, meterOf] of [
        [LIMITS.perUser, ({ to, chainId }: Gift) => `${to} ${chainId}`],
        [LIMITS.perSponsor, ({ by, chainId }: Gift) => `${by} ${chainId}`],
      ] as const)
        for (const [meter, ones] of Map.groupBy(gifts, meterOf)) {
          const found = mostInAnySpan(ones, DAY)
          assert.ok(found <= most, `seed ${seed}: ${meter} was ${found} of ${most}`)
          if (found * 10n >= most * 9n) reached += 1
        }
      assert.deepEqual(verifyStore(signer.folder).problems, [], `seed ${seed}`)
    } finally {
      signer.close()
    }
  }
  // Schedules that reach no limit and restart no signer would prove nothing.
  assert.ok(signed > 20 * SCHEDULES && refused > 20 * SCHEDULES, `${signed} signed, ${refused} refused`)
  assert.ok(deaths >= SCHEDULES && reached >= SCHEDULES, `${deaths} deaths, ${reached} limits reached`)
})

type Gift = { at: number; by: string; token: string; chainId: number; to: string; data: string; amount: bigint }

/**
 * Reads the maximum cost to sponsors from the ledger's bytes with another library, without meters, charges or buckets.
 */
function readGifts(folder: string): Gift[] {
  const db = new DatabaseSync(join(folder, DATABASE_FILE), { readOnly: true })
  try {
    const rows = db.prepare(`SELECT at, user_id, token_id, raw FROM ledger WHERE nonce IS NOT NULL ORDER BY seq`).all()
    return (rows as { at: number; user_id: string; token_id: string; raw: Uint8Array }[]).map((row) => {
      const { chainId, to, data, value, gasLimit, maxFeePerGas } = Transaction.from(`0x${Buffer.from(row.raw).toString('hex')}`) // prettier-ignore
      const amount = value + gasLimit * maxFeePerGas!
      return { at: row.at, by: row.user_id, token: row.token_id, chainId: Number(chainId), to: to!.toLowerCase(), data, amount } // prettier-ignore
    })
  } finally {
    db.close()
  }
}

/** Returns a time step: mostly a little forward, sometimes hours, sometimes back. */
function stepOf(random: (below: number) => number): number {
  const kind = random(12)
  if (kind === 0) return -random(3 * 3_600_000)
  if (kind === 1) return random(12 * 3_600_000)
  return random(240_000)
}
