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
 * Verb `signOuter`: a sponsor's transaction to the dispatcher, value 0, at no token: persons agreed to each operation in it. Each is one
 * that the ledger holds, byte for byte, of this network, not past its deadline, of nobody who is frozen now; so is each authorization.
 * A nonce has one effect, and authorizations are part of it; a raise is bounded as one without a token, and every
 * attempt by the limits of the sponsor and of the persons (gas-limits.ts).
 * Errors: bad_request, unknown_account, forbidden_user, account_frozen (the sponsor), policy_denied, revocations_stale; operation_refused for
 * the first operation without which it may be signed; those of the ledger (`judge`), key_damaged.
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

/** With what the ledger holds of it. */
function complete(inside: Inside, order: OuterOrder): SignOrder {
  const { intentId, kind, tx } = order
  const carried = findOperations(inside, order)
  const authorizations = findDelegations(inside, order)
  return { intentId, kind, accessToken: null, requestHash: null, carried, tx: { ...tx, authorizations } }
}

/**
 * What a sponsor's transaction with an operation alone would be refused for now. Nothing is charged.
 * @param carried  `userId`: whose operation it is
 * @throws as `signOuter`, but for what the ledger says of a nonce
 */
export function askCarried(
  inside: Inside,
  carried: CarriedOrder & { operation: GasOperation; userId: string },
  at: number,
): void {
  const { sponsor: from, price, wei, operation, userId } = carried
  const { chainId, dispatcher, gasLimit } = operation
  // Of its gas and fees the rules look at the product alone.
  const fees = { type: 'eip1559', maxFeePerGas: wei, maxPriorityFeePerGas: 0n } as const
  const tx = { chainId, from, nonce: 0, to: dispatcher, value: 0n, data: Buffer.alloc(0), gas: 1n, fees }
  const sponsor = admitSponsor(inside, tx)
  pass(decide(tx, inside.limits))
  inside.assertUnattended()
  askGas(inside, { chainId, sponsor, wei, price, operations: [{ userId, gasLimit }] }, at)
}

/** The account of a sponsor that may move. */
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

/** What the ledger holds of each operation, in their order. @throws operation_refused */
function findOperations(
  { ledger, freezes }: Inside,
  { tx: { chainId, to }, space, operations }: OuterOrder,
): NonNullable<SignOrder['carried']> {
  const id = Buffer.alloc(32)
  space.copy(id)
  return operations.map(({ packed, gasLimit }, index) => {
    // The sequence lies there as in the id.
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

/** @throws operation_refused  in place of what the work says */
function about(index: number, work: () => void): void {
  try {
    work()
  } catch (error) {
    throw error instanceof Refusal ? ofOperation(index, error) : error
  }
}

/** What the ledger holds of each. @throws bad_request */
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

/** The dispatcher would only say that it is too late. @throws operation_refused */
function assertInTime({ operations }: OuterOrder, at: number): void {
  for (const [index, { deadline }] of operations.entries())
    if (deadline * 1_000 <= at)
      throw new Refusal('operation_refused', 'The deadline of the operation has passed.', {
        operation: index,
        because: 'operation_expired',
      })
}
