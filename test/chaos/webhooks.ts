/**
 * `npm run prove webhooks [-- --events 100000 --kills 50 --replicas 2 --seed 7]`: the long form of webhooks.test.ts. Whole
 * servers on PostgreSQL (TEST_DATABASE_URL, or a cluster of its own) deliver to an endpoint that refuses half of the
 * requests, and are killed. Without PostgreSQL, one process on the embedded database.
 */
import { parseArgs } from 'node:util'
import { openProof, playParts } from './proof.ts'
import { openEmbeddedCourier, openServers } from './webhooks-home.ts'
import { runWebhooks } from './webhooks-run.ts'

const { values } = parseArgs({
  options: {
    events: { type: 'string', default: '100000' },
    kills: { type: 'string', default: '50' },
    replicas: { type: 'string', default: '2' },
    seed: { type: 'string', default: String(Date.now() % 1e9) },
  },
})
const [events, kills, seed] = [values.events, values.kills, values.seed].map(Number) as [number, number, number]
const proof = await openProof({}, values)
await playParts(
  proof,
  Object.fromEntries(
    proof.replicaCounts.map((replicas) => [
      `${replicas} replicas`,
      async () => {
        const home = await (proof.cluster === null ? openEmbeddedCourier() : openServers(proof.cluster, replicas))
        let told = 0
        const onProgress = (accepted: number) => {
          if (accepted < told + events / 20) return
          told = accepted
          console.log(`${accepted} of ${events} events`)
        }
        const { problems, ...outcome } = await runWebhooks(home, { seed, events, kills, onProgress })
        console.log(JSON.stringify(outcome))
        proof.failures.push(...problems)
      },
    ]),
  ),
  () => true,
)
