import Type, { type Static } from 'typebox'
import type { Output } from '../abi/results.ts'
import { sends, WRITTEN } from '../http/openapi-headers.ts'
import {
  answers,
  BigNumber,
  either,
  exactly,
  GivenReference,
  Hash,
  Reference,
  Revert,
  NeedsApproval,
  RuleLimit,
} from '../http/wire.ts'
import {
  GasPayer,
  Operation,
  RehearsedTransaction,
  SENT,
  SENT_ID,
  State,
  SubmittedTransaction,
  withAccepted,
} from './wire.ts'

export const Value = Type.Optional(
  Type.String({ maxLength: 200, description: 'Value to send, wei in decimal digits', examples: ['1000000000000000'] }),
)
export const DryRun = Type.Optional(
  Type.Boolean({ description: 'Simulate only: do everything except signing, and return the expected result' }),
)

/** maximum bytes of `data` in a request: as JSON it fits into a body of 64 KiB */
export const MAX_DATA_BYTES = 32_000

/**
 * Maximum bytes of calldata of a write, over all its calls. Nodes reject transactions above 128 KiB, and a transaction
 * that no node accepts would block every later nonce.
 * The limit is needed because ABI encoding can make arguments 16 times as long as in the body.
 */
export const MAX_CALLDATA_BYTES = 98_304

export const GasLimit = Type.Optional(
  Type.String({
    maxLength: 20,
    description: 'Gas limit, decimal digits, 21000 to 16777216; estimated if omitted',
    examples: ['60000'],
  }),
)

/** A write request with the field names of wallets. The service sets nonce and fees. */
export const TransactionRequest = Type.Object(
  {
    to: Type.String({
      maxLength: 100,
      description: 'Recipient or contract',
      examples: ['0x70997970C51812dc3A010C7d01b50e0d17dc79C8'],
    }),
    data: Type.Optional(
      Type.String({
        maxLength: 2 + 2 * MAX_DATA_BYTES,
        description: 'Calldata as 0x-hex; if omitted, only native currency is sent',
        examples: ['0x'],
      }),
    ),
    value: Value,
    gas: GasLimit,
    abi: Type.Optional(
      Type.String({
        maxLength: 8192,
        description:
          'ABI of the function that `data` calls, optionally with `error` items. It decodes reverts and the result of a dry run',
        examples: ['transfer(address to, uint256 amount) public returns (bool)'],
      }),
    ),
    reference: Reference,
    dryRun: DryRun,
  },
  {
    title: 'TransactionRequest',
    additionalProperties: false,
    examples: [{ to: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8', value: '1000000000000000' }],
  },
)

export const WriteStatus = Type.Union([Type.Literal('SUCCESS'), Type.Literal('REVERTED'), Type.Literal('FAILED')], {
  description:
    '`SUCCESS`: submitted, or mined successfully. `REVERTED`: mined, but failed; `revert` has the reason. `FAILED`: the write can never be mined. The last two occur with `?wait=mined` and for a repeated request',
})
export type WriteStatus = Static<typeof WriteStatus>

export const WhyReverted = Type.Optional(
  Type.Union([Revert, Type.Null()], { description: 'Revert reason; null if unknown' }),
)

/**
 * The response to a write, and to every retry with its idempotency key. The fields of the first API version come first.
 */
export const WriteAnswer = Type.Object(
  {
    status: WriteStatus,
    hash: Hash,
    explorerUrl: Type.String({ description: 'Block explorer URL of the transaction' }),
    tx: SubmittedTransaction,
    id: Type.String({ description: 'Id for `GET /v1/transactions/:id`, which returns the state' }),
    state: State,
    reference: GivenReference,
    revert: WhyReverted,
    operation: Type.Optional(Operation),
    gas: Type.Optional(GasPayer),
  },
  {
    title: 'WriteAnswer',
    description: '`gas` names the payer of gas if it is not the account',
    examples: [
      {
        status: 'SUCCESS',
        hash: SENT.hash,
        explorerUrl: `https://sepolia.etherscan.io/tx/${SENT.hash}`,
        tx: SENT,
        id: SENT_ID,
        state: 'SUBMITTED',
        reference: 'order-1042',
      },
    ],
  },
)
export type WriteAnswer = Static<typeof WriteAnswer>

const { hash: _, ...REHEARSED } = SENT

export const GAS_AND_FEE = '`gas` is the gas limit. `fee` is the maximum fee in wei, without the value'

/** The response to a dry run: without `hash`, `id` and `state`, and with the value that the call returns. */
export const DryRunAnswer = Type.Object(
  {
    status: Type.Literal('SUCCESS'),
    explorerUrl: Type.String({ description: 'Block explorer URL of the contract' }),
    tx: RehearsedTransaction,
    operation: Type.Optional(Operation),
    response: Type.Unknown({
      description:
        'Value that the function would return now; null without an ABI, or if the value does not match the ABI',
    }),
    outputs: Type.Array(
      exactly<Output>()(Type.Object({ name: Type.String(), type: Type.String(), value: Type.Unknown() })),
    ),
    gas: BigNumber,
    fee: BigNumber,
    rule: Type.String({ description: 'Rule of the signer policy that decided' }),
    approval: NeedsApproval,
    limits: Type.Optional(
      Type.Array(RuleLimit, {
        description: 'Limits of the signer policy that the write counts toward, before the write',
      }),
    ),
  },
  {
    title: 'DryRunAnswer',
    description: GAS_AND_FEE,
    examples: [
      {
        status: 'SUCCESS',
        explorerUrl: `https://sepolia.etherscan.io/address/${SENT.to}`,
        tx: REHEARSED,
        response: true,
        outputs: [{ name: '', type: 'bool', value: true }],
        gas: SENT.gasLimit,
        fee: { type: 'BigNumber', hex: '0x6d23ad5f8000' },
        rule: 'default',
        approval: 'not_required',
      },
    ],
  },
)
export type DryRunAnswer = Static<typeof DryRunAnswer>

/** Responses that a write can have. */
export const writeAnswers = withAccepted(
  answers(either(WriteAnswer, DryRunAnswer), 409, 413, 415, 422, 502, 504),
  WriteAnswer,
)

/** Headers that every write accepts. */
export const KeyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      description:
        '1 to 255 printable ASCII characters, unique per user, application and route. A retry with the same key and body returns the first response, with the current `state`. On another route, the same key identifies another write. `X-Idempotency-Key` is equivalent.',
    }),
  ),
  prefer: Type.Optional(
    Type.String({
      description:
        '`wait=5`: the client waits 5 seconds. A write that has not started by then is rejected with `overloaded`. With `wait=mined`, the response is sent at that time.',
    }),
  ),
})

export const send = {
  tags: ['Transactions'],
  operationId: 'sendTransaction',
  ...sends(...WRITTEN),
  summary: 'Send a transaction',
  description:
    'Sends native currency to any address, or calldata that the application encoded. Simulation, idempotency, waiting and errors work as for a contract write. The service always sets nonce and fees.',
  headers: KeyHeaders,
  body: TransactionRequest,
  ...writeAnswers,
}
