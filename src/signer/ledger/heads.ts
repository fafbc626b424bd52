import { hash } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import type { SignerIdentity } from '../keys/identity.ts'
import { LedgerDamaged } from '../refusal.ts'
import type { Tree } from './tree.ts'
import { isHeadOf } from '../../signer-wire/verifier.ts'
import { readSignedHead, type SignedHead } from '../../signer-wire/wire.ts'

/**
 * Signed heads of the ledger: the number of records, the Merkle root and the time. A head has the form of a
 * transparency log's checkpoint (C2SP tlog-checkpoint, a signed note). Each commit makes and stores a head. Answers
 * include the newest head, and anyone who retains it can show it later. A signer whose ledger does not continue a shown
 * head refuses to sign.
 */
export type Heads = {
  newest: () => string
  /**
   * signs the current end of the ledger, inside a transaction, before its commit. Does nothing if that end is signed
   * already
   */
  seal: () => void
  /** why the signer refuses: the ledger does not continue a head that this signer has signed; null if it may sign */
  behind: () => string | null
  /**
   * Checks a head that someone else has retained. If this signer signed the head and its ledger does not continue it,
   * the signer stops and stores the longest of these heads.
   * @returns whether this signer signed it
   */
  show: (note: string) => boolean
}

/**
 * Heads that were lost with an older store, and that the operator overruled: all of these sizes, both ends included,
 * signed before this time. Heads that the ledger signed later have the same sizes and are not overruled.
 */
export type Overruled = { from: number; to: number; before: number }

/**
 * Opens the heads of the ledger; inside a transaction.
 * @throws LedgerDamaged  if this signer did not sign the newest head in the store, or if the ledger does not end there
 */
export function openHeads({
  db,
  tree,
  identity,
  overruled,
  now,
}: {
  db: DatabaseSync
  tree: Tree
  identity: SignerIdentity
  overruled: readonly Overruled[]
  now: () => number
}): Heads {
  const put = db.prepare(
    'INSERT INTO heads (which, note) VALUES (?, ?) ON CONFLICT (which) DO UPDATE SET note = excluded.note',
  )
  const get = db.prepare('SELECT note FROM heads WHERE which = ?')
  let { note, size, at } = openNewest()
  const kept = readSignedHead((get.get('shown') as { note: string } | undefined)?.note ?? '')
  let reason = reasonOf(kept)
  let most = reason === null ? 0 : kept!.size

  return {
    newest: () => note,
    seal() {
      if (tree.size() !== size) ({ note, size, at } = sealAfter(at))
    },
    behind: () => reason,
    show(text) {
      const shown = readSignedHead(text)
      if (shown === null || !isHeadOf(identity, shown)) return false
      const found = reasonOf(shown)
      // Several servers may show heads; store the longest, because a restore overrules every head up to that size.
      if (found === null || shown.size <= most) return true
      put.run('shown', text)
      most = shown.size
      reason = found
      return true
    },
  }

  function openNewest(): { note: string; size: number; at: number } {
    const row = get.get('newest') as { note: string } | undefined
    if (row === undefined && identity.isNew) return sealAfter(0)
    // Without this check, a truncated ledger would look like a younger one.
    if (row === undefined) throw new LedgerDamaged('The newest head of the ledger is missing.')
    const head = readSignedHead(row.note)
    if (head === null || !isHeadOf(identity, head)) throw new LedgerDamaged('The newest head of the ledger was not signed by this signer.') // prettier-ignore
    if (head.size !== tree.size() || !head.root.equals(tree.root()))
      throw new LedgerDamaged(`The ledger does not end where its newest head says, at record ${head.size}.`)
    return { note: row.note, size: head.size, at: head.at }
  }

  /**
   * Signs a head. Its time is never before an earlier head, however the clock was set, because servers retain the head
   * with the latest time.
   */
  function sealAfter(earlier: number): { note: string; size: number; at: number } {
    const head = { size: tree.size(), root: tree.root(), at: Math.max(now(), earlier) }
    const sealed = signNote(head, identity)
    put.run('newest', sealed)
    return { note: sealed, size: head.size, at: head.at }
  }

  function reasonOf(shown: SignedHead | null): string | null {
    if (shown === null || !isHeadOf(identity, shown)) return null
    if (overruled.some(({ from, to, before }) => shown.size >= from && shown.size <= to && shown.at < before))
      return null
    if (shown.size > tree.size())
      return `The store is older than what it has answered for: ${shown.size} records, of which it has ${tree.size()}.`
    return tree.rootAt(shown.size).equals(shown.root)
      ? null
      : `The store is another one than that which has answered: its first ${shown.size} records are not those.`
  }
}

/** Signs a head; returns a signed note (C2SP signed-note) in the form of a checkpoint. */
export function signNote(head: { size: number; root: Buffer; at: number }, identity: SignerIdentity): string {
  const { origin, publicKey } = identity
  const text = `${origin}\n${head.size}\n${head.root.toString('base64')}\nat ${new Date(head.at).toISOString()}\n`
  const signature = Buffer.concat([keyIdOf(origin, publicKey), identity.sign(text)])
  return `${text}\n— ${origin} ${signature.toString('base64')}\n`
}

/** Computes a key id, C2SP signed-note: the first 4 bytes of the SHA-256 of the name, a newline, the key type (1: Ed25519) and the key. */
const keyIdOf = (name: string, publicKey: Buffer): Buffer =>
  hash('sha256', Buffer.concat([Buffer.from(`${name}\n`, 'utf8'), Buffer.of(1), publicKey]), 'buffer').subarray(0, 4)

/** Formats the public key for verifiers of signed notes. */
export const verifierKeyOf = ({ origin, publicKey }: Pick<SignerIdentity, 'origin' | 'publicKey'>): string =>
  `${origin}+${keyIdOf(origin, publicKey).toString('hex')}+${Buffer.concat([Buffer.of(1), publicKey]).toString('base64')}`
