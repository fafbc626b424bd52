import { delegateNameOf, GAS_PAIRS } from '../../gas/addresses.ts'
import { cancelData } from '../../gas/dispatch.ts'
import { readDispatch, type Dispatch } from '../../gas/packed-operation.ts'
import { decodeRlp } from '../../rlp.ts'
import { authorise, authorities, type TransactionAuthority } from '../rules/authority.ts'
import type { TokenCaller } from '../tokens/caller.ts'
import { readCancelOuterRequest, readDelegations, type CancelOuterOrder } from './operation-request.ts'
import { signInTurn, type Inside } from './pipeline.ts'
import { decide, pass } from '../rules/policy.ts'
import { OUTER, type LedgerAttempt } from '../ledger/record.ts'
import { LedgerDamaged, Refusal } from '../refusal.ts'
import { draftTransaction, isOuter, type WantedTransaction } from './sign.ts'
import { admitSponsor, findDelegations } from './sign-outer.ts'
import type { Signed } from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/**
 * Handles the verb `cancelOuter`: signs a cancellation at the nonce of a sponsor transaction that includes operations. The
 * cancellation calls the dispatcher's `cancel` for some of the operations, or for none, and can include authorizations of accounts.
 * It executes no operation. It uses up only sequences of the user whose token is shown, so it can only prevent that user's
 * operations. Its fee is bounded as if no token were shown, because a user's token does not agree to what a sponsor pays. A nonce
 * has one such cancellation: later attempts may only be fee bumps.
 * Errors: bad_request, unknown_account, forbidden_user, account_frozen, application_suspended, invalid_token, insufficient_scope,
 * policy_denied, revocations_stale, nonce_conflict and the other ledger errors (`judge`), key_damaged.
 */
export async function cancelOuter(inside: Inside, request: unknown): Promise<Signed> {
  const order = readCancelOuterRequest(request)
  const { chainId, nonce } = order
  const examined = await examine(inside, order)
  const draft = (at: number) => draftTransaction(inside, complete(inside, order, examined), at)
  return signInTurn(inside, { ...examined, chainId, order: nonce, draft })
}

/** Checks everything that does not depend on the ledger. */
async function examine(inside: Inside, order: CancelOuterOrder) {
  const { tokens, limits, freezes } = inside
  const { chainId, from, nonce, gas, fees, accessToken } = order
  const account = admitSponsor(inside, { chainId, from })
  const token = accessToken === null ? null : await tokens.check(accessToken)
  if (token !== null) {
    authorise(token, { chainId, userId: null })
    freezes.assertMoves({ chainId, userId: token.userId })
  }
  // The ledger names the actual dispatcher; the rules treat all dispatchers alike.
  const { dispatcher: to } = GAS_PAIRS.chatelaine
  pass(decide({ chainId, from, nonce, to, value: 0n, data: Buffer.alloc(0), gas, fees }, limits))
  return { account, authority: authorities.cancel(token) }
}

/** Adds the fields that the ledger determines. */
function complete(
  inside: Inside,
  { intentId, chainId, from, nonce, gas, fees, sequences, authorizations: list }: CancelOuterOrder,
  { account, authority }: { account: KeptAccount; authority: TransactionAuthority },
): WantedTransaction {
  const [first] = inside.ledger.attempts({ chainId, address: account.address, nonce })
  if (first === undefined || !isOuter(first) || first.intentId !== intentId)
    throw new Refusal('nonce_conflict', 'No transaction of this intent includes operations at this nonce.')
  const carried = dispatchOf(first)
  const delegations = readDelegations(list, carried.operations)
  const authorizations = findDelegations(inside, { tx: { chainId }, delegations })
  const call = { to: carried.dispatcher, value: 0n, data: cancelData(carried.space, sequences) }
  return {
    account,
    authority,
    approval: null,
    rule: OUTER,
    ask: {
      intentId,
      kind: 'cancel',
      accessToken: null,
      approval: null,
      requestHash: null,
      isOfOuter: true,
      tx: { chainId, from, nonce, gas, fees, authorizations, ...call },
    },
    assertFits(_kind, attempts) {
      if (attempts.some(({ kind }) => kind === 'cancel')) return
      assertOwn(inside, { chainId, sequences, carried, token: authority.token })
    },
  }
}

/**
 * Checks that each sequence is in the transaction and belongs to the token's user.
 * @throws bad_request, invalid_token, forbidden_user
 */
function assertOwn(
  { ledger }: Inside,
  { chainId, sequences, carried, token }: { chainId: number; sequences: bigint[]; carried: Dispatch; token: TokenCaller | null }, // prettier-ignore
): void {
  if (sequences.length > 0 && token === null)
    throw new Refusal(
      'invalid_token',
      'The access token of the user is required to use up an operation id. Nothing was signed.',
    )
  const inIt = new Map(carried.operations.map((one) => [one.sequence, one.packed]))
  for (const sequence of sequences) {
    const packed = inIt.get(sequence)
    if (packed === undefined)
      throw new Refusal('bad_request', 'sequences names an operation that the transaction does not include')
    const held = ledger.operations.ofId(chainId, Buffer.concat([carried.space, packed.subarray(20, 32)]))
    if (held?.userId !== token!.userId)
      throw new Refusal('forbidden_user', 'The access token is not for the user of the operation. Nothing was signed.')
  }
}

/** Reads the operations and the dispatcher from the signed bytes of the nonce's first attempt. @throws LedgerDamaged */
function dispatchOf({ raw }: LedgerAttempt): Dispatch & { dispatcher: Buffer } {
  const fields = decodeRlp(raw.subarray(1))
  const [to, data] = Array.isArray(fields) ? [fields[TO_FIELD], fields[DATA_FIELD]] : []
  const dispatch = Buffer.isBuffer(data) ? readDispatch(data) : null
  if (dispatch === null || !Buffer.isBuffer(to) || delegateNameOf(to) === null)
    throw new LedgerDamaged('A transaction in the ledger cannot be read.')
  return { ...dispatch, dispatcher: to }
}

/** Positions of the recipient and the data in a transaction of type 2 or 4. Source: EIP-1559, EIP-7702 */
const [TO_FIELD, DATA_FIELD] = [5, 7]
