// tier: all, because it kills processes and nodes under load
import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { encodeAbiParameters, encodeErrorResult, encodeEventTopics, parseAbi, parseAbiParameters } from 'viem'
import { readEvents, readFailure } from '../../src/gas/events.ts'
import type { Hex } from '../../src/ids.ts'
import { errorOf, saidBy } from './sponsor-events.ts'
import type { Log } from './transactions-chain.ts'

const events = parseAbi([
  'event SponsorSet(address indexed space, address indexed sponsor, bool allowed)',
  'event Done(uint256 indexed id, address indexed account)',
  'event Failed(uint256 indexed id, address indexed account, bytes reason)',
  'event Skipped(uint256 indexed id, address indexed account)',
  'event Cancelled(uint256 indexed id)',
])
const errors = parseAbi([
  'error NotDelegated()',
  'error Expired()',
  'error WrongSignature()',
  'error Malformed()',
  'error CallFailed(uint256 index, bytes reason)',
  'error Panic(uint256)',
])
const dispatcher: Hex = `0x${'d1'.repeat(20)}`
const [space, account]: Hex[] = [`0x${'5a'.repeat(20)}`, `0x${'ac'.repeat(20)}`]
const id = (BigInt(space!) << 96n) | 7_354_981_611_343_872n

const log = (topics: unknown, data: Hex = '0x', address = dispatcher): Log => ({ address, topics: topics as Hex[], data, logIndex: 0 }) // prettier-ignore
const about = (eventName: 'Done' | 'Failed' | 'Skipped') => encodeEventTopics({ abi: events, eventName, args: { id, account: account! } }) // prettier-ignore
const failed = (reason: Hex) => log(about('Failed'), encodeAbiParameters(parseAbiParameters('bytes'), [reason]))

const REASONS: [string, Hex][] = [
  ...(['NotDelegated', 'Expired', 'WrongSignature', 'Malformed'] as const).map((errorName): [string, Hex] => [errorName, encodeErrorResult({ abi: errors, errorName })]), // prettier-ignore
  ['CallFailed', encodeErrorResult({ abi: errors, errorName: 'CallFailed', args: [3n, `0x${'ef'.repeat(256)}`] })],
  ['CallFailed', encodeErrorResult({ abi: errors, errorName: 'CallFailed', args: [0n, '0x'] })],
  ['Unknown', encodeErrorResult({ abi: errors, errorName: 'Panic', args: [0x32n] })],
  ['OutOfGas', '0x'],
]

test('what the program reads of the dispatcher’s events is what the contract declares, and so is why something failed', () => {
  const logs = [
    log(encodeEventTopics({ abi: events, eventName: 'SponsorSet', args: { space: space!, sponsor: account! } }), `0x${'1'.padStart(64, '0')}`), // prettier-ignore
    log(about('Done')),
    log(about('Skipped')),
    log(encodeEventTopics({ abi: events, eventName: 'Cancelled', args: { id } })),
    log(about('Done'), '0x', `0x${'0e'.repeat(20)}`),
    ...REASONS.map(([, reason]) => failed(reason)),
  ]
  const said = saidBy(dispatcher, logs)
  assert.deepEqual(said.map(({ kind }) => kind), ['Done', 'Skipped', 'Cancelled', ...REASONS.map(() => 'Failed')]) // prettier-ignore
  assert.deepEqual(
    readEvents(dispatcher, logs).map(({ space: of, sequence, ...event }) => ({ ...event, id: `${of}${sequence.toString(16).padStart(24, '0')}` })), // prettier-ignore
    said,
  )
  for (const [name, reason] of REASONS) {
    assert.deepEqual([errorOf(reason), readFailure(reason).error], [name, name])
    const failure = readFailure(reason)
    if (failure.error === 'CallFailed')
      assert.equal(encodeErrorResult({ abi: errors, errorName: 'CallFailed', args: [BigInt(failure.index!), failure.data] }), reason) // prettier-ignore
  }
})
