import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { decodeFunctionData, parseTransaction } from 'viem'
import { artefact } from '../../../test/gas/stage.ts'
import { mostInAnySpan, openGoverned } from '../../../test/policy-world.ts'
import { randomOf } from '../../../test/random.ts'
import { ask } from '../../../test/kit/signer.ts'
import { askOperation, askOuter, dispatchOf } from '../../../test/sponsored-world.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from '../programs/verify.ts'
import type { Hex, SignedOperationText } from '../../signer-wire/wire.ts'

/** `SPONSORED_SCHEDULES=1000` for the long form, `SPONSORED_SEED=…` to repeat one. */
const SCHEDULES = Number(process.env.SPONSORED_SCHEDULES ?? 12)
const FIRST_SEED = Number(process.env.SPONSORED_SEED ?? 1)
const CALLS = 240
const DAY = 86_400
const LIMITS = { perUser: 6_000n, perSponsor: 9_000n }

const CHAINS = [1, 10]
const SPONSORS = ['SPONSOR-HOUSE', 'SPONSOR-RESERVE']
const PEOPLE = ['DISCORD-1', 'DISCORD-2', 'DISCORD-3']

type KnownOperation = SignedOperationText & { chainId: number; userId: string; id: string; intentId: string }

test(`in ${SCHEDULES} seeded schedules of operations that are packed at random, again and again, deaths and clocks that step, no sponsor loses more than a limit, and nothing is signed in two ways`, async () => {
  let [operations, outers, refused, deaths, reached] = [0, 0, 0, 0, 0]
  for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEDULES; seed++) {
    const random = randomOf(seed)
    const pick = <T>(from: readonly T[]): T => from[random(from.length)]!
    let clock = 1_700_000_000_000 + random(DAY * 1_000)
    let newest = clock
    const policy = JSON.stringify({ version: 1, rules: [{ name: 'all', effect: 'allow' }] })
    const signer = await openGoverned({ policy, now: () => clock, startsAt: () => newest, gas: LIMITS })
    try {
      const addresses = new Map<string, Hex>()
      for (const userId of [...SPONSORS, ...PEOPLE]) addresses.set(userId, await signer.account(userId))
      const next = new Map<string, number>()
      const known: KnownOperation[] = []
      /** First answer for each id and intent: later answers must equal it. */
      const answered = new Map<string, string>()
      const same = (what: string, answer: string) => {
        assert.equal(answered.get(what) ?? answer, answer, `seed ${seed}: ${what}`)
        answered.set(what, answer)
      }
      const operate = async () => {
        const [userId, chainId] = [pick(PEOPLE), pick(CHAINS)]
        const [sequence, intentId] = [String(random(60)), `op_${random(60)}`]
        const authorizationNonce = random(3) === 0 ? { authorizationNonce: random(4) } : {}
        const request = askOperation(addresses.get(userId)!, '', {
          ...{ chainId, sequence, intentId, gasLimit: String(1 + random(60)), ...authorizationNonce },
          deadline: Math.floor(clock / 1_000) + 60 * random(62),
        })
        const answer = await signer.signOperation(request, { userId, clientId: 'shop' })
        same(`${chainId} ${sequence}`, answer.digest)
        same(intentId, answer.digest)
        if (answer.authorization !== undefined) same(`${userId} ${chainId} ${answer.authorization.nonce}`, answer.authorization.r) // prettier-ignore
        known.push({ ...answer, chainId, userId, intentId, id: `${chainId} ${sequence}` })
        operations += 1
      }
      const carry = async () => {
        const [by, chainId] = [pick(SPONSORS), pick(CHAINS)]
        const lane = `${by} ${chainId}`
        const nonce = next.get(lane) ?? 0
        if (random(4) > 0) next.set(lane, nonce + 1)
        // Sometimes include an operation of another network, or one twice.
        const those = known.filter((one) => one.chainId === chainId || random(40) === 0)
        const chosen = Array.from({ length: 1 + random(6) }, () => pick(those)).filter((one) => one !== undefined)
        const distinct = random(20) === 0 ? chosen : [...new Map(chosen.map((one) => [one.id, one])).values()]
        const price = 1 + random(random(3) === 0 ? 40 : 12)
        const delegating = distinct.filter(({ authorization }) => authorization !== undefined && random(2) === 0)
        const people = [...new Map(delegating.map((one) => [one.userId, one])).values()]
        const request = askOuter(addresses.get(by)!, [], {
          ...{
            chainId,
            nonce,
            kind: 'send' as const,
            intentId: `outer_${lane.replace(' ', '_')}_${nonce}_${random(2)}`,
          },
          data: dispatchOf(distinct.map(({ packed }) => packed)),
          ...{ gas: String(1 + random(300)), maxFeePerGas: String(price), maxPriorityFeePerGas: String(price) },
          authorizations: people.map((one) => ({ from: addresses.get(one.userId)!, nonce: one.authorization!.nonce })),
        })
        await signer.signOuter(request)
        outers += 1
        // Repeat the transaction as a fee bump, which needs no token.
        if (random(2) === 0)
          await signer.signOuter({ ...request, kind: 'replace', maxFeePerGas: String(price * 3), maxPriorityFeePerGas: String(price * 3) }) // prettier-ignore
      }
      const send = async () => {
        const [userId, chainId] = [pick(PEOPLE), pick(CHAINS)]
        const nonce = random(4)
        const request = ask(addresses.get(userId)!, { chainId, nonce, intentId: `op_${random(60)}`, gas: '1' })
        await signer.sign(request, { userId, clientId: 'shop' })
        assert.equal(answered.get(`${userId} ${chainId} ${nonce}`), undefined, `seed ${seed}`)
      }
      const cancel = async () => {
        const [by, chainId] = [pick(SPONSORS), pick(CHAINS)]
        const nonce = random(1 + (next.get(`${by} ${chainId}`) ?? 0))
        const from = addresses.get(by)!
        const intentId = `outer_${by}_${chainId}_${nonce}_${random(2)}`
        const fees = { gas: '1', maxFeePerGas: '200', maxPriorityFeePerGas: '200' }
        await signer.sign(ask(from, { chainId, nonce, intentId, kind: 'cancel', to: from, value: '0', ...fees }), null)
      }
      for (let calls = 0; calls < CALLS;) {
        clock += stepOf(random)
        newest = Math.max(newest, clock)
        if (random(8) === 0) signer.dieAfter(1 + random(6), random(2) === 0 ? 'before-commit' : 'after-commit')
        const burst = Array.from({ length: 1 + random(16) }, () => {
          calls += 1
          const what = random(20)
          return what < 9 ? operate() : what < 17 ? carry() : what < 19 ? send() : cancel()
        })
        for (const each of await Promise.allSettled(burst)) {
          if (each.status === 'rejected' && (each.reason as Error).name === 'AssertionError') throw each.reason
          if (each.status === 'rejected') refused += 1
        }
        for (const lane of next.keys()) if (random(3) === 0) next.set(lane, Math.max(0, next.get(lane)! - random(4)))
      }
      deaths += signer.deaths()
      const losses = readLosses(signer.folder)
      for (const [most, meterOf, amountOf] of [
        [LIMITS.perSponsor, ({ by, chainId }: SponsorLoss) => `${by} ${chainId}`, ({ wei }: SponsorLoss) => wei],
        ...PEOPLE.map(
          (userId) =>
            [
              LIMITS.perUser,
              ({ chainId }: SponsorLoss) => `${userId} ${chainId}`,
              ({ shares }: SponsorLoss) => shares.get(addresses.get(userId)!.toLowerCase()) ?? 0n,
            ] as const,
        ),
      ] as const)
        for (const [meter, ones] of Map.groupBy(losses, meterOf)) {
          const found = mostInAnySpan(ones.map((one) => ({ at: one.at, amount: amountOf(one) })), DAY) // prettier-ignore
          assert.ok(found <= most, `seed ${seed}: ${meter} was ${found} of ${most}`)
          if (found * 10n >= most * 9n) reached += 1
        }
      assert.deepEqual(verifyStore(signer.folder).problems, [], `seed ${seed}`)
    } finally {
      signer.close()
    }
  }
  // Schedules that reach no limit and restart no signer would prove nothing.
  assert.ok(operations > 15 * SCHEDULES && outers > 10 * SCHEDULES, `${operations} operations, ${outers} transactions`)
  assert.ok(refused > 20 * SCHEDULES && deaths >= SCHEDULES && reached >= SCHEDULES, `${refused} refused, ${deaths} deaths, ${reached} limits reached`) // prettier-ignore
})

/** Maximum loss that one attempt adds to its sponsor, and each user's share of it: signed gas at the added price. */
type SponsorLoss = { at: number; by: string; chainId: number; wei: bigint; shares: Map<string, bigint> }

/** Reads the losses from the ledger's bytes with another library, without meters, charges or buckets. */
function readLosses(folder: string): SponsorLoss[] {
  const { abi } = artefact('Dispatcher')
  const db = new DatabaseSync(join(folder, DATABASE_FILE), { readOnly: true })
  try {
    const dearest = new Map<string, { wei: bigint; price: bigint }>()
    const rows = db.prepare(`SELECT at, user_id, nonce, raw FROM ledger
      WHERE user_id LIKE 'SPONSOR-%' AND kind IN ('send', 'replace') ORDER BY seq`).all() // prettier-ignore
    return (rows as { at: number; user_id: string; nonce: number; raw: Uint8Array }[]).map((row) => {
      const tx = parseTransaction(`0x${Buffer.from(row.raw).toString('hex')}`)
      const { chainId, gas = 0n, maxFeePerGas = 0n } = tx
      const slot = `${row.user_id} ${chainId} ${row.nonce}`
      const before = dearest.get(slot) ?? { wei: 0n, price: 0n }
      const now = { wei: gas * maxFeePerGas > before.wei ? gas * maxFeePerGas : before.wei, price: maxFeePerGas > before.price ? maxFeePerGas : before.price } // prettier-ignore
      dearest.set(slot, now)
      const [, packed] = decodeFunctionData({ abi, data: tx.data! }).args as [string, Hex]
      const shares = new Map<string, bigint>()
      for (let at = 2; at < packed.length;) {
        const account: string = `0x${packed.slice(at, at + 40)}`
        const gasLimit = BigInt(`0x${packed.slice(at + 64, at + 72)}`)
        shares.set(account, (shares.get(account) ?? 0n) + gasLimit * (now.price - before.price))
        at += 216 + 2 * Number(`0x${packed.slice(at + 210, at + 216)}`)
      }
      return { at: row.at, by: row.user_id, chainId: chainId!, wei: now.wei - before.wei, shares }
    })
  } finally {
    db.close()
  }
}

/** Returns a time step: mostly a little forward, sometimes hours, sometimes back. */
function stepOf(random: (below: number) => number): number {
  const kind = random(14)
  if (kind === 0) return -random(3_600_000)
  if (kind === 1) return random(12 * 3_600_000)
  return random(120_000)
}
