import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Abi } from 'viem'
import { encodeFunctionData } from 'viem/utils'
import type { App } from '../app.ts'
import { explorerAt, type Chain } from '../chain/network.ts'
import { openRpc } from '../chain/rpc/rpc.ts'
import { readConfig } from '../config.ts'
import { launchAnvil } from '../devnet/anvil.ts'
import { rpc } from '../devnet/rpc.ts'
import { startFollower } from '../follower/follow.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { atHead } from '../../test/follower-stage.ts'
import { until } from '../../test/kit/until.ts'
import { indexTransfers } from './index-transfers.ts'
import { openedHead } from '../../test/opened.ts'
import { systemClock } from '../clock.ts'

test('on a real chain the table follows reorganisations and equals what the chain’s own log filter says', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'chatelaine-follow-'))
  const launch = {
    dir,
    port: 0,
    genesisSeconds: Math.floor(Date.now() / 1_000) - 1_000,
    loadFile: null,
    dumpFile: join(dir, 'state.json'),
  }
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

  const [sender, account] = (await ask<Hex[]>('eth_accounts')) as [Hex, Hex]
  await app.db
    .insertInto('accounts')
    .values({ account_id: '00000000-0000-8000-8000-000000000001', user_id: 'DEV-a', address: fromHex(account) })
    .execute()
  const { abi, bytecode } = JSON.parse(
    await readFile(new URL('../../contracts/out/SampleToken.json', import.meta.url), 'utf8'),
  ) as { abi: Abi; bytecode: Hex }
  const deployed = await ask<Hex>('eth_sendTransaction', { from: sender, data: bytecode, gas: '0x4c4b40' })
  await ask('evm_mine')
  const { contractAddress: token } = await ask<{ contractAddress: Hex }>('eth_getTransactionReceipt', deployed)
  const mint = (amount: bigint) => {
    const data = encodeFunctionData({ abi, functionName: 'mint', args: [account, amount] })
    return { from: sender, to: token, data, gas: '0x30d40' }
  }
  const settled = () =>
    atHead(app.db, 'history_cursors', async () => {
      const { hash } = await ask<{ hash: Hex }>('eth_getBlockByNumber', 'latest', false)
      return hash
    })
  const compare = async (amounts: bigint[]) => {
    await settled()
    const logs = await ask<{ blockHash: Hex; logIndex: Hex; data: Hex }[]>('eth_getLogs', {
      fromBlock: '0x0',
      toBlock: 'latest',
      address: token,
    })
    const rows = await app.db.selectFrom('transfers').selectAll().orderBy('block_number').orderBy('log_index').execute()
    const stored = rows.map((row) => [toHex(row.block_hash), row.log_index, fromWord(row.value)])
    assert.deepEqual(stored, logs.map((log) => [log.blockHash, Number(log.logIndex), BigInt(log.data)])) // prettier-ignore
    assert.deepEqual(
      rows.map((row) => fromWord(row.value)),
      amounts,
    )
  }

  for (const amount of [1n, 2n, 3n]) {
    await ask('eth_sendTransaction', mint(amount))
    await ask('eth_sendTransaction', mint(amount * 10n))
    await ask('evm_mine')
  }
  await compare([1n, 10n, 2n, 20n, 3n, 30n])
  await until(
    'the token is known',
    async () => (await app.db.selectFrom('tokens').select('state').executeTakeFirst())?.state === 'KNOWN',
  )

  // Reorganise three blocks, below the finality that this chain reports. Other transfers replace theirs.
  await ask('anvil_reorg', 3, [[mint(7n), 1]])
  await compare([7n])
  await ask('anvil_rollback', 1)
  await compare([7n])
  await ask('anvil_rollback', 2)
  await compare([])
  await ask('eth_sendTransaction', mint(9n))
  await ask('evm_mine')
  await compare([9n])
})
