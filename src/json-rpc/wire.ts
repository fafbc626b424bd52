import Type from 'typebox'
import { sends } from '../http/openapi-headers.ts'
import { answers, shownAs } from '../http/wire.ts'

/** All methods. Any other one reaches no node. */
export const METHODS = [
  'eth_chainId',
  'net_version',
  'eth_blockNumber',
  'eth_call',
  'eth_estimateGas',
  'eth_getBalance',
  'eth_getCode',
  'eth_getTransactionCount',
  'eth_getStorageAt',
  'eth_getBlockByNumber',
  'eth_getBlockByHash',
  'eth_getTransactionByHash',
  'eth_getTransactionReceipt',
  'eth_getLogs',
  'eth_gasPrice',
  'eth_maxPriorityFeePerGas',
  'eth_feeHistory',
] as const
export type MethodName = (typeof METHODS)[number]

const MAX_CALLS = 50
const Id = Type.Union([Type.String({ maxLength: 256 }), Type.Integer()])

const Call = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    id: Id,
    method: Type.Unsafe<string>({ type: 'string', enum: [...METHODS] }),
    params: Type.Optional(Type.Array(Type.Unknown())),
  },
  {
    title: 'JsonRpcCall',
    examples: [{ jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] }],
  },
)

const Answer = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    id: Type.Union([Id, Type.Null()]),
    result: Type.Optional(Type.Unknown()),
    error: Type.Optional(
      Type.Object({
        code: Type.Integer({ description: '3 reverted, -32000, -32600 to -32603' }),
        message: Type.String(),
        data: Type.Optional(Type.Unknown({ description: 'Revert data, or a problem document' })),
      }),
    ),
  },
  { title: 'JsonRpcAnswer', examples: [{ jsonrpc: '2.0', id: 1, result: '0x74cbb1' }] },
)

/** Checks only that the body is one call or a list of 1 to 50: each call of a batch gets an error of its own. */
const Body = Type.Unsafe<object | unknown[]>({
  anyOf: [{ type: 'object' }, { type: 'array', minItems: 1, maxItems: MAX_CALLS }],
  ...shownAs({ anyOf: [Call, Type.Array(Call, { minItems: 1, maxItems: MAX_CALLS })] }),
})

export const rpc = {
  tags: ['Contracts'],
  operationId: 'callJsonRpc',
  ...sends('Content-Language'),
  summary: 'Read the network by Ethereum JSON-RPC',
  description:
    'One call, or a batch of up to 50. `latest` is the newest block of this service. A well-formed request gets a 200: each call has its own result or error. Each call of a batch counts as a read.',
  body: Body,
  ...answers(Type.Unsafe<unknown>({ ...shownAs({ anyOf: [Answer, Type.Array(Answer)] }) }), 413, 415, 502),
}
