import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { describeError, errorCodes } from '../errors.ts'
import * as wire from './wire.ts'
import * as writeWire from './write-wire.ts'

test('every refusal that the operations of transactions announce is one that this program has', () => {
  const statuses = new Set(errorCodes.map((code) => describeError(code).status))
  const operations = Object.entries<unknown>({ ...wire, ...writeWire }).flatMap(([name, schema]) =>
    typeof schema === 'object' && schema !== null && 'response' in schema
      ? [{ name, announced: Object.keys(schema.response as object).map(Number) }]
      : [],
  )
  assert.ok(operations.length >= 4)
  for (const { name, announced } of operations) {
    assert.ok(announced.some((status) => status < 300) && announced.length > 5, name)
    for (const status of announced.filter((one) => one >= 400)) assert.ok(statuses.has(status), `${name}: ${status}`)
  }
})
