import { createHash } from 'node:crypto'
import type { Static } from 'typebox'
import { readAddress } from '../../abi/address.ts'
import { parseAbi, selectorOf } from '../../abi/parse.ts'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import type { Hex } from '../../ids.ts'
import { dryRun } from './dry-run.ts'
import type { Intent } from '../intent.ts'
import type { WriteOptions } from '../key.ts'
import { readGasLimit } from './limits.ts'
import { sendTransaction } from './send.ts'
import { readValue, refuseView } from './value.ts'
import { MAX_DATA_BYTES, type TransactionRequest } from '../write-wire.ts'
import type { DryRunAnswer, WriteAnswer } from '../write-wire.ts'

type TransactionBody = Static<typeof TransactionRequest>

/** Route of the operation, and the scope of its idempotency keys. */
export const SUBMIT_ROUTE = '/v1/transactions'

/**
 * Sends a transaction from the caller's account: native currency, or data that the application encoded.
 * @param idempotencyKey  the caller's key, validated
 * @throws invalid_address, invalid_data, invalid_value, invalid_gas, invalid_abi, abi_is_view, and the errors of
 *     `sendTransaction`
 */
export async function submitTransaction(
  app: App,
  caller: Caller,
  body: TransactionBody,
  { idempotencyKey, askedFrom }: WriteOptions,
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  const intent = readEncodedIntent(body)
  const idempotency =
    idempotencyKey === undefined ? null : { key: idempotencyKey, route: SUBMIT_ROUTE, requestHash: hashOf(body) }
  return pointingAt('/to', sendTransaction(app, caller, intent, { idempotency, askedFrom, reference: body.reference }))
}

/**
 * Performs all steps of a transaction before its signature, as a dry run.
 * @throws as `submitTransaction`
 */
export async function rehearseTransaction(app: App, caller: Caller, body: TransactionBody): Promise<DryRunAnswer> {
  return pointingAt('/to', dryRun(app, caller, readEncodedIntent(body)))
}

/** Changes the error's pointer to the field `pointer`: in other routes the contract's address is at `/address`. */
async function pointingAt<T>(pointer: string, sending: Promise<T>): Promise<T> {
  try {
    return await sending
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'no_contract') throw error
    const errors = (error.errors ?? []).map((one) => ({ ...one, pointer }))
    throw new AppError('no_contract', error.message, { errors, cause: error })
  }
}

/** Validates the fields that need no request to the chain. */
export function readEncodedIntent({ to, data = '0x', value = '0', gas, abi }: TransactionBody): Intent {
  const target = readTarget(to)
  const bytes = readData(data)
  const called = abi === undefined ? { abi: '', fn: null, errors: [] } : readCalled(abi, bytes)
  const isPayable = called.fn?.stateMutability !== 'nonpayable'
  return {
    to: target,
    data: bytes,
    value: readValue(value, { isPayable }),
    ...(gas === undefined ? {} : { gas: readGasLimit(gas) }),
    ...called,
  }
}

function readTarget(to: string): Hex {
  try {
    return readAddress(to).toLowerCase() as Hex
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new AppError('invalid_address', error.message, {
      errors: [{ pointer: '/to', code: 'invalid_address', detail: error.message }],
    })
  }
}

function readData(text: string): Hex {
  const data = text.toLowerCase()
  if (!/^0x[\da-f]*$/.test(data) || data.length % 2 !== 0)
    throw invalidData('not_hex', 'The data must be `0x` and an even number of hexadecimal digits.')
  if (data.length > 2 + 2 * MAX_DATA_BYTES)
    throw invalidData('too_long', `The data must be at most ${MAX_DATA_BYTES} bytes.`)
  return data as Hex
}

const invalidData = (code: string, detail: string): AppError =>
  new AppError('invalid_data', detail, { errors: [{ pointer: '/data', code, detail }] })

/** Returns the function that the data calls. An ABI of another function would produce wrong explanations. */
function readCalled(abi: string, data: Hex): Pick<Intent, 'abi' | 'fn' | 'errors'> {
  const { function: fn, errors } = parseAbi(abi)
  refuseView(fn)
  if (!data.startsWith(selectorOf(fn))) {
    const detail = `The data does not call ${fn.name}. The selector of that function is ${selectorOf(fn)}. Nothing was sent. Correct the data or the ABI.`
    throw new AppError('invalid_abi', detail, { errors: [{ pointer: '/abi', code: 'wrong_selector', detail }] })
  }
  return { abi, fn, errors }
}

/** Hashes a request, independent of the order of its fields. */
function hashOf({ to, data, value, gas, abi, reference }: TransactionBody): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([to, data ?? '0x', value ?? '0', gas ?? null, abi ?? null, reference ?? null]))
    .digest()
}
