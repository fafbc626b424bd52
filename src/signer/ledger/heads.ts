import { hash } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import type { SignerIdentity } from '../keys/identity.ts'
import { LedgerDamaged } from '../refusal.ts'
import type { Tree } from './tree.ts'
import { isHeadOf } from '../../signer-wire/verifier.ts'
import { readSignedHead, type SignedHead } from '../../signer-wire/wire.ts'

/**
 * Where the ledger ends, signed: how many records, the root of the tree over them, and when, in the form of a checkpoint of
 * transparency logs (C2SP tlog-checkpoint, a signed note). One is made with each commit and lies in the store; the newest
 * goes out with the answers, and anyone who keeps it can show it: a signer whose ledger does not continue it refuses.
 */
export type Heads = {
  newest: () => string
  /** signs where the ledger ends now; inside a transaction, before its commit. Does nothing where that is signed already */
  seal: () => void
  /** why nothing is signed: the ledger does not continue a head that this signer has signed; null when it may sign */
  behind: () => string | null
  /**
   * A head that someone else has kept. One of this signer that its ledger does not continue stops it; the longest of them is kept.
   * @returns whether it is one of this signer
   */
  show: (note: string) => boolean
}

/**
 * Heads that were lost with an older store and overruled by its operator: of these sizes, both included, and signed before that.
 * What the ledger signed afterwards has the same sizes, and is not excused.
 */
export type Overruled = { from: number; to: number; before: number }

/**
 * Inside a transaction.
 * @throws LedgerDamaged  when the newest head in the store is not by this signer, or the ledger does not end there
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
      // Of several servers' heads the longest: a restore overrules what it covers.
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
    // Without it a ledger that was cut off would only look younger.
    if (row === undefined) throw new LedgerDamaged('The newest head of the ledger is missing.')
    const head = readSignedHead(row.note)
    if (head === null || !isHeadOf(identity, head)) throw new LedgerDamaged('The newest head of the ledger was not signed by this signer.') // prettier-ignore
    if (head.size !== tree.size() || !head.root.equals(tree.root()))
      throw new LedgerDamaged(`The ledger does not end where its newest head says, at record ${head.size}.`)
    return { note: row.note, size: head.size, at: head.at }
  }

  /** Never before an earlier head, wherever the clock was set: servers keep the newest by its time. */
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

export function signNote(head: { size: number; root: Buffer; at: number }, identity: SignerIdentity): string {
  const { origin, publicKey } = identity
  const text = `${origin}\n${head.size}\n${head.root.toString('base64')}\nat ${new Date(head.at).toISOString()}\n`
  const signature = Buffer.concat([keyIdOf(origin, publicKey), identity.sign(text)])
  return `${text}\n— ${origin} ${signature.toString('base64')}\n`
}

/** C2SP signed-note: the first 4 bytes of SHA-256 of the name, a newline, the kind of the key (1: Ed25519) and the key. */
const keyIdOf = (name: string, publicKey: Buffer): Buffer =>
  hash('sha256', Buffer.concat([Buffer.from(`${name}\n`, 'utf8'), Buffer.of(1), publicKey]), 'buffer').subarray(0, 4)

/** The public key in the form that readers of signed notes take. */
export const verifierKeyOf = ({ origin, publicKey }: Pick<SignerIdentity, 'origin' | 'publicKey'>): string =>
  `${origin}+${keyIdOf(origin, publicKey).toString('hex')}+${Buffer.concat([Buffer.of(1), publicKey]).toString('base64')}`
