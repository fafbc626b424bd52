import type { Static } from 'typebox'
import { encodeCall, readAddress } from '../abi/args.ts'
import type { ParsedAbi } from '../abi/parse.ts'
import { decodeResult } from '../abi/results.ts'
import { decodeRevert } from '../abi/reverts.ts'
import type { App } from '../app.ts'
import { isUnknownBlock, revertDataOf } from '../chain/rpc/errors.ts'
import { freshBlock } from '../chain/latest-block.ts'
import type { Chain } from '../chain/network.ts'
import { readAt, type BlockTag, type Reads } from '../chain/reads.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { problemOf, toAppError, type ProblemContext } from '../http/problems.ts'
import type { Hex } from '../ids.ts'
import { findFinished, keepFinished } from './response-cache.ts'
import { parsedAbi } from './abi-cache.ts'
import type { BatchAnswer, BatchRequest, ReadAnswer, ReadRequest } from './wire.ts'

type CallRequest = Pick<Static<typeof ReadRequest>, 'address' | 'abi' | 'args' | 'sender'>

/**
 * Calls a view function.
 * @param write  serializes the response
 * @throws invalid_address | invalid_abi | abi_not_view | invalid_argument | no_contract | execution_reverted |
 *     invalid_return_data
 */
export async function readContract(
  app: App,
  caller: Caller,
  request: Static<typeof ReadRequest>,
  write: (answer: ReadAnswer) => string,
): Promise<{ text: string; blockNumber: number }> {
  const chain = chainOf(app, caller)
  const tag = readTag(request.blockTag)
  // Join the parts as JSON: with a plain separator, a string that includes it would make two requests equal.
  const key =
    tag === 'latest' && request.sender !== true ? JSON.stringify([request.address, request.abi, request.args]) : null
  const newest = key === null ? null : freshBlock(chain)
  const known = newest === null ? undefined : findFinished(chain, newest.hash, key!)
  if (known !== undefined) return { text: known, blockNumber: newest!.number }

  const call = prepare(request)
  return readAt(chain, tag, async (reads) => {
    const { number, hash } = reads.block
    const text = write(answerOf(chain, call, { data: await callContract(caller, call, reads), blockNumber: number }))
    // Store the response only from the second read on: most reads are not repeated within their block.
    if (key !== null && reads.isRepeated()) keepFinished(chain, hash, key, text)
    return { text, blockNumber: number }
  })
}

/**
 * Runs up to 100 reads at one block, each with its own result or error.
 * @throws chain_unavailable | chain_timeout  if the node answers no call
 */
export async function readContracts(
  app: App,
  caller: Caller,
  { calls, blockTag }: Static<typeof BatchRequest>,
  context: Omit<ProblemContext, 'origin'>,
): Promise<BatchAnswer> {
  const chain = chainOf(app, caller)
  return readAt(chain, readTag(blockTag), async (reads) => {
    const asked = await Promise.allSettled(
      calls.map(async (request) => {
        const call = prepare(request)
        return { call, data: await callContract(caller, call, reads) }
      }),
    )
    const failures = asked.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []))
    // If the node does not know the block, the whole batch runs again at another block.
    const thrown = failures.find((reason) => isUnknown(reason) || toAppError(reason).code === 'internal_error')
    if (thrown !== undefined) throw thrown
    if (failures.length === calls.length && failures.every(isNodes)) throw failures[0]

    let charactersLeft = MAX_BATCH_CHARACTERS
    const results = asked.map((one, index) => {
      try {
        if (one.status === 'rejected') throw one.reason
        if (charactersLeft <= 0) throw new AppError('invalid_return_data', 'The earlier results of this batch have reached the size limit. This call has no result. Send this call alone.') // prettier-ignore
        const answer = answerOf(chain, one.value.call, { data: one.value.data, blockNumber: reads.block.number })
        charactersLeft -= charactersOf(answer.response)
        return answer
      } catch (reason) {
        const error = toAppError(reason)
        return problemOf(error, { origin: app.origin, ...context, instance: `${context.instance}#/calls/${index}` })
      }
    })
    return { blockNumber: reads.block.number, results }
  })
}

/** maximum characters of a batch's results, approximately; the last result may be as long as that of a single read */
const MAX_BATCH_CHARACTERS = 4_194_304

function charactersOf(response: unknown): number {
  if (typeof response === 'string') return response.length
  if (Array.isArray(response)) return response.reduce<number>((sum, value) => sum + charactersOf(value), 2)
  // A BigNumber is serialized as `{"type":"BigNumber","hex":"0x…"}`.
  return typeof response === 'object' && response !== null ? 30 + (response as { hex: string }).hex.length : 5
}

const isUnknown = (error: unknown): boolean => error instanceof RpcError && isUnknownBlock(error)

const isNodes = (error: unknown): boolean => ['chain_unavailable', 'chain_timeout'].includes(toAppError(error).code)

type PreparedCall = { to: Hex; parsed: ParsedAbi; data: Hex; asUser: boolean }

/** Validates the parts of a call that need no request to the chain. */
function prepare({ address, abi, args = [], sender = false }: CallRequest): PreparedCall {
  const to = readContractAddress(address)
  const parsed = parsedAbi(abi)
  const { stateMutability } = parsed.function
  if (stateMutability !== 'view' && stateMutability !== 'pure') {
    throw new AppError(
      'abi_not_view',
      'A read needs a view function. Nothing was called. Write `view` after the parameters.',
      {
        errors: [{ pointer: '/abi', code: 'not_view', detail: 'The function is not marked view or pure.' }],
      },
    )
  }
  return { to, parsed, data: encodeCall(parsed.function, args), asUser: sender }
}

/**
 * Reads the `address` field of a contract call.
 * @throws invalid_address  with its pointer
 */
export function readContractAddress(address: string): Hex {
  try {
    return readAddress(address)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new AppError('invalid_address', error.message, {
      errors: [{ pointer: '/address', code: 'invalid_address', detail: error.message }],
    })
  }
}

function readTag(tag: Static<typeof ReadRequest>['blockTag']): BlockTag {
  if (tag === undefined || tag === 'latest' || tag === 'finalized') return tag ?? 'latest'
  return Number(tag)
}

/** Returns the return data of the contract. */
async function callContract(caller: Caller, { to, parsed, data, asUser }: PreparedCall, reads: Reads): Promise<Hex> {
  const result = await reads.call({ to, data, ...(asUser ? { from: caller.address } : {}) })
  if ('reverted' in result) {
    const revert = decodeRevert(revertDataOf(result.reverted) ?? null, parsed.errors, { data, value: 0n })
    throw new AppError('execution_reverted', revert.reason, { revert })
  }
  // The function returns nothing, or there is no contract.
  if (result.data === '0x' && !(await reads.hasCode(to)))
    throw new AppError('no_contract', 'No contract exists at this address. Check the address and the network.', {
      errors: [{ pointer: '/address', code: 'no_code', detail: 'The address has no code on this network.' }],
    })
  return result.data
}

function answerOf(chain: Chain, { to, parsed }: PreparedCall, answer: { data: Hex; blockNumber: number }): ReadAnswer {
  const { response, outputs } = decodeResult(parsed.function, answer.data)
  return {
    status: 'SUCCESS',
    explorerUrl: chain.explorer.address(to),
    response,
    outputs,
    blockNumber: answer.blockNumber,
  }
}
