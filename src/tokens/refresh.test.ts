import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { App } from '../app.ts'
import { RpcError } from '../chain/rpc.ts'
import { readConfig } from '../config.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase } from '../../test/database.ts'
import { addressOf, scriptedChain } from '../../test/scripted-chain.ts'
import { until } from '../../test/until.ts'
import { noteTokens, reviewTokens } from './note.ts'
import { refreshTokens } from './refresh.ts'

const TOKEN = addressOf(0x70)
const textOf = (text: string) => {
  const hex = Buffer.from(text).toString('hex')
  return `0x${'20'.padStart(64, '0')}${text.length.toString(16).padStart(64, '0')}${hex.padEnd(64, '0')}`
}

test('what a token said before a reorganisation is not stored after it; it is asked again, at the stored block', async (t) => {
  const database = await testDatabase()
  t.after(() => database.close())
  const { db } = database
  const app = { config: readConfig({}, 'server'), db, telemetry: openTelemetry('test', 'silent'), now: Date.now } as App
  const script = scriptedChain({ isDevelopment: true })
  const { chain } = script
  const stored = script.mine()
  const cursor = { block_number: 1, block_hash: fromHex(stored.hash), finalized_number: 0, epoch: 1, lease_owner: null, lease_until: null, halted: null } // prettier-ignore
  await db
    .insertInto('cursors')
    .values({ chain_id: chain.chainId, ...cursor })
    .execute()
  // A newest block that was never stored.
  chain.head.set({ ...script.mine(), baseFee: null })

  let name = 'before'
  const { promise: isHeld, resolve: release } = Promise.withResolvers<void>()
  let asked = 0
  const places = new Set<string>()
  script.answer = (method, params) => {
    places.add(JSON.stringify(params[1]))
    if (method === 'eth_getCode') return '0x60'
    if ((params[0] as { data: string }).data === '0x313ce567') return `0x${'0'.repeat(63)}6`
    if (method === 'eth_call') return textOf(name)
    throw new RpcError(-32601, 'Method not found', undefined)
  }
  const { rpc } = chain
  chain.rpc = {
    ...rpc,
    batch: async (calls) => {
      const answers = await rpc.batch(calls)
      if (asked++ === 0) await isHeld
      return answers
    },
  }

  await noteTokens(db, chain, [{ address: TOKEN, tokenType: 'ERC20' }])
  const refreshed = refreshTokens(app, chain)
  await until('the token was asked', () => asked === 1)
  await reviewTokens(db, chain, 1)
  name = 'after'
  release()
  await refreshed
  const row = await db.selectFrom('tokens').select(['address', 'symbol', 'state']).executeTakeFirstOrThrow()
  assert.deepEqual([toHex(row.address), row.symbol, row.state], [TOKEN, 'after', 'KNOWN'])
  assert.deepEqual([...places], [JSON.stringify({ blockHash: stored.hash })])
})
