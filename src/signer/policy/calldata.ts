import { isUnlimitedAmount } from '../../messages/unlimited.ts'
import { readHead, readSignature, type FunctionShape, type HeadValue } from './signature.ts'

/**
 * The classes of what is judged, as rules name them. A call can have several: an unlimited approval is also an approval. A message
 * has MESSAGE, those of the calls with the same effect, and for some kinds of messages others of its own (`effect.ts`).
 */
export const CALL_CLASSES = [
  'NATIVE',
  'CALL',
  'TRANSFER',
  'APPROVE',
  'APPROVE_UNLIMITED',
  'APPROVE_ALL',
  'REVOKE',
  'UNREADABLE_CALL',
  'MESSAGE',
  'LOGIN',
  'LOGIN_RESOURCES',
  'LONG_LIVED',
  'TEXT',
  'ORDER',
  'VOTE',
  'POWER',
  'OTHER_MESSAGE',
  'OPAQUE',
] as const
export type CallClass = (typeof CALL_CLASSES)[number]

/** A transaction as the policy evaluates it. Amounts in wei; addresses are 20 bytes. */
export type JudgedCall = { chainId: number; from: Buffer; to: Buffer; value: bigint; data: Buffer }

/** The effect of a call; addresses are 40 lower-case hexadecimal digits. */
export type CallEffect = {
  classes: readonly CallClass[]
  /** 8 hexadecimal digits; null for calldata without one */
  selector: string | null
  /** the tokens that leave or may leave the account, besides native currency; null if there are none */
  token: { address: string; amount: bigint } | null
  /** the addresses that receive or may take it; null if the calldata is unreadable */
  recipients: readonly string[] | null
}

/** Above every uint256: the right to take all tokens exceeds every limit. */
export const ALL_TOKENS = 2n ** 256n

type KnownCall = FunctionShape & {
  effect: (args: HeadValue[], call: JudgedCall) => Omit<CallEffect, 'selector'> | null
}

/**
 * Functions whose effect is counted, at any address. A token limit rejects other functions of that token (`isKnown`). Spending an
 * allowance was counted when the allowance was granted.
 */
const known = new Map<string, KnownCall>(
  [
    knownCall('transfer(address,uint256)', ([to, amount], call) => transfer(call, to!, amount!)),
    // For another account's tokens, these spend an allowance that the other account granted and that was counted there.
    knownCall('transferFrom(address,address,uint256)', ([from, to, amount], call) =>
      isOwn(from!, call) ? transfer(call, to!, amount!) : null,
    ),
    // ERC-777: every account is its own operator.
    knownCall('operatorSend(address,address,uint256,bytes,bytes)', ([from, to, amount], call) =>
      isOwn(from!, call) ? transfer(call, to!, amount!) : null,
    ),
    knownCall('send(address,uint256,bytes)', ([to, amount], call) => transfer(call, to!, amount!)),
    knownCall('transferAndCall(address,uint256)', ([to, amount], call) => transfer(call, to!, amount!)),
    knownCall('transferAndCall(address,uint256,bytes)', ([to, amount], call) => transfer(call, to!, amount!)),
    knownCall('approve(address,uint256)', ([spender, amount], call) =>
      amount === 0n ? revoke(spender!) : approve(addressOf(call), spender!, amount!),
    ),
    knownCall('increaseAllowance(address,uint256)', ([spender, amount], call) =>
      amount === 0n ? revoke(spender!) : approve(addressOf(call), spender!, amount!),
    ),
    knownCall('increaseApproval(address,uint256)', ([spender, amount], call) =>
      amount === 0n ? revoke(spender!) : approve(addressOf(call), spender!, amount!),
    ),
    // Aave: the recipient may borrow that much in the account's name.
    knownCall('approveDelegation(address,uint256)', ([spender, amount], call) =>
      amount === 0n ? revoke(spender!) : approve(addressOf(call), spender!, amount!),
    ),
    // Even with an amount of 0 it calls the spender.
    knownCall('approveAndCall(address,uint256)', ([spender, amount], call) =>
      approve(addressOf(call), spender!, amount!),
    ),
    knownCall('approveAndCall(address,uint256,bytes)', ([spender, amount], call) =>
      approve(addressOf(call), spender!, amount!),
    ),
    // Permit2: the token is an argument.
    knownCall('approve(address,address,uint160,uint48)', ([token, spender, amount]) =>
      amount === 0n ? revoke(spender!) : approve(digits(token!), spender!, amount!),
    ),
    knownCall('setApprovalForAll(address,bool)', ([operator, isOn], call) =>
      isOn === 0n ? revoke(operator!) : approveAll(call, operator!),
    ),
    // Compound III: a manager can move everything that the account has in this market.
    knownCall('allow(address,bool)', ([manager, isOn], call) =>
      isOn === 0n ? revoke(manager!) : approveAll(call, manager!),
    ),
    knownCall('authorizeOperator(address)', ([operator], call) => approveAll(call, operator!)),
    knownCall('revokeOperator(address)', ([operator]) => revoke(operator!)),
    knownCall('decreaseAllowance(address,uint256)', ([spender]) => revoke(spender!)),
    knownCall('decreaseApproval(address,uint256)', ([spender]) => revoke(spender!)),
  ].map((one) => [one.selector, one]),
)

/** The selector of Permit2's approval, whose token is an argument and not the called contract. */
export const PERMIT2_APPROVE = readSignature('approve(address,address,uint160,uint48)')!.selector

/** Returns whether the effect of a function is counted here. */
export const isKnown = (selector: string): boolean => known.has(selector)

/**
 * Determines the effect of a call from its selector and words alone. A call of a known function with incomplete or malformed
 * arguments is UNREADABLE_CALL. Old contracts read missing bytes as zeros and ignore bits that others reject.
 */
export function effectOfCall(call: JudgedCall): CallEffect {
  const { data, value } = call
  const to = addressOf(call)
  if (data.length === 0) return { classes: ['NATIVE'], selector: null, token: null, recipients: [to] }
  const paid = value > 0n ? [to] : []
  const native: CallClass[] = value > 0n ? ['NATIVE'] : []
  const selector = data.length < 4 ? null : data.toString('hex', 0, 4)
  const named = selector === null ? undefined : known.get(selector)
  const args = named === undefined ? null : readHead(named.types, data)
  if (selector === null || (named !== undefined && args === null))
    return { classes: [...native, 'UNREADABLE_CALL'], selector, token: null, recipients: null }
  const effect = named?.effect(args!, call) ?? null
  if (effect === null) return { classes: [...native, 'CALL'], selector, token: null, recipients: [to] }
  return {
    classes: [...native, ...effect.classes],
    selector,
    token: effect.token,
    recipients: [...paid, ...effect.recipients!],
  }
}

function knownCall(signature: string, effect: KnownCall['effect']): KnownCall {
  return { ...readSignature(signature)!, effect }
}

const digits = (word: bigint): string => word.toString(16).padStart(40, '0')
const isOwn = (account: bigint, { from }: JudgedCall): boolean => digits(account) === from.toString('hex')
const addressOf = ({ to }: JudgedCall): string => to.toString('hex')

const transfer = (call: JudgedCall, to: bigint, amount: bigint): Omit<CallEffect, 'selector'> => ({
  classes: ['TRANSFER'],
  token: { address: addressOf(call), amount },
  recipients: [digits(to)],
})

/** Counts the whole allowance at once, because the signer cannot see when the spender takes it. */
function approve(token: string, spender: bigint, amount: bigint): Omit<CallEffect, 'selector'> {
  return {
    classes: isUnlimitedAmount(amount) ? ['APPROVE', 'APPROVE_UNLIMITED'] : ['APPROVE'],
    token: { address: token, amount },
    recipients: [digits(spender)],
  }
}

const approveAll = (call: JudgedCall, operator: bigint): Omit<CallEffect, 'selector'> => ({
  classes: ['APPROVE', 'APPROVE_ALL'],
  token: { address: addressOf(call), amount: ALL_TOKENS },
  recipients: [digits(operator)],
})

const revoke = (spender: bigint): Omit<CallEffect, 'selector'> => ({
  classes: ['REVOKE'],
  token: null,
  recipients: [digits(spender)],
})
