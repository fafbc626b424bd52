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
