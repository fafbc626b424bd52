import { startPostgres, type Cluster } from './postgres.ts'

type Ends = { end(): Promise<void> }

/** What a benchmark started, so that it ends in reverse order however the run ends. */
export type Stage = {
  /** null on the embedded database */
  cluster: Cluster | null
  /** keeps what was started, and hands it back */
  begun: <T extends Ends>(thing: T) => T
  /** ends one thing before the others */
  endEarly: (thing: Ends) => Promise<void>
  end: () => Promise<void>
}

/** Starts the database that the programs of this run will use: see `startPostgres`. */
export async function openStage(): Promise<Stage> {
  const started: Ends[] = []
  const begun = <T extends Ends>(thing: T): T => {
    started.push(thing)
    return thing
  }
  const cluster = await startPostgres()
  if (cluster !== null) process.env.TEST_DATABASE_URL = begun(cluster).url
  return {
    cluster,
    begun,
    async endEarly(thing) {
      started.splice(started.indexOf(thing), 1)
      await thing.end()
    },
    async end() {
      for (const thing of started.toReversed()) await thing.end()
    },
  }
}
