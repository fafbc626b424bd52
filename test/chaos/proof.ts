import { startCluster, type Cluster } from './cluster.ts'

type Proof = {
  /** a cluster that was started for it, null where there was one, or none can be */
  own: Cluster | null
  /** whose address is not told, null for the embedded database */
  cluster: string | null
  replicaCounts: number[]
  /** what is told at the end, and by which it fails */
  failures: string[]
}

/**
 * Begins a proof that is run by hand, in a process of its own: on the cluster of TEST_DATABASE_URL, else on one of its own where PostgreSQL is there.
 * @param replicas comma-separated numbers of servers
 * @throws Error where `only` names none of the parts
 */
export async function openProof(
  parts: object,
  { only, replicas }: { only?: string; replicas: string },
): Promise<Proof> {
  if (only !== undefined && !Object.hasOwn(parts, only)) throw new Error(`no part is called ${only}`)
  // What it started ends with it.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  const own = process.env.TEST_DATABASE_URL === undefined ? await startCluster() : null
  const cluster = process.env.TEST_DATABASE_URL ?? own?.url ?? null
  return { own, cluster, replicaCounts: cluster === null ? [1] : replicas.split(',').map(Number), failures: [] }
}

/** Plays the parts that are asked for one after the other, says what failed, and ends the process by it. */
export async function playParts(
  { own, failures }: Proof,
  parts: Record<string, () => Promise<void>>,
  isAsked: (part: string) => boolean,
): Promise<never> {
  const startedAt = performance.now()
  try {
    for (const [part, play] of Object.entries(parts)) {
      if (!isAsked(part)) continue
      try {
        await play()
      } catch (error) {
        failures.push(`${part} did not come to its end: ${(error as Error).stack}`)
      }
    }
  } finally {
    await own?.stop()
  }
  for (const failure of failures) console.error(`FAILED: ${failure}`)
  const seconds = Math.round((performance.now() - startedAt) / 1_000)
  console.log(failures.length === 0 ? `proven in ${seconds} s` : `${failures.length} failures in ${seconds} s`)
  process.exit(failures.length === 0 ? 0 : 1)
}
