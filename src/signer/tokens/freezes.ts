import type { DatabaseSync } from 'node:sqlite'
import type { Logger } from '../../log.ts'
import type { RunGrouped } from '../group.ts'
import { ACCOUNT_FROZEN } from '../../errors.ts'
import { Refusal } from '../refusal.ts'
import { readFrozenEntry, revoked, type FrozenEntry } from '../../signer-wire/wire.ts'

/** The source of a freeze: a list of the authorization server, or the signer's operator on the admin socket. */
type By = 'list' | 'admin'
type Frozen = { by: By; at: number }

/** A frozen subject, as the admin socket shows it; `at` is milliseconds since 1970. */
type FrozenSubject = { subject: string; by: By; at: number }
/** At most 500 subjects, and the total number. */
export type FrozenList = { subjects: FrozenSubject[]; total: number }

/**
 * Freezes: a user, an application, a network or everything. A frozen subject signs nothing, whatever token is shown.
 *
 * Freezes are sticky. A list that merely lacks a freeze does not lift it, because its database may be a restored copy that is older
 * than the incident. A freeze by a list is lifted by a list entry with a later time. A freeze by the signer's operator is lifted
 * only by that operator.
 */
export type Freezes = {
  /** checked before every signature. @throws account_frozen, policy_denied */
  assertMoves: (who: { chainId: number; userId: string }) => void
  /** checked before a key is exported, because it could be used on any network. @throws account_frozen, policy_denied */
  assertKeyStays: (userId: string) => void
  isApplicationFrozen: (clientId: string) => boolean
  /** applies the freezes of a list; all of them are stored before this resolves */
  takeList: (entries: readonly string[], issuedAt: number) => Promise<void>
  /** @param subject  `user ID`, `application ID`, `network CHAIN_ID` or `everything` */
  freeze: (subject: string) => Promise<FrozenList>
  /** @param subject  like `freeze`, or `lists`: every freeze by a list. @throws bad_request  if it is not frozen */
  unfreeze: (subject: string) => Promise<FrozenList>
  list: () => FrozenList
}

const EVERYTHING = 'everything'
const networkOf = (chainId: number): string => `network ${chainId}`

/** subjects per answer, so that it fits into a frame: a subject has at most 288 characters */
const MAX_LISTED = 500
const LISTED = 'lists'

/**
 * Rejects a subject whose freeze would have no effect, such as a misspelt user id.
 * @throws bad_request
 */
export function assertFreezable(subject: string, hasUser: (userId: string) => boolean): void {
  if (subject === LISTED)
    throw new Refusal('bad_request', '`lists` can only name a freeze that exists, to lift that freeze.')
  if (subject.startsWith('user ') && !hasUser(subject.slice('user '.length)))
    throw new Refusal('bad_request', `${subject}: the signer has no account for this user. \`chatelaine account freeze\` also accepts the linked user ids.`) // prettier-ignore
}

/** Rejects an application that is frozen. @throws application_suspended */
export function assertNotSuspended(freezes: Pick<Freezes, 'isApplicationFrozen'>, clientId: string | null): void {
  if (clientId !== null && freezes.isApplicationFrozen(clientId))
    throw new Refusal(
      'application_suspended',
      'The operator has suspended this application. Nothing was signed. Ask the operator to resume the application.',
    )
}

/** Runs before all sign requests of a group and of later groups, so the freeze applies to them. */
const FREEZES_FIRST = -2
/** milliseconds that the clock of a list's issuer may be ahead of the signer's clock */
const MAX_AHEAD_MS = 10_000

/** Opens the freezes of a store. */
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
  /**
   * called for each freeze, in the transaction that stores it. It is called even for a subject that is already frozen, because that
   * row may have been inserted into the store
   */
  onFreeze?: (subject: string) => void
}): Freezes {
  const put = db.prepare('INSERT OR REPLACE INTO frozen (subject, by, at) VALUES (?, ?, ?)')
  const remove = db.prepare('DELETE FROM frozen WHERE subject = ?')
  const rows = db.prepare('SELECT subject, by, at FROM frozen').all() as FrozenSubject[]
  const frozen = new Map(rows.map(({ subject, by, at }) => [subject, { by, at } as Frozen]))
  const list = (): FrozenList => ({
    subjects: [...frozen]
      .map(([subject, { by, at }]) => ({ subject, by, at }))
      // Operator freezes come first, because the lists' freezes may exceed one answer.
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
      // A freeze dated in the future could not be lifted before that time.
      const latest = Math.floor(issuedAt * 1_000) + MAX_AHEAD_MS
      const told = new Map<string, FrozenEntry>()
      for (const entry of entries.map(readFrozenEntry))
        if (entry !== null && entry.at >= (told.get(entry.subject)?.at ?? 0))
          told.set(entry.subject, { ...entry, at: entry.isFrozen ? Math.min(entry.at, latest) : entry.at })
      if (![...told.values()].some(isNews)) return
      // Check again inside the group: an operator's freeze or a newer list may have arrived in between.
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

  /** Returns whether a list entry changes anything. Lists do not affect freezes by the operator. */
  function isNews({ subject, isFrozen, at }: FrozenEntry): boolean {
    const known = frozen.get(subject)
    if (known === undefined) return isFrozen
    return known.by === 'list' && known.at < at
  }

  /** Applies a freeze or lifts it; inside the group, so later jobs of the same transaction see it. */
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
    // The log shows the kind of the subject; only the store shows which user or application it is.
    if (isChange)
      log.warn(to === null ? 'freeze_lifted' : 'freeze_set', { kind: subject.split(' ', 1)[0]!, by: to?.by ?? null })
  }
}
