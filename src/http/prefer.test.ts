import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyReply } from 'fastify'
import { readPrefer } from './prefer.ts'

function asked(prefer: string | undefined): { ms: number; applied: string | undefined } {
  let applied: string | undefined
  const reply = { header: (_name: string, value: string) => (applied = value) } as unknown as FastifyReply
  const ms = readPrefer(prefer === undefined ? {} : { prefer }, reply)
  return { ms, applied }
}

test('a client says how long it waits, alone or among other preferences', () => {
  assert.deepEqual(asked('wait=5'), { ms: 5_000, applied: 'wait=5' })
  assert.deepEqual(asked('respond-async, wait=10'), { ms: 10_000, applied: 'wait=10' })
  assert.deepEqual(asked('Wait = "0" ; foo'), { ms: 0, applied: 'wait=0' })
})

test('what is no number of seconds is no preference, and nothing is told to be applied', () => {
  for (const text of [undefined, '', 'wait', 'wait=', 'wait=-1', 'wait=1.5', 'wait=99999', 'await=5', 'wait=5x'])
    assert.deepEqual(asked(text), { ms: Infinity, applied: undefined }, String(text))
})
