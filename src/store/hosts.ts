import type pg from 'pg'
import { sqlState } from './away.ts'
import { type Clock } from '../clock.ts'

/** A database server: its connection string (secret), and its name and port, which may be logged. */
export type Host = { url: string; name: string }

export type Hosts = {
  list: Host[]
  /**
   * Only a server that takes writes is used. This holds for several servers, or if `target_session_attrs` requires it.
   */
  mustTakeWrites: boolean
}

/** The parts of a connection string. The user name may contain a colon, the password anything except a slash. */
const FORM = /^(postgres(?:ql)?:\/\/)((?:[^/?#]*@)?)([^/?#@]*)(\/[^?#]*)?(\?[^#]*)?$/

/**
 * Reads DATABASE_URL, with several hosts in libpq's form:
 * `postgres://user@h1:5432,h2:5432/db?target_session_attrs=read-write`.
 * @throws Error  naming the part that cannot be used; never the connection string, which holds a password
 * Source: PostgreSQL, 34.1.1.3 Specifying Multiple Hosts
 */
export function readHosts(url: string): Hosts {
  // A socket path in node-postgres's form is one server and needs no parsing.
  if (/^(socket:|\/)/.test(url)) return { list: [{ url, name: 'its socket' }], mustTakeWrites: false }
  const match = FORM.exec(url)
  if (match === null)
    throw new Error('expected postgres://user@host:5432/database, with `/`, `?` and `#` of a password as %2F, %3F and %23') // prettier-ignore
  const [, scheme, who, authority, path = '', query = ''] = match
  const parameters = new URLSearchParams(query)
  const mustTakeWrites = wantsWrites(parameters.get('target_session_attrs'))
  parameters.delete('target_session_attrs')
  if (parameters.getAll('host').some((host) => host.includes(',')))
    throw new Error('several hosts go before the first slash, separated by commas, not in `host=`')
  const places = authority!.split(',')
  // An empty authority means node-postgres's default, or the socket of `host=`.
  if (authority !== '') for (const [index, place] of places.entries()) checkPlace(place, index + 1)
  const rest = parameters.size === 0 ? '' : `?${parameters.toString()}`
  return {
    list: places.map((place) => ({ url: `${scheme}${who}${place}${path}${rest}`, name: place })),
    mustTakeWrites: mustTakeWrites || places.length > 1,
  }
}

function wantsWrites(attributes: string | null): boolean {
  if (attributes === null || attributes === 'any') return false
  if (attributes === 'read-write' || attributes === 'primary') return true
  throw new Error('target_session_attrs must be read-write or primary: the service writes')
}

function checkPlace(place: string, position: number): void {
  const [, port] = /^(?:\[[0-9a-fA-F:.]+\]|[\w.%-]+)(?::(\d+))?$/.exec(place) ?? [null, null]
  if (port === null)
    throw new Error(`host ${position} must be a name or an address, with or without :port; \`/\` in a password is %2F`)
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))
    throw new Error(`the port of host ${position} must be between 1 and 65535`)
}

/** The state that a server reports; null if the server does not know it, or does not allow reading it. */
type HostState = {
  takesWrites: boolean
  /** equal for a server and all its copies */
  cluster: string | null
  /** grows with each promotion */
  timeline: number | null
  /** start of the server, seconds since 1970: equal if two names lead to one server */
  startedAt: string | null
}

/** milliseconds within which a server must report its state */
const PROBE_MS = 2_000

/** Asks one server for its state. @throws the error of the connection */
async function probeHost({ url }: Host): Promise<HostState> {
  const { Client } = (await import('pg')).default
  const client = new Client({ connectionString: url, connectionTimeoutMillis: PROBE_MS, query_timeout: PROBE_MS })
  client.on('error', () => {})
  try {
    await client.connect()
    return await standingOf(client)
  } finally {
    // Not awaited: a server that hangs does not confirm the end.
    void client.end().catch(() => {})
  }
}

/** Returns whether the server behind a connection takes writes. */
export async function takesWrites(client: Pick<pg.ClientBase, 'query'>): Promise<boolean> {
  const { rows } = await client.query<{ takes_writes: boolean }>(
    `select not pg_is_in_recovery() and current_setting('default_transaction_read_only') = 'off' as takes_writes`,
  )
  return rows[0]?.takes_writes === true
}

async function standingOf(client: pg.ClientBase): Promise<HostState> {
  if (!(await takesWrites(client))) return { takesWrites: false, cluster: null, timeline: null, startedAt: null }
  // Separate statements: every role may run both by default, but some installations revoke the first.
  const cluster = await readText(client, 'select system_identifier::text as told from pg_control_system()')
  const file = await readText(client, 'select pg_walfile_name(pg_current_wal_insert_lsn()) as told')
  const startedAt = await readText(client, 'select extract(epoch from pg_postmaster_start_time())::text as told')
  // The first 8 hexadecimal digits of a WAL file name are the timeline.
  const timeline = file === null ? null : Number.parseInt(file.slice(0, 8), 16)
  return { takesWrites: true, cluster, timeline, startedAt }
}

async function readText(client: pg.ClientBase, statement: string): Promise<string | null> {
  try {
    const { rows } = await client.query<{ told: string }>(statement)
    return rows[0]?.told ?? null
  } catch (error) {
    // The role lacks the privilege, or the database is only compatible with PostgreSQL and lacks the function.
    if (['42501', '42883', '0A000'].includes(sqlState(error) ?? '')) return null
    throw error
  }
}

/** A server of the list that takes writes. */
type Writer = HostState & { host: Host }

/** Returns whether the primary has changed: it is another server, or the same name after a promotion. */
export const isOther = (before: Writer, now: Writer): boolean =>
  before.timeline !== now.timeline || (before.host !== now.host && !isSame(before, now))

/** Removes names that lead to the same server, such as a load balancer in front of it. The first name remains. */
export function distinct(writers: Writer[]): Writer[] {
  return writers.filter((writer, index) => !writers.slice(0, index).some((before) => isSame(before, writer)))
}

const isSame = (one: HostState, other: HostState): boolean =>
  one.startedAt !== null && one.startedAt === other.startedAt && one.cluster === other.cluster

/**
 * Returns the server that was promoted last: the one with a later timeline than all others. Returns null if that is
 * unknown: a timeline is missing, two are equal, or the servers are not copies of each other.
 */
export function lastPromoted(writers: Writer[]): Writer | null {
  const isBehind = (other: Writer, writer: Writer) =>
    (other.timeline ?? Number.POSITIVE_INFINITY) < (writer.timeline ?? 0) && mayBeCopies(other, writer)
  return writers.find((writer) => writers.every((other) => other === writer || isBehind(other, writer))) ?? null
}

const mayBeCopies = (one: HostState, other: HostState): boolean =>
  one.cluster === null || other.cluster === null || one.cluster === other.cluster

/** The primary, and how many changes of the primary this process has seen. */
export type WritableHost = Host & { generation: number }

/** Finds the primary. */
export type Primary = {
  /** returns the server to connect to. @throws Error if none takes writes, or if it is unknown which one should */
  find(): Promise<WritableHost>
  /** a connection was lost or takes no writes: the next `find` asks all servers again */
  forget(): void
  /** generation of the server found last; connections of an earlier generation are no longer used */
  generation(): number
}

/** Receives the results of the search. Several names are joined by "and". */
export type Listeners = {
  /** the primary has changed */
  onChange: (name: string) => void
  /** several servers take writes: the one that is used, then the others */
  onSecond: (names: string) => void
  /** several servers take writes, and it is unknown which was promoted last: none is used */
  onUndecided: (names: string) => void
}

/** milliseconds after which the servers are asked again in the background */
const LOOK_AGAIN_MS = 5_000
/** milliseconds for which a search that found no writable server is not repeated */
const NONE_MS = 200

/**
 * Finds the server that takes writes, and its successor after a promotion. If several do, takes the one with the latest
 * timeline, because an old primary that returns still takes writes. The latest timeline seen is remembered, so that an
 * old primary is not used even if it is the only one that responds.
 */
export function findPrimary(clock: Clock, hosts: Host[], { onChange, onSecond, onUndecided }: Listeners): Primary {
  let known: WritableHost | null = null
  let searching: Promise<WritableHost> | null = null
  let searchedAt = Number.NEGATIVE_INFINITY
  let last: Writer | null = null
  let rivals = ''
  let generation = 0
  const newest = new Map<string | null, number>()

  async function search(): Promise<WritableHost> {
    searchedAt = clock.ticks()
    const answers = await Promise.allSettled(hosts.map(probeHost))
    const writers = distinct(
      answers.flatMap((answer, index) =>
        answer.status === 'fulfilled' && answer.value.takesWrites ? [{ host: hosts[index]!, ...answer.value }] : [],
      ),
    )
    const best = lastPromoted(writers)
    if (best === null && writers.length > 0) leave()
    tellOfRivals(writers, best)
    if (writers.length === 0) throw noPrimary(`none of ${hosts.length} hosts accepts writes`, answers)
    if (best === null) {
      const names = namesOf(writers)
      throw noPrimary(
        `${names} accept writes, and it is unknown which was promoted last: stop all but that one`,
        answers,
      )
    }
    if ((best.timeline ?? 0) < newestOf(best.cluster))
      throw noPrimary(`the only one of ${hosts.length} hosts that accepts writes has missed a promotion`, answers)
    if (best.timeline !== null) newest.set(best.cluster, best.timeline)
    const isChange = last === null || isOther(last, best)
    if (isChange) generation++
    last = best
    known = { ...best.host, generation }
    if (isChange) onChange(best.host.name)
    return known
  }

  /** Stops using the known server and all connections to it. */
  function leave(): void {
    if (last !== null) generation++
    last = null
    known = null
  }

  function tellOfRivals(writers: Writer[], best: Writer | null): void {
    const names = namesOf(best === null ? writers : [best, ...writers.filter((writer) => writer !== best)])
    const told = writers.length > 1 ? `${best === null ? 'none' : 'one'} of ${names}` : ''
    if (told !== '' && told !== rivals) (best === null ? onUndecided : onSecond)(names)
    rivals = told
  }

  /** Returns the latest timeline seen of a cluster; of any cluster if one of the two is unknown. */
  function newestOf(cluster: string | null): number {
    const seen = [...newest].filter(([name]) => name === null || cluster === null || name === cluster)
    return Math.max(0, ...seen.map(([, timeline]) => timeline))
  }

  /** Runs one search at a time, so that an earlier search cannot replace the result of a later one. */
  function searchOnce(): Promise<WritableHost> {
    if (searching !== null) return searching
    const end = () => void (searching = null)
    searching = search()
    searching.then(end, () => clock.after(NONE_MS, end).unref())
    return searching
  }

  return {
    async find() {
      if (known === null) return searchOnce()
      // Search in the background, because another server may have become the primary. Until then, continue with the
      // known server.
      if (clock.ticks() - searchedAt > LOOK_AGAIN_MS) searchOnce().catch(() => {})
      return known
    },
    forget() {
      known = null
    },
    generation: () => generation,
  }
}

const namesOf = (writers: Writer[]): string => writers.map(({ host }) => host.name).join(' and ')

const noPrimary = (message: string, answers: PromiseSettledResult<unknown>[]): Error => {
  const cause: unknown = answers.find((answer) => answer.status === 'rejected')?.reason
  return Object.assign(new Error(message, { cause }), { code: '25006' })
}
