import Type from 'typebox'
import { Address, answers, BigNumber } from '../http/wire.ts'
import { publicStates } from './read.ts'

const Hash = Type.String({ pattern: '^0x[0-9a-f]{64}$', description: 'Transaction hash' })
export const State = Type.Union(
  publicStates.map((state) => Type.Literal(state)),
  {
    description:
      'SUBMITTED → MINED → FINALIZED; or REVERTED (mined and failed), CANCELLED (the cancel was mined), REPLACED (its nonce was used by a transaction of somebody else), FAILED (can never be mined)',
  },
)

/** gas prices: one of the two forms */
const fees = {
  maxFeePerGas: Type.Optional(BigNumber),
  maxPriorityFeePerGas: Type.Optional(BigNumber),
  gasPrice: Type.Optional(BigNumber),
}

/** `tx` of a write (answers.md 10). */
export const SubmittedTransaction = Type.Object({
  type: Type.Integer({ description: '2, or 0 on networks with legacy fees' }),
  chainId: Type.Integer(),
  nonce: Type.Integer(),
  from: Address,
  to: Address,
  data: Type.String(),
  value: BigNumber,
  gasLimit: BigNumber,
  ...fees,
  accessList: Type.Array(Type.Unknown()),
  hash: Type.Optional(Hash),
})

const Transition = Type.Object({
  state: Type.String(),
  at: Type.String(),
  hash: Type.Optional(Hash),
  blockNumber: Type.Optional(Type.Integer()),
})

const Revert = Type.Object({
  name: Type.Union([Type.String(), Type.Null()]),
  signature: Type.Union([Type.String(), Type.Null()]),
  args: Type.Unknown(),
  selector: Type.Union([Type.String(), Type.Null()]),
  data: Type.String(),
  reason: Type.String(),
})

export const Transaction = Type.Object({
  id: Type.String(),
  state: State,
  hash: Hash,
  hashes: Type.Array(Hash, { description: 'Every hash it was sent under, newest first' }),
  explorerUrl: Type.String(),
  network: Type.String(),
  chainId: Type.Integer(),
  nonce: Type.Integer(),
  from: Address,
  to: Address,
  value: BigNumber,
  data: Type.String(),
  gasLimit: BigNumber,
  ...fees,
  isCancel: Type.Boolean({ description: 'The newest, or the mined, bytes do nothing but use the nonce' }),
  isFinal: Type.Boolean(),
  createdAt: Type.String(),
  updatedAt: Type.String(),
  transitions: Type.Array(Transition),
  receipt: Type.Union([
    Type.Object({
      blockNumber: Type.Integer(),
      blockHash: Hash,
      status: Type.Union([Type.Literal('SUCCESS'), Type.Literal('REVERTED')]),
      gasUsed: BigNumber,
      effectiveGasPrice: BigNumber,
    }),
    Type.Null(),
  ]),
  revert: Type.Union([Revert, Type.Null()], { description: 'Why a mined transaction failed' }),
})

export const WaitQuery = Type.Object(
  { wait: Type.Optional(Type.Literal('mined', { description: 'Answer when it is mined, or after 30 s with 202' })) },
  { additionalProperties: false },
)

export const ListQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.String({ pattern: '^([1-9]|[1-9]\\d|1\\d\\d|200)$', description: '1 to 200, default 50' }),
    ),
    cursor: Type.Optional(Type.String({ maxLength: 512 })),
    state: Type.Optional(State),
  },
  { additionalProperties: false },
)

export const IdParam = Type.Object({
  id: Type.String({ maxLength: 100, description: 'Id, or any hash it was sent under' }),
})

const shared = { tags: ['Transactions'], security: [{ bearer: [] }] }

/** Also answers 202, with the same body, when it is not there yet. */
export function withAccepted<T extends { response: Record<string, unknown> }>(responses: T): T {
  return { ...responses, response: { ...responses.response, 202: responses.response[200] } }
}

export const one = {
  ...shared,
  summary: 'One transaction, by id or hash',
  params: IdParam,
  querystring: WaitQuery,
  ...withAccepted(answers(Transaction, 404)),
}
export const list = {
  ...shared,
  summary: 'Your transactions, newest first',
  querystring: ListQuery,
  ...answers(Type.Array(Transaction)),
}
export const cancel = {
  ...shared,
  summary: 'Try to cancel a pending transaction',
  params: IdParam,
  ...answers(Transaction, 404, 413, 415, 422, 502, 504),
}
export const speedUp = {
  ...shared,
  summary: 'Raise the fee of a pending transaction',
  params: IdParam,
  ...answers(Transaction, 404, 413, 415, 422, 502, 504),
}
