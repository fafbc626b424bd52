import type { Heads } from '../ledger/heads.ts'
import { readSignedHead } from '../../signer-wire/wire.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { Refusal } from '../refusal.ts'
import { readProveRequest } from '../request.ts'
import type { Proof } from '../../signer-wire/wire.ts'

/**
 * Handles the verb `prove`: proves that a signed head covers a record, or that one head continues another (RFC 9162
 * §2.1.3 and §2.1.4). Needs no token, because a proof shows that a record exists, not its content.
 * Errors: bad_request, including for a record or size that the newest head does not cover.
 */
export function prove({ ledger, heads }: { ledger: Ledger; heads: Heads }, request: unknown): Proof {
  const asked = readProveRequest(request)
  const head = heads.newest()
  const newest = readSignedHead(head)!.size
  const size = ('seq' in asked ? asked.size : asked.to) ?? newest
  if (size > newest || ('seq' in asked ? asked.seq : asked.from) > size)
    throw new Refusal('bad_request', 'The request is not valid: the ledger has fewer records.')
  if ('from' in asked) return { size, proof: hexes(ledger.tree.consistency(asked.from, size)), head }
  const record = ledger.recordAt(asked.seq)!.toString('hex')
  return { size, record, proof: hexes(ledger.tree.inclusion(asked.seq - 1, size)), head }
}

const hexes = (hashes: Buffer[]): string[] => hashes.map((one) => one.toString('hex'))
