import assert from 'node:assert/strict'
import { test } from 'node:test'
import { banner } from './development.ts'

const facts = {
  origin: 'http://localhost:4000',
  baseUrl: 'http://localhost:4000/v1',
  issuer: 'http://localhost:4000/oauth',
  rpcUrl: 'http://127.0.0.1:8545',
  chainId: 31_337,
  clientId: 'demo',
  contracts: { erc20: null, erc721: null, erc1155: null, multicall3: null },
}
const greeting = {
  token: 't',
  userId: 'DEV-demo',
  tokenSeconds: 3_600,
  seconds: '3.2',
  isEmbedded: true,
  isOpen: false,
}

test('the first screen says who may sign in as anyone, and how long the token lives', () => {
  const closed = banner(facts, greeting)
  assert.match(closed, /Development mode: anyone on this machine may sign in as anyone\./)
  assert.match(closed, /the token is valid for an hour:/)
  const open = banner(facts, { ...greeting, isOpen: true, tokenSeconds: 600 })
  assert.match(open, /Development mode: EVERYONE WHO CAN REACH IT may sign in as anyone\./)
  assert.match(open, /the token is valid for 600 s:/)
  assert.doesNotMatch(open, /this machine/)
})
