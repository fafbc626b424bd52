/**
 * signer/export: export and import of keys.
 * Owns: a user's request for a key and its delay, the import and export of many keys, the encryption of both.
 * Does not own: the pages for users (`oauth/account/export.ts`), the commands (`signer/programs/verify.ts` and others).
 */

import { toHex } from '../../hex.ts'
import { randomUUID } from 'node:crypto'
import { BoundedMap } from '../../bounded-map.ts'
import type { Logger } from '../../log.ts'
import { canonical } from '../canonical.ts'
import { isStatedElsewhere, recordElsewhere, stateElsewhere } from './elsewhere.ts'
import type { ExportChain } from './export-chain.ts'
import { EVERYONE, type ExportRecord, type ExportRecords } from './export-records.ts'
import type { ExportTokens } from './export-tokens.ts'
import type { Freezes } from '../tokens/freezes.ts'
import type { RunGrouped } from '../group.ts'
import { seal } from './hpke.ts'
import type { SignerIdentity } from '../keys/identity.ts'
import type { Keys } from '../keys/keys.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { LedgerDamaged, Refusal } from '../refusal.ts'
import {
  readAfterRequest,
  readCancelExportRequest,
  readCreateAccountRequest,
  readExportRequest,
  readHeldElsewhereRequest,
} from '../request.ts'
import { isSqliteError } from '../store.ts'
import {
  MAX_HELD,
  MAX_OPEN_EXPORTS,
  type ExportedPage,
  type HeldElsewhere,
  type KeyExport,
  type OpenExport,
  type SealedKey,
  type Verbs,
} from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/**
 * A user's key export: a request with a recent sign-in, a delay, and a second recent sign-in. The signer counts the delay by its
 * own clock and ledger. It encrypts the key to a public key that the second token names. Anyone may cancel in between, and a freeze
 * cancels. No server setting can shorten this.
 */
export type Exports = {
  ask: (request: unknown) => Promise<KeyExport>
  /** needs no token, because it only prevents an export. Errors: bad_request, rate_limited. */
  cancel: (request: unknown) => Promise<KeyExport>
  take: (request: unknown) => Promise<Verbs['takeKey']['answer']>
  stateOf: (request: unknown) => KeyExport
  /** Handles the verb `exported`. Errors: bad_request. */
  since: (request: unknown) => ExportedPage
  /** Handles the verb `heldElsewhere`. Errors: bad_request. */
  told: (request: unknown) => Promise<Verbs['heldElsewhere']['answer']>
  /** open requests and those with an altered record: the newest 500, oldest first, and the total number */
  open: () => { exports: OpenExport[]; total: number }
  /** cancels the requests that a freeze concerns, even if one of their records cannot be read; inside a transaction */
  frozen: (subject: string) => void
  /** ends the user's request when an operator exports the key; inside a transaction */
  takenAlong: (userId: string) => void
}

const DAY_MS = 86_400_000
/** How long a key may be fetched after its delay, so that a forgotten request does not remain open. */
const LAPSES_AFTER_MS = 7 * DAY_MS
/** cancellations per user and day when no request is open */
const MAX_IN_VAIN = 10
type Ender = 'person' | 'operator' | 'freeze' | 'export-all'

/** Exports run before signatures, like new accounts. */
const FIRST = -1

const NOTHING_ASKED = { id: null, askedAt: null, readyAt: null, lapsesAt: null }

/** Opens the key export of users. */
export function openExports({
  keys,
  ledger,
  records,
  chain,
  group,
  freezes,
  tokens,
  delaySeconds,
  now,
  log,
  identity,
}: {
  keys: Keys
  ledger: Ledger
  identity: Omit<SignerIdentity, 'isNew'>
  records: ExportRecords
  chain: ExportChain
  group: RunGrouped
  freezes: Pick<Freezes, 'assertKeyStays'>
  tokens: ExportTokens
  /** null: export is disabled */
  delaySeconds: number | null
  now: () => number
  log: Logger
}): Exports {
  /** by user id, for the most recent users only */
  const inVain = new BoundedMap<string, { day: number; count: number }>(10_000)
  return {
    async ask(request) {
      const { token } = readExportRequest(request)
      const caller = await tokens.check(token, 'ask')
      return group(FIRST, () => {
        const account = admitted(caller.userId)
        const before = stateNow(account.userId)
        // Only one request may be open. Asking again neither restarts nor extends it.
        if (before.state !== 'none') return before
        if (records.isUsed(account.userId, caller.jti)) throw used()
        const at = now()
        const readyAt = at + delaySeconds! * 1_000
        const evidence = { ...caller.evidence, request: randomUUID(), ready_at: readyAt }
        append('export-request', 'export-asked', account, { at, tokenId: caller.jti, evidence })
        return stateNow(account.userId)
      })
    },
    async cancel(request) {
      const { userId, by } = readCancelExportRequest(request)
      return group(FIRST, () => {
        const last = readable(() => records.newest(userId))
        const isInVain = last !== 'damaged' && !isUnderWay(last)
        if (by === 'person' && isInVain) countInVain(userId)
        cancel(userId, by, last)
        return stateNow(userId)
      })
    },
    async take(request) {
      const { token } = readExportRequest(request)
      const caller = await tokens.check(token, 'take')
      // Verify most records before the group's turn, because all signatures wait for it.
      const opened = records.newest(caller.userId)
      if (opened?.request === caller.request && isReady(opened)) await chain.look(opened)
      return group(FIRST, () => {
        const account = admitted(caller.userId)
        const { recipient, request: id } = caller
        const done = records.exported(account.userId)
        // The answer was lost. The holder of the recipient's private key was already entitled to the key.
        const isAgain = done !== null && done.request === id && done.recipient === recipient.toString('base64url')
        const sealed = { ...sealTo(account, recipient, id), address: toHex(account.address), id }
        if (isAgain) return sealed
        const state = stateNow(account.userId)
        if (state.id !== id || records.isUsed(account.userId, caller.jti)) throw used()
        if (state.state !== 'ready')
          throw new Refusal(
            'export_not_ready',
            'The delay of this export is not over by the signer’s clock. Nothing was exported. Wait for the end of the delay.',
          )
        // The request's own record is not enough: an attacker may have removed the record that cancelled it.
        chain.assertOpen(records.newest(account.userId)!)
        const evidence = { ...caller.evidence, request: id, recipient: recipient.toString('base64url') }
        append('export', 'export-by-person', account, { at: now(), tokenId: caller.jti, evidence })
        return sealed
      })
    },
    stateOf(request) {
      const { userId } = readCreateAccountRequest(request)
      const last = records.newest(userId)
      // The user may fetch the key soon, so verify ahead; `take` reports errors.
      if (last !== null && isReady(last)) void chain.look(last).catch(() => {})
      return stateNow(userId)
    },
    since(request) {
      const { after } = readAfterRequest(request)
      const { left, head } = records.since(after, { within: MAX_RECORDS, most: MAX_HELD })
      const exported = left.map((key) => stateElsewhere(identity, key))
      const through = left.length === MAX_HELD ? left.at(-1)!.seq : Math.min(after + MAX_RECORDS, head)
      return { exported, through, isEnd: through === head, restored: ledger.restored?.toString('hex') ?? '' }
    },
    async told(request) {
      const proven: { account: KeptAccount; told: HeldElsewhere }[] = []
      let refused = 0
      for (const told of readHeldElsewhereRequest(request)) {
        const account = keys.ofUser(told.userId)
        if (account === null || ledger.isHeldElsewhere(told.userId)) continue
        if (isStatedElsewhere(identity, account, told)) proven.push({ account, told })
        else refused += 1
      }
      if (refused > 0) log.warn('key_exports_rejected', { accounts: refused })
      if (proven.length === 0) return { taken: 0, refused }
      return group(FIRST, () => {
        // Another server may have sent the same statement in between.
        const missing = proven.filter(({ told }) => !ledger.isHeldElsewhere(told.userId))
        for (const { account, told } of missing) ledger.append(recordElsewhere(identity.origin, account, { ...told, now: now() })) // prettier-ignore
        return { taken: missing.length, refused }
      })
    },
    open() {
      // Filter before the list is cut: an expired request has no record of its end and must not take a place.
      const open = records.open().filter((userId) => {
        const last = readable(() => records.newest(userId))
        return last === 'damaged' || isUnderWay(last)
      })
      const exports = open.slice(-MAX_OPEN_EXPORTS).map((userId): OpenExport => {
        const state = readable(() => stateNow(userId))
        return state === 'damaged'
          ? { ...NOTHING_ASKED, state, exportedAt: null, delaySeconds, userId }
          : { ...state, userId }
      })
      return { exports, total: open.length }
    },
    frozen(subject) {
      const [kind, userId] = [subject.split(' ', 1)[0]!, subject.slice('user '.length)]
      if (kind === 'user') cancel(userId, 'freeze')
      if (kind !== 'everything' && kind !== 'network') return
      for (const one of records.open()) cancelOpen(one, 'freeze')
      cancel(EVERYONE, 'freeze')
    },
    takenAlong: (userId) => cancelOpen(userId, 'export-all'),
  }

  /** Returns the account whose key may be exported. @throws export_disabled, account_frozen, policy_denied, unknown_account */
  function admitted(userId: string): KeptAccount {
    if (delaySeconds === null)
      throw new Refusal(
        'export_disabled',
        'This signer exports no keys. Nothing was exported. An operator can enable key export: SIGNER_EXPORT.',
      )
    freezes.assertKeyStays(userId)
    const account = keys.ofUser(userId)
    if (account === null) throw new Refusal('unknown_account', 'The signer does not have this account.')
    return account
  }

  function stateNow(userId: string): KeyExport {
    const exportedAt = records.exported(userId)?.at ?? null
    const settled = { ...NOTHING_ASKED, state: 'none' as const, exportedAt, delaySeconds }
    const last = records.newest(userId)
    if (!isUnderWay(last)) return settled
    const { at: askedAt, readyAt, request: id } = last
    const lapsesAt = readyAt + LAPSES_AFTER_MS
    return { ...settled, state: now() < readyAt ? 'waiting' : 'ready', id, askedAt, readyAt, lapsesAt }
  }

  function isUnderWay(record: ExportRecord | null): record is ExportRecord & { request: string } {
    return record?.kind === 'export-request' && now() <= record.readyAt + LAPSES_AFTER_MS
  }

  function isReady(record: ExportRecord): boolean {
    return isUnderWay(record) && now() >= record.readyAt
  }

  /** Returns 'damaged' instead of throwing if a record cannot be read, for work that also concerns others or that ends a request. */
  function readable<T>(read: () => T): T | 'damaged' {
    try {
      return read()
    } catch (error) {
      if (isSqliteError(error)) throw error
      log.error('export_record_damaged', { reason: error instanceof LedgerDamaged ? error.message : null }, error)
      return 'damaged'
    }
  }

  /**
   * Cancels the user's open request. A request that cannot be read is cancelled as well, because it would be open again if its
   * record were repaired.
   */
  function cancelOpen(userId: string, by: Ender): void {
    const last = readable(() => records.newest(userId))
    if (last === 'damaged' || isUnderWay(last)) cancel(userId, by, last)
  }

  /**
   * Records a cancellation even if no request or account is found. An attacker who can write the store could hide either and
   * restore it later; the record ends the request nevertheless (export-chain.ts).
   */
  function cancel(userId: string, by: Ender, last = readable(() => records.newest(userId))): void {
    const { address } = keys.ofUser(userId) ?? { address: Buffer.alloc(0) }
    const evidence = { request: last !== 'damaged' && isUnderWay(last) ? last.request : null }
    append('export-cancel', `export-cancelled-by-${by}`, { userId, address }, { at: now(), tokenId: null, evidence })
  }

  /**
   * Limits cancellations without an open request. Each remains in the ledger forever, so a user who clicks repeatedly would fill
   * it.
   * @throws rate_limited
   */
  function countInVain(userId: string): void {
    const day = Math.floor(now() / DAY_MS)
    const before = inVain.get(userId)
    const count = before?.day === day ? before.count : 0
    if (count >= MAX_IN_VAIN)
      throw new Refusal(
        'rate_limited',
        'Several export requests were cancelled today. Nothing was exported. Retry tomorrow.',
      )
    inVain.set(userId, { day, count: count + 1 })
  }

  function append(
    kind: 'export-request' | 'export-cancel' | 'export',
    rule: string,
    { userId, address }: Pick<KeptAccount, 'userId' | 'address'>,
    { at, tokenId, evidence }: { at: number; tokenId: string | null; evidence: object },
  ): void {
    ledger.append({ at, kind, userId, address, rule, tokenId, evidence: JSON.stringify(evidence) })
  }

  function sealTo(account: KeptAccount, recipient: Buffer, id: string): SealedKey {
    const { userId, address } = account
    const info = exportInfo({ userId, address, id })
    const { enc, ciphertext } = keys.use(account, (key) => seal(recipient, key, { info }))
    return { enc: enc.toString('base64url'), ciphertext: ciphertext.toString('base64url') }
  }
}

/** Records that one request scans: a few milliseconds that a signature may have to wait. */
const MAX_RECORDS = 4_000

const used = (): Refusal =>
  new Refusal(
    'invalid_token',
    'The token is for another export, or was already used. Nothing was exported. Ask the user to sign in again.',
  )

/** Returns the bytes that bind an encrypted key to its user, address and request. */
export const exportInfo = ({ userId, address, id }: { userId: string; address: Uint8Array; id: string }): Buffer =>
  canonical('chatelaine key export 1', userId, address, id)
