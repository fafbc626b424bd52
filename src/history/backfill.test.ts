import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { fillPast } from '../../test/fill-past.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { audit, type Difference } from './audit.ts'
import { indexTransfers } from './index-transfers.ts'

const ACCOUNTS = Array.from({ length: 12 }, (_, index) => addressOf(0xa00 + index))
const STRANGER = addressOf(0x57)
const idOf = (address: Hex) => `00000000-0000-8000-8000-${address.slice(-12)}`

type Place = { account_id: string; block_number: number; log_index: number }

/** Creates fifty blocks with every kind of transfer between accounts and strangers, some of zero. */
function busyChain(): ScriptedChain {
  const script = scriptedChain({ finality: 3 })
  for (let block = 1; block <= 50; block++) {
    const at = (step: number) => (block * 7 + step * 3) % 16
    const party = (step: number) => ACCOUNTS[at(step)] ?? STRANGER
    const transfer = (step: number): ScriptedTransfer => {
      const ends = { from: party(step), to: party(step + 1) }
      const amount = BigInt((block + step) % 3)
      if (step % 3 === 0)
        return { type: 'ERC20', token: addressOf(0x70), ...ends, items: [{ id: null, value: amount }] }
      if (step % 3 === 1) return { type: 'ERC721', token: addressOf(0x71), ...ends, items: [{ id: 5n, value: 1n }] }
      const items = Array.from({ length: 1 + (block % 2) }, (_, id) => ({ id: BigInt(id), value: amount }))
      return { type: 'ERC1155', token: addressOf(0x72), ...ends, items }
    }
    script.mine(
      { from: party(block), transfers: [0, 1, 2].map(transfer) },
      { from: party(block + 1), transfers: [3, 4, 5].map(transfer) },
      { from: STRANGER, transfers: [transfer(6)], reverted: block % 5 === 0 },
    )
  }
  return script
}

suite('transfers of accounts that existed before', () => {
  const { app, followed } = followerStage(['accounts', 'blocks', 'cursors', 'transfers', 'tokens'])

  const addAccounts = async (addresses = ACCOUNTS) => {
    const rows = addresses.map((address) => ({
      account_id: idOf(address),
      user_id: `DEV-${address}`,
      address: fromHex(address),
    }))
    await app.db.insertInto('accounts').values(rows).execute()
  }
  /** Follows the chain from block 0, where the follower begins. */
  const follow = (script: ScriptedChain) => followed(script, indexTransfers)
  const dump = async (throughBlock = Number.MAX_SAFE_INTEGER) =>
    app.db
      .selectFrom('transfers')
      .selectAll()
      .where('block_number', '<=', throughBlock)
      .orderBy('account_id')
      .orderBy('block_number')
      .orderBy('log_index')
      .orderBy('batch_index')
      .orderBy('direction')
      .execute()
  /** Returns the rows of an index of the whole chain with the accounts present from the beginning. */
  const expected = async (script: ScriptedChain) => {
    await addAccounts()
    const { lag } = script.faults
    const all = script.blocks.splice(1)
    await follow(script)
    script.blocks.push(...all)
    await follow(script)
    const rows = await dump()
    script.faults.lag = lag
    for (const table of ['accounts', 'blocks', 'cursors', 'history_cursors', 'transfers', 'tokens'] as const)
      await app.db.deleteFrom(table).execute()
    return rows
  }
  const fill = (script: ScriptedChain) => fillPast(app, script.chain)

  test('what was followed without the accounts is filled in, up to what is final, and then the table is whole', async () => {
    const script = busyChain()
    const all = await expected(script)
    await follow(script)
    assert.deepEqual(await dump(), [])
    await addAccounts()
    const { nextBlock, target } = await fill(script)
    assert.deepEqual([nextBlock, target], [48, 50])
    assert.deepEqual(
      await dump(),
      all.filter(({ block_number }) => block_number <= 47),
    )
    assert.ok(all.length > 200)
    for (let block = 0; block < 3; block++) script.mine()
    await follow(script)
    await fill(script)
    assert.deepEqual(await dump(), all)
    const forms = await app.db.selectFrom('tokens').select(['logs_amounts', 'logs_ids']).orderBy('logs_amounts').orderBy('logs_ids').execute() // prettier-ignore
    assert.deepEqual(
      forms.map(({ logs_amounts, logs_ids }) => [logs_amounts, logs_ids]),
      [[false, false], [false, true], [true, false]], // prettier-ignore
    )
  })

  for (const [name, faults] of Object.entries({
    'a limit of blocks': { mostBlocks: 7 },
    'a limit of results': { mostLogs: 40 },
    'a limit of results below what one block has': { mostLogs: 1 },
  })) {
    test(`${name} costs more questions and no transfer`, async () => {
      const script = busyChain()
      const all = await expected(script)
      await follow(script)
      await addAccounts()
      Object.assign(script.faults, faults)
      await fill(script)
      assert.deepEqual(
        await dump(),
        all.filter(({ block_number }) => block_number <= 47),
      )
    })
  }

  test('a list that ends at a round number is asked for in halves', async () => {
    const script = scriptedChain({ finality: 3 })
    const transfer: ScriptedTransfer = {
      type: 'ERC20',
      token: addressOf(0x70),
      from: STRANGER,
      to: ACCOUNTS[0]!,
      items: [{ id: null, value: 1n }],
    }
    for (let block = 0; block < 60; block++)
      script.mine({ from: STRANGER, transfers: Array.from({ length: 20 }, () => transfer) })
    await follow(script)
    await addAccounts()
    Object.assign(script.faults, { mostLogs: 500, cutsSilently: true })
    await fill(script)
    assert.equal((await dump()).length, 57 * 20)
  })

  test('a node that hurries, is away, lags or has another chain is asked again, and what it says is not taken', async () => {
    const script = busyChain()
    const all = await expected(script)
    await follow(script)
    await addAccounts()
    let turn = 0
    script.onAsk = (method) => {
      if (method === 'eth_getBlockByNumber') script.faults.lag = ++turn === 3 ? 20 : 0
      if (method !== 'eth_getLogs') return
      if (turn === 1) throw new RpcError(-32005, 'daily request count exceeded, request rate limited', undefined)
      if (turn === 2) throw new RpcUnavailable('away', { timedOut: false })
    }
    await fill(script)
    assert.ok(turn > 3)
    assert.deepEqual(
      await dump(),
      all.filter(({ block_number }) => block_number <= 47),
    )
  })

  suite('the auditor', () => {
    const compare = async (script: ScriptedChain, repairs = false) => {
      const told: Difference[] = []
      const order = { from: 0, to: 47, rpc: script.chain.rpc, repairs, onProgress: () => {} }
      const result = await audit(app, script.chain, {
        ...order,
        onDifference: (difference) => void told.push(difference),
      })
      return { ...result, told }
    }

    test('says nothing of a history that is right', async () => {
      const script = busyChain()
      await addAccounts()
      const all = script.blocks.splice(1)
      await follow(script)
      script.blocks.push(...all)
      await follow(script)
      const { blocks, transfers, differences } = await compare(script)
      assert.deepEqual([blocks, transfers, differences], [48, (await dump(47)).length, 0])
    })

    test('names every row that is missing, extra or changed, and repairs them', async () => {
      const script = busyChain()
      await addAccounts()
      const all = script.blocks.splice(1)
      await follow(script)
      script.blocks.push(...all)
      await follow(script)
      const right = await dump()
      const final = right.filter(({ block_number }) => block_number <= 47)
      const [missing, changed, moved] = [final[5]!, final[50]!, final[90]!].map(
        ({ account_id, block_number, log_index }) => ({ account_id, block_number, log_index }),
      ) as [Place, Place, Place]
      await app.db
        .deleteFrom('transfers')
        .where((eb) => eb.and(missing))
        .execute()
      await app.db
        .updateTable('transfers')
        .set({ value: Buffer.alloc(32, 9) })
        .where((eb) => eb.and(changed))
        .execute()
      await app.db
        .updateTable('transfers')
        .set({ log_index: 999 })
        .where((eb) => eb.and(moved))
        .execute()
      const before = await dump()
      const { told } = await compare(script)
      assert.deepEqual(await dump(), before)
      const kinds = told.map(({ stored, expected: wanted }) =>
        stored === null ? 'missing' : wanted === null ? 'extra' : 'changed',
      )
      assert.ok(
        ['missing', 'extra', 'changed'].every((kind) => kinds.includes(kind as never)),
        kinds.join(),
      )
      await compare(script, true)
      assert.deepEqual(await dump(), right)
      assert.equal((await compare(script)).differences, 0)
    })

    test('compares final blocks only', async () => {
      const script = busyChain()
      await follow(script)
      const order = {
        from: 40,
        to: 48,
        rpc: script.chain.rpc,
        repairs: false,
        onProgress: () => {},
        onDifference: () => {},
      }
      await assert.rejects(audit(app, script.chain, order), /end at 47/)
    })
  })
})
