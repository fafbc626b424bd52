import Type from 'typebox'
import { answers } from '../http/wire.ts'
import { withAccepted } from '../transactions/wire.ts'
import { DryRun, KeyHeaders, Value, WriteResponse } from '../transactions/write-wire.ts'
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
    value: Value,
    dryRun: DryRun,
  },
  { additionalProperties: false },
)

export const write = {
  tags: ['Contracts'],
  security: [{ bearer: [] }],
  summary: 'Call a state-changing function of any contract',
  headers: KeyHeaders,
  body: WriteRequest,
  ...withAccepted(answers(WriteResponse, 409, 413, 415, 422, 502, 504)),
}
