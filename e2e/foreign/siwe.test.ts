import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { checksumAddress } from '../../src/digits.ts'

const { SiweMessage, generateNonce } = await import('siwe')

let world: Writing
let alice: Writer
before(async () => {
  world = await writing()
  alice = await world.writer('alice')
})
after(() => world.close())

/** Has the server sign a text with an account. */
async function sign(message: string): Promise<string> {
  const { statusCode, ...answer } = await world.first.server.inject({
    method: 'POST',
    url: '/v1/signatures/message',
    headers: { authorization: `Bearer ${alice.token}`, 'idempotency-key': 'siwe' },
    payload: { message },
  })
  assert.equal(statusCode, 200, answer.body)
  return answer.json().signature
}

test('the package siwe accepts a signed sign-in, and no other one with its signature', async () => {
  const expected = { domain: 'shop.example', nonce: generateNonce() }
  const fields = {
    ...{ ...expected, uri: 'https://shop.example/login', address: checksumAddress(alice.address), chainId: 31_337 },
    ...{ version: '1', statement: 'Sign in to the shop.', issuedAt: new Date().toISOString() },
    expirationTime: new Date(Date.now() + 600_000).toISOString(),
  }
  const message = new SiweMessage(fields)
  const signature = await sign(message.prepareMessage())
  assert.equal((await message.verify({ signature, ...expected })).success, true)
  const other = new SiweMessage({ ...fields, statement: 'Sign in to the bank.' })
  assert.equal((await other.verify({ signature, ...expected }, { suppressExceptions: true })).success, false)
})
