import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import type { App } from '../app.ts'
import { bindNetwork } from '../applications/networks.ts'
import { readConfig } from '../config.ts'
import { startFollower } from '../follower/follow.ts'
import { indexTransfers } from '../history/index-transfers.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { startHistoryNode } from '../../test/nodes/history-node.ts'
import { command } from '../../test/kit/command.ts'
import { testCluster, testDatabase, testPooler } from '../../test/kit/database.ts'
import { atHead } from '../../test/follower-stage.ts'
import { scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { systemClock } from '../clock.ts'

const ALICE = signerAt(0xa1)
const FIRST = 10n ** 18n
/** what each of the scripted transactions takes: its value and its fee */
const SPENT = 3n + 21_000n * 1_000_000_007n

suite('chatelaine audit --sums', { skip: testCluster === null && 'needs PostgreSQL: set TEST_DATABASE_URL' }, () => {
  test('ends with 0 where entries add up, with 1 where a balance differs, with 2 where something is not known', async (t) => {
    const database = await testDatabase()
    const { db } = database
    const script = scriptedChain({ finality: 8 })
    /** wei that came in this block, and that nothing tells of */
    let silent: number | null = null
    script.answer = (method, [, at]) => {
      if (method !== 'eth_getBalance') return '0x0'
      const number = typeof at === 'string' ? Number(at) : script.blocks.findIndex(({ hash }) => hash === (at as { blockHash: string }).blockHash) // prettier-ignore
      return `0x${(FIRST - BigInt(number) * SPENT + (silent !== null && number >= silent ? 5n : 0n)).toString(16)}`
    }
    const node = await startHistoryNode(script, { random: () => 1, isStrict: true })
    const dir = await mkdtemp(join(tmpdir(), 'chatelaine-cli-'))
    t.after(async () => {
      await node.close()
      await database.close()
      await rm(dir, { recursive: true })
    })
    await db
      .insertInto('accounts')
      .values({
        account_id: '00000000-0000-8000-8000-0000000000a1',
        ...{ user_id: 'DEV-a', address: fromHex(ALICE), created_at: new Date(0) },
      })
      .execute()
    for (let block = 0; block < 6; block++) script.mine({ from: ALICE, transfers: [] })
    const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3 }
    const app = {
      config,
      db,
      telemetry: openTelemetry('test', 'silent'),
      state: openState(),
      clock: systemClock,
    } as App
    const follower = startFollower(app, script.chain, [indexTransfers])
    await atHead(db, 'history_cursors', () => script.blocks.at(-1)!.hash)
    await follower.stop()
    await bindNetwork(
      db,
      {
        ...{ chainId: 31337, name: 'devnet', symbol: 'ETH', coin: 'Ether', explorer: null, finality: 8 },
        ...{ blockVerification: 'hash', feeCapGwei: null, gas: 'self', genesisHash: script.blocks[0]!.hash },
      },
      { mayBegin: false },
    )
    const settings = { DATABASE_URL: database.url!, DATABASE_POOLER: testPooler, DATA_DIR: dir, NETWORK_FINALITY: '8' }
    const sums = (...args: string[]) => command({ ...settings, RPC_URL: node.url }, ['audit', '--sums', ...args])

    const equal = await sums()
    assert.deepEqual([equal.code, equal.out], [0, '1 accounts: 1 sums equal, 0 different, 0 of tokens whose events do not match their balances, 0 unknown\n'], equal.err) // prettier-ignore
    const sampled = await sums('--samples', '5', '--seed', 'x', '--json')
    assert.deepEqual([sampled.code, JSON.parse(sampled.out)], [0, { chainId: 31337, from: 0, to: 6, accounts: 5, equal: 5, different: 0, ofTokens: 0, unknown: 0 }], sampled.err) // prettier-ignore

    silent = 4
    assert.equal((await sums('--to', '3')).code, 0)
    const different = await sums('--account', ALICE)
    assert.equal(different.code, 1, different.err)
    const [made, held] = [FIRST - 6n * SPENT, FIRST - 6n * SPENT + 5n]
    assert.equal(different.out, `account ${ALICE}, native currency, block 6: entries make ${made}, the balance is ${held}, +5, since block 4\n1 accounts: 0 sums equal, 1 different, 0 of tokens whose events do not match their balances, 0 unknown\n`) // prettier-ignore
    const [line] = (await sums('--json')).out.split('\n')
    assert.partialDeepStrictEqual(JSON.parse(line!), { address: ALICE, tokenAddress: null, tokenType: 'NATIVE', block: 6, from: 0, opening: String(FIRST), difference: '5', sinceBlock: 4, isOfToken: false }) // prettier-ignore
    assert.equal((await sums('--since', '4')).code, 0)

    await db.deleteFrom('native_coverage').execute()
    const unknown = await sums()
    assert.deepEqual([unknown.code, unknown.out], [2, '1 accounts: 0 sums equal, 0 different, 0 of tokens whose events do not match their balances, 1 unknown\n'], unknown.err) // prettier-ignore

    for (const [args, says] of [
      [['--account', '0x12'], /0x12 is not an address/],
      [['--account', `0x${'12'.repeat(20)}`], /No account has the address/],
      [['--from', '5', '--to', '3'], /Block 5 is above block 3/],
      [['--to', '7'], /The history ends at block 6/],
    ] as const) {
      const { code, err } = await sums(...args)
      assert.equal(code, 1)
      assert.match(err, says)
    }
  })
})
