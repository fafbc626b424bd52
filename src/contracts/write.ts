import { createHash } from 'node:crypto'
import type { Static } from 'typebox'
import { encodeCall } from '../abi/args.ts'
import type { App } from '../app.ts'
import type { Caller } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import { dryRun } from '../transactions/lanes/dry-run.ts'
import type { Intent } from '../transactions/intent.ts'
import type { WriteOptions } from '../transactions/key.ts'
import { sendTransaction } from '../transactions/lanes/send.ts'
import { readGasLimit } from '../transactions/lanes/limits.ts'
import { readValue, refuseLong, refuseView } from '../transactions/lanes/value.ts'
import type { DryRunAnswer, WriteAnswer } from '../transactions/write-wire.ts'
import { parsedAbi } from './abi-cache.ts'
import { readContractAddress } from './read.ts'
import type { WriteRequest } from './write-wire.ts'

export type ContractWriteBody = Static<typeof WriteRequest>

/** Route of the operation, and the scope of its idempotency keys. */
export const WRITE_ROUTE = '/v1/contracts/method/write'

/**
 * Calls a state-changing function of any contract from the caller's account.
 * @param idempotencyKey  the caller's key, validated
 * @throws invalid_address, invalid_abi, abi_is_view, invalid_argument, invalid_data, invalid_value, invalid_gas, and
 *     the errors of `sendTransaction`
 */
export async function writeContract(
  app: App,
  caller: Caller,
  body: ContractWriteBody,
  { idempotencyKey, askedFrom }: WriteOptions,
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  const intent = readIntent(body)
  const idempotency =
    idempotencyKey === undefined ? null : { key: idempotencyKey, route: WRITE_ROUTE, requestHash: hashOf(body) }
  return sendTransaction(app, caller, intent, { idempotency, askedFrom, reference: body.reference })
}

/**
 * Performs all steps of a write before its signature, as a dry run.
 * @throws as `writeContract`
 */
export function dryRunContract(app: App, caller: Caller, body: ContractWriteBody): Promise<DryRunAnswer> {
  return dryRun(app, caller, readIntent(body))
}

/** Validates the parts of a write that need no request to the chain. */
export function readIntent({ address, abi, args = [], value = '0', gas }: ContractWriteBody): Intent {
  const to = readContractAddress(address).toLowerCase() as Hex
  const { function: fn, errors } = parsedAbi(abi)
  refuseView(fn)
  const data = encodeCall(fn, args)
  refuseLong([{ data }], '/args')
  return {
    to,
    data,
    value: readValue(value, { isPayable: fn.stateMutability !== 'nonpayable' }),
    abi,
    fn,
    errors,
    ...(gas === undefined ? {} : { gas: readGasLimit(gas) }),
  }
}

/** Hashes a request, independent of the order of its fields. */
function hashOf({ address, abi, args, value, gas, reference }: ContractWriteBody): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([address, abi, args ?? [], value ?? '0', gas ?? null, reference ?? null]))
    .digest()
}
