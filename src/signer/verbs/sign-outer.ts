import type { SignedAuthorization } from '../../gas/authorization.ts'
import { isDelegate } from '../../gas/addresses.ts'
import type { GasOperation } from '../../gas/operation.ts'
import { authorities } from '../rules/authority.ts'
import { assertNotSuspended } from '../tokens/freezes.ts'
import { askGas } from '../rules/gas-limits.ts'
import { readOuterRequest, type CarriedOrder, type OuterOrder } from './operation-request.ts'
import { signInTurn, type Inside } from './pipeline.ts'
import { decide, pass } from '../rules/policy.ts'
import { OUTER } from '../ledger/record.ts'
import { ofOperation, Refusal } from '../refusal.ts'
import type { SignOrder } from '../request.ts'
import { draftTransaction, isOuter, type WantedTransaction } from './sign.ts'
import { isSponsor } from '../tokens/sponsor.ts'
import type { Signed } from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/**
 * Handles the verb `signOuter`: signs a sponsor transaction to the dispatcher, with value 0. It needs no token, because users
 * agreed to each operation in it. Each operation must be in the ledger byte for byte, for this network, before its deadline, and
 * its user and application not frozen. Each authorization must be in the ledger as well. A nonce has one effect forever, and the
 * authorizations are part of it. A fee bump is bounded like one without a token, and every attempt by the limits of the sponsor and
 * the users (gas-limits.ts).
 * Errors: bad_request, unknown_account, forbidden_user, account_frozen (the sponsor), policy_denied, revocations_stale;
 * operation_refused, naming the first operation that prevents the signature; ledger errors (`judge`), key_damaged.
 */
export async function signOuter(inside: Inside, request: unknown): Promise<Signed> {
  const order = readOuterRequest(request)
  const { chainId, nonce } = order.tx
  const account = admitSponsor(inside, order.tx)
  pass(decide(order.tx, inside.limits))
  const authority = authorities.operations
  const wanted = (at: number): WantedTransaction => ({
    account,
    authority,
    approval: null,
    rule: OUTER,
    ask: complete(inside, order),
    assertFits(kind, attempts) {
      assertInTime(order, at)
      if (kind === 'replace' && !isOuter(attempts[0]!))
        throw new Refusal('nonce_conflict', 'This nonce belongs to another transaction.')
    },
  })
  const draft = (at: number) => draftTransaction(inside, wanted(at), at)
  return signInTurn(inside, { account, authority, chainId, order: nonce, draft })
}

/** Adds the operations and authorizations from the ledger. */
function complete(inside: Inside, order: OuterOrder): SignOrder {
  const { intentId, kind, tx } = order
  const carried = findOperations(inside, order)
  const authorizations = findDelegations(inside, order)
  return {
    intentId,
    kind,
    accessToken: null,
    approval: null,
    requestHash: null,
    carried,
    tx: { ...tx, authorizations },
  }
}

/**
 * Checks whether a sponsor transaction with this one operation would be signed now. Nothing is charged.
 * @param carried  `userId`: the user of the operation
 * @throws the errors of `signOuter`, except those of the nonce
 */
export function askCarried(
  inside: Inside,
  carried: CarriedOrder & { operation: GasOperation; userId: string },
  at: number,
): void {
  const { sponsor: from, price, wei, operation, userId } = carried
  const { chainId, dispatcher, gasLimit } = operation
  // The rules check only the product of gas and fee.
  const fees = { type: 'eip1559', maxFeePerGas: wei, maxPriorityFeePerGas: 0n } as const
  const tx = { chainId, from, nonce: 0, to: dispatcher, value: 0n, data: Buffer.alloc(0), gas: 1n, fees }
  const sponsor = admitSponsor(inside, tx)
  pass(decide(tx, inside.limits))
  inside.assertUnattended()
  askGas(inside, { chainId, sponsor, wei, price, operations: [{ userId, gasLimit }] }, at)
}

/** Returns the account of a sponsor that is not frozen. @throws unknown_account, forbidden_user, account_frozen, policy_denied */
export function admitSponsor(
  { keys, freezes }: Inside,
  { chainId, from }: { chainId: number; from: Buffer },
): KeptAccount {
  const account = keys.ofAddress(from)
  if (account === null) throw new Refusal('unknown_account', 'The signer does not have this account.')
  if (!isSponsor(account.userId)) throw new Refusal('forbidden_user', 'Only a sponsor can send operations.')
  freezes.assertMoves({ chainId, userId: account.userId })
  return account
}

/** Finds each operation in the ledger and returns its record, in the order of the request. @throws operation_refused */
function findOperations(
  { ledger, freezes }: Inside,
  { tx: { chainId, to }, space, operations }: OuterOrder,
): NonNullable<SignOrder['carried']> {
  const id = Buffer.alloc(32)
  space.copy(id)
  return operations.map(({ packed, gasLimit }, index) => {
    // The packed operation has the sequence at the same position as the id.
    packed.copy(id, 20, 20, 32)
    const held = ledger.operations.ofId(chainId, id)
    if (held === null || !held.dispatcher.equals(to) || !held.packed.equals(packed))
      throw new Refusal('operation_refused', 'The ledger does not have this operation.', {
        operation: index,
        because: 'operation_unknown',
      })
    about(index, () => {
      freezes.assertMoves({ chainId, userId: held.userId })
      assertNotSuspended(freezes, held.clientId)
    })
    return { seq: held.seq, userId: held.userId, gasLimit }
  })
}

/** Runs the work and reports a refusal by it as a refusal of the operation. @throws operation_refused */
function about(index: number, work: () => void): void {
  try {
    work()
  } catch (error) {
    throw error instanceof Refusal ? ofOperation(index, error) : error
  }
}

/** Returns each authorization from the ledger. @throws bad_request */
export function findDelegations(
  { ledger }: Pick<Inside, 'ledger'>,
  { tx: { chainId }, delegations }: { tx: { chainId: number }; delegations: OuterOrder['delegations'] },
): SignedAuthorization[] {
  return delegations.map(({ account, nonce }) => {
    const held = ledger.operations.delegationAt({ chainId, address: account, nonce })
    if (held === null || !isDelegate(held.address))
      throw new Refusal('bad_request', 'The ledger does not have this authorization.')
    return held
  })
}

/** Rejects operations past their deadline; the dispatcher would not execute them. @throws operation_refused */
function assertInTime({ operations }: OuterOrder, at: number): void {
  for (const [index, { deadline }] of operations.entries())
    if (deadline * 1_000 <= at)
      throw new Refusal('operation_refused', 'The deadline of the operation has passed.', {
        operation: index,
        because: 'operation_expired',
      })
}
