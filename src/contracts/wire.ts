import Type, { type Static } from 'typebox'
import type { Output as DecodedOutput } from '../abi/results.ts'
import { sends } from '../http/openapi-headers.ts'
import { answers, exactly, Problem, shownAs } from '../http/wire.ts'

const abi = Type.String({
  maxLength: 8192,
  description: 'Abbreviated ABI of the one function being called, or a JSON ABI item as text',
  examples: ['balanceOf(address) public view returns (uint256)'],
})
const args = Type.Optional(
  Type.Array(Type.String(), { maxItems: 64, description: 'Arguments in order, every one a string' }),
)

const CONTRACT = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'
const CALL = {
  address: CONTRACT,
  abi: 'balanceOf(address) public view returns (uint256)',
  args: ['0x70997970C51812dc3A010C7d01b50e0d17dc79C8'],
}
const RESULT = { type: 'BigNumber', hex: '0x16e360' }
const ANSWER = {
  status: 'SUCCESS',
  explorerUrl: `https://sepolia.etherscan.io/address/${CONTRACT}`,
  response: RESULT,
  outputs: [{ name: '', type: 'uint256', value: RESULT }],
  blockNumber: 7_654_321,
}

/** The fields of the first API version come first. */
export const ReadRequest = Type.Object(
  {
    address: Type.String({ maxLength: 100, description: 'Contract address' }),
    abi,
    args,
    sender: Type.Optional(
      Type.Boolean({ description: 'Run the call with the user as `msg.sender`, instead of the zero address' }),
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
  { title: 'ReadRequest', additionalProperties: false, examples: [CALL] },
)

const Output = exactly<DecodedOutput>()(
  Type.Object(
    {
      name: Type.String(),
      type: Type.String(),
      value: Type.Unknown({ description: 'Integers as big-number objects' }),
    },
    { title: 'Output', description: 'One return value' },
  ),
)

const ReadResponse = Type.Object(
  {
    status: Type.Literal('SUCCESS'),
    explorerUrl: Type.String({ description: 'Block explorer URL of the contract' }),
    response: Type.Unknown({ description: 'The return value; integers as big-number objects' }),
    outputs: Type.Array(Output),
    blockNumber: Type.Integer(),
  },
  { title: 'ReadAnswer', examples: [ANSWER] },
)
export type ReadAnswer = Static<typeof ReadResponse>

export const BatchRequest = Type.Object(
  {
    calls: Type.Array(
      Type.Omit(ReadRequest, ['blockTag'], { title: 'Call', additionalProperties: false, examples: [CALL] }),
      {
        minItems: 1,
        maxItems: 100,
      },
    ),
    blockTag: Type.Optional(ReadRequest.properties.blockTag),
  },
  { title: 'BatchRequest', additionalProperties: false, examples: [{ calls: [CALL], blockTag: 'latest' }] },
)

/** Each call has its own result: the response of a single read, or a problem document. */
const BatchResponse = Type.Object(
  {
    blockNumber: Type.Integer(),
    results: Type.Array(
      Type.Unsafe<ReadAnswer | Static<typeof Problem>>(Type.Unknown(shownAs({ anyOf: [ReadResponse, Problem] }))),
    ),
  },
  { title: 'BatchAnswer', examples: [{ blockNumber: ANSWER.blockNumber, results: [ANSWER] }] },
)
export type BatchAnswer = Static<typeof BatchResponse>

const shared = { tags: ['Contracts'] }
export const read = {
  ...shared,
  operationId: 'readContract',
  ...sends('X-Block-Number'),
  summary: 'Call a view function of any contract',
  description: 'Calls the function at the newest block, or at the block of `blockTag`.',
  body: ReadRequest,
  ...answers(ReadResponse, 413, 415, 422, 502, 504),
}
export const readBatch = {
  ...shared,
  operationId: 'readContracts',
  ...sends('X-Block-Number', 'Content-Language'),
  summary: 'Call up to 100 view functions at one block',
  description:
    'Each call has its own result: the result of a single read, or a problem document. If the results exceed 4 MiB in total, the remaining calls fail with `invalid_return_data`. If the node answers no call, the whole request fails.',
  body: BatchRequest,
  ...answers(BatchResponse, 413, 415, 422, 502, 504),
}
