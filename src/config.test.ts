import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigError, readConfig } from './config.ts'

test('RPC_URL is one node or a list of them, each checked, none repeated in a message', () => {
  const read = (RPC_URL: string) => readConfig({ RPC_URL }, 'server').RPC_URL
  assert.deepEqual(read('http://127.0.0.1:8545'), ['http://127.0.0.1:8545'])
  assert.deepEqual(read(' https://a.example/v2/key, http://b.example\nhttp://b.example  '), [
    'https://a.example/v2/key',
    'http://b.example',
  ])
  assert.deepEqual(read('wss://c.example/key, https://a.example'), ['https://a.example', 'wss://c.example/key'])
  assert.equal(readConfig({}, 'server').RPC_URL, undefined)
  for (const wrong of [
    'a.example/secret',
    'https://a.example,ftp://b.example/secret',
    'wss://a.example/secret',
    ' , ',
  ]) {
    assert.throws(
      () => read(wrong),
      (error: ConfigError) =>
        error.problems.length === 1 && /^RPC_URL must/.test(error.problems[0]!) && !error.message.includes('secret'),
    )
  }
})

test('CHAIN_BLOCK_SECONDS may be a fraction of a second', () => {
  const read = (CHAIN_BLOCK_SECONDS: string) => readConfig({ CHAIN_BLOCK_SECONDS }, 'server').CHAIN_BLOCK_SECONDS
  assert.deepEqual(
    [read('0.05'), read('1'), read('60'), readConfig({}, 'server').CHAIN_BLOCK_SECONDS],
    [0.05, 1, 60, 1],
  )
  for (const [wrong, reason] of [
    ['0.04', 'at least 0.05'],
    ['60.5', 'at most 60'],
    ['.5', 'a decimal number'],
    ['1e1', 'a decimal number'],
    ['0,5', 'a decimal number'],
  ] as const)
    assert.throws(() => read(wrong), new RegExp(`CHAIN_BLOCK_SECONDS must be ${reason}`), wrong)
})

test('a PORT that is no number is refused by its name', () => {
  for (const PORT of ['4000.5', 'http', '65536'])
    assert.throws(
      () => readConfig({ PORT }, 'server'),
      ({ problems }: ConfigError) => problems.length === 1 && problems[0]!.startsWith('PORT must be '),
    )
})
