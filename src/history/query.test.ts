import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { AppError } from '../errors.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { placeCursor, readParameters, readPlace, type CursorScope, type HistoryParameters } from './query.ts'

const TOKEN = addressOf(0xab)
const EVERYTHING = {
  ...{ types: null, direction: 'all', token: null, counterparty: null, fromTime: null, toTime: null },
  ...{ fromBlock: null, toBlock: null, isFinalOnly: false, includesSpam: false },
}
const filtersOf = (parameters: HistoryParameters) => readParameters(parameters).filters

/** Returns the problems of a query as `parameter code`; [] for a valid query. */
function problemsOf(parameters: HistoryParameters): string[] {
  try {
    readParameters(parameters)
    return []
  } catch (error) {
    assert.ok(error instanceof AppError && error.code === 'invalid_request')
    const errors = error.errors ?? []
    assert.ok(error.message.startsWith(`${errors[0]!.parameter}: `), error.message)
    return errors.map(({ parameter, code }) => `${parameter} ${code}`)
  }
}

suite('the query of a history', () => {
  test('without parameters is fifty of everything but spam', () => {
    assert.deepEqual(readParameters({}), { limit: 50, filters: EVERYTHING })
  })

  test('each parameter sets its own filter and no other', () => {
    const cases: [HistoryParameters, object][] = [
      [{ type: 'ERC1155,ERC20,ERC20' }, { types: ['ERC20', 'ERC1155'] }],
      [{ direction: 'in' }, { direction: 'in' }],
      [{ direction: 'out' }, { direction: 'out' }],
      [{ direction: 'all' }, {}],
      [{ token: `0x${TOKEN.slice(2).toUpperCase()}` }, { token: TOKEN }],
      [{ counterparty: TOKEN }, { counterparty: TOKEN }],
      [{ fromBlock: '0' }, { fromBlock: 0 }],
      [{ toBlock: '999999999999999' }, { toBlock: 999_999_999_999_999 }],
      [{ finality: 'finalized' }, { isFinalOnly: true }],
      [{ includeSpam: 'true' }, { includesSpam: true }],
      [{ includeSpam: 'false' }, {}],
    ]
    for (const [parameters, expected] of cases)
      assert.deepEqual(filtersOf(parameters), { ...EVERYTHING, ...expected }, JSON.stringify(parameters))
  })

  test('a page holds 1 to 200, in decimal digits', () => {
    for (const limit of ['1', '200', '007']) assert.equal(readParameters({ limit }).limit, Number(limit))
    for (const limit of ['0', '201', '0200', '+5', '5x', 'x5', '5.0', '']) {
      assert.deepEqual(problemsOf({ limit }), ['limit invalid'], limit)
    }
  })

  test('a block is at most fifteen decimal digits and nothing around them', () => {
    for (const fromBlock of ['1000000000000000', 'x1', '1x', '-1', '']) {
      assert.deepEqual(problemsOf({ fromBlock }), ['fromBlock invalid'], fromBlock)
    }
  })

  test('a time is a date at midnight in UTC, or has its zone, and is taken to the millisecond', () => {
    const cases: Record<string, string> = {
      '2026-01-31': '2026-01-31T00:00:00.000Z',
      '2026-01-31T12:00Z': '2026-01-31T12:00:00.000Z',
      '2026-01-31T12:00:07.089Z': '2026-01-31T12:00:07.089Z',
      '2026-01-31T12:00:00+02:00': '2026-01-31T10:00:00.000Z',
      '2026-01-31T12:00:00-02:30': '2026-01-31T14:30:00.000Z',
      '2024-02-29': '2024-02-29T00:00:00.000Z',
      '2026-12-31': '2026-12-31T00:00:00.000Z',
      '0001-01-01': '0001-01-01T00:00:00.000Z',
      '9999-12-31T23:59:59.999Z': '9999-12-31T23:59:59.999Z',
    }
    for (const [text, expected] of Object.entries(cases)) {
      assert.equal(new Date(filtersOf({ from: text }).fromTime!).toISOString(), expected)
      assert.equal(new Date(filtersOf({ to: text }).toTime!).toISOString(), expected)
    }
  })

  test('a day that does not exist, a time without a zone or outside four digits of a year is none', () => {
    const wrong = [
      ...['2026-02-29', '2026-04-31', '2026-13-01', '2026-00-10', '2026-01-00', '2026-1-1', '26-01-01', 'x2026-01-01'],
      ...[
        '2026-01-01x',
        '2026-01-01T12:00:00',
        '2026-01-01T24:01:00Z',
        '2026-01-01T12:60:00Z',
        '2026-01-01T12:00:00.1234Z',
      ],
      ...['0000-12-31', '0001-01-01T00:00:00+00:01', '9999-12-31T23:59:59-00:01', '12026-01-01', ''],
    ]
    for (const from of wrong) assert.deepEqual(problemsOf({ from }), ['from invalid'], from)
  })

  test('a range holds both its ends, and one that ends before it begins contradicts itself', () => {
    assert.deepEqual(problemsOf({ fromBlock: '7', toBlock: '7' }), [])
    assert.deepEqual(problemsOf({ fromBlock: '8', toBlock: '7' }), ['fromBlock contradiction'])
    assert.deepEqual(problemsOf({ fromBlock: '8' }), [])
    assert.deepEqual(problemsOf({ toBlock: '7' }), [])
    assert.deepEqual(problemsOf({ from: '2026-01-01', to: '2026-01-01' }), [])
    assert.deepEqual(problemsOf({ from: '2026-01-02', to: '2026-01-01' }), ['from contradiction'])
    assert.deepEqual(problemsOf({ from: '2026-01-02' }), [])
    assert.deepEqual(problemsOf({ to: '2026-01-01' }), [])
    // Times before 1970 are valid.
    assert.deepEqual(problemsOf({ from: '1969-01-01' }), [])
    assert.deepEqual(problemsOf({ from: '1969-01-02', to: '1969-01-01' }), ['from contradiction'])
  })

  test('every parameter that is wrong is named, in one answer, and none that is right', () => {
    const wrong: HistoryParameters = {
      ...{ limit: '0', type: 'ERC20,', direction: 'IN', token: '0x', counterparty: 'x', from: 'x', to: 'x' },
      ...{ fromBlock: 'x', toBlock: 'x', finality: 'latest', includeSpam: '1' },
    }
    assert.deepEqual(
      problemsOf(wrong),
      Object.keys(wrong).map((parameter) => `${parameter} invalid`),
    )
    assert.deepEqual(problemsOf({ ...wrong, limit: '5', type: 'ERC20' }), problemsOf(wrong).slice(2))
  })
})

test('what is wrong with a parameter is said with what would be right', () => {
  const detailOf = (parameters: HistoryParameters) => {
    try {
      return readParameters(parameters)
    } catch (error) {
      return (error as AppError).errors?.[0]?.detail
    }
  }
  assert.equal(detailOf({ limit: '0' }), 'Use a whole number from 1 to 200.')
  assert.equal(detailOf({ type: 'x' }), 'Use one or more of ERC20, ERC721, ERC1155, NATIVE, separated by commas.')
  assert.equal(detailOf({ direction: 'x' }), 'Use one of in, out, all.')
  assert.equal(detailOf({ finality: 'x' }), 'Use only `finalized`.')
  assert.equal(detailOf({ from: '2026-02-30' }), 'This day does not exist.')
  assert.equal(detailOf({ from: '2026-01-02', to: '2026-01-01' }), 'This value is later than `to`.')
  assert.equal(detailOf({ fromBlock: '2', toBlock: '1' }), 'This value is later than `toBlock`.')
})

suite('a cursor', () => {
  const scope: CursorScope = { accountId: 'a', chainId: 1, filters: filtersOf({}) }
  const place = { block: 7, logIndex: 3, batchIndex: 1 }
  const refused = (run: () => unknown) =>
    assert.throws(run, (error) => {
      assert.ok(error instanceof AppError && error.code === 'invalid_cursor')
      assert.deepEqual(
        error.errors?.map(({ parameter, code }) => `${parameter} ${code}`),
        ['cursor invalid'],
      )
      return true
    })

  test('leads back to its place', () => {
    for (const at of [place, { block: 0, logIndex: 0, batchIndex: 0 }, { ...place, logIndex: 2_147_483_647 }])
      assert.deepEqual(readPlace(scope, placeCursor(scope, at)), at)
    const top = { ...place, batchIndex: 2_147_483_647 }
    assert.deepEqual(readPlace(scope, placeCursor(scope, top)), top)
  })

  test('to a place that no transfer can have is refused before the database sees it', () => {
    for (const wrong of [
      { block: -1 },
      { logIndex: -1 },
      { batchIndex: -1 },
      { logIndex: 2_147_483_648 },
      { batchIndex: 2_147_483_648 },
    ])
      // prettier-ignore
      refused(() => readPlace(scope, placeCursor(scope, { ...place, ...wrong })))
  })

  test('of another account, network or any other filter is refused', () => {
    const cursor = placeCursor(scope, place)
    const others: HistoryParameters[] = [
      ...[{ type: 'ERC20' }, { direction: 'in' }, { token: TOKEN }, { counterparty: TOKEN }, { from: '2026-01-01' }],
      ...[
        { to: '2026-01-01' },
        { fromBlock: '1' },
        { toBlock: '1' },
        { finality: 'finalized' },
        { includeSpam: 'true' },
      ],
    ]
    for (const other of others) refused(() => readPlace({ ...scope, filters: filtersOf(other) }, cursor))
    refused(() => readPlace({ ...scope, accountId: 'b' }, cursor))
    refused(() => readPlace({ ...scope, chainId: 2 }, cursor))
    // A token is no counterparty, and the beginning is not the end.
    const mixed = (one: HistoryParameters, two: HistoryParameters) =>
      refused(() =>
        readPlace({ ...scope, filters: filtersOf(one) }, placeCursor({ ...scope, filters: filtersOf(two) }, place)),
      )
    mixed({ token: TOKEN }, { counterparty: TOKEN })
    mixed({ from: '2026-01-01' }, { to: '2026-01-01' })
    mixed({ fromBlock: '1' }, { toBlock: '1' })
    mixed({ finality: 'finalized' }, { includeSpam: 'true' })
  })
})
