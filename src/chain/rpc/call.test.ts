import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ethCall } from './call.ts'
import { isForgottenState, isUnknownBlock } from './errors.ts'
import { RpcError, type Rpc } from './rpc.ts'
import { openExpensiveCalls } from './expensive-calls.ts'

const TO = `0x${'11'.repeat(20)}` as const

test('a read asks for no more gas than a transaction may have, which is what nodes allow it (EIP-7825)', async () => {
  const call = async (_method: string, [request]: [{ gas: string }]) => {
    const gas = Number(request.gas)
    // Message of EDR, the node of Hardhat.
    if (gas > 16_777_216)
      throw new RpcError(-32000, `transaction gas limit (${gas}) is greater than the cap (16777216)`, undefined)
    return '0x01'
  }
  const rpc = { call, expensive: openExpensiveCalls() } as unknown as Rpc
  assert.deepEqual(await ethCall(rpc, { to: TO, data: '0x', at: 'latest' }), { data: '0x01' })
})

test('a block that EDR does not know, by number or hash, is an unknown block', () => {
  for (const tag of ['256', `0x${'11'.repeat(32)}`]) {
    const said = new RpcError(-32000, `Received invalid block tag ${tag}. Latest block number is 7`, undefined)
    assert.ok(isUnknownBlock(said))
  }
})

test('a block that zkSync does not have yet, and a state that Besu has pruned, are told as such', () => {
  assert.ok(isUnknownBlock(new RpcError(-32602, "Block with such an ID doesn't exist yet", undefined)))
  assert.ok(isForgottenState(new RpcError(-32000, 'World state unavailable', undefined)))
})
