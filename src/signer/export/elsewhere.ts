import type { SignerIdentity } from '../keys/identity.ts'
import { TOLD } from '../ledger/ledger.ts'
import type { NewEntry } from '../ledger/record.ts'
import type { Verifier } from '../../signer-wire/verifier.ts'
import type { HeldElsewhere, Hex } from '../../signer-wire/wire.ts'

/*
 * That the key of an account is elsewhere, too: it left from here, or was brought. The signer signs it from a record of its ledger that was
 * checked, the server keeps it, and a signer whose ledger is older is told by it. Nobody else can make one: a server can tell no more than
 * what has happened.
 */

type Of = { userId: string; address: Uint8Array }
type Since = Pick<HeldElsewhere, 'at' | 'isBrought'>

/** By `origin` it is of one signer only, and by its first line nothing else that an identity signs. */
function textOf(origin: string, { userId, address }: Of, { at, isBrought }: Since): string {
  const kind = isBrought ? 'imported' : 'exported'
  return `chatelaine key elsewhere 1\n${origin}\n${userId}\n0x${Buffer.from(address).toString('hex')}\n${kind} ${at}\n`
}

export function stateElsewhere(
  identity: Pick<SignerIdentity, 'origin' | 'sign'>,
  key: Of & { at: number; isBrought: boolean },
): HeldElsewhere {
  const { userId, at, isBrought } = key
  const statement: Hex = `0x${identity.sign(textOf(identity.origin, key, key)).toString('hex')}`
  return { userId, at, isBrought, statement }
}

/** For the account as the store has it: a statement for another address proves nothing of this one. */
export const isStatedElsewhere = (by: Verifier, account: Of, said: Omit<HeldElsewhere, 'userId'>): boolean =>
  by.isSigned(textOf(by.origin, account, said), Buffer.from(said.statement.slice(2), 'hex'))

/** `now`: when the ledger learns of it. `origin`: whose word it is. */
export const recordElsewhere = (
  origin: string,
  { userId, address }: { userId: string; address: Buffer },
  { at, isBrought, statement, now }: Omit<HeldElsewhere, 'userId'> & { now: number },
): NewEntry => ({
  at: now,
  kind: 'export',
  userId,
  address,
  tokenId: null,
  rule: isBrought ? TOLD.imported : TOLD.exported,
  evidence: JSON.stringify({ request: null, left_at: at, origin, statement }),
})
