import { strict as assert } from 'node:assert'
import { readdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../kit/until.ts'
import { newWrite, tryOnce } from './transactions-client.ts'
import type { ChaosWorld } from './transactions-world.ts'

/** A server whose node is of another chain refuses to start, and says why. */
export async function refusesAnotherChain({ node, servers }: ChaosWorld): Promise<void> {
  const server = servers[0]!
  const before = server.ends.length
  node.script('eth_chainId', 'wrong-chain')
  server.signal('SIGKILL')
  await until('it was started again, and ended', () => server.ends.length >= before + 2)
  assert.equal(server.ends[before + 1], '1', 'it ends by itself')
  assert.match(server.said(), /Cannot start: the node has chain id 1, expected 31337/)
  node.script('eth_chainId', null)
  await server.ready()
}

/**
 * The signer's store cut back to an earlier state, as a crash of a disk or a careless restore would: it starts, signs
 * nothing, and says so; the caller is told no hash and nothing reaches the node.
 */
export async function refusesATornStore(world: ChaosWorld): Promise<void> {
  const { signer, signerDir, node, servers } = world
  signer.hold()
  signer.signal('SIGKILL')
  await signer.gone()
  const log = readdirSync(signerDir).find((name) => name.endsWith('-wal'))
  assert.ok(log !== undefined && statSync(join(signerDir, log)).size > 0, 'the ledger has a write-ahead log')
  truncateSync(join(signerDir, log), 0)
  signer.goOn()
  await signer.ready()
  const offered = node.pool.offered.size
  const told = await tryOnce(world, servers[0]!, newWrite(world.accounts[0]!, 0x7042))
  assert.notEqual(told?.status, 200)
  assert.equal(told?.body.hash, undefined)
  assert.equal(node.pool.offered.size, offered)
  assert.match(signer.said(), /ledger_damaged|rolled back|damaged/i)
}
