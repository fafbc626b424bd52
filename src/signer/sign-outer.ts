import type { SignedAuthorization } from '../gas/authorization.ts'
import { isDelegate } from '../gas/addresses.ts'
import type { GasOperation } from '../gas/operation.ts'
import { assembleTransaction, transactionDigest, type SponsorTransaction } from '../gas/transaction.ts'
import { askGas } from './gas-limits.ts'
import { judge } from './judge.ts'
import { spentToText } from './meters.ts'
import type { CarriedOperation } from './operation-ledger.ts'
import { readOuterRequest, type CarriedOrder, type OuterOrder } from './operation-request.ts'
import { decide, decideReplacement, pass } from './policy.ts'
import { OUTER } from './record.ts'
import { ofOperation, Refusal } from './refusal.ts'
import type { SignOrder } from './request.ts'
import { assertNotSuspended } from './freezes.ts'
import type { Inside } from './pipeline.ts'
import { agreedTo, factsOf, isOuter, toSigned, notAgreedTo } from './sign.ts'
import { isSponsor } from './sponsor.ts'
import { dearerBy } from './unattended.ts'
import type { Signed } from './wire.ts'
import type { KeptAccount } from './wrapping.ts'

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
  const sponsor = examine(inside, order)
  const { group, keys, ledger, meters, unattended, now } = inside
  return group(order.tx.nonce, () => {
    const at = now()
    const verdict = judgeNow(inside, { order, sponsor, at })
    if ('stored' in verdict) return { ...toSigned(verdict.stored), stored: true }
    const { kind, terms, tx, charges, unattendedWei, operations } = verdict
    const signed = assembleTransaction(tx, keys.sign(sponsor, transactionDigest(tx)))
    const { chainId, nonce } = tx
    const held = { ...terms, chainId, nonce, address: sponsor.address, ...signed, kind, rule: OUTER, requestHash: null }
    const who = { at, userId: sponsor.userId, address: sponsor.address, clientId: null, tokenId: null }
    ledger.append({ ...who, kind, rule: OUTER, held, evidence: null, spent: spentToText(charges) })
    if (kind === 'send')
      ledger.operations.carry(
        ledger.head().count,
        operations.map(({ seq }) => seq),
      )
    meters.charge(at, charges)
    unattended.charge(chainId, unattendedWei)
    return { ...toSigned(held), stored: false }
  })
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
  const sponsor = examine(inside, { tx })
  inside.assertUnattended()
  askGas(inside, { chainId, sponsor, wei, price, operations: [{ userId, gasLimit }] }, at)
}

/** What does not depend on the ledger. @returns the sponsor's account */
function examine({ keys, limits, freezes }: Inside, { tx }: Pick<OuterOrder, 'tx'>): KeptAccount {
  const account = keys.ofAddress(tx.from)
  if (account === null) throw new Refusal('unknown_account', 'The signer has no such account.')
  if (!isSponsor(account.userId)) throw new Refusal('forbidden_user', 'Only a sponsor sends operations.')
  freezes.assertMoves({ chainId: tx.chainId, userId: account.userId })
  pass(decide(tx, limits))
  return account
}

function judgeNow(inside: Inside, { order, sponsor, at }: { order: OuterOrder; sponsor: KeptAccount; at: number }) {
  const { limits, unattended, freezes } = inside
  const { chainId, nonce, fees, ...rest } = order.tx
  // Once more: a freeze may have come since.
  freezes.assertMoves({ chainId, userId: sponsor.userId })
  inside.assertUnattended()
  const operations = findOperations(inside, order)
  const authorizations = findDelegations(inside, order)
  const tx: SponsorTransaction = {
    ...{ chainId, nonce, authorizations, to: rest.to, value: rest.value, data: rest.data, gas: rest.gas },
    ...{ maxFeePerGas: fees.maxFeePerGas, maxPriorityFeePerGas: fees.maxPriorityFeePerGas },
  }
  const ask: SignOrder = {
    ...{ intentId: order.intentId, kind: order.kind, accessToken: null, requestHash: null },
    tx: { ...order.tx, authorizations },
  }
  const slot = { chainId, address: sponsor.address, nonce }
  const facts = factsOf(inside, { slot, account: sponsor, isVouched: true, intentId: order.intentId })
  const { attempts } = facts
  const verdict = judge(ask, facts)
  if ('stored' in verdict) return verdict
  const { terms } = verdict
  const kind = verdict.sign === 'send' ? 'send' : 'replace'
  assertInTime(order, at)
  let unattendedWei = 0n
  if (kind === 'replace') {
    if (!isOuter(attempts[0]!)) throw new Refusal('nonce_conflict', 'This nonce belongs to another transaction.')
    const agreed = agreedTo(attempts)
    const refused = decideReplacement(ask.tx, { kind, first: attempts[0]!, agreed, isAgreed: false }, limits)
    if (refused !== null) pass(refused)
    unattendedWei = dearerBy(terms, notAgreedTo(attempts))
  }
  if (!unattended.hasRoom(chainId, unattendedWei)) pass({ allowed: false, rule: 'max-unattended-fee' })
  const dearestPrice = attempts.reduce((most, { max }) => (max > most ? max : most), 0n)
  const gas = {
    chainId,
    sponsor,
    wei: dearerBy(terms, attempts),
    price: terms.max > dearestPrice ? terms.max - dearestPrice : 0n,
    operations: order.operations.map(({ gasLimit }, index) => ({ gasLimit, userId: operations[index]!.userId })),
  }
  return { kind, terms, tx, operations, unattendedWei, charges: askGas(inside, gas, at) } as const
}

/** What the ledger holds of each operation, in their order. @throws operation_refused */
function findOperations(
  { ledger, freezes }: Inside,
  { tx: { chainId, to }, space, operations }: OuterOrder,
): CarriedOperation[] {
  const id = Buffer.alloc(32)
  space.copy(id)
  return operations.map(({ packed }, index) => {
    // The sequence lies there as in the id.
    packed.copy(id, 20, 20, 32)
    const held = ledger.operations.ofId(chainId, id)
    if (held === null || !held.dispatcher.equals(to) || !held.packed.equals(packed))
      throw new Refusal('operation_refused', 'The ledger holds no such operation.', {
        operation: index,
        because: 'operation_unknown',
      })
    about(index, () => {
      freezes.assertMoves({ chainId, userId: held.userId })
      assertNotSuspended(freezes, held.clientId)
    })
    return held
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
      throw new Refusal('bad_request', 'The ledger holds no such authorization.')
    return held
  })
}

/** The dispatcher would only say that it is too late. @throws operation_refused */
function assertInTime({ operations }: OuterOrder, at: number): void {
  for (const [index, { deadline }] of operations.entries())
    if (deadline * 1_000 <= at)
      throw new Refusal('operation_refused', 'The deadline of the operation is over.', {
        operation: index,
        because: 'operation_expired',
      })
}
