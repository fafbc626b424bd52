import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { App } from '../app.ts'
import { explorerAt, type Chain } from '../chain/network.ts'
import { openRpc } from '../chain/rpc/rpc.ts'
import { readConfig } from '../config.ts'
import { launchAnvil } from '../devnet/anvil.ts'
import { rpc } from '../devnet/rpc.ts'
import { startFollower } from '../follower/follow.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { atHead } from '../../test/follower-stage.ts'
import { openedHead } from '../../test/opened.ts'
import { until } from '../../test/kit/until.ts'
import { indexTransfers } from './index-transfers.ts'
import { kindOf } from './native.ts'
import { differenceOf, sumAccount } from './sums.ts'
import { systemClock } from '../clock.ts'

const deploying = (runtime: string): Hex => {
  const size = (runtime.length / 2).toString(16).padStart(2, '0')
  return `0x60${size}600c60003960${size}6000f3${runtime}`
}
/** code that sends the received value to the address in its calldata; then stops, or reverts */
const FORWARDS = '600060006000600034600035' + '5af1'
/** code that delegates to another contract */
const delegating = (to: Hex) => `6020600060003760006000602060007${'3'}${to.slice(2)}5af400`
const word = (address: Hex): Hex => `0x${address.slice(2).padStart(64, '0')}`

test('on a real chain entries of native currency sum up to the balance at every block', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'chatelaine-native-'))
  const genesisSeconds = Math.floor(Date.now() / 1_000) - 1_000
  const launch = { dir, port: 0, genesisSeconds, loadFile: null, dumpFile: join(dir, 'state.json') }
  const [database, anvil] = await Promise.all([testDatabase(), launchAnvil(launch)])
  const ask = <T>(method: string, ...params: unknown[]) => rpc<T>(anvil.rpcUrl, method, ...params)
  const chain: Chain = {
    ...{ chainId: 31337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 'finalized' },
    ...{ feeCapWei: 1n, gas: 'self' as const, verification: 'bloom' as const, explorer: explorerAt('') },
    ...{ rpc: openRpc({ url: anvil.rpcUrl }), ...openedHead(), faucet: async () => {} },
  }
  const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 20 }
  const app = { config, db: database.db, telemetry: openTelemetry('test', 'silent'), clock: systemClock } as App
  const follower = startFollower(app, chain, [indexTransfers])
  t.after(async () => {
    await follower.stop()
    chain.rpc.close()
    await anvil.stop()
    await database.close()
    await rm(dir, { recursive: true })
  })
  const settled = () =>
    atHead(app.db, 'history_cursors', async () => {
      const { hash } = await ask<{ hash: Hex }>('eth_getBlockByNumber', 'latest', false)
      return hash
    })
  await ask('evm_mine')
  await until('native currency is looked at', async () => (await app.db.selectFrom('native_coverage').select('to_block').execute()).length === 1) // prettier-ignore

  const [stranger, ...rest] = await ask<Hex[]>('eth_accounts')
  const [alice, bob, maker] = rest as [Hex, Hex, Hex]
  const fresh: Hex = `0x${'f4e5'.repeat(10)}`
  const accounts = [alice, bob, maker, fresh].map((address, index) => ({
    ...{ accountId: `00000000-0000-8000-8000-00000000000${index}`, address },
  }))
  for (const { accountId, address } of accounts)
    await app.db
      .insertInto('accounts')
      .values({ account_id: accountId, user_id: `DEV-${address}`, address: fromHex(address), is_key_new: true })
      .execute()
  await ask('anvil_setCoinbase', maker)

  const send = async (from: Hex, to: Hex | null, value: bigint, data: Hex = '0x'): Promise<Hex> => {
    const hash = await ask<Hex>('eth_sendTransaction', { from, ...(to === null ? {} : { to }), value: `0x${value.toString(16)}`, data, gas: '0x100000' }) // prettier-ignore
    await ask('evm_mine')
    const { contractAddress } = await ask<{ contractAddress: Hex | null }>('eth_getTransactionReceipt', hash)
    return contractAddress ?? hash
  }
  const forwarder = await send(stranger!, null, 0n, deploying(`${FORWARDS}00`))
  const reverting = await send(bob, null, 0n, deploying('60006000fd'))
  const undoing = await send(stranger!, null, 0n, deploying(`${FORWARDS}60006000fd`))
  const ending = await send(alice, null, 11n, `0x73${bob.slice(2)}ff`)
  const delegate = await send(stranger!, null, 0n, deploying(delegating(forwarder)))
  const payable = await send(alice, null, 5n, deploying('600035ff'))
  assert.ok(ending !== payable)
  const compare = async () => {
    await settled()
    const head = Number(await ask<Hex>('eth_blockNumber'))
    for (const account of accounts)
      for (let block = 1; block <= head; block++) {
        const sums = await sumAccount(app, chain, { account, block, since: 0, rpc: chain.rpc })
        const native = sums.find(({ token }) => token === null)!
        assert.equal(differenceOf(native), 0n, `${account.address} at block ${block}: ${JSON.stringify(native, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value))}`) // prettier-ignore
      }
  }
  await send(alice, bob, 1_000n)
  await send(alice, alice, 7n)
  await send(alice, fresh, 10n ** 18n)
  await send(alice, forwarder, 100n, word(bob))
  await send(stranger!, forwarder, 10n, word(fresh))
  await send(alice, forwarder, 30n, word(alice))
  // The inner call fails, and the transaction succeeds: the forwarder retains the value.
  await send(bob, forwarder, 40n, word(reverting))
  await send(bob, undoing, 50n, word(alice))
  await send(bob, reverting, 60n)
  await send(bob, delegate, 70n, word(alice))
  // The contract's earlier balance, and the value of this call.
  await send(stranger!, payable, 9n, word(alice))
  await send(maker, bob, 3n)
  await compare()
  const rows = await app.db.selectFrom('transfers').select(['log_index', 'batch_index']).execute()
  const kinds = new Set(rows.map((row) => kindOf({ logIndex: row.log_index, batchIndex: row.batch_index })))
  assert.deepEqual([...kinds].toSorted(), ['FEE', 'INTERNAL', 'REWARD', 'VALUE'])

  await ask('anvil_reorg', 4, [[{ from: alice, to: fresh, value: '0x15', gas: '0x5208' }, 1]])
  await compare()
  await ask('anvil_rollback', 3)
  await send(alice, forwarder, 77n, word(fresh))
  await compare()
})
