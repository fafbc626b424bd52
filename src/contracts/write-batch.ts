import { createHash } from 'node:crypto'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import type { Intent } from '../transactions/intent.ts'
import type { WriteOptions } from '../transactions/key.ts'
import { rehearseOperation } from '../transactions/lanes/rehearse-operation.ts'
import { sendOperation } from '../transactions/lanes/send-operation.ts'
import type { DryRunAnswer, WriteAnswer } from '../transactions/write-wire.ts'
import type { BatchRequest } from './write-wire.ts'
import { readEncodedIntent } from '../transactions/lanes/submit.ts'
import { refuseLong } from '../transactions/lanes/value.ts'
import { readIntent } from './write.ts'

type BatchBody = Static<typeof BatchRequest>
type BatchCall = BatchBody['calls'][number]

/** Route of the operation, and the scope of its idempotency keys. */
export const BATCH_ROUTE = '/v1/contracts/method/write/batch'

/**
 * Calls several functions from the caller's account, in this order, all or none: one operation that a sponsor sends.
 * @param idempotencyKey  the caller's key, validated
 * @throws atomic_unsupported, and the errors of `writeContract` with pointers into `calls`
 */
export async function writeBatch(
  app: App,
  caller: Caller,
  body: BatchBody,
  { idempotencyKey, askedFrom }: WriteOptions,
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  const idempotency =
    idempotencyKey === undefined ? null : { key: idempotencyKey, route: BATCH_ROUTE, requestHash: hashOf(body) }
  return sendOperation(app, caller, readIntents(body), { idempotency, askedFrom, reference: body.reference })
}

/**
 * Performs all steps of a batch before its signature, as a dry run.
 * @throws as `writeBatch`
 */
export function dryRunBatch(app: App, caller: Caller, body: BatchBody): Promise<DryRunAnswer> {
  return rehearseOperation(app, caller, readIntents(body))
}

function readIntents({ calls }: BatchBody): Intent[] {
  const intents = calls.map((call, index) => {
    try {
      return readCall(call)
    } catch (error) {
      throw error instanceof AppError ? within(error, index) : error
    }
  })
  refuseLong(intents, '/calls')
  return intents
}

function readCall({ to, data, address, abi, args, value }: BatchCall): Intent {
  const amount = value === undefined ? {} : { value }
  if (to !== undefined) {
    if (address !== undefined || abi !== undefined || args !== undefined)
      throw malformed('/to', 'excludes', 'A call with `to` has no `address`, `abi` and `args`.')
    return readEncodedIntent({ to, ...(data === undefined ? {} : { data }), ...amount })
  }
  if (data !== undefined) throw malformed('/to', 'missing', 'A call with `data` needs `to`.')
  if (address === undefined) throw malformed('/address', 'missing', 'This field is required.')
  if (abi === undefined) throw malformed('/abi', 'missing', 'This field is required.')
  return readIntent({ address, abi, ...(args === undefined ? {} : { args }), ...amount })
}

const malformed = (pointer: string, code: string, detail: string): AppError =>
  new AppError('invalid_request', detail, { errors: [{ pointer, code, detail }] })

/** Adds a call's index to the pointers of its error. */
const within = ({ code, message, errors }: AppError, index: number): AppError =>
  new AppError(code, `Call ${index}: ${message}`, {
    ...(errors === undefined
      ? {}
      : {
          errors: errors.map((one) =>
            one.pointer === undefined ? one : { ...one, pointer: `/calls/${index}${one.pointer}` },
          ),
        }),
  })

/** Hashes a request, independent of the order of its fields. */
const hashOf = ({ calls, reference }: BatchBody): Buffer =>
  createHash('sha256')
    .update(
      JSON.stringify([
        calls.map(({ to, data, address, abi, args, value }) =>
          to === undefined ? [address, abi, args ?? [], value ?? '0'] : [to, data ?? '0x', value ?? '0'],
        ),
        reference ?? null,
      ]),
    )
    .digest()
