import { toHex } from '../../hex.ts'
import type { Freezes } from '../tokens/freezes.ts'
import { exportInfo, type Exports } from './exports.ts'
import type { RunGrouped } from '../group.ts'
import { isPublicKey, newKeyPair, seal, unseal } from './hpke.ts'
import type { Keys } from '../keys/keys.ts'
import { IMPORTED, type Ledger } from '../ledger/ledger.ts'
import { Refusal } from '../refusal.ts'
import { readExportAllRequest, readImportRequest, type ImportedKey } from '../request.ts'
import type { SealedKey } from '../../signer-wire/wire.ts'

/**
 * Keys of many accounts, for operators who move in or out: asked on the socket of the signer's own user alone. Each is a record of
 * the ledger like any other.
 */
export type Bulk = {
  /** public key of this process that keys are sealed to on their way in, base64url */
  recipient: () => { recipient: string }
  /** Takes keys; each is opened, its address derived and compared. What does not fit is named, and the others come nevertheless. */
  take: (request: unknown) => Promise<{ outcomes: ImportOutcome[] }>
  /** Keys after a number of theirs, sealed to a recipient. @throws export_disabled, bad_request */
  give: (request: unknown) => Promise<GivenKeys>
}

/** null: it came; otherwise why it did not, or that it was there */
export type ImportOutcome = { userId: string; outcome: 'imported' | 'present' | 'refused'; reason: string | null }
export type GivenKeys = {
  keys: (SealedKey & { userId: string; address: string })[]
  refused: { userId: string; reason: string }[]
  /** where the next question continues */
  through: number
  isEnd: boolean
}

/** What binds a key that is on its way in. */
export const IMPORT = 'import'
/** Keys in one answer: 30 ms that a signature may wait for. */
const BATCH = 32
const FIRST = -1

export function openBulk({
  keys,
  ledger,
  group,
  freezes,
  exports,
  isGiving,
  now,
}: {
  keys: Keys
  ledger: Ledger
  group: RunGrouped
  freezes: Pick<Freezes, 'assertKeyStays'>
  exports: Pick<Exports, 'takenAlong'>
  /** SIGNER_EXPORT_ALL */
  isGiving: boolean
  now: () => number
}): Bulk {
  const own = newKeyPair()
  return {
    recipient: () => ({ recipient: own.getPublicKey('base64url') }),
    async take(request) {
      const asked = readImportRequest(request)
      keys.prepare()
      return group(FIRST, () => ({ outcomes: asked.map(takeOne) }))
    },
    async give(request) {
      const { recipient: text, batch, after } = readExportAllRequest(request)
      if (!isGiving) throw new Refusal('export_disabled', 'This signer exports no keys to operators. Nothing was exported. Set SIGNER_EXPORT_ALL to enable bulk export.') // prettier-ignore
      const recipient = Buffer.from(text, 'base64url')
      if (!isPublicKey(recipient)) throw new Refusal('bad_request', 'The recipient is not a public key.')
      return group(FIRST, () => giveSome({ recipient, batch, after }))
    },
  }

  function takeOne({ userId, address, enc, ciphertext }: ImportedKey): ImportOutcome {
    const refused = (reason: string): ImportOutcome => ({ userId, outcome: 'refused', reason })
    const there = keys.ofUser(userId)
    if (there !== null && !there.address.equals(address)) return refused('the signer has another account of this user')
    if (there !== null) return { userId, outcome: 'present', reason: null }
    if (keys.ofAddress(address) !== null) return refused('the signer has this address under another user')
    if (ledger.hasAccount(userId)) return refused('the signer has lost a key of this user: restore-keys first')
    let key: Buffer
    try {
      key = unseal(own, { enc, ciphertext }, { info: exportInfo({ userId, address, id: IMPORT }) })
    } catch {
      return refused('it was not sealed to this signer')
    }
    try {
      if (!keys.bring({ userId, address }, key)) return refused('its key gives another address')
    } finally {
      key.fill(0)
    }
    ledger.append({ at: now(), kind: 'account', userId, address, rule: IMPORTED })
    return { userId, outcome: 'imported', reason: null }
  }

  function giveSome({ recipient, batch, after }: { recipient: Buffer; batch: string; after: number }): GivenKeys {
    const { accounts, through } = keys.page(after, BATCH)
    const given: GivenKeys = { keys: [], refused: [], through, isEnd: accounts.length < BATCH }
    const evidence = JSON.stringify({ request: batch, recipient: recipient.toString('base64url') })
    for (const account of accounts) {
      const { userId, address } = account
      try {
        freezes.assertKeyStays(userId)
        const info = exportInfo({ userId, address, id: batch })
        const { enc, ciphertext } = keys.use(account, (key) => seal(recipient, key, { info }))
        const sealed = { enc: enc.toString('base64url'), ciphertext: ciphertext.toString('base64url') }
        exports.takenAlong(userId)
        ledger.append({
          at: now(),
          kind: 'export',
          userId,
          address,
          rule: 'export-by-operator',
          tokenId: null,
          evidence,
        })
        given.keys.push({ userId, address: toHex(address), ...sealed })
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        given.refused.push({ userId, reason: error.message })
      }
    }
    return given
  }
}
