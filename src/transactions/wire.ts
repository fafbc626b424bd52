import Type, { type Static, type TSchema } from 'typebox'
import { PAGED, sends } from '../http/openapi-headers.ts'
import { Address, answers, BigNumber, exactly, GivenReference, Hash, Limit, Nullable, Revert } from '../http/wire.ts'
import type { Hex } from '../ids.ts'
import type { TransactionState, Transition as StoredTransition } from '../store/column-values.ts'

/** States that the API returns. An intent without signed bytes is not visible to callers. */
export const publicStates = [
  'SUBMITTED',
  'MINED',
  'FINALIZED',
  'REVERTED',
  'FAILED',
  'REPLACED',
  'CANCELLED',
] as const satisfies TransactionState[]

export const State = Type.Unsafe<(typeof publicStates)[number]>(
  Type.Union(
    publicStates.map((state) => Type.Literal(state)),
    {
      title: 'TransactionState',
      description:
        'SUBMITTED → MINED → FINALIZED; or REVERTED (mined, but failed), CANCELLED (the cancellation was mined), REPLACED (a foreign transaction used the nonce), FAILED (can never be mined)',
    },
  ),
)

/** 0x-prefixed hex */
const Bytes = Type.Unsafe<Hex>(Type.String())

/** fees: EIP-1559 or legacy */
const fees = {
  maxFeePerGas: Type.Optional(BigNumber),
  maxPriorityFeePerGas: Type.Optional(BigNumber),
  gasPrice: Type.Optional(BigNumber),
}

const callFields = {
  to: Address,
  value: BigNumber,
  data: Bytes,
}

/** An operation as the API returns it: the calls that the user signed and a sponsor sends. */
export const Operation = Type.Object(
  {
    id: Type.Unsafe<Hex>(Type.String({ description: 'Id in the dispatcher, 32 bytes; each id is used at most once' })),
    from: Address,
    ...callFields,
    gasLimit: BigNumber,
    deadline: Type.Integer({ description: 'Deadline in seconds since 1970' }),
    calls: Type.Optional(
      Type.Array(Type.Object(callFields, { title: 'OperationCall' }), {
        description: 'All calls of a batch. They run in this order, all or none',
      }),
    ),
  },
  { title: 'Operation' },
)
export type WireOperation = Static<typeof Operation>

/** Payer of the gas of a write, if not its account. */
export const GasPayer = Type.Object({ strategy: Type.Literal('sponsor'), payer: Address }, { title: 'GasPayer' })
export type GasPayer = Static<typeof GasPayer>

const transactionFields = {
  type: Type.Integer({ description: '2; 0 on networks with legacy fees; 4 if the transaction includes delegations' }),
  chainId: Type.Integer(),
  nonce: Type.Integer(),
  from: Address,
  to: Address,
  data: Bytes,
  value: BigNumber,
  gasLimit: BigNumber,
  ...fees,
  accessList: Type.Array(Type.Unknown()),
}

/** `tx` of a dry run: unsigned, without a hash. */
export const RehearsedTransaction = Type.Object(transactionFields, { title: 'RehearsedTransaction' })
export type WireTransaction = Static<typeof RehearsedTransaction>

/** `tx` of a write: the submitted transaction without its signature. */
export const SubmittedTransaction = Type.Object({ ...transactionFields, hash: Hash }, { title: 'SubmittedTransaction' })

const Transition = exactly<StoredTransition>()(
  Type.Object(
    {
      state: Type.Unsafe<TransactionState>(Type.String()),
      at: Type.String(),
      hash: Type.Optional(Hash),
      blockNumber: Type.Optional(Type.Integer()),
    },
    { title: 'Transition' },
  ),
)

const Receipt = Type.Object(
  {
    blockNumber: Type.Integer(),
    blockHash: Hash,
    status: Type.Union([Type.Literal('SUCCESS'), Type.Literal('REVERTED')]),
    gasUsed: BigNumber,
    effectiveGasPrice: BigNumber,
  },
  { title: 'Receipt' },
)

const WaitReason = Type.Object(
  {
    code: Type.String({
      description:
        'waiting_for_block, fee_too_low_for_market, fee_cap_reached, insufficient_funds, behind_earlier, queued, network_stopped, account_stopped, rejected_by_nodes, nonce_used_elsewhere, node_unreachable, signer_unavailable, policy_denied, account_frozen or application_suspended. Values may be added',
    }),
    detail: Type.String({ description: 'Explanation for developers; the wording may change' }),
  },
  { title: 'WaitReason' },
)

const HASH = `0x${'5e'.repeat(32)}`
const number = (hex: string) => ({ type: 'BigNumber', hex })
/** A transfer of 1.5 tokens, for the examples. */
export const SENT = {
  type: 2,
  chainId: 11_155_111,
  nonce: 7,
  from: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  to: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
  data: `0xa9059cbb${'3C44CdDdB6a900fa2b585dd299e03d12FA4293BC'.toLowerCase().padStart(64, '0')}${'16e360'.padStart(64, '0')}`,
  value: number('0x00'),
  gasLimit: number('0xea60'),
  maxFeePerGas: number('0x77359400'),
  maxPriorityFeePerGas: number('0x3b9aca00'),
  accessList: [],
  hash: HASH,
}
export const SENT_ID = 'tx_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a'
const { type: _, accessList: __, hash: ___, ...fields } = SENT
const TIMES = ['2026-01-31T12:00:00.000Z', '2026-01-31T12:00:12.000Z'] as const
const MINED = {
  id: SENT_ID,
  state: 'MINED',
  hash: HASH,
  hashes: [HASH],
  explorerUrl: `https://sepolia.etherscan.io/tx/${HASH}`,
  network: 'sepolia',
  ...fields,
  isCancel: false,
  isFinal: false,
  createdAt: TIMES[0],
  updatedAt: TIMES[1],
  transitions: [
    { state: 'SUBMITTED', at: TIMES[0] },
    { state: 'MINED', at: TIMES[1], hash: HASH, blockNumber: 7_654_321 },
  ],
  receipt: {
    blockNumber: 7_654_321,
    blockHash: `0x${'b1'.repeat(32)}`,
    status: 'SUCCESS',
    gasUsed: number('0xc350'),
    effectiveGasPrice: number('0x59682f00'),
  },
  revert: null,
  reason: null,
  reference: 'order-1042',
}

const Transaction = Type.Object(
  {
    id: Type.String(),
    state: State,
    hash: Hash,
    hashes: Type.Array(Hash, { description: 'All hashes of the transaction, newest first' }),
    explorerUrl: Type.String(),
    network: Type.String(),
    chainId: Type.Integer(),
    nonce: Type.Integer(),
    from: Address,
    to: Address,
    value: BigNumber,
    data: Bytes,
    gasLimit: BigNumber,
    ...fees,
    isCancel: Type.Boolean({
      description: 'true if the newest or mined transaction is a cancellation, which only uses the nonce',
    }),
    isFinal: Type.Boolean(),
    createdAt: Type.String(),
    updatedAt: Type.String(),
    transitions: Type.Array(Transition),
    receipt: Nullable(Receipt),
    revert: Type.Union([Revert, Type.Null()], { description: 'Reason why a mined transaction failed' }),
    reason: Type.Union([WaitReason, Type.Null()], {
      description: 'Reason for a wait of more than a minute; otherwise null',
    }),
    reference: GivenReference,
    operation: Type.Optional(Operation),
    gas: Type.Optional(GasPayer),
  },
  { title: 'Transaction', examples: [MINED] },
)

/** A transaction as the API returns it. */
export type Transaction = Static<typeof Transaction>

export const WaitQuery = Type.Object(
  {
    wait: Type.Optional(
      Type.Literal('mined', { description: '`mined`: respond when the transaction is mined, or after 30 s with 202' }),
    ),
  },
  { additionalProperties: false },
)

export const ListQuery = Type.Object(
  {
    limit: Type.Optional(Limit(50)),
    cursor: Type.Optional(Type.String({ maxLength: 512, description: '`X-Next-Cursor` of the previous page' })),
    state: Type.Optional(State),
  },
  { additionalProperties: false },
)

export const IdParam = Type.Object({
  id: Type.String({ maxLength: 100, description: 'Id or any hash of the transaction' }),
})

const shared = { tags: ['Transactions'] }

/** Adds a 202 response with this body: the transaction is not mined yet. */
export function withAccepted<T extends { response: Record<string, unknown> }>(responses: T, body: TSchema): T {
  return { ...responses, response: { ...responses.response, 202: body } }
}

export const one = {
  ...shared,
  operationId: 'readTransaction',
  ...sends('Location', 'Preference-Applied'),
  summary: 'Get a transaction, by id or hash',
  description:
    'Returns a transaction that this application sent for the user. With `?wait=mined`, responds when the transaction is in a block.',
  params: IdParam,
  querystring: WaitQuery,
  ...withAccepted(answers(Transaction, 404), Transaction),
}
export const list = {
  ...shared,
  operationId: 'listTransactions',
  ...sends(...PAGED),
  summary: 'List transactions of the user, newest first',
  description:
    'Lists the transactions that this application sent for the user. `Link` and `X-Next-Cursor` lead to the next page.',
  querystring: ListQuery,
  ...answers(Type.Array(Transaction)),
}
export const cancel = {
  ...shared,
  operationId: 'cancelTransaction',
  summary: 'Cancel a pending transaction',
  description:
    'Sends an empty transaction with the same nonce and a higher fee. Either transaction may be mined; `state` shows later which one was.',
  params: IdParam,
  ...answers(Transaction, 404, 409, 413, 415, 422, 502, 504),
}
export const speedUp = {
  ...shared,
  operationId: 'speedUpTransaction',
  summary: 'Speed up a pending transaction',
  description:
    'Sends the same transaction again at a higher fee, with a new hash. Not possible if a sponsor pays for the transaction.',
  params: IdParam,
  ...answers(Transaction, 404, 409, 413, 415, 422, 502, 504),
}
