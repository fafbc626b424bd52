import { readFileSync, statSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import type { Logger } from '../../log.ts'
import type { Freezes } from '../tokens/freezes.ts'
import type { RunGrouped } from '../group.ts'
import { LOOKED_AT, policyFault } from './kept-policy.ts'
import type { Macs } from '../ledger/macs.ts'
import { readOffer, readPolicyVersion, type PolicyVersion } from '../policy/accept.ts'
import { MAX_POLICY_BYTES } from '../policy/document.ts'
import { PolicyInvalid } from '../policy/json.ts'
import { policyTrustOf, readPolicyTrust } from './policy-trust.ts'
import { Refusal, StartError } from '../refusal.ts'
import type { PolicyHealth } from '../../signer-wire/wire.ts'
import { every, type Clock } from '../../clock.ts'

/** The policy in force: the newest usable policy that the file has contained. */
export type PolicyInForce = {
  /** null: there never was a policy, and only the built-in rules decide */
  current: () => PolicyVersion | null
  health: () => PolicyHealth
  /** reads the file now, in addition to every second */
  look: () => Promise<void>
  close: () => void
}

const LOOK_EVERY_MS = 1_000
/** Policy changes precede all waiting jobs, because they may contain freezes (freezes.ts). */
const FIRST = -2
/** A JWS is a third longer than its document, plus its signatures. */
const MAX_FILE_BYTES = 2 * MAX_POLICY_BYTES

/**
 * Opens the stored policy in force. A file that is missing, edited or older does not change it, even after a restart.
 * Removing the setting does not disable it.
 * @throws StartError  if a policy is configured and no usable one was ever in force, or if a newer policy decided the
 *   ledger:
 * transactions that the newer policy forbids would be signed
 * @throws LedgerDamaged  if this signer did not write the record that names the deciding policy
 */
export function openPolicyInForce({
  clock,
  db,
  macs,
  group,
  file,
  folder,
  isDevelopment,
  log,
}: {
  clock: Clock
  db: DatabaseSync
  macs: Macs
  group: RunGrouped
  file: string | undefined
  folder: string
  isDevelopment: boolean
  log: Logger
}): PolicyInForce {
  const put = db.prepare('INSERT OR REPLACE INTO policy (only_row, document) VALUES (1, ?)')
  const kept = db.prepare('SELECT document FROM policy').get() as { document: string } | undefined
  let inForce = kept === undefined ? null : readKept(kept.document)
  let since = clock.wall()
  let state: NonNullable<PolicyHealth>['state'] = 'kept'
  let seen = ''
  let told = ''

  if (file !== undefined) {
    const offer = readNow()
    if (offer !== null) take(offer)
    if (inForce === null)
      throw new StartError(`SIGNER_POLICY_FILE cannot be used, and no policy was in force before: ${told}.`)
  }
  const fault = policyFault(db, inForce, { most: LOOKED_AT, macs })
  if (fault !== null) throw new StartError(`${fault} Put the newest signed policy at SIGNER_POLICY_FILE.`)
  // Timers use a monotonic clock, so setting the wall clock back delays no freeze.
  const rounds = file === undefined ? null : every(clock, LOOK_EVERY_MS, lookOnce)

  return {
    current: () => inForce,
    health: () =>
      inForce && {
        version: inForce.document.version,
        hash: inForce.hash,
        state,
        rules: inForce.document.rules.length,
        asksUsers: inForce.document.rules.some(({ effect }) => effect === 'require'),
        since,
        problem: told === '' ? null : told,
      },
    look: () => rounds?.round() ?? Promise.resolve(),
    close: () => void rounds?.stop(),
  }

  async function lookOnce(): Promise<void> {
    const offer = readNow()
    if (offer !== null) await group(FIRST, () => take(offer))
  }

  /** Reads the file; null if it has nothing newer. */
  function readNow(): PolicyVersion | null {
    try {
      // The stamp includes the trusted keys: with other keys, an unchanged file may become a valid policy.
      const stamp = `${stampOf(file!)} ${stampOf(policyTrustOf(folder))}`
      if (stamp === seen) return null
      const { size } = statSync(file!)
      if (size > MAX_FILE_BYTES) throw new PolicyInvalid('', `it is over ${MAX_FILE_BYTES} bytes`)
      const read = readOffer(readFileSync(file!, 'utf8'), {
        inForce,
        trust: readPolicyTrust(folder),
        isPlainTaken: isDevelopment,
      })
      seen = stamp
      if (read.is === 'newer') return read.offer
      ;[state, told] = ['file', '']
    } catch (error) {
      refuse(error)
    }
    return null
  }

  function take(offer: PolicyVersion): void {
    put.run(offer.text)
    const before = inForce?.document.version ?? null
    inForce = offer
    since = clock.wall()
    ;[state, told] = ['file', '']
    log.warn('policy_changed', { version: offer.document.version, before, hash: offer.hash })
  }

  /** Logs each reason once: the file is read again every second, and may be half written. */
  function refuse(error: unknown): void {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    const isOurs = error instanceof PolicyInvalid || error instanceof StartError
    const problem = isOurs ? error.message : isMissing ? 'it is missing' : 'it cannot be read'
    state = isMissing ? 'missing' : 'refused'
    seen = ''
    if (problem === told) return
    told = problem
    log.warn('policy_refused', { problem, inForce: inForce?.document.version ?? null })
  }
}

/** Reads the stored policy. @throws StartError  because without it, the signer could sign what the policy forbids */
function readKept(document: string): PolicyVersion {
  try {
    return readPolicyVersion(document)
  } catch (error) {
    if (!(error instanceof PolicyInvalid)) throw error
    throw new StartError(`The stored policy in SIGNER_DIR cannot be read: ${error.message}.`, error)
  }
}

/** Returns a stamp that changes with the file; '' if there is no file. */
function stampOf(path: string): string {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
  return stat === undefined ? '' : `${stat.mtimeNs} ${stat.size} ${stat.ino}`
}

/** Combines freezes with the freezes of the policy in force, which apply as long as the policy names them. */
export function withPolicyFreezes(
  freezes: Freezes,
  policy: Pick<PolicyInForce, 'current'>,
): Pick<Freezes, 'assertMoves' | 'assertKeyStays' | 'isApplicationFrozen'> {
  const freeze = () => policy.current()?.document.freeze
  return {
    assertMoves(who) {
      freezes.assertMoves(who)
      const { users, chains, everything } = freeze() ?? {}
      if (users?.has(who.userId) === true)
        throw new Refusal(
          'account_frozen',
          'The operator has frozen this account by policy. Nothing was sent. Ask the operator to unfreeze the account.',
        )
      if (chains?.has(who.chainId) === true || everything === true)
        throw new Refusal(
          'policy_denied',
          'The rule frozen rejects this transaction. Nothing was signed. Ask the operator to lift the freeze.',
        )
    },
    assertKeyStays(userId) {
      freezes.assertKeyStays(userId)
      const { users, chains, everything } = freeze() ?? {}
      if (users?.has(userId) === true)
        throw new Refusal(
          'account_frozen',
          'The operator has frozen this account by policy. Nothing was sent. Ask the operator to unfreeze the account.',
        )
      if ((chains?.size ?? 0) > 0 || everything === true)
        throw new Refusal(
          'policy_denied',
          'The rule frozen rejects key exports if a network or everything is frozen. Nothing was exported. Ask the operator to lift the freeze.',
        )
    },
    isApplicationFrozen: (clientId) =>
      freezes.isApplicationFrozen(clientId) || freeze()?.clients.has(clientId) === true,
  }
}
