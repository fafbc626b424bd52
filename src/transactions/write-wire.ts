import Type, { type Static } from 'typebox'
import type { Output } from '../abi/results.ts'
import { sends, WRITTEN } from '../http/openapi-headers.ts'
import { answers, BigNumber, either, exactly, Hash, Revert, RuleLimit } from '../http/wire.ts'
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
  Type.String({ maxLength: 200, description: 'wei to send along, decimal digits', examples: ['1000000000000000'] }),
)
export const DryRun = Type.Optional(
  Type.Boolean({ description: 'Do everything up to signing, and report what would happen' }),
)

/** bytes: as JSON it fits into a body of 64 KiB */
export const MAX_DATA_BYTES = 32_000

/**
 * bytes of calldata of a write, over all its calls. Nodes reject transactions above 128 KiB, and one that no node
 * accepts would block every later nonce.
 * Needed because ABI encoding can make arguments 16 times as long as in the body.
 */
export const MAX_CALLDATA_BYTES = 98_304

export const GasLimit = Type.Optional(
  Type.String({
    maxLength: 20,
    description: 'Gas limit, decimal digits, 21000 to 16777216; without it one is estimated',
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
        description: '0x-hex for a contract; without it only native currency is sent',
        examples: ['0x'],
      }),
    ),
    value: Value,
    gas: GasLimit,
    abi: Type.Optional(
      Type.String({
        maxLength: 8192,
        description:
          'The function that `data` calls, optionally with `error` items: decodes reverts and what a dry run returns',
        examples: ['transfer(address to, uint256 amount) public returns (bool)'],
      }),
    ),
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
    '`SUCCESS`: on its way, or mined with success. `REVERTED`: mined, and it failed: `revert` says why. `FAILED`: not done, and never will be. The last two where one waits (`?wait=mined`), and of a repeat',
})
export type WriteStatus = Static<typeof WriteStatus>

export const WhyReverted = Type.Optional(
  Type.Union([Revert, Type.Null()], { description: 'Why it was `REVERTED`; null: unknown' }),
)

/**
 * The response to a write, and to every retry with its idempotency key. The fields of the first API version come first.
 */
export const WriteAnswer = Type.Object(
  {
    status: WriteStatus,
    hash: Hash,
    explorerUrl: Type.String({ description: 'Block-explorer address of the transaction' }),
    tx: SubmittedTransaction,
    id: Type.String({ description: 'GET /v1/transactions/:id returns its state' }),
    state: State,
    revert: WhyReverted,
    operation: Type.Optional(Operation),
    gas: Type.Optional(GasPayer),
  },
  {
    title: 'WriteAnswer',
    description: '`gas` says who pays for gas, where that is not the account',
    examples: [
      {
        status: 'SUCCESS',
        hash: SENT.hash,
        explorerUrl: `https://sepolia.etherscan.io/tx/${SENT.hash}`,
        tx: SENT,
        id: SENT_ID,
        state: 'SUBMITTED',
      },
    ],
  },
)
export type WriteAnswer = Static<typeof WriteAnswer>

const { hash: _, ...REHEARSED } = SENT

export const GAS_AND_FEE = '`gas` is the gas limit, `fee` the most that it can cost beside the value, in wei'

/** The response to a dry run: without `hash`, `id` and `state`, and with the value that the call returns. */
export const DryRunAnswer = Type.Object(
  {
    status: Type.Literal('SUCCESS'),
    explorerUrl: Type.String({ description: 'Block-explorer address of the contract' }),
    tx: RehearsedTransaction,
    operation: Type.Optional(Operation),
    response: Type.Unknown({
      description: 'What the function would return now; null where that does not decode as the ABI says',
    }),
    outputs: Type.Array(
      exactly<Output>()(Type.Object({ name: Type.String(), type: Type.String(), value: Type.Unknown() })),
    ),
    gas: BigNumber,
    fee: BigNumber,
    rule: Type.String({ description: 'The policy rule of the signer that decided' }),
    limits: Type.Optional(
      Type.Array(RuleLimit, {
        description: 'Limits of the signer’s policy that the write counts toward, as they are before it',
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
        '1 to 255 printable ASCII characters, of this user at this application on this route. A retry with the same key and body gets the response of the first, with the present `state`. On another route the same key is another write. X-Idempotency-Key is equivalent.',
    }),
  ),
  prefer: Type.Optional(
    Type.String({
      description:
        '`wait=5`: the client waits that many seconds. What has not started by then is refused (`overloaded`) and not done; `wait=mined` responds then.',
    }),
  ),
})

export const send = {
  tags: ['Transactions'],
  operationId: 'sendTransaction',
  ...sends(...WRITTEN),
  summary: 'Send a transaction',
  description:
    'Native currency to any address, or calldata that the application encoded itself. Simulation, idempotency, waiting and refusals as for a contract write; nonce and fees are always set by the service.',
  headers: KeyHeaders,
  body: TransactionRequest,
  ...writeAnswers,
}
