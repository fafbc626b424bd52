import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import type { App } from '../app.ts'
import type { NetworkFacts } from '../applications/network-facts.ts'
import { bindNetwork } from '../applications/networks.ts'
import { writeNodes } from '../applications/nodes-file.ts'
import { readConfig } from '../config.ts'
import { startFollower } from '../follower/follow.ts'
import { indexTransfers } from '../history/index-transfers.ts'
import { openTelemetry } from '../telemetry.ts'
import { fromHex } from '../hex.ts'
import { command } from '../../test/kit/command.ts'
import { testCluster, testDatabase, testPooler } from '../../test/kit/database.ts'
import { startHistoryNode } from '../../test/nodes/history-node.ts'
import { addressOf, scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { openSilentNode } from '../../test/silent-node.ts'
import { until } from '../../test/kit/until.ts'
import { systemClock } from '../clock.ts'

const GENESIS = `0x${'5e'.repeat(32)}` as const
const DEVNET: NetworkFacts = {
  chainId: 31337,
  ...{ name: 'devnet', symbol: 'ETH', coin: 'Ether', explorer: null, finality: 3 },
  ...{ blockVerification: 'hash', feeCapGwei: null, gas: 'self' },
}
const ACCOUNT = addressOf(0xa1)

suite(
  'the history on the command line',
  { skip: testCluster === null && 'needs PostgreSQL: set TEST_DATABASE_URL' },
  () => {
    test('an account that existed before is filled in; the audit ends with 0, after damage with 1, after a repair with 0', async (t) => {
      const database = await testDatabase()
      const { db } = database
      const script = scriptedChain({ finality: 3 })
      // What a node is asked for when a network is opened, and nothing here reads.
      script.answer = () => '0x0'
      const node = await startHistoryNode(script, { random: () => 1, isStrict: true })
      const dir = await mkdtemp(join(tmpdir(), 'chatelaine-cli-'))
      t.after(async () => {
        await node.close()
        await database.close()
        await rm(dir, { recursive: true })
      })
      const transfer = {
        type: 'ERC20' as const,
        token: addressOf(0x70),
        from: addressOf(0x57),
        to: ACCOUNT,
        items: [{ id: null, value: 5n }],
      }
      for (let block = 0; block < 10; block++) script.mine({ from: signerAt(0x57), transfers: [transfer] })
      const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3, NATIVE_HISTORY: 'off' as const }
      const app = { config, db, telemetry: openTelemetry('test', 'silent'), clock: systemClock } as App
      const follower = startFollower(app, script.chain, [indexTransfers])
      await until(
        'the chain is followed',
        async () =>
          (await db.selectFrom('history_cursors').select('block_number').executeTakeFirst())?.block_number === 10,
      )
      await follower.stop()
      await db
        .insertInto('accounts')
        .values({ account_id: '00000000-0000-8000-8000-0000000000a1', user_id: 'DEV-a', address: fromHex(ACCOUNT) })
        .execute()

      await bindNetwork(db, { ...DEVNET, genesisHash: script.blocks[0]!.hash }, { mayBegin: false })
      const settings = {
        DATABASE_URL: database.url!,
        DATABASE_POOLER: testPooler,
        DATA_DIR: dir,
        NETWORK_FINALITY: '3',
      }
      const run = (...args: string[]) => command({ ...settings, RPC_URL: node.url }, args)
      const audit = (...more: string[]) => run('audit', '--from', '0', '--to', '7', ...more)

      const before = await audit()
      assert.deepEqual([before.code, before.out.match(/^missing/gm)?.length], [1, 7], before.err)
      const finalNow = (finalized_number: number) => db.updateTable('cursors').set({ finalized_number }).execute()
      await finalNow(10)
      const filled = await run('backfill')
      assert.equal(filled.code, 0, filled.err)
      assert.equal(
        filled.out,
        'block 10 of 10, 10 new transfers\nDone: the past transfers of every account are indexed.\n',
      )
      await finalNow(7)
      const after = await audit('--rpc', node.url)
      assert.deepEqual([after.code, after.out], [0, '8 blocks, 7 transfers, 0 differences\n'], after.err)
      await db
        .updateTable('transfers')
        .set({ value: Buffer.alloc(32) })
        .where('block_number', '=', 4)
        .execute()
      const damaged = await audit('--repair')
      assert.equal(damaged.code, 1)
      assert.match(
        damaged.out,
        /^changed: block 4, .*differs in value\n8 blocks, 7 transfers, 1 differences, repaired\n$/,
      )
      assert.equal((await audit()).code, 0)

      for (const [args, says] of [
        [['audit', '--from', '0', '--to', '8'], /end at 7/],
        [
          ['audit', '--from', '0', '--to', '7', '--network', 'mars'],
          /No network mars has nodes in these settings; known networks: devnet/,
        ],
        [['audit', '--from', 'x', '--to', '8'], /decimal digits/],
      ] as const) {
        const { code, err } = await run(...args)
        assert.equal(code, 1)
        assert.match(err, says)
      }

      // The same network from NETWORKS_FILE instead of RPC_URL, in production, without the settings of the server.
      const file = join(dir, 'nodes.json')
      const stored = { ...settings, NODE_ENV: 'production', NETWORKS_FILE: file, NETWORK_NAME: 'another' }
      const none = await command(stored, ['audit', '--from', '0', '--to', '7'])
      assert.deepEqual([none.code, none.out], [1, ''])
      assert.match(none.err, /No network has nodes in these settings/)
      await writeNodes(file, { devnet: [node.url] })
      const once = await command(stored, ['audit', '--from', '0', '--to', '7'])
      assert.deepEqual([once.code, once.out], [0, '8 blocks, 7 transfers, 0 differences\n'], once.err)
      const again = await command(stored, ['backfill'])
      assert.deepEqual([again.code, again.out], [0, 'Done: the past transfers of every account are indexed.\n'])

      // Two networks: the one that is meant has to be said, and the other one's chain is not mistaken for it.
      const other = await openSilentNode({ chainId: 5 })
      t.after(() => other.close())
      await bindNetwork(db, { ...DEVNET, chainId: 5, name: 'other', genesisHash: GENESIS }, { mayBegin: false })
      await writeNodes(file, { devnet: [node.url], other: [other.url] })
      const which = await command(stored, ['audit', '--from', '0', '--to', '7'])
      assert.deepEqual([which.code, which.err], [1, 'Give --network, one of devnet, other.\n'])
      assert.equal((await command(stored, ['audit', '--network', 'devnet', '--from', '0', '--to', '7'])).code, 0)
      const never = await command(stored, ['backfill', '--network', 'other'])
      assert.match(never.err, /no block of this network was followed yet/)
      await writeNodes(file, { devnet: [node.url], other: [node.url] })
      const wrong = await command(stored, ['backfill', '--network', 'other'])
      assert.deepEqual([wrong.code, wrong.err], [1, 'the node has chain id 31337, expected 5\n'])
    })
  },
)
