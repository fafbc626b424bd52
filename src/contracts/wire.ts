import Type from 'typebox'
import { answers } from '../http/wire.ts'

const abi = Type.String({
  maxLength: 8192,
  description: 'Abbreviated ABI of the one function being called, or a JSON ABI item as text',
  examples: ['balanceOf(address) public view returns (uint256)'],
})
const args = Type.Optional(
  Type.Array(Type.String(), { maxItems: 64, description: 'Arguments in order, every one a string' }),
)

/** 2.4, with the additions of answers.md 9. */
export const ReadRequest = Type.Object(
  {
    address: Type.String({ maxLength: 100, description: 'Contract address' }),
    abi,
    args,
    sender: Type.Optional(
      Type.Boolean({ description: 'Run with the user as msg.sender; otherwise with the zero address' }),
    ),
    blockTag: Type.Optional(
      Type.Union([
        Type.Literal('latest'),
        Type.Literal('finalized'),
        Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
        Type.String({ pattern: '^\\d{1,15}$' }),
      ]),
    ),
  },
  { additionalProperties: false },
)

export const ReadResponse = Type.Object({
  status: Type.Literal('SUCCESS'),
  explorerUrl: Type.String({ description: 'Block-explorer address of the contract' }),
  response: Type.Unknown({ description: 'The return value; integers as big-number objects' }),
  outputs: Type.Array(Type.Object({ name: Type.String(), type: Type.String(), value: Type.Unknown() })),
  blockNumber: Type.Integer(),
})

export const BatchRequest = Type.Object(
  {
    calls: Type.Array(Type.Omit(ReadRequest, ['blockTag'], { additionalProperties: false }), {
      minItems: 1,
      maxItems: 100,
    }),
    blockTag: Type.Optional(ReadRequest.properties.blockTag),
  },
  { additionalProperties: false },
)

/** Each call is answered on its own: what the single read answers, or its problem document. */
export const BatchResponse = Type.Object({ blockNumber: Type.Integer(), results: Type.Array(Type.Unknown()) })

const shared = { tags: ['Contracts'], security: [{ bearer: [] }] }
export const read = {
  ...shared,
  summary: 'Call a view function of any contract',
  body: ReadRequest,
  ...answers(ReadResponse, 413, 415, 422, 502, 504),
}
export const readBatch = {
  ...shared,
  summary: 'Call up to 100 view functions at one block',
  description:
    'Each call is answered on its own: with what the single read answers, or with a problem document. When the answers together grow longer than 4 MiB, the calls behind are refused with `invalid_return_data`. When the node answers none of them, the request is refused.',
  body: BatchRequest,
  ...answers(BatchResponse, 413, 415, 422, 502, 504),
}
