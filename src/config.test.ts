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

test('a setting of before is refused with what it is called now; an empty one is none', () => {
  const problemsOf = (env: Record<string, string>) => {
    try {
      readConfig(env, 'server')
      return []
    } catch (error) {
      return (error as ConfigError).problems
    }
  }
  assert.match(
    problemsOf({ FOLLOW_STRICT: 'on' }).join(),
    /^FOLLOW_STRICT is no longer a setting: .*BLOCK_VERIFICATION/,
  )
  assert.match(problemsOf({ MULTICALL3: `0x${'ca'.repeat(20)}` }).join(), /^MULTICALL3 is no longer a setting/)
  assert.deepEqual(problemsOf({ FOLLOW_STRICT: '', MULTICALL3: '' }), [])
  assert.deepEqual(problemsOf({ BLOCK_VERIFICATION: 'hash' }), [])
})
