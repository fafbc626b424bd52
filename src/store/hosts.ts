import type pg from 'pg'
import { sqlState } from './away.ts'

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
    throw new Error('it must look like postgres://user@host:5432/database, with `/`, `?` and `#` of a password as %2F, %3F and %23') // prettier-ignore
  const [, scheme, who, authority, path = '', query = ''] = match
  const parameters = new URLSearchParams(query)
  const mustTakeWrites = takesWrites(parameters.get('target_session_attrs'))
  parameters.delete('target_session_attrs')
  if (parameters.getAll('host').some((host) => host.includes(',')))
    throw new Error('several hosts stand before the first slash, with commas between, not in `host=`')
  const places = authority!.split(',')
  // None at all is node-postgres's own default, or the socket of `host=`.
  if (authority !== '') for (const [index, place] of places.entries()) checkPlace(place, index + 1)
  const rest = parameters.size === 0 ? '' : `?${parameters.toString()}`
  return {
    list: places.map((place) => ({ url: `${scheme}${who}${place}${path}${rest}`, name: place })),
    mustTakeWrites: mustTakeWrites || places.length > 1,
  }
}

function takesWrites(attributes: string | null): boolean {
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

/** What a server says of itself. `timeline` grows with each promotion; null where it may not be asked. */
export type Standing = { takesWrites: boolean; cluster: string | null; timeline: number | null }

/** milliseconds that a server has to say what it is */
const PROBE_MS = 2_000

/** Asks one server whether it takes writes. @throws what the connection threw */
async function ask({ url }: Host): Promise<Standing> {
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

export async function standingOf(client: Pick<pg.ClientBase, 'query'>): Promise<Standing> {
  const { rows } = await client.query<{ takes_writes: boolean }>(
    `select not pg_is_in_recovery() and current_setting('default_transaction_read_only') = 'off' as takes_writes`,
  )
  const takesWrites = rows[0]?.takes_writes === true
  if (!takesWrites) return { takesWrites, cluster: null, timeline: null }
  try {
    const { rows: told } = await client.query<{ cluster: string; timeline: number }>(
      `select (select system_identifier from pg_control_system())::text as cluster,
        ('x' || lpad(substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), 8, '0'))::bit(32)::int as timeline`,
    )
    return { takesWrites, cluster: told[0]!.cluster, timeline: told[0]!.timeline }
  } catch (error) {
    // Not allowed, or unknown to an engine that only speaks as PostgreSQL does: then the order of the list decides.
    if (['42501', '42883', '0A000'].includes(sqlState(error) ?? ''))
      return { takesWrites, cluster: null, timeline: null }
    throw error
  }
}

/** Where the primary is. */
export type Primary = {
  /** the server to connect to. @throws Error  none of them takes writes */
  find(): Promise<Host>
  /** a connection was lost or takes no writes: the next one asks all of them again */
  forget(): void
  /** which of the servers found so far is the primary, counted: a connection of an earlier one is used no more */
  generation(): number
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
export function findPrimary(
  hosts: Host[],
  { onChange, onSecond }: { onChange: (name: string) => void; onSecond: (names: string) => void },
): Primary {
  let current: Promise<Host> | null = null
  let searchedAt = Number.NEGATIVE_INFINITY
  let last: Host | null = null
  let rivals = ''
  let generation = 0
  const newest = new Map<string, number>()

  async function search(): Promise<Host> {
    searchedAt = performance.now()
    const answers = await Promise.allSettled(hosts.map(ask))
    const writable = answers
      .flatMap((answer, index) =>
        answer.status === 'fulfilled' && answer.value.takesWrites ? [{ host: hosts[index]!, ...answer.value }] : [],
      )
      .toSorted((a, b) => (b.timeline ?? 0) - (a.timeline ?? 0))
    tellOfRivals(writable.map(({ host }) => host.name))
    const [best] = writable
    if (best === undefined) throw noPrimary(`none of ${hosts.length} hosts takes writes`, answers)
    if (best.cluster !== null) {
      if (best.timeline! < (newest.get(best.cluster) ?? 0))
        throw noPrimary(`the only one of ${hosts.length} hosts that takes writes has missed a promotion`, answers)
      newest.set(best.cluster, best.timeline!)
    }
    if (best.host !== last) {
      last = best.host
      generation++
      onChange(best.host.name)
    }
    return best.host
  }

  function tellOfRivals(names: string[]): void {
    const told = names.length > 1 ? names.join(' and ') : ''
    if (told !== '' && told !== rivals) onSecond(told)
    rivals = told
  }

  function find(): Promise<Host> {
    if (current === null) {
      const searching = search()
      current = searching
      searching.catch(() => {
        setTimeout(() => {
          if (current === searching) current = null
        }, NONE_MS).unref()
      })
    } else if (performance.now() - searchedAt > LOOK_AGAIN_MS) {
      // Two that both take writes may both be reached: the work goes on with what is known until there is news.
      const before = current
      void search().then(
        (host) => {
          if (current === before) current = Promise.resolve(host)
        },
        () => {},
      )
    }
    return current
  }

  return {
    find,
    forget() {
      current = null
    },
    generation: () => generation,
  }
}

const noPrimary = (message: string, answers: PromiseSettledResult<unknown>[]): Error => {
  const cause: unknown = answers.find((answer) => answer.status === 'rejected')?.reason
  return Object.assign(new Error(message, { cause }), { code: '25006' })
}
