import Type from 'typebox'
import { answers, BigNumber } from '../http/wire.ts'
import { State, SubmittedTransaction, withAccepted } from '../transactions/wire.ts'
import { ReadRequest } from './wire.ts'

/** 2.4 for a write, with the addition of answers.md 10. */
export const WriteRequest = Type.Object(
  {
    address: ReadRequest.properties.address,
    abi: Type.String({
      maxLength: 8192,
      description: 'Abbreviated ABI of the one function being called, without `view`',
      examples: ['transfer(address to, uint256 amount) public'],
    }),
    args: ReadRequest.properties.args,
    value: Type.Optional(
      Type.String({ maxLength: 200, description: 'wei to send along, decimal digits', examples: ['1000000000000000'] }),
    ),
    dryRun: Type.Optional(Type.Boolean({ description: 'Do everything up to signing, and say what would happen' })),
  },
  { additionalProperties: false },
)

/** 2.6, with the additions of answers.md 10; a dry run has no `hash`, `id` and `state`, and says what the call returns. */
export const WriteResponse = Type.Object({
  status: Type.Literal('SUCCESS'),
  hash: Type.Optional(Type.String({ description: 'Transaction hash' })),
  explorerUrl: Type.String({ description: 'Block-explorer address of the transaction' }),
  tx: SubmittedTransaction,
  id: Type.Optional(Type.String({ description: 'GET /v1/transactions/:id tells what became of it' })),
  state: Type.Optional(State),
  response: Type.Optional(Type.Unknown({ description: 'Dry run: the return value' })),
  outputs: Type.Optional(Type.Array(Type.Object({ name: Type.String(), type: Type.String(), value: Type.Unknown() }))),
  gas: Type.Optional(BigNumber),
  fee: Type.Optional(BigNumber),
  rule: Type.Optional(Type.String({ description: 'Dry run: the policy rule of the signer that decided' })),
})

const headers = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      description:
        '1 to 255 printable ASCII characters; a repeat with the same key and body gets the first answer. X-Idempotency-Key is the same.',
    }),
  ),
})

export const write = {
  tags: ['Contracts'],
  security: [{ bearer: [] }],
  summary: 'Call a state-changing function of any contract',
  headers,
  body: WriteRequest,
  ...withAccepted(answers(WriteResponse, 409, 413, 415, 422, 502, 504)),
}
