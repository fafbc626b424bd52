/**
 * The long proof of top-ups: `npm run prove topup -- --writes 5000 --kills 200 --replicas 1,2,3 --seed 7`. People who hold nothing write, and a
 * sponsor sends them what that takes: first a process dies at each point of a top-up and of the write behind it, then the storm of
 * `transactions.ts` in which processes die at random and at every point. The judge is the same, and every top-up is looked for on the
 * chain; `docs/evidence/proof.md` says what that shows. `--only points|random` does a part, `--name signer` the
 * points with that in their name. PostgreSQL as there.
 */
import { parseArgs } from 'node:util'
import { openProof, playParts } from './proof.ts'
import { playTopUpPoints, TOP_UP_POINTS } from './top-up-points.ts'
import { runToppedUp } from './top-ups.ts'
import { describe, failureOf } from './transactions-report.ts'
import { SERVER_POINTS, SIGNER_POINTS, stormMs } from './transactions-run.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    writes: { type: 'string', default: '3000' },
    replicas: { type: 'string', default: '1,2,3' },
    kills: { type: 'string', default: '0' },
    accounts: { type: 'string', default: '24' },
    only: { type: 'string' },
    name: { type: 'string', default: '' },
  },
})
/** milliseconds that a kill may take when there are so many to be reached */
const KILL_MS = 4_000
/** Points of the second write of a request: behind its top-up. */
const BEHIND = ['after-bind:2', 'after-sign:2', 'after-store:2', 'after-broadcast:2']

const PARTS = { points, random }
const proof = await openProof(PARTS, values)
const { cluster, replicaCounts, failures } = proof
await playParts(proof, PARTS, (part) => values.only === undefined || values.only === part)

async function points(): Promise<void> {
  const some = TOP_UP_POINTS.filter((point) => point.includes(values.name))
  for (const replicas of replicaCounts) {
    const { fired, missed, verdict, topUps, seconds: took, said } = await playTopUpPoints({ points: some, replicas, cluster, log: console.log }) // prettier-ignore
    console.log(
      `points, ${replicas} replica(s): killed at ${fired.length} of ${some.length}; ${verdict.writes} writes, ${topUps} top-ups, lost ${verdict.lost}, doubled ${verdict.doubled}, wrong hash ${verdict.wrong}, unanswered ${verdict.unanswered}; ${took} s`,
    )
    const problems = [...missed.map((point) => `nobody was killed at ${point}`), ...verdict.problems]
    if (problems.length === 0) continue
    failures.push(`points with ${replicas} replica(s): ${problems.join('; ')}`)
    console.log(said)
  }
}

async function random(): Promise<void> {
  for (const replicas of replicaCounts) {
    const writes = Math.ceil(Number(values.writes) / replicaCounts.length)
    const kills = Math.ceil(Number(values.kills) / replicaCounts.length)
    const report = await runToppedUp({
      ...{ seed: Number(values.seed), writes, replicas, cluster, accounts: Number(values.accounts) },
      ...(kills === 0 ? {} : { leastKills: kills, stormMs: stormMs(writes) + kills * KILL_MS }),
      points: [...SERVER_POINTS, ...BEHIND],
      signerPoints: SIGNER_POINTS,
      log: console.log,
    })
    console.log(`${describe(report)}; ${report.topUps} top-ups`)
    const failure = failureOf(report)
    if (failure === null) continue
    failures.push(`seed ${report.seed} with ${replicas} replica(s): ${failure}`)
    console.log(report.said)
  }
}
