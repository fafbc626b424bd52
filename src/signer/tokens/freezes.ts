import type { DatabaseSync } from 'node:sqlite'
import type { Logger } from '../../log.ts'
import type { RunGrouped } from '../group.ts'
import { ACCOUNT_FROZEN } from '../../errors.ts'
import { Refusal } from '../refusal.ts'
import { readFrozenEntry, revoked, type FrozenEntry } from '../../signer-wire/wire.ts'

/** Who froze: the authorization server, by its lists, or the operator of the signer, on its own socket. */
type By = 'list' | 'admin'
type Frozen = { by: By; at: number }

/** What is frozen, as the admin socket shows it; `at` is milliseconds since 1970. */
type FrozenSubject = { subject: string; by: By; at: number }
/** At most 500 of them, and how many there are. */
export type FrozenList = { subjects: FrozenSubject[]; total: number }

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
  /** Checked before a key leaves: it could be used on any network. @throws account_frozen, policy_denied */
  assertKeyStays: (userId: string) => void
  isApplicationFrozen: (clientId: string) => boolean
  /** what a list says of freezes, all of it kept before this resolves */
  takeList: (entries: readonly string[], issuedAt: number) => Promise<void>
  /** @param subject  `user ID`, `application ID`, `network CHAIN_ID` or `everything` */
  freeze: (subject: string) => Promise<FrozenList>
  /** @param subject  one of these, or `lists`: whatever lists froze. @throws bad_request  where it is not frozen */
  unfreeze: (subject: string) => Promise<FrozenList>
  list: () => FrozenList
}

const EVERYTHING = 'everything'
const networkOf = (chainId: number): string => `network ${chainId}`

/** in an answer, which a frame has to hold: a name is 288 characters at most */
const MAX_LISTED = 500
const LISTED = 'lists'

/**
 * Whether a freeze of it would stop anything. A misspelt name would be frozen, and nobody with it.
 * @throws bad_request
 */
export function assertFreezable(subject: string, hasUser: (userId: string) => boolean): void {
  if (subject === LISTED)
    throw new Refusal('bad_request', '`lists` can only name a freeze that exists, to lift that freeze.')
  if (subject.startsWith('user ') && !hasUser(subject.slice('user '.length)))
    throw new Refusal('bad_request', `${subject}: the signer has no account for this user. \`chatelaine account freeze\` also accepts the linked user ids.`) // prettier-ignore
}

export function assertNotSuspended(freezes: Pick<Freezes, 'isApplicationFrozen'>, clientId: string | null): void {
  if (clientId !== null && freezes.isApplicationFrozen(clientId))
    throw new Refusal(
      'application_suspended',
      'The operator has suspended this application. Nothing was signed. Ask the operator to resume the application.',
    )
}

/** Before all sign requests of a group, and before those that wait for one: what is frozen in it is frozen for them. */
const FREEZES_FIRST = -2
/** milliseconds that the clock behind a list may be ahead of ours */
const MAX_AHEAD_MS = 10_000

export function openFreezes({
  db,
  group,
  log,
  now,
  onFreeze = () => {},
}: {
  db: DatabaseSync
  group: RunGrouped
  log: Logger
  now: () => number
  /** what a freeze ends besides, also one that is there already: someone may have put it into the store; inside the transaction that keeps it */
  onFreeze?: (subject: string) => void
}): Freezes {
  const put = db.prepare('INSERT OR REPLACE INTO frozen (subject, by, at) VALUES (?, ?, ?)')
  const remove = db.prepare('DELETE FROM frozen WHERE subject = ?')
  const rows = db.prepare('SELECT subject, by, at FROM frozen').all() as FrozenSubject[]
  const frozen = new Map(rows.map(({ subject, by, at }) => [subject, { by, at } as Frozen]))
  const list = (): FrozenList => ({
    subjects: [...frozen]
      .map(([subject, { by, at }]) => ({ subject, by, at }))
      // What was frozen here first: a list may hold more than an answer.
      .toSorted((a, b) => a.by.localeCompare(b.by) || b.at - a.at)
      .slice(0, MAX_LISTED),
    total: frozen.size,
  })

  return {
    assertMoves({ chainId, userId }) {
      if (frozen.size === 0) return
      if (frozen.has(revoked.user(userId))) throw new Refusal('account_frozen', ACCOUNT_FROZEN)
      if (frozen.has(networkOf(chainId)) || frozen.has(EVERYTHING))
        throw new Refusal(
          'policy_denied',
          'The rule frozen rejects this transaction. Nothing was signed. Ask the operator to lift the freeze.',
          { rule: 'frozen' },
        )
    },
    assertKeyStays(userId) {
      if (frozen.size === 0) return
      if (frozen.has(revoked.user(userId))) throw new Refusal('account_frozen', ACCOUNT_FROZEN)
      if (frozen.has(EVERYTHING) || [...frozen.keys()].some((subject) => subject.startsWith('network ')))
        throw new Refusal(
          'policy_denied',
          'The rule frozen rejects key exports if a network or everything is frozen. Nothing was exported. Ask the operator to lift the freeze.',
        )
    },
    isApplicationFrozen: (clientId) => frozen.has(revoked.application(clientId)),
    async takeList(entries, issuedAt) {
      // A freeze from the future could not be lifted before its time came.
      const latest = Math.floor(issuedAt * 1_000) + MAX_AHEAD_MS
      const told = new Map<string, FrozenEntry>()
      for (const entry of entries.map(readFrozenEntry))
        if (entry !== null && entry.at >= (told.get(entry.subject)?.at ?? 0))
          told.set(entry.subject, { ...entry, at: entry.isFrozen ? Math.min(entry.at, latest) : entry.at })
      if (![...told.values()].some(isNews)) return
      // Judged anew inside the group: what is frozen here, or by a newer list, may have changed while this waited.
      await group(FREEZES_FIRST, () => {
        for (const entry of told.values())
          if (isNews(entry)) set(entry.subject, entry.isFrozen ? { by: 'list', at: entry.at } : null)
      })
    },
    async freeze(subject) {
      await group(FREEZES_FIRST, () => set(subject, { by: 'admin', at: now() }))
      return list()
    },
    async unfreeze(subject) {
      await group(FREEZES_FIRST, () => {
        const subjects =
          subject === LISTED ? [...frozen].filter(([, { by }]) => by === 'list').map(([one]) => one) : [subject]
        if (subjects.length === 0 || !frozen.has(subjects[0]!))
          throw new Refusal('bad_request', 'This subject is not frozen. Nothing was changed.')
        for (const one of subjects) set(one, null)
      })
      return list()
    },
    list,
  }

  /** Whether an entry of a list changes anything. What was frozen here no list touches. */
  function isNews({ subject, isFrozen, at }: FrozenEntry): boolean {
    const known = frozen.get(subject)
    if (known === undefined) return isFrozen
    return known.by === 'list' && known.at < at
  }

  /** Inside the group: what is asked in the same transaction after it finds it so. */
  function set(subject: string, to: Frozen | null): void {
    const isChange = (to === null) === frozen.has(subject)
    if (to === null) {
      frozen.delete(subject)
      remove.run(subject)
    } else {
      frozen.set(subject, to)
      put.run(subject, to.by, to.at)
      onFreeze(subject)
    }
    // Which person or application it is stays in the store; the log says that there was a change.
    if (isChange) log.warn(to === null ? 'unfrozen' : 'frozen', { kind: subject.split(' ', 1)[0]!, by: to?.by ?? null })
  }
}
