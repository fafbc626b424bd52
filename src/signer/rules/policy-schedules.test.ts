import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeFunctionData, getAddress, parseAbi } from 'viem'
import { permit } from '../../../test/kit/messages.ts'
import { mostInAnySpan, openGoverned, readSpends, type JudgedSpend } from '../../../test/policy-world.ts'
import { randomOf } from '../../../test/random.ts'
import { ask, SOMEWHERE } from '../../../test/kit/signer.ts'
import type { Hex } from '../../ids.ts'
import { verifyStore } from '../programs/verify.ts'

/** `POLICY_SCHEDULES=1000` for the long form, `POLICY_SEED=…` to repeat one. */
const SCHEDULES = Number(process.env.POLICY_SCHEDULES ?? 25)
const FIRST_SEED = Number(process.env.POLICY_SEED ?? 1)
const CALLS = 200
const [HOUR, DAY] = [3_600, 86_400]
const TOKEN = getAddress(SOMEWHERE)
const abi = parseAbi(['function transfer(address,uint256)', 'function approve(address,uint256)'])

const CHAINS = [1, 10]
const USERS = ['DISCORD-1', 'DISCORD-2', 'DISCORD-3']
const CLIENTS = ['shop', 'game', 'bank']

const POLICY = JSON.stringify({
  version: 1,
  rules: [
    { name: 'person', effect: 'limit', per: ['user', 'chainId'], native: { perCall: '30', periodAmount: '200', periodDuration: HOUR } }, // prettier-ignore
    { name: 'breaker', effect: 'limit', per: ['chainId'], native: { periodAmount: '900', periodDuration: DAY } },
    { name: 'token', effect: 'limit', per: ['user', 'client'], tokens: [{ chainId: 1, tokenAddress: TOKEN, periodAmount: '150', periodDuration: HOUR }] }, // prettier-ignore
    { name: 'often', effect: 'limit', per: ['client'], count: { periodAmount: '40', periodDuration: HOUR } },
    { name: 'rest', effect: 'allow' },
  ],
})

/** The rules above, written again by hand: limit, period, charged amount, and owner of the meter. */
const LIMITS: [most: bigint, period: number, amount: (one: JudgedSpend) => bigint, meter: (one: JudgedSpend) => string][] = [
  [200n, HOUR, ({ value }) => value, ({ userId, chainId }) => `${userId} ${chainId}`],
  [900n, DAY, ({ value }) => value, ({ chainId }) => `${chainId}`],
  [150n, HOUR, ({ token, chainId }) => (chainId === 1 ? token : 0n), ({ userId, clientId }) => `${userId} ${clientId}`],
  [40n, HOUR, () => 1n, ({ clientId }) => clientId],
] // prettier-ignore

test(`in ${SCHEDULES} seeded schedules of parallel calls, deaths and clocks that step, no span holds more than its limit`, async () => {
  let [signed, refused, deaths, reached] = [0, 0, 0, 0]
  for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEDULES; seed++) {
    const random = randomOf(seed)
    let clock = 1_700_000_000_000 + random(DAY * 1_000)
    // Clocks step back while the signer runs. A start always has a clock after the last signature.
    let newest = clock
    const signer = await openGoverned({ policy: POLICY, now: () => clock, startsAt: () => newest })
    try {
      const accounts = await Promise.all(USERS.map((userId) => signer.account(userId)))
      const next = new Map<string, number>()
      for (let calls = 0; calls < CALLS;) {
        clock += stepOf(random)
        newest = Math.max(newest, clock)
        if (random(8) === 0) signer.dieAfter(1 + random(6), random(2) === 0 ? 'before-commit' : 'after-commit')
        const burst = Array.from({ length: 1 + random(24) }, () => {
          calls += 1
          const [who, chainId] = [random(USERS.length), CHAINS[random(2)]!]
          const lane = `${who} ${chainId}`
          const nonce = next.get(lane) ?? 0
          // Some requests have a nonce that another request of the burst has as well.
          if (random(6) > 0) next.set(lane, nonce + 1)
          const isToken = random(2) === 0
          const by = { userId: USERS[who]!, clientId: CLIENTS[random(3)]! }
          if (isToken && random(3) === 0) {
            const facts = { address: accounts[who]!, chainId, at: clock }
            const content = permit(facts, { token: TOKEN, value: String(random(60)), nonce: String(calls) })
            return signer.signMessage({ intentId: `${seed}_message_${random(CALLS)}`, chainId, from: facts.address, ...content }, by) // prettier-ignore
          }
          const functionName = random(2) === 0 ? ('transfer' as const) : ('approve' as const)
          const data: Hex = isToken
            ? encodeFunctionData({ abi, functionName, args: [TOKEN, BigInt(random(60))] })
            : '0x'
          const value = String(isToken ? 0 : random(35))
          const intentId = `${seed}_${lane.replace(' ', '_')}_${nonce}_${random(2)}`
          const request = ask(accounts[who]!, { chainId, nonce, data, value, intentId })
          return signer.sign(request, by)
        })
        for (const { status } of await Promise.allSettled(burst)) {
          if (status === 'fulfilled') signed += 1
          else refused += 1
        }
        // A rejected request left a gap: continue at a lower nonce.
        for (const lane of next.keys()) if (random(3) === 0) next.set(lane, Math.max(0, next.get(lane)! - random(8)))
      }
      deaths += signer.deaths()
      const spends = readSpends(signer.folder, TOKEN)
      for (const [index, [most, period, amountOf, meterOf]] of LIMITS.entries())
        for (const [meter, ones] of Map.groupBy(spends, meterOf)) {
          const charges = ones.map((one) => ({ at: one.at, amount: amountOf(one) })).filter(({ amount }) => amount > 0n)
          const found = mostInAnySpan(charges, period)
          assert.ok(found <= most, `seed ${seed}: limit ${index} of ${meter} held ${found} of ${most}`)
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

/** Returns a time step: mostly a little forward, sometimes hours, sometimes back. */
function stepOf(random: (below: number) => number): number {
  const kind = random(12)
  if (kind === 0) return -random(3 * HOUR * 1_000)
  if (kind === 1) return random(2 * HOUR * 1_000)
  return random(240_000)
}
