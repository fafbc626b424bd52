import { delegateNameOf, GAS_PAIRS } from '../gas/addresses.ts'
import { cancelData } from '../gas/dispatch.ts'
import { readDispatch, type Dispatch } from '../gas/packed-operation.ts'
import { assembleTransaction, transactionDigest, type SponsorTransaction } from '../gas/transaction.ts'
import { decodeRlp } from '../rlp.ts'
import type { TokenCaller } from './caller.ts'
import { judge } from './judge.ts'
import { readCancelOuterRequest, readDelegations, type CancelOuterOrder } from './operation-request.ts'
import { decide, decideReplacement, pass } from './policy.ts'
import { OUTER, type LedgerAttempt } from './record.ts'
import { LedgerDamaged, Refusal } from './refusal.ts'
import type { SignOrder } from './request.ts'
import { authorise, evidenceOf } from './authority.ts'
import { assertNotSuspended } from './freezes.ts'
import type { Inside } from './pipeline.ts'
import { agreedTo, factsOf, isOuter, toSigned, notAgreedTo } from './sign.ts'
import { findDelegations } from './sign-outer.ts'
import { isSponsor } from './sponsor.ts'
import { dearerBy } from './unattended.ts'
import type { Signed } from './wire.ts'
import type { KeptAccount } from './wrapping.ts'

/**
 * Verb `cancelOuter`: at the nonce of a sponsor's transaction that carries operations, the dispatcher's `cancel` of some of them, or of none, with
 * authorizations of accounts in it. It does nothing that anyone signed, and no id is used up but of the person whose token is shown, so
 * that all it can do is to keep that person's operations from being done. Its fee has the bounds of what is signed without a token: a person's says nothing of what
 * a sponsor may lose. It is the only cancel of its nonce.
 * Errors: bad_request, unknown_account, forbidden_user, account_frozen, application_suspended, invalid_token, insufficient_scope, policy_denied,
 * revocations_stale, nonce_conflict and others of the ledger (`judge`), key_damaged.
 */
export async function cancelOuter(inside: Inside, request: unknown): Promise<Signed> {
  const order = readCancelOuterRequest(request)
  const { sponsor, caller } = await examine(inside, order)
  const { group, keys, ledger, unattended, now } = inside
  return group(order.nonce, () => {
    const at = now()
    const verdict = judgeNow(inside, { order, sponsor, caller })
    if ('stored' in verdict) return { ...toSigned(verdict.stored), stored: true }
    const { terms, tx, unattendedWei } = verdict
    const signed = assembleTransaction(tx, keys.sign(sponsor, transactionDigest(tx)))
    const { chainId, nonce } = tx
    const kind = 'cancel'
    const held = { ...terms, chainId, nonce, address: sponsor.address, ...signed, kind, rule: OUTER, requestHash: null } as const // prettier-ignore
    // The record has no token's id: nobody agreed to its fee.
    const who = { at, userId: sponsor.userId, address: sponsor.address, clientId: null, tokenId: null }
    ledger.append({ ...who, kind, rule: OUTER, held, evidence: caller === null ? null : evidenceOf(caller)(OUTER) })
    unattended.charge(chainId, unattendedWei)
    return { ...toSigned(held), stored: false }
  })
}

/** What does not depend on the ledger. */
async function examine({ keys, tokens, limits, freezes }: Inside, order: CancelOuterOrder) {
  const { chainId, from, nonce, gas, fees, accessToken } = order
  const sponsor = keys.ofAddress(from)
  if (sponsor === null) throw new Refusal('unknown_account', 'The signer has no such account.')
  if (!isSponsor(sponsor.userId)) throw new Refusal('forbidden_user', 'Only a sponsor sends operations.')
  freezes.assertMoves({ chainId, userId: sponsor.userId })
  const caller = accessToken === null ? null : await tokens.check(accessToken)
  if (caller !== null) {
    authorise(caller, { chainId, userId: null })
    freezes.assertMoves({ chainId, userId: caller.userId })
  }
  // To which dispatcher, the ledger says; to the rules they are the same.
  const { dispatcher: to } = GAS_PAIRS.chatelaine
  pass(decide({ chainId, from, nonce, to, value: 0n, data: Buffer.alloc(0), gas, fees }, limits))
  return { sponsor, caller }
}

function judgeNow(
  inside: Inside,
  { order, sponsor, caller }: { order: CancelOuterOrder; sponsor: KeptAccount; caller: TokenCaller | null },
) {
  const { limits, unattended, freezes } = inside
  const { intentId, chainId, from, nonce, gas, fees, sequences } = order
  // Once more: a freeze may have come since.
  freezes.assertMoves({ chainId, userId: sponsor.userId })
  inside.assertUnattended()
  if (caller !== null) {
    freezes.assertMoves({ chainId, userId: caller.userId })
    assertNotSuspended(freezes, caller.clientId)
  }
  const slot = { chainId, address: sponsor.address, nonce }
  const facts = factsOf(inside, { slot, account: sponsor, isVouched: true, intentId })
  const { attempts } = facts
  const first = attempts[0]
  if (first === undefined || !isOuter(first) || first.intentId !== intentId)
    throw new Refusal('nonce_conflict', 'No transaction of this intent carries operations at this nonce.')
  const carried = dispatchOf(first)
  const authorizations = findDelegations(inside, {
    tx: { chainId },
    delegations: readDelegations(order.authorizations, carried.operations),
  })
  const call = { to: carried.dispatcher, value: 0n, data: cancelData(carried.space, sequences) }
  const tx: SponsorTransaction = {
    ...{ chainId, nonce, gas, authorizations, ...call },
    ...{ maxFeePerGas: fees.maxFeePerGas, maxPriorityFeePerGas: fees.maxPriorityFeePerGas },
  }
  const ask: SignOrder = {
    ...{ intentId, kind: 'cancel', accessToken: null, requestHash: null, isOfOuter: true },
    tx: { chainId, from, nonce, gas, fees, authorizations, ...call },
  }
  const verdict = judge(ask, facts)
  if ('stored' in verdict) return verdict
  if (attempts.every(({ kind }) => kind !== 'cancel')) assertOwn(inside, { chainId, sequences, carried, caller })
  const { terms } = verdict
  const agreed = agreedTo(attempts)
  const refused = decideReplacement(ask.tx, { kind: 'cancel', first, agreed, isAgreed: false }, limits)
  if (refused !== null) pass(refused)
  const unattendedWei = dearerBy(terms, notAgreedTo(attempts))
  if (!unattended.hasRoom(chainId, unattendedWei)) pass({ allowed: false, rule: 'max-unattended-fee' })
  return { terms, tx, unattendedWei }
}

/** Whether each is an operation in it, of the person whose token was shown. @throws bad_request, invalid_token, forbidden_user */
function assertOwn(
  { ledger }: Inside,
  { chainId, sequences, carried, caller }: { chainId: number; sequences: bigint[]; carried: Dispatch; caller: TokenCaller | null }, // prettier-ignore
): void {
  if (sequences.length > 0 && caller === null)
    throw new Refusal('invalid_token', 'To use an id up takes the access token of its person.')
  const inIt = new Map(carried.operations.map((one) => [one.sequence, one.packed]))
  for (const sequence of sequences) {
    const packed = inIt.get(sequence)
    if (packed === undefined) throw new Refusal('bad_request', 'sequences names an operation that is not in it')
    const held = ledger.operations.ofId(chainId, Buffer.concat([carried.space, packed.subarray(20, 32)]))
    if (held?.userId !== caller!.userId)
      throw new Refusal('forbidden_user', 'The access token is for another user than the operation.')
  }
}

/** What the first attempt carries, and to which dispatcher, by its own bytes. @throws LedgerDamaged */
function dispatchOf({ raw }: LedgerAttempt): Dispatch & { dispatcher: Buffer } {
  const fields = decodeRlp(raw.subarray(1))
  const [to, data] = Array.isArray(fields) ? [fields[TO_FIELD], fields[DATA_FIELD]] : []
  const dispatch = Buffer.isBuffer(data) ? readDispatch(data) : null
  if (dispatch === null || !Buffer.isBuffer(to) || delegateNameOf(to) === null)
    throw new LedgerDamaged('A transaction in the ledger cannot be read.')
  return { ...dispatch, dispatcher: to }
}

/** Where a transaction of type 2 or 4 has its recipient and its data. Source: EIP-1559, EIP-7702 */
const [TO_FIELD, DATA_FIELD] = [5, 7]
