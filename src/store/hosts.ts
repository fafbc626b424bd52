import type pg from 'pg'
import { sqlState } from './away.ts'
import { type Clock } from '../clock.ts'

/** A connection string of one server, and what may be said of it: its name and port. */
export type Host = { url: string; name: string }

export type Hosts = {
  list: Host[]
  /** Only a server that takes writes will do: always so with several, and where `target_session_attrs` says so. */
  mustTakeWrites: boolean
}

/** The parts of a connection string; the user may hold a colon, a password anything but a slash. */
const FORM = /^(postgres(?:ql)?:\/\/)((?:[^/?#]*@)?)([^/?#@]*)(\/[^?#]*)?(\?[^#]*)?$/

/**
 * Reads DATABASE_URL as libpq writes it: `postgres://user@h1:5432,h2:5432/db?target_session_attrs=read-write`.
 * @throws Error  which part cannot be used; the connection string itself, which holds a password, is never repeated
 * Source: PostgreSQL, 34.1.1.3 Specifying Multiple Hosts
 */
export function readHosts(url: string): Hosts {
  // Sockets as node-postgres writes them: one server, which is not looked into.
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
  // None at all is node-postgres's own default, or the socket of `host=`.
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

/** What a server says of itself; null is what it may not be asked, or what it knows nothing of. */
type HostState = {
  takesWrites: boolean
  /** the same of a server and of all copies of it */
  cluster: string | null
  /** grows with each promotion */
  timeline: number | null
  /** seconds since 1970, of the server's start: one server that is in the list under two names has one */
  startedAt: string | null
}

/** milliseconds that a server has to say what it is */
const PROBE_MS = 2_000

/** Asks one server whether it takes writes. @throws what the connection threw */
async function probeHost({ url }: Host): Promise<HostState> {
  const { Client } = (await import('pg')).default
  const client = new Client({ connectionString: url, connectionTimeoutMillis: PROBE_MS, query_timeout: PROBE_MS })
  client.on('error', () => {})
  try {
    await client.connect()
    return await standingOf(client)
  } finally {
    // Not waited for: a server that hangs answers no goodbye.
    void client.end().catch(() => {})
  }
}

/** Whether the server behind a connection takes writes. */
export async function takesWrites(client: Pick<pg.ClientBase, 'query'>): Promise<boolean> {
  const { rows } = await client.query<{ takes_writes: boolean }>(
    `select not pg_is_in_recovery() and current_setting('default_transaction_read_only') = 'off' as takes_writes`,
  )
  return rows[0]?.takes_writes === true
}

async function standingOf(client: pg.ClientBase): Promise<HostState> {
  if (!(await takesWrites(client))) return { takesWrites: false, cluster: null, timeline: null, startedAt: null }
  // A statement each: everyone may ask for each of them, but some installations withdraw the first.
  const cluster = await readText(client, 'select system_identifier::text as told from pg_control_system()')
  const file = await readText(client, 'select pg_walfile_name(pg_current_wal_insert_lsn()) as told')
  const startedAt = await readText(client, 'select extract(epoch from pg_postmaster_start_time())::text as told')
  // The first eight digits of the name of a WAL file are its timeline, in hexadecimal.
  const timeline = file === null ? null : Number.parseInt(file.slice(0, 8), 16)
  return { takesWrites: true, cluster, timeline, startedAt }
}

async function readText(client: pg.ClientBase, statement: string): Promise<string | null> {
  try {
    const { rows } = await client.query<{ told: string }>(statement)
    return rows[0]?.told ?? null
  } catch (error) {
    // Not allowed, or unknown to an engine that only speaks as PostgreSQL does.
    if (['42501', '42883', '0A000'].includes(sqlState(error) ?? '')) return null
    throw error
  }
}

/** A server of the list that takes writes. */
type Writer = HostState & { host: Host }

/** Another server than before, or the name of before leads to one that was promoted since. */
export const isOther = (before: Writer, now: Writer): boolean =>
  before.timeline !== now.timeline || (before.host !== now.host && !isSame(before, now))

/** Of names that lead to one server, a balancer's before it for instance, the first. */
export function distinct(writers: Writer[]): Writer[] {
  return writers.filter((writer, index) => !writers.slice(0, index).some((before) => isSame(before, writer)))
}

const isSame = (one: HostState, other: HostState): boolean =>
  one.startedAt !== null && one.startedAt === other.startedAt && one.cluster === other.cluster

/**
 * Of servers that take writes the one that was promoted last: that of a later timeline than all others. Null where that
 * is unknown: one of them has no timeline, two have the same, or they are no copies of each other.
 */
export function lastPromoted(writers: Writer[]): Writer | null {
  const isBehind = (other: Writer, writer: Writer) =>
    (other.timeline ?? Number.POSITIVE_INFINITY) < (writer.timeline ?? 0) && mayBeCopies(other, writer)
  return writers.find((writer) => writers.every((other) => other === writer || isBehind(other, writer))) ?? null
}

const mayBeCopies = (one: HostState, other: HostState): boolean =>
  one.cluster === null || other.cluster === null || one.cluster === other.cluster

/** The server that was found, and which of those found so far it is, counted. */
export type WritableHost = Host & { generation: number }

/** Where the primary is. */
export type Primary = {
  /** the server to connect to. @throws Error  none of them takes writes, or which one may is unknown */
  find(): Promise<WritableHost>
  /** a connection was lost or takes no writes: the next one asks all of them again */
  forget(): void
  /** that of the server found last; a connection that was begun under an earlier one is used no more */
  generation(): number
}

/** What is reported of the search; names, several with "and" between them. */
export type Listeners = {
  /** another server than before is used */
  onChange: (name: string) => void
  /** several take writes: the one that is used, and the others */
  onSecond: (names: string) => void
  /** several take writes, and which was promoted last is unknown: none is used, nor the one that was */
  onUndecided: (names: string) => void
}

/** milliseconds after which the servers are asked again, beside the work */
const LOOK_AGAIN_MS = 5_000
/** milliseconds that the answer "none" is good for */
const NONE_MS = 200

/**
 * Finds the one of several servers that takes writes, and after a promotion the next one. Of two that do, that of the
 * later timeline: an old primary that came back believes to be one still. What this process has seen of a later
 * timeline it does not forget, so that an old primary which is alone within reach is not taken either.
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

  /** Uses none of them, nor what is connected to one. */
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

  /** The latest timeline that was seen of a cluster; of any, where either has not told which it is. */
  function newestOf(cluster: string | null): number {
    const seen = [...newest].filter(([name]) => name === null || cluster === null || name === cluster)
    return Math.max(0, ...seen.map(([, timeline]) => timeline))
  }

  /** One search at a time: what an earlier one still finds must not replace what a later one has found. */
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
      // Two that both take writes may both be reached: the work continues with what is known until there is news.
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
