import type { DatabaseSync } from 'node:sqlite'
import type { Logger } from '../telemetry.ts'
import type { RunGrouped } from './group.ts'
import { Refusal } from './refusal.ts'
import { readFrozenEntry, revoked, type FrozenEntry } from './wire.ts'

/** Who froze: the authorization server, by its lists, or the operator of the signer, on its own socket. */
type By = 'list' | 'admin'
type Frozen = { by: By; at: number }

/** What is frozen, as the admin socket shows it; `at` is milliseconds since 1970. */
export type FrozenSubject = { subject: string; by: By; at: number }

/**
 * What moves nothing, whatever token is shown and whatever is asked: a person, an application, a network, or everything.
 *
 * Sticky: a list that merely lacks a freeze lifts nothing, because the database it was read from may be one from before the
 * incident. What a list froze is lifted by a list that says so, with a time after that of the freeze; what was frozen here
 * is lifted here only.
 */
export type Freezes = {
  /** Checked before every signature. @throws account_frozen, policy_denied */
  assertMoves: (who: { chainId: number; userId: string }) => void
  isApplicationFrozen: (clientId: string) => boolean
  /** what a list says of freezes, all of it kept before this resolves */
  takeList: (entries: readonly string[], issuedAt: number) => Promise<void>
  /** @param subject  `user ID`, `application ID`, `network CHAIN_ID` or `everything` */
  freeze: (subject: string) => Promise<FrozenSubject[]>
  unfreeze: (subject: string) => Promise<FrozenSubject[]>
  list: () => FrozenSubject[]
}

const EVERYTHING = 'everything'
const networkOf = (chainId: number): string => `network ${chainId}`

/** Before all sign requests of a group: what is frozen in it is frozen for them. */
const FREEZES_FIRST = -2
/** milliseconds that the clock behind a list may be ahead of ours */
const MAX_AHEAD_MS = 10_000

export function openFreezes({
  db,
  group,
  log,
  now,
}: {
  db: DatabaseSync
  group: RunGrouped
  log: Logger
  now: () => number
}): Freezes {
  const put = db.prepare('INSERT OR REPLACE INTO frozen (subject, by, at) VALUES (?, ?, ?)')
  const remove = db.prepare('DELETE FROM frozen WHERE subject = ?')
  const rows = db.prepare('SELECT subject, by, at FROM frozen').all() as FrozenSubject[]
  const frozen = new Map(rows.map(({ subject, by, at }) => [subject, { by, at } as Frozen]))
  const list = (): FrozenSubject[] =>
    [...frozen].map(([subject, { by, at }]) => ({ subject, by, at })).toSorted((a, b) => a.at - b.at)

  return {
    assertMoves({ chainId, userId }) {
      if (frozen.size === 0) return
      if (frozen.has(revoked.user(userId))) throw new Refusal('account_frozen', 'The operator froze this account.')
      if (frozen.has(networkOf(chainId)) || frozen.has(EVERYTHING))
        throw new Refusal('policy_denied', 'The rule frozen refuses this transaction.')
    },
    isApplicationFrozen: (clientId) => frozen.has(revoked.application(clientId)),
    async takeList(entries, issuedAt) {
      const told = new Map<string, FrozenEntry>()
      for (const entry of entries.map(readFrozenEntry))
        if (entry !== null && entry.at >= (told.get(entry.subject)?.at ?? 0)) told.set(entry.subject, entry)
      const changes = [...told.values()].filter(({ subject, isFrozen, at }) => {
        const known = frozen.get(subject)
        if (isFrozen) return known === undefined || (known.by === 'list' && known.at < at)
        return known?.by === 'list' && known.at < at
      })
      if (changes.length === 0) return
      // A freeze from the future could not be lifted before its time came.
      const latest = issuedAt * 1_000 + MAX_AHEAD_MS
      await group(FREEZES_FIRST, () => {
        for (const { subject, isFrozen, at } of changes)
          if (isFrozen) put.run(subject, 'list', Math.min(at, latest))
          else remove.run(subject)
      })
      for (const { subject, isFrozen, at } of changes) set(subject, isFrozen ? { by: 'list', at: Math.min(at, latest) } : null) // prettier-ignore
    },
    async freeze(subject) {
      const at = now()
      await group(FREEZES_FIRST, () => void put.run(subject, 'admin', at))
      set(subject, { by: 'admin', at })
      return list()
    },
    async unfreeze(subject) {
      if (!frozen.has(subject)) throw new Refusal('bad_request', 'That is not frozen here.')
      await group(FREEZES_FIRST, () => void remove.run(subject))
      set(subject, null)
      return list()
    },
    list,
  }

  function set(subject: string, to: Frozen | null): void {
    const isNews = (to === null) === frozen.has(subject)
    if (to === null) frozen.delete(subject)
    else frozen.set(subject, to)
    if (!isNews) return
    // Which user or application is in the list; the log says that there was a change.
    log.warn(to === null ? 'unfrozen' : 'frozen', { kind: subject.split(' ', 1)[0]!, by: to?.by ?? null })
  }
}
