import Type, { type Static } from 'typebox'
import { sends, WRITTEN } from '../http/openapi-headers.ts'
import { Reference, shownAs } from '../http/wire.ts'
import { DryRun, GasLimit, KeyHeaders, TransactionRequest, Value, writeAnswers } from '../transactions/write-wire.ts'
import { ReadRequest } from './wire.ts'

/** The fields of a read, and those of a write. */
export const WriteRequest = Type.Object(
  {
    address: ReadRequest.properties.address,
    abi: Type.String({
      maxLength: 8192,
      description: 'Abbreviated ABI of the one function being called, without `view`',
      examples: ['transfer(address to, uint256 amount) public'],
    }),
    args: ReadRequest.properties.args,
    value: Value,
    gas: GasLimit,
    reference: Reference,
    dryRun: DryRun,
  },
  {
    title: 'WriteRequest',
    additionalProperties: false,
    examples: [
      {
        address: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
        abi: 'transfer(address to, uint256 amount) public',
        args: ['0x70997970C51812dc3A010C7d01b50e0d17dc79C8', '1500000'],
      },
    ],
  },
)

/** calls per batch: the signer's limit for an operation */
const MAX_BATCH_CALLS = 20
/** Gas and reference belong to the whole batch. */
const { dryRun, reference, gas: _, ...callProperties } = WriteRequest.properties

const AbiCall = Type.Object(callProperties, { title: 'BatchWriteCall', additionalProperties: false })
const { to, data, value } = TransactionRequest.properties
const EncodedCall = Type.Object({ to, data, value }, { title: 'BatchEncodedCall', additionalProperties: false })

/**
 * A call in either form. `write-batch.ts` checks which form it has and that it is complete, because the error of a
 * union would name no field.
 */
const BatchCall = Type.Unsafe<Partial<Static<typeof AbiCall> & Static<typeof EncodedCall>>>({
  ...Type.Partial(Type.Object({ ...AbiCall.properties, ...EncodedCall.properties })),
  additionalProperties: false,
  ...shownAs({ anyOf: [AbiCall, EncodedCall] }),
})

/** Calls that are executed in this order, all or none. */
export const BatchRequest = Type.Object(
  {
    calls: Type.Array(BatchCall, { minItems: 2, maxItems: MAX_BATCH_CALLS }),
    reference,
    dryRun,
  },
  {
    title: 'BatchWriteRequest',
    additionalProperties: false,
    examples: [
      {
        calls: ['approve(address spender, uint256 amount) public', 'transfer(address to, uint256 amount) public'].map(
          (abi) => ({
            address: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
            abi,
            args: ['0x70997970C51812dc3A010C7d01b50e0d17dc79C8', '1500000'],
          }),
        ),
      },
    ],
  },
)

export const batch = {
  tags: ['Contracts'],
  operationId: 'writeContractBatch',
  ...sends(...WRITTEN),
  summary: 'Call several functions atomically',
  description:
    'Requires a network with gas mode `sponsor`. A call is given by its ABI, or encoded as `to`, `data` and `value`. The whole batch is simulated first. Calls run in order, atomically: if one fails, all are reverted. At most 98,304 bytes of calldata in total.',
  headers: KeyHeaders,
  body: BatchRequest,
  ...writeAnswers,
}

export const write = {
  tags: ['Contracts'],
  operationId: 'writeContract',
  ...sends(...WRITTEN),
  summary: 'Call a state-changing function of any contract',
  description:
    'Simulates the call first. A call that would revert is rejected and costs nothing. Responds when the transaction is submitted, or with `?wait=mined` when it is in a block. At most 98,304 bytes of calldata.',
  headers: KeyHeaders,
  body: WriteRequest,
  ...writeAnswers,
}
