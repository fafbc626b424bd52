import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeErrorResult } from 'viem'
import { artefact } from '../../test/gas/stage.ts'
import { readFailure } from './events.ts'

const { abi } = artefact('CaliburStandIn')

test('errors of Calibur are told as those of our own code that say the same; which call failed it does not say', () => {
  const said = (errorName: string, args: unknown[] = []) => readFailure(encodeErrorResult({ abi, errorName, args }))
  assert.deepEqual(said('SignatureExpired'), { error: 'Expired' })
  assert.deepEqual(said('InvalidSignature'), { error: 'WrongSignature' })
  assert.deepEqual(said('CallFailed', ['0x1234']), { error: 'CallFailed', index: null, data: '0x1234' })
  assert.deepEqual(said('InvalidNonce'), { error: 'Unknown' })
  // The dispatcher's event has at most 356 bytes. A truncated reason is decoded as far as possible.
  const long = encodeErrorResult({ abi, errorName: 'CallFailed', args: [`0x${'ab'.repeat(1_000)}`] }).slice(0, 2 + 712)
  assert.deepEqual(readFailure(long as `0x${string}`), { error: 'CallFailed', index: null, data: `0x${'ab'.repeat(288)}` }) // prettier-ignore
})
