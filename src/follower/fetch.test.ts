import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Verification } from '../chain/network.ts'
import { RpcError, type Rpc } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { addressOf, scriptedChain, type ScriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { fetchBlock, fetchHeader, fetchHeaders } from './fetch.ts'
import type { ReceiptSource } from './receipt-source.ts'

const [ALICE, BOB] = [signerAt(1), signerAt(2)]
const coin: ScriptedTransfer = {
  ...{ type: 'ERC20', token: addressOf(0x70), from: ALICE, to: BOB },
  items: [{ id: null, value: 5n }],
}
const two = { from: ALICE, transfers: [coin, coin] }

type Fields = Record<string, unknown>
type Call = { method: string; params: unknown[] }

/** A node whose answers are changed. `asked`: its calls, a line per batch. */
function changed({ chain: { rpc } }: ScriptedChain, change: (call: Call, answer: unknown) => unknown) {
  const asked: string[] = []
  const changing: Rpc = {
    ...rpc,
    call: async (method, params) => change({ method, params }, await rpc.call(method, params)) as never,
    batch: async (calls) => {
      asked.push(`${calls.length} ${calls.at(-1)!.method}`)
      return (await rpc.batch(calls)).map((answer, index) => change(calls[index]!, answer))
    },
  }
  return { rpc: changing, asked }
}
const honest = (_call: Call, answer: unknown) => answer
const only = (method: string, change: (answer: unknown) => unknown) => (call: Call, answer: unknown) =>
  call.method === method ? change(answer) : answer
const receiptsAs = (change: (receipts: Fields[]) => unknown) =>
  only('eth_getBlockReceipts', (answer) => change(structuredClone(answer) as Fields[]))
const source = (verification: Verification = 'bloom'): ReceiptSource => ({ hasBlockReceipts: true, verification })

function mined(...transactions: Parameters<ScriptedChain['mine']>) {
  const script = scriptedChain()
  return { script, block: script.mine(...transactions) }
}

suite('headers', () => {
  test('are asked fifty at a time and come in the order of their numbers, null where there is none', async () => {
    const script = scriptedChain()
    for (let count = 0; count < 119; count++) script.mine()
    const { rpc, asked } = changed(script, honest)
    const numbers = Array.from({ length: 121 }, (_, index) => 120 - index)
    const headers = await fetchHeaders(rpc, numbers)
    assert.deepEqual(
      headers.map((header) => header?.number ?? null),
      [null, ...numbers.slice(1)],
    )
    assert.deepEqual(asked, ['50 eth_getBlockByNumber', '50 eth_getBlockByNumber', '21 eth_getBlockByNumber'])
    assert.equal(headers[1]!.hash, script.blocks[119]!.hash)
  })

  test('of another number than the one asked for are no answer', async () => {
    const { script } = mined()
    const { rpc } = changed(script, (_call, answer) => ({ ...(answer as Fields), number: '0x0' }))
    await assert.rejects(fetchHeaders(rpc, [0, 1]), InvalidResponse)
  })

  test('are all refused with the first error among them', async () => {
    const { script } = mined()
    const error = new RpcError(-32000, 'pruned', undefined)
    const { rpc } = changed(script, ({ params }, answer) => (params[0] === '0x1' ? error : answer))
    await assert.rejects(fetchHeaders(rpc, [0, 1]), (thrown) => thrown === error)
  })

  test('are found by number and by tag', async () => {
    const { script, block } = mined()
    const { rpc } = script.chain
    assert.equal((await fetchHeader(rpc, 1))!.hash, block.hash)
    assert.equal((await fetchHeader(rpc, 'latest'))!.hash, block.hash)
    assert.equal((await fetchHeader(rpc, 'finalized'))!.number, 0)
    assert.equal(await fetchHeader(rpc, 17), null)
  })
})

suite('a whole block', () => {
  test('is its header and the receipt of every transaction, in one batch', async () => {
    const { script, block } = mined(two, { ...two, reverted: true }, two)
    const { rpc, asked } = changed(script, honest)
    const { number, hash, parentHash, timestamp, baseFee, receipts } = await fetchBlock(rpc, block.hash, source())
    assert.deepEqual(
      { number, hash, parentHash, timestamp, baseFee },
      {
        number: 1,
        hash: block.hash,
        parentHash: block.parentHash,
        timestamp: block.timestamp,
        baseFee: 1_000_000_001n,
      },
    )
    assert.deepEqual(
      receipts.map(({ transactionHash, status, logs }) => [
        transactionHash,
        status,
        logs.map(({ logIndex }) => logIndex),
      ]),
      block.transactions.map(({ hash: its }, index) => [its, index !== 1, [[0, 1], [], [2, 3]][index]]),
    )
    assert.deepEqual(asked, ['2 eth_getBlockReceipts'])
  })

  test('that the node does not know, or knows under another hash, is no answer', async () => {
    const { script, block } = mined(two)
    const another = script.mine(two)
    await assert.rejects(fetchBlock(script.chain.rpc, `0x${'ab'.repeat(32)}`, source()), InvalidResponse)
    const { rpc } = changed(script, ({ method, params }, answer) =>
      method === 'eth_getBlockByHash' && params[0] === another.hash
        ? { ...(answer as Fields), hash: block.hash }
        : answer,
    )
    await assert.rejects(fetchBlock(rpc, another.hash, source()), /another block/)
  })

  test('whose node fails is asked for again later: its error is the answer', async () => {
    const { script, block } = mined(two)
    const error = new RpcError(-32000, 'busy', undefined)
    for (const method of ['eth_getBlockByHash', 'eth_getBlockReceipts']) {
      const { rpc } = changed(
        script,
        only(method, () => error),
      )
      const asking = source()
      await assert.rejects(fetchBlock(rpc, block.hash, asking), (thrown) => thrown === error, method)
      assert.equal(asking.hasBlockReceipts, true)
    }
  })

  test('whose receipts the node cannot give together is read by single ones, from the third time on', async () => {
    const { script, block } = mined(two)
    const { rpc } = changed(
      script,
      only('eth_getBlockReceipts', () => new RpcError(-32000, 'cannot decode the receipts', undefined)),
    )
    const asking = source('hash')
    for (let times = 0; times < 2; times++) await assert.rejects(fetchBlock(rpc, block.hash, asking), RpcError)
    const read = await fetchBlock(rpc, block.hash, asking)
    assert.equal(read.receipts[0]!.logs.length, 2)
    // The next block's receipts are requested in one call again.
    assert.equal(asking.hasBlockReceipts, true)
  })

  for (const [code, message] of [
    [-32601, 'whatever'],
    [-32602, 'invalid argument 0: hex number > 64 bits'],
    [-32000, 'the method eth_getBlockReceipts does not exist'],
    [-32000, 'Method not found'],
    [-32004, 'this method is NOT SUPPORTED'],
    [-32000, 'not available on this plan'],
  ] as const) {
    test(`of a node that says ${code} ${message} is put together from its logs, and the node is remembered`, async () => {
      const { script, block } = mined(...Array.from({ length: 101 }, () => two))
      const error = new RpcError(code, message, undefined)
      const { rpc, asked } = changed(
        script,
        only('eth_getBlockReceipts', () => error),
      )
      const asking = source()
      assert.equal((await fetchBlock(rpc, block.hash, asking)).receipts.length, 101)
      assert.deepEqual(asked.splice(0), ['2 eth_getBlockReceipts', '2 eth_getLogs'])
      assert.equal((await fetchBlock(rpc, block.hash, asking)).receipts.length, 101)
      assert.deepEqual(asked, ['1 eth_getBlockByHash', '1 eth_getLogs'])
    })
  }

  for (const message of [
    'header not found',
    'Block not found',
    'resource not available',
    'historical state not available in path scheme yet',
  ]) {
    test(`of a node that says ${message} is asked for again: the method is there, the block is not yet`, async () => {
      const { script, block } = mined(two)
      for (const code of [-32601, -32000]) {
        const error = new RpcError(code, message, undefined)
        const { rpc, asked } = changed(
          script,
          only('eth_getBlockReceipts', () => error),
        )
        const asking = source()
        await assert.rejects(fetchBlock(rpc, block.hash, asking), (thrown) => thrown === error)
        assert.deepEqual([asking.hasBlockReceipts, asked.length], [true, 1])
      }
    })
  }
})

suite('receipts are refused', () => {
  const refused: [what: string, change: (receipts: Fields[]) => unknown, says: RegExp][] = [
    ['that are null', () => null, /does not know the receipts/],
    ['that are no list', () => ({}), /does not know the receipts/],
    ['where one is missing', (receipts) => receipts.slice(1), /receipts are missing/],
    ['where there is one more', (receipts) => [...receipts, receipts[0]], /receipts are missing/],
    ['of another block', ([one, ...rest]) => [{ ...one, blockHash: `0x${'ab'.repeat(32)}` }, ...rest], /another block/],
    ['out of order', (receipts) => receipts.toReversed(), /out of order/],
  ]
  for (const [what, change, says] of refused) {
    test(what, async () => {
      const { script, block } = mined(two, two)
      for (const verification of ['bloom', 'count', 'hash'] as const) {
        const { rpc } = changed(script, receiptsAs(change))
        await assert.rejects(fetchBlock(rpc, block.hash, source(verification)), (error) => error instanceof InvalidResponse && says.test(error.message)) // prettier-ignore
      }
    })
  }

  /** Gives the four logs of two receipts these log indexes. */
  const placed = (places: number[]) =>
    receiptsAs((receipts) => {
      for (const { logs } of receipts as { logs: Fields[] }[])
        for (const log of logs) log.logIndex = `0x${places.shift()!.toString(16)}`
      return receipts
    })
  const takes = async (places: number[], verification: Verification) => {
    const { script, block } = mined(two, two)
    const { rpc } = changed(script, placed([...places]))
    return fetchBlock(rpc, block.hash, source(verification)).then(
      () => true,
      (error: unknown) => {
        assert.ok(error instanceof InvalidResponse && /log indexes/.test(error.message))
        return false
      },
    )
  }
  test('whose logs do not count through the block one by one from 0; the lax mode lets some be left out', async () => {
    for (const [places, isTaken, isTakenByCount] of [
      [[0, 1, 2, 3], true, true],
      [[1, 2, 3, 4], false, true],
      [[0, 2, 3, 4], false, true],
      [[0, 1, 3, 4], false, true],
      [[0, 1, 1, 2], false, false],
      [[0, 0, 1, 2], false, false],
      // Some Cosmos chains count log indexes within each transaction.
      [[0, 1, 0, 1], true, true],
      [[1, 0, 2, 3], false, false],
    ] as [number[], boolean, boolean][])
      assert.deepEqual(
        [await takes(places, 'bloom'), await takes(places, 'count')],
        [isTaken, isTakenByCount],
        places.join(),
      )
  })

  test('whose logs are not those of the block’s filter, however it is written; the lax mode has none', async () => {
    const { script, block } = mined(two, two)
    const bloomAs = (change: (bloom: Hex) => unknown) =>
      changed(
        script,
        only('eth_getBlockByHash', (answer) => ({
          ...(answer as Fields),
          logsBloom: change((answer as Fields).logsBloom as Hex),
        })),
      ).rpc
    const loud = bloomAs((bloom) => `0x${bloom.slice(2).toUpperCase()}`)
    assert.equal((await fetchBlock(loud, block.hash, source())).receipts.length, 2)
    for (const wrong of [null, `0x${'00'.repeat(256)}`]) {
      const rpc = bloomAs(() => wrong)
      await assert.rejects(fetchBlock(rpc, block.hash, source()), /its filter names/)
      assert.equal((await fetchBlock(rpc, block.hash, source('count'))).receipts.length, 2)
    }
  })
})

test('a node whose whole block is not the one that its receipts belong to contradicts itself', async () => {
  const { script, block } = mined(two, two)
  const ours = block.transactions[0]!.hash
  for (const [change, said] of [
    [() => null, /does not know the block/],
    [(answer) => ({ ...answer, hash: `0x${'ab'.repeat(32)}` }), /contradicts itself/],
    [(answer) => ({ ...answer, transactions: answer.transactions.slice(0, 1) }), /contradicts itself/],
    [(answer) => ({ ...answer, transactions: answer.transactions.toReversed() }), /contradicts itself/],
  ] as [(answer: Fields & { transactions: unknown[] }) => unknown, RegExp][]) {
    const { rpc } = changed(script, ({ params }, answer) => (params[1] === true ? change(answer as never) : answer))
    const { prove } = await fetchBlock(rpc, block.hash, source('count'))
    await assert.rejects(prove({ signed: new Map(), claimed: [ours] }), said)
  }
})
