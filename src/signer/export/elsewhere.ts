import type { SignerIdentity } from '../keys/identity.ts'
import { TOLD } from '../ledger/ledger.ts'
import type { NewEntry } from '../ledger/record.ts'
import type { Verifier } from '../../signer-wire/verifier.ts'
import type { HeldElsewhere, Hex } from '../../signer-wire/wire.ts'

/*
 * Statements that the key of an account is also held elsewhere, because it was exported or imported. The signer signs one from a
 * verified record of its ledger, and the server stores it. A signer with an older ledger restores the fact from the statement.
 * Nobody else can make one, so a server can only report what has happened.
 */

type Of = { userId: string; address: Uint8Array }
type Since = Pick<HeldElsewhere, 'at' | 'isBrought'>

/**
 * Formats the text of a statement. `origin` binds it to one signer, and its first line distinguishes it from anything else that an
 * identity key signs.
 */
function textOf(origin: string, { userId, address }: Of, { at, isBrought }: Since): string {
  const kind = isBrought ? 'imported' : 'exported'
  return `chatelaine key elsewhere 1\n${origin}\n${userId}\n0x${Buffer.from(address).toString('hex')}\n${kind} ${at}\n`
}

/** Signs a statement that a key was exported or imported. */
export function stateElsewhere(
  identity: Pick<SignerIdentity, 'origin' | 'sign'>,
  key: Of & { at: number; isBrought: boolean },
): HeldElsewhere {
  const { userId, at, isBrought } = key
  const statement: Hex = `0x${identity.sign(textOf(identity.origin, key, key)).toString('hex')}`
  return { userId, at, isBrought, statement }
}

/** Verifies a statement for the account as the store has it; a statement for another address proves nothing about this one. */
export const isStatedElsewhere = (by: Verifier, account: Of, said: Omit<HeldElsewhere, 'userId'>): boolean =>
  by.isSigned(textOf(by.origin, account, said), Buffer.from(said.statement.slice(2), 'hex'))

/** Creates the ledger record of a verified statement. `now`: when the ledger appends it. `origin`: the signer that stated it. */
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
