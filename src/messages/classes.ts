import { PERMIT2 } from './equivalent-call.ts'
import {
  allows,
  allowsAll,
  allowsByPermit2,
  allowsDebt,
  allowsItem,
  allowsMarket,
  pays,
  paysNative,
  type Grant,
} from './grants.ts'
import type { StructValue, TypedValue } from './struct-values.ts'
import type { TypedData } from './typed-data.ts'

export type MessageClass = 'login' | 'text' | 'payment' | 'allowance' | 'order' | 'vote' | 'power' | 'other' | 'opaque'

/** The effect of typed data of a known type. */
export type TypedReading = {
  class: MessageClass
  /** fields that must be the account that signs */
  owners: readonly { path: readonly (string | number)[]; address: Buffer }[]
  grants: readonly Grant[]
  /** the last second (since 1970) in which the signature can be used; null if there is no end, or it is unknown */
  usableUntil: bigint | null
  /** the recipients of each order's proceeds; empty for an order that names none, or whose recipients are unknown */
  buyers: readonly (readonly Buffer[])[]
  /** the sentence of the approval page, if it differs from the class's sentence */
  sentence: 'revoke' | null
}

type RowReading = Partial<Omit<TypedReading, 'class'>>
type TypedRow = {
  class: MessageClass
  /** the verifying contract that the type needs: any contract, Permit2, or none */
  at: 'contract' | 'permit2' | 'anywhere'
  /** encodeType of the primary type, or all of its variants */
  type: string | RegExp
  /** Reads the message; null if this row does not apply to it. */
  read: (message: StructValue, contract: Buffer, typed: TypedData) => RowReading | null
}

/**
 * Reads the effect of typed data. The encoded type and the verifying contract decide, never the type's name: anyone can choose a
 * name. Typed data that is in no row of the table is `other`.
 */
export function readClass(typed: TypedData): TypedReading {
  const contract = typed.domain.verifyingContract
  for (const row of ROWS.filter(({ type }) => isOf(type, typed.encodedType))) {
    if (row.at === 'permit2' ? contract?.equals(PERMIT2) !== true : row.at === 'contract' && contract === null) continue
    const found = row.read(typed.message, contract ?? ZERO, typed)
    if (found !== null) return { ...NOTHING, ...found, class: row.class }
  }
  return { ...NOTHING, class: 'other' }
}

const NOTHING: Omit<TypedReading, 'class'> = { owners: [], grants: [], usableUntil: null, buyers: [], sentence: null }

const isOf = (type: string | RegExp, encoded: string): boolean =>
  typeof type === 'string' ? type === encoded : type.test(encoded)

const ZERO = Buffer.alloc(20)
const bytes = (struct: StructValue, name: string): Buffer => struct.get(name) as Buffer
const number = (struct: StructValue, name: string): bigint => struct.get(name) as bigint
const flag = (struct: StructValue, name: string): boolean => struct.get(name) as boolean
const struct = (of: StructValue, name: string): StructValue => of.get(name) as StructValue
const structs = (of: StructValue, name: string): StructValue[] => of.get(name) as StructValue[]
const owner = (of: StructValue, name: string): TypedReading['owners'] => [{ path: [name], address: bytes(of, name) }]

/** Members that several types share. */
const AUTHORIZATION = '(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)'
const PERMITTED = 'TokenPermissions(address token,uint256 amount)'
const DETAILS = 'PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)'
const TRANSFER_FROM = 'TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline'
const BATCH_FROM = 'TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline'
const CONSIDERATION =
  'ConsiderationItem(uint8 itemType,address token,uint256 identifierOrCriteria,uint256 startAmount,uint256 endAmount,address recipient)'
const OFFER =
  'OfferItem(uint8 itemType,address token,uint256 identifierOrCriteria,uint256 startAmount,uint256 endAmount)'
const COMPONENTS =
  'OrderComponents(address offerer,address zone,OfferItem[] offer,ConsiderationItem[] consideration,uint8 orderType,uint256 startTime,uint256 endTime,bytes32 zoneHash,uint256 salt,bytes32 conduitKey,uint256 counter)'
const CALLS = 'BatchedCall(Call[] calls,bool revertOnFailure)Call(address to,uint256 value,bytes data)'

/** The one spender that can only send what it takes to the recipient of the witness. Source: x402, scheme_exact_evm */
const X402_EXACT = Buffer.from('402085c248eea27d92e8b30b2c58ed07f9e20001', 'hex')

/** Converts an encoded type to a regular expression; `…` stands for the variable parts. */
const pattern = (text: string, ...varying: string[]): RegExp =>
  new RegExp(`^${text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`).replaceAll('…', () => varying.shift()!)}$`)

/** Matches one member of any type, and the types that follow `PermitWitnessTransferFrom` in the order of their names. */
const MEMBER = String.raw`[\w$]+(?:\[\d*\])* [\w$]+`
const STRUCTS = String.raw`(?:[\w$]+\([^()]*\))*`

/** The table of known types. */
const ROWS: readonly TypedRow[] = [
  // EIP-3009
  { class: 'payment', at: 'contract', type: `TransferWithAuthorization${AUTHORIZATION}`, read: authorization },
  { class: 'payment', at: 'contract', type: `ReceiveWithAuthorization${AUTHORIZATION}`, read: authorization },
  {
    class: 'other',
    at: 'contract',
    type: 'CancelAuthorization(address authorizer,bytes32 nonce)',
    read: (message) => ({ owners: owner(message, 'authorizer'), sentence: 'revoke' }),
  },
  // EIP-2612
  {
    class: 'allowance',
    at: 'contract',
    type: 'Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)',
    read: (message, token) => ({
      owners: owner(message, 'owner'),
      grants: [allows(token, bytes(message, 'spender'), number(message, 'value'))],
      usableUntil: number(message, 'deadline'),
    }),
  },
  // DAI; an expiry of 0 is none.
  {
    class: 'allowance',
    at: 'contract',
    type: 'Permit(address holder,address spender,uint256 nonce,uint256 expiry,bool allowed)',
    read: (message, token) => ({
      owners: owner(message, 'holder'),
      grants: [allows(token, bytes(message, 'spender'), flag(message, 'allowed') ? 2n ** 256n - 1n : 0n)],
      usableUntil: number(message, 'expiry') === 0n ? null : number(message, 'expiry'),
    }),
  },
  // ERC-4494, positions of Uniswap
  {
    class: 'allowance',
    at: 'contract',
    type: 'Permit(address spender,uint256 tokenId,uint256 nonce,uint256 deadline)',
    read: (message, token) => ({
      grants: [allowsItem(token, bytes(message, 'spender'), number(message, 'tokenId'))],
      usableUntil: number(message, 'deadline'),
    }),
  },
  {
    class: 'allowance',
    at: 'contract',
    type: 'PermitForAll(address operator,bool approved,uint256 nonce,uint256 deadline)',
    read: (message, token) => ({
      grants: [allowsAll(token, bytes(message, 'operator'), flag(message, 'approved'))],
      usableUntil: number(message, 'deadline'),
    }),
  },
  // Aave
  {
    class: 'allowance',
    at: 'contract',
    type: 'DelegationWithSig(address delegatee,uint256 value,uint256 nonce,uint256 deadline)',
    read: (message, token) => ({
      grants: [allowsDebt(token, bytes(message, 'delegatee'), number(message, 'value'))],
      usableUntil: number(message, 'deadline'),
    }),
  },
  // Compound III
  {
    class: 'allowance',
    at: 'contract',
    type: 'Authorization(address owner,address manager,bool isAllowed,uint256 nonce,uint256 expiry)',
    read: (message, market) => ({
      owners: owner(message, 'owner'),
      grants: [allowsMarket(market, bytes(message, 'manager'), flag(message, 'isAllowed'))],
      usableUntil: number(message, 'expiry'),
    }),
  },
  // Morpho Blue
  {
    class: 'allowance',
    at: 'contract',
    type: 'Authorization(address authorizer,address authorized,bool isAuthorized,uint256 nonce,uint256 deadline)',
    read: (message, market) => ({
      owners: owner(message, 'authorizer'),
      grants: [allowsMarket(market, bytes(message, 'authorized'), flag(message, 'isAuthorized'))],
      usableUntil: number(message, 'deadline'),
    }),
  },
  // Permit2
  {
    class: 'allowance',
    at: 'permit2',
    type: `PermitSingle(PermitDetails details,address spender,uint256 sigDeadline)${DETAILS}`,
    read: (message) => permits(message, [struct(message, 'details')]),
  },
  {
    class: 'allowance',
    at: 'permit2',
    type: `PermitBatch(PermitDetails[] details,address spender,uint256 sigDeadline)${DETAILS}`,
    read: (message) => permits(message, structs(message, 'details')),
  },
  { class: 'allowance', at: 'permit2', type: `PermitTransferFrom(${TRANSFER_FROM})${PERMITTED}`, read: transferFrom },
  { class: 'allowance', at: 'permit2', type: `PermitBatchTransferFrom(${BATCH_FROM})${PERMITTED}`, read: transferFrom },
  {
    class: 'payment',
    at: 'permit2',
    type: `PermitWitnessTransferFrom(${TRANSFER_FROM},Witness witness)${PERMITTED}Witness(address to,uint256 validAfter)`,
    read: (message) => {
      if (!bytes(message, 'spender').equals(X402_EXACT)) return null
      const permitted = struct(message, 'permitted')
      const to = bytes(struct(message, 'witness'), 'to')
      return { grants: [pays(bytes(permitted, 'token'), to, number(permitted, 'amount'), number(message, 'deadline'))] }
    },
  },
  {
    class: 'order',
    at: 'permit2',
    type: pattern(`PermitWitnessTransferFrom(${TRANSFER_FROM},…)…${PERMITTED}…`, MEMBER, STRUCTS, STRUCTS),
    read: transferFrom,
  },
  {
    class: 'order',
    at: 'permit2',
    type: pattern(`PermitBatchWitnessTransferFrom(${BATCH_FROM},…)…${PERMITTED}…`, MEMBER, STRUCTS, STRUCTS),
    read: transferFrom,
  },
  // Seaport 1.5 and 1.6
  {
    class: 'order',
    at: 'contract',
    type: `${COMPONENTS}${CONSIDERATION}${OFFER}`,
    read: (message, contract) => seaport([{ path: [], order: message }], contract),
  },
  {
    class: 'order',
    at: 'contract',
    type: pattern(`BulkOrder(OrderComponents… tree)${CONSIDERATION}${OFFER}${COMPONENTS}`, String.raw`(?:\[2\])+`),
    read: (message, contract) => seaport(leavesOf(message.get('tree')!, ['tree']), contract),
  },
  // CoW Protocol
  {
    class: 'order',
    at: 'contract',
    type: 'Order(address sellToken,address buyToken,address receiver,uint256 sellAmount,uint256 buyAmount,uint32 validTo,bytes32 appData,uint256 feeAmount,string kind,bool partiallyFillable,string sellTokenBalance,string buyTokenBalance)',
    read: (message, contract) => ({
      grants: [
        allows(
          bytes(message, 'sellToken'),
          contract,
          number(message, 'sellAmount') + number(message, 'feeAmount'),
          number(message, 'validTo'),
        ),
      ],
      buyers: receiver(message),
    }),
  },
  // 1inch limit orders 2, 3 and 4, of its routers 4, 5 and 6
  {
    class: 'order',
    at: 'contract',
    type: 'Order(uint256 salt,address makerAsset,address takerAsset,address maker,address receiver,address allowedSender,uint256 makingAmount,uint256 takingAmount,bytes makerAssetData,bytes takerAssetData,bytes getMakerAmount,bytes getTakerAmount,bytes predicate,bytes permit,bytes interaction)',
    read: oneInch,
  },
  {
    class: 'order',
    at: 'contract',
    type: 'Order(uint256 salt,address makerAsset,address takerAsset,address maker,address receiver,address allowedSender,uint256 makingAmount,uint256 takingAmount,uint256 offsets,bytes interactions)',
    read: oneInch,
  },
  {
    class: 'order',
    at: 'contract',
    type: 'Order(uint256 salt,address maker,address receiver,address makerAsset,address takerAsset,uint256 makingAmount,uint256 takingAmount,uint256 makerTraits)',
    read: oneInch,
  },
  {
    class: 'order',
    at: 'contract',
    type: 'OrderRFQ(uint256 info,address makerAsset,address takerAsset,address maker,address allowedSender,uint256 makingAmount,uint256 takingAmount)',
    read: oneInch,
  },
  // 0x 4
  {
    class: 'order',
    at: 'contract',
    type: 'LimitOrder(address makerToken,address takerToken,uint128 makerAmount,uint128 takerAmount,uint128 takerTokenFeeAmount,address maker,address taker,address sender,address feeRecipient,bytes32 pool,uint64 expiry,uint256 salt)',
    read: zeroEx,
  },
  {
    class: 'order',
    at: 'contract',
    type: 'RfqOrder(address makerToken,address takerToken,uint128 makerAmount,uint128 takerAmount,address maker,address taker,address txOrigin,bytes32 pool,uint64 expiry,uint256 salt)',
    read: zeroEx,
  },
  {
    class: 'order',
    at: 'contract',
    type: 'OtcOrder(address makerToken,address takerToken,uint128 makerAmount,uint128 takerAmount,address maker,address taker,address txOrigin,uint256 expiryAndNonce)',
    read: zeroEx,
  },
  // ERC20Votes and Governor
  ...[
    'Delegation(address delegatee,uint256 nonce,uint256 expiry)',
    'Ballot(uint256 proposalId,bool support)',
    'Ballot(uint256 proposalId,uint8 support)',
    'ExtendedBallot(uint256 proposalId,uint8 support,string reason,bytes params)',
  ].map((type) => rowOf('vote', type)),
  ...[
    'Ballot(uint256 proposalId,uint8 support,address voter,uint256 nonce)',
    'ExtendedBallot(uint256 proposalId,uint8 support,address voter,uint256 nonce,string reason,bytes params)',
    'OverrideBallot(uint256 proposalId,uint8 support,address voter,uint256 nonce,string reason)',
  ].map((type) => rowOf('vote', type, 'voter')),
  // Snapshot
  ...[
    pattern('Vote(address from,string space,uint64 timestamp,… proposal,… choice,…string metadata)', '(?:string|bytes32)', String.raw`(?:uint32(?:\[\])?|string)`, '(?:string reason,)?(?:string app,)?'), // prettier-ignore
    pattern('Proposal(address from,string space,uint64 timestamp,string type,string title,string body,…string[] choices,…uint64 start,uint64 end,uint64 snapshot,…)', '(?:string discussion,)?', String.raw`(?:string\[\] labels,)?`, String.raw`string [a-z]+(?:,string [a-z]+)*`), // prettier-ignore
    pattern('CancelProposal(address from,string space,uint64 timestamp,… proposal)', '(?:string|bytes32)'),
  ].map((type): TypedRow => {
    return {
      class: 'vote',
      at: 'anywhere',
      type,
      read: (message, _, { domain }) => (domain.name === 'snapshot' ? { owners: owner(message, 'from') } : null),
    }
  }),
  // Account abstraction, meta-transactions, Safe, delegation: these allow everything that the account can do.
  ...[
    'PackedUserOperation(address sender,uint256 nonce,bytes initCode,bytes callData,bytes32 accountGasLimits,uint256 preVerificationGas,bytes32 gasFees,bytes paymasterAndData)',
    'UserOperation(address sender,uint256 nonce,bytes initCode,bytes callData,uint256 callGasLimit,uint256 verificationGasLimit,uint256 preVerificationGas,uint256 maxFeePerGas,uint256 maxPriorityFeePerGas,bytes paymasterAndData)',
    'SafeOp(address safe,uint256 nonce,bytes initCode,bytes callData,uint128 verificationGasLimit,uint128 callGasLimit,uint256 preVerificationGas,uint128 maxPriorityFeePerGas,uint128 maxFeePerGas,bytes paymasterAndData,uint48 validAfter,uint48 validUntil,address entryPoint)',
    'SafeTx(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 baseGas,uint256 gasPrice,address gasToken,address refundReceiver,uint256 nonce)',
    // before 1.0
    'SafeTx(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 dataGas,uint256 gasPrice,address gasToken,address refundReceiver,uint256 nonce)',
    'SafeMessage(bytes message)',
    'Delegation(address delegate,address delegator,bytes32 authority,Caveat[] caveats,uint256 salt)Caveat(address enforcer,bytes terms)',
    'SpendPermission(address account,address spender,address token,uint160 allowance,uint48 period,uint48 start,uint48 end,uint256 salt,bytes extraData)',
    `SignedBatchedCall(BatchedCall batchedCall,uint256 nonce,bytes32 keyHash,address executor,uint256 deadline)${CALLS}`,
  ].map((type) => rowOf('power', type)),
  ...[
    'ForwardRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data)',
    'ForwardRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,uint48 deadline,bytes data)',
    // GSN 2 and 3. Their forwarder also accepts a request type of its own.
    pattern('ForwardRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data,uint256 …)', 'validUntil(?:Time)?'),
    pattern(`RelayRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data,…RelayData relayData)RelayData(…)`, '(?:uint256 validUntil(?:Time)?,)?', String.raw`[\w ,]+`),
    'MetaTransaction(uint256 nonce,address from,bytes functionSignature)',
  ].map((type) => rowOf('power', type, 'from')), // prettier-ignore
  // Gelato
  rowOf('power', pattern('…ERC2771(uint256 chainId,address target,bytes data,address user,…,uint256 userDeadline)', '(?:SponsoredCall|CallWithSyncFee)(?:Concurrent)?', '(?:uint256 userNonce|bytes32 userSalt)'), 'user'), // prettier-ignore
  rowOf('power', 'SponsoredCall(uint256 chainId,address target,bytes data)'),
  rowOf('power', pattern('ForwardRequest(uint256 chainId,address target,bytes data,address feeToken,uint256 paymentType,uint256 maxFee,…address sponsor,uint256 sponsorChainId,uint256 nonce,bool enforceSponsorNonce…)', '(?:uint256 gas,)?', '(?:,bool enforceSponsorNonceOrdering)?'), 'sponsor'), // prettier-ignore
]

function rowOf(name: 'vote' | 'power', type: string | RegExp, own?: string): TypedRow {
  return {
    class: name,
    at: 'anywhere',
    type,
    read: (message) => ({ owners: own === undefined ? [] : owner(message, own) }),
  }
}

function authorization(message: StructValue, token: Buffer): RowReading {
  return {
    owners: owner(message, 'from'),
    grants: [pays(token, bytes(message, 'to'), number(message, 'value'), number(message, 'validBefore'))],
  }
}

/** Reads allowances of Permit2. One that expires at 0 ends in the block in which it starts. */
function permits(message: StructValue, details: readonly StructValue[]): RowReading {
  const deadline = number(message, 'sigDeadline')
  const grants = details.map((one) => {
    const until = number(one, 'expiration') === 0n ? deadline : number(one, 'expiration')
    return allowsByPermit2(bytes(one, 'token'), bytes(message, 'spender'), number(one, 'amount'), until)
  })
  return { grants, usableUntil: deadline }
}

/** Reads one-time allowances of Permit2. */
function transferFrom(message: StructValue): RowReading {
  const permitted = message.get('permitted')!
  const until = number(message, 'deadline')
  const grants = (Array.isArray(permitted) ? (permitted as StructValue[]) : [permitted as StructValue]).map((one) =>
    allowsByPermit2(bytes(one, 'token'), bytes(message, 'spender'), number(one, 'amount'), until),
  )
  return { grants, usableUntil: until }
}

/** Returns the recipients of an order's proceeds. The zero address stands for the account. */
function receiver(message: StructValue): TypedReading['buyers'] {
  const address = message.has('receiver') ? bytes(message, 'receiver') : ZERO
  return address.equals(ZERO) ? [] : [[address]]
}

function oneInch(message: StructValue, contract: Buffer): RowReading {
  return {
    owners: owner(message, 'maker'),
    grants: [allows(bytes(message, 'makerAsset'), contract, number(message, 'makingAmount'))],
    buyers: receiver(message),
  }
}

function zeroEx(message: StructValue, contract: Buffer): RowReading {
  const until = message.has('expiry') ? number(message, 'expiry') : number(message, 'expiryAndNonce') >> 192n
  return {
    owners: owner(message, 'maker'),
    grants: [allows(bytes(message, 'makerToken'), contract, number(message, 'makerAmount'), until)],
  }
}

type OrderLeaf = { path: readonly (string | number)[]; order: StructValue }

/** Flattens nested lists of orders. */
function leavesOf(tree: TypedValue, path: readonly (string | number)[]): OrderLeaf[] {
  if (Array.isArray(tree)) return (tree as TypedValue[]).flatMap((one, index) => leavesOf(one, [...path, index]))
  return [{ path, order: tree as StructValue }]
}

/** Reads orders of Seaport: every offered item can leave the account. */
function seaport(leaves: readonly OrderLeaf[], contract: Buffer): RowReading {
  return {
    owners: leaves.map(({ path, order }) => ({ path: [...path, 'offerer'], address: bytes(order, 'offerer') })),
    grants: leaves.flatMap(({ order }) =>
      structs(order, 'offer').map((item) => offered(item, contract, number(order, 'endTime'))),
    ),
    buyers: leaves.map(({ order }) => structs(order, 'consideration').map((item) => bytes(item, 'recipient'))),
  }
}

/** Source: Seaport, enum ItemType: native, ERC-20, ERC-721, ERC-1155, and the last two by criteria */
function offered(item: StructValue, contract: Buffer, until: bigint): Grant {
  const [start, end] = [number(item, 'startAmount'), number(item, 'endAmount')]
  const [token, amount] = [bytes(item, 'token'), start > end ? start : end]
  const kind = number(item, 'itemType')
  if (kind === 0n) return paysNative(contract, amount)
  if (kind === 1n) return allows(token, contract, amount, until)
  if (kind === 2n) return allowsItem(token, contract, number(item, 'identifierOrCriteria'), until)
  return allowsAll(token, contract, true, until)
}
