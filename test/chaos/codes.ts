import { parseArgs } from 'node:util'
import { rehearse } from '../rehearsal.ts'
import { raceCodes, slowed } from '../race-codes.ts'
import { testCluster } from '../kit/database.ts'

/**
 * `npm run prove codes [-- --rounds 1000 --parallel 16 --replicas 2]`: an authorization code is good once. The long
 * form of a test of the suite: the replicas are servers of their own over one database whose answers come late and in
 * another order. With TEST_DATABASE_URL that is PostgreSQL, otherwise the embedded one.
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '1000' },
    parallel: { type: 'string', default: '16' },
    replicas: { type: 'string', default: '2' },
  },
})
const [rounds, parallel, count] = [values.rounds, values.parallel, values.replicas].map(Number) as [number, number, number] // prettier-ignore
const first = await rehearse({ slow: slowed })
const replicas = [first]
while (replicas.length < count) replicas.push(await rehearse({ slow: slowed, again: first }))
const startedAt = Date.now()
const { redemptions, succeeded } = await raceCodes(replicas, {
  rounds,
  parallel,
  onRound: (round) => {
    if (round % 100 === 0) console.log(`${round} codes, ${((Date.now() - startedAt) / 1_000).toFixed(0)} s`)
  },
})
console.log(
  `${rounds} codes, ${redemptions} redemptions on ${count} replicas over ${testCluster === null ? 'the embedded database' : 'PostgreSQL'}: ${succeeded} succeeded, one for each code`,
)
for (const replica of replicas.toReversed()) await replica.close()
