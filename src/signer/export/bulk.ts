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
 * Imports and exports the keys of many accounts, for operators who migrate to or from another system. Only the signer's own OS user
 * can request it, on the admin socket. Each key gets a record in the ledger.
 */
export type Bulk = {
  /** this process's public key that imported keys are encrypted to, base64url */
  recipient: () => { recipient: string }
  /**
   * Imports keys: decrypts each and compares its derived address. A key that does not match is refused by name; the others are
   * imported.
   */
  take: (request: unknown) => Promise<{ outcomes: ImportOutcome[] }>
  /** Exports keys after a row number, encrypted to a recipient. @throws export_disabled, bad_request */
  give: (request: unknown) => Promise<GivenKeys>
}

/** The outcome of one imported key. `reason` says why it was refused; otherwise null. */
export type ImportOutcome = { userId: string; outcome: 'imported' | 'present' | 'refused'; reason: string | null }
export type GivenKeys = {
  keys: (SealedKey & { userId: string; address: string })[]
  refused: { userId: string; reason: string }[]
  /** the `after` of the next request */
  through: number
  isEnd: boolean
}

/** The request id that binds imported keys (`exportInfo`). */
export const IMPORT = 'import'
/** Keys per answer: 30 ms that a signature may have to wait. */
const BATCH = 32
const FIRST = -1

/** Opens the import and export of many keys, with a new key pair that imported keys are encrypted to. */
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
  /** the setting SIGNER_EXPORT_ALL */
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
