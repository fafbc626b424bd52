import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { Rpc } from '../chain/rpc/rpc.ts'
import type { Verification } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { signerAt, type WholeTransaction } from '../../test/scripted-transactions.ts'
import { until } from '../../test/kit/until.ts'
import type { BlockListener, FollowedBlock, Ours } from './block.ts'
import { fetchBlock } from './fetch.ts'
import type { ReceiptSource } from './receipt-source.ts'
import { chainLike } from '../../test/opened.ts'

// A node that changes one field of a block's answers at a time.

type Fields = Record<string, unknown>
type Block = Fields & { transactions: Fields[] }
/** Changes a node's answer; returns false if it has no such field. */
type Lie = (block: Block, receipts: Fields[]) => void

const [alice, bob] = [signerAt(1), signerAt(2)]
const transfer = (value: bigint) => ({
  ...{ type: 'ERC20' as const, token: addressOf(0x70), from: alice, to: bob },
  items: [{ id: null, value }],
})

/** Mines a block with a transaction of each type, of which the second failed. */
function mineAll(script: ScriptedChain) {
  const one = (value: bigint, reverted = false) => ({ from: value % 2n === 0n ? alice : bob, transfers: [transfer(value)], reverted }) // prettier-ignore
  return script.mine(one(1n), one(2n, true), one(3n), one(4n), one(5n))
}

/** Whole blocks are requested without receipts, so changes to receipts have no effect there. */
function lying(rpc: Rpc, lie: Lie): Rpc {
  return {
    ...rpc,
    call: async <T>(method: string, params: unknown[]) => {
      const answer = await rpc.call<T>(method, params)
      if (method !== 'eth_getBlockByHash' || !(answer as Block | null)?.transactions.length) return answer
      lie(answer as Block, await rpc.call<Fields[]>('eth_getBlockReceipts', [params[0]]))
      return answer
    },
    batch: async (calls) => {
      const answers = await rpc.batch(calls)
      const [block, receipts] = ['eth_getBlockByHash', 'eth_getBlockReceipts'].map((method) => answers[calls.findIndex((call) => call.method === method)]) // prettier-ignore
      if ((block as Block | undefined)?.transactions.length && Array.isArray(receipts))
        lie(block as Block, receipts as Fields[])
      return answers
    },
  }
}

const isWhole = ({ transactions }: Block): boolean => typeof transactions[0] === 'object'

/** Applies a change only to answers with whole transactions. */
const ofWhole =
  (lie: Lie): Lie =>
  (block, receipts) => {
    if (isWhole(block)) lie(block, receipts)
  }

/** Returns bytes that prove nothing, so that the whole block is requested. */
const withoutBytes = (hashes: Hex[]) => new Map(hashes.map((hash) => [hash, Buffer.alloc(0)]))

const claimed = (...hashes: Hex[]): Ours => ({ signed: new Map(), claimed: hashes })

/** Returns another value of the same form. */
function other(value: unknown): unknown {
  if (typeof value === 'string' && value.length > 2) return `${value.slice(0, -1)}${value.endsWith('1') ? '2' : '1'}`
  if (value === '0x') return '0x01'
  if (value === null) return addressOf(0xbad)
  return []
}

const source = (verification: Verification) => ({ hasBlockReceipts: true, verification })
const plain = (block: FollowedBlock) => ({ ...block, prove: null })

/** Fields that duplicate others or are results. They are not read, so changes to them have no effect. */
const UNREAD = new Set(['gasPrice 2', 'gasPrice 3', 'gasPrice 4', 'chainId 0', 'v 2', 'v 3', 'v 4'])

test('in strict mode no field of a header, a transaction or a receipt can be changed', async () => {
  const script = scriptedChain()
  const { hash, header, transactions } = mineAll(script)
  const { rpc } = script.chain
  const honest = await fetchBlock(rpc, hash, source('hash'))
  assert.equal(honest.receipts.length, 5)
  const refused = (lie: Lie) =>
    assert.rejects(fetchBlock(lying(rpc, lie), hash, source('hash')), { name: 'InvalidResponse' })
  for (const name of [...Object.keys(header), 'hash'])
    await refused((block) => (block[name] = other(block[name]))).catch(() => assert.fail(`header ${name}`))
  const receipts = script.respond('eth_getBlockReceipts', [hash]) as Fields[]
  for (const [index, { answer }] of transactions.entries()) {
    for (const name of Object.keys(answer)) {
      const lie: Lie = (block) => (block.transactions[index]![name] = other(block.transactions[index]![name]))
      if (UNREAD.has(`${name} ${index}`))
        assert.deepEqual(plain(await fetchBlock(lying(rpc, lie), hash, source('hash'))), plain(honest)) // prettier-ignore
      else await refused(lie).catch(() => assert.fail(`transaction ${index} ${name}`))
    }
    // Logs have a separate test.
    for (const name of Object.keys(receipts[index]!).filter((one) => one !== 'logs'))
      await refused((_, some) => (some[index]![name] = other(some[index]![name]))).catch(() =>
        assert.fail(`receipt ${index} ${name}`),
      )
  }
})

const LIES: Record<string, Lie> = {
  'another hash': ({ transactions }, receipts) =>
    (transactions[2]!.hash = receipts[2]!.transactionHash = `0x${'ab'.repeat(32)}`),
  'another sender': ({ transactions }, receipts) => (transactions[2]!.from = receipts[2]!.from = addressOf(0xa1)),
  'another recipient': ({ transactions }, receipts) => (transactions[2]!.to = receipts[2]!.to = addressOf(0xa1)),
  'another signature': ({ transactions }) => (transactions[2]!.s = other(transactions[2]!.s)),
  'no signature': ({ transactions }) => Object.assign(transactions[2]!, { r: '0x0', s: '0x0' }),
  'another nonce': ({ transactions }) => (transactions[2]!.nonce = '0x9'),
  'less gas': (_, receipts) => (receipts[2]!.gasUsed = '0x1'),
  'less gas in sum': (_, receipts) =>
    Object.assign(receipts[2]!, { gasUsed: '0x1', cumulativeGasUsed: `0x${(42_001).toString(16)}` }),
  'another price': (_, receipts) => (receipts[2]!.effectiveGasPrice = '0x1'),
  'another price in both': ({ transactions }, receipts) =>
    (receipts[2]!.effectiveGasPrice = transactions[2]!.maxFeePerGas = '0x1'),
  'a contract that nobody created': (_, receipts) => (receipts[2]!.contractAddress = addressOf(0xc1)),
  'success of what failed': (_, receipts) => (receipts[1]!.status = '0x1'),
  'failure of what succeeded': (_, receipts) => Object.assign(receipts[2]!, { status: '0x0' }),
  'a transaction of a type that is unknown': ({ transactions }, receipts) =>
    (transactions[2]!.type = receipts[2]!.type = '0x7e'),
  'a receipt of another transaction': (_, receipts) => {
    const [one, two] = [receipts[2]!, receipts[3]!]
    receipts[2] = { ...two, transactionHash: one.transactionHash, from: one.from, type: one.type, logs: one.logs }
    receipts[3] = { ...one, transactionHash: two.transactionHash, from: two.from, type: two.type, logs: two.logs }
    receipts[2].status = '0x0'
  },
  'two transactions in each other’s place': ({ transactions }, receipts) => {
    const hashes = receipts.map(({ transactionHash }) => transactionHash)
    ;[transactions[2], transactions[3]] = [transactions[3]!, transactions[2]!]
    Object.assign(receipts[2]!, { transactionHash: hashes[3] })
    Object.assign(receipts[3]!, { transactionHash: hashes[2] })
  },
  'a transaction hidden': ({ transactions }, receipts) => {
    // Remove the failed transaction, so that no log is missing.
    transactions.splice(1, 1)
    receipts.splice(1, 1)
  },
  'a transaction invented': ({ transactions }, receipts) => {
    const more = scriptedChain().mine({ from: alice, transfers: [] }).transactions[0]!
    transactions.push(more.answer)
    receipts.push({ ...receipts[1]!, type: '0x0', transactionHash: more.hash, from: alice, status: '0x1' })
  },
}

const OF_SENDER = new Set(['another sender', 'a contract that nobody created'])

suite('a follower in strict mode', () => {
  const { app, settled, following } = followerStage()

  for (const [name, lie] of Object.entries(LIES)) {
    test(`stores nothing of a block with ${name}, and follows when the node is honest again`, async () => {
      const script = scriptedChain({ isDevelopment: true })
      const told: FollowedBlock[] = []
      const listener: BlockListener = {
        onBlock: async (_db, _app, _chain, block) => void told.push(block),
        onRetract: async () => {},
        onFinalize: async () => {},
      }
      let isLying = true
      let lies = 0
      const rpc = lying(script.chain.rpc, (block, receipts) => {
        if (!isLying) return
        lies++
        lie(block, receipts)
      })
      mineAll(script)
      const work = async () => {
        await until('it was lied to again and again', () => lies > 1)
        assert.deepEqual(
          told.map(({ number }) => number),
          [0],
        )
        const stored = await app.db.selectFrom('blocks').select('number').execute()
        assert.deepEqual(
          stored.map(({ number }) => number),
          [0],
        )
        isLying = false
        await settled(script)
      }
      await following(script, listener, work, chainLike(script.chain, { rpc, verification: 'hash' }))
      const { receipts } = told[1]!
      assert.deepEqual(
        receipts.map(({ from }) => from),
        [bob, alice, bob, alice, bob],
      )
      const { nonces, receipts: proven, doubt } = await told[1]!.prove(claimed())
      assert.deepEqual(
        [...proven.values()].map(({ gasUsed }) => gasUsed),
        Array<number>(5).fill(21_000),
      )
      assert.deepEqual(
        [...nonces.keys()],
        receipts.map(({ transactionHash }) => transactionHash),
      )
      assert.equal(doubt, null)
    })
  }
})

test('a price that the node leaves out is worked out', async () => {
  const script = scriptedChain()
  const { hash } = mineAll(script)
  const rpc = lying(script.chain.rpc, (_, receipts) => receipts.forEach((receipt) => delete receipt.effectiveGasPrice))
  const { receipts } = await (await fetchBlock(rpc, hash, source('hash'))).prove(claimed())
  assert.deepEqual(
    [...receipts.values()].map(({ effectiveGasPrice }) => effectiveGasPrice),
    Array<bigint>(5).fill(1_000_000_007n),
  )
})

suite('in the other modes', () => {
  const hashesOf = (block: FollowedBlock) => block.receipts.map(({ transactionHash }) => transactionHash)

  const { 'a transaction of a type that is unknown': _, ...lies } = LIES
  for (const [name, lie] of Object.entries(lies)) {
    test(`a block with ${name} is not proven, where all of it was a lie and where only the whole block is`, async () => {
      const script = scriptedChain()
      const { hash } = mineAll(script)
      const { rpc } = script.chain
      // Transaction hashes and receipts are requested first, then the whole block.
      const first = lying(rpc, (block, receipts) => {
        if (isWhole(block)) return
        const answer = script.respond('eth_getBlockByHash', [hash, true]) as Block
        lie(answer, receipts)
        block.transactions = answer.transactions.map((one) => one.hash) as never
      })
      const second = lying(rpc, ofWhole(lie))
      const both = { ...first, call: second.call }
      const isOfReceiptsOnly = isDeepStrictEqual(
        await second.call('eth_getBlockByHash', [hash, true]),
        script.respond('eth_getBlockByHash', [hash, true]),
      )
      const asked = [(hashes: Hex[]) => claimed(...hashes)]
      // Our own signed bytes determine the sender, so the node's value is not compared.
      if (!OF_SENDER.has(name)) asked.push((hashes) => ({ signed: withoutBytes(hashes), claimed: [] }))
      for (const ours of asked) {
        for (const liar of isOfReceiptsOnly ? [both] : [both, second])
          await assert.rejects(
            async () => {
              const block = await fetchBlock(liar, hash, source('bloom'))
              await block.prove(ours(hashesOf(block)))
            },
            { name: 'InvalidResponse' },
          )
      }
    })
  }

  test('an honest block is proven with one more question, and its nonces are those of its bytes', async () => {
    const script = scriptedChain()
    const { hash, transactions } = mineAll(script)
    const block = await fetchBlock(script.chain.rpc, hash, source('bloom'))
    assert.equal(script.asked.get('eth_getBlockByHash'), 1)
    const { nonces, doubt } = await block.prove(claimed(transactions[3]!.hash))
    assert.equal(doubt, null)
    assert.equal(nonces.get(transactions[3]!.hash), Number(transactions[3]!.answer.nonce))
    assert.equal(script.asked.get('eth_getBlockByHash'), 2)
    assert.equal(script.asked.get('eth_getBlockReceipts'), 1)
  })

  const signedIn = (transactions: WholeTransaction[]): Ours => ({
    signed: new Map(transactions.map(({ hash, encoded }) => [hash, encoded])),
    claimed: [],
  })

  test('a block of which we signed everything is proven by our own bytes, without another question', async () => {
    const script = scriptedChain()
    const { hash, transactions } = mineAll(script)
    const learned: ReceiptSource = source('bloom')
    const block = await fetchBlock(script.chain.rpc, hash, learned)
    const { nonces, doubt } = await block.prove(signedIn(transactions))
    assert.equal(doubt, null)
    assert.deepEqual([...nonces], transactions.map((one) => [one.hash, Number(one.answer.nonce)])) // prettier-ignore
    assert.deepEqual(learned.provability, { wasProven: true, doubts: 0 })
    assert.equal(script.asked.get('eth_getBlockByHash'), 1)
  })

  test('where somebody else’s is among ours, or our bytes are not the block’s, the whole block is asked for and decides', async () => {
    for (const spoil of [
      (signed: Map<Hex, Buffer>, { hash }: WholeTransaction) => signed.delete(hash),
      (signed: Map<Hex, Buffer>, { hash }: WholeTransaction) => signed.set(hash, Buffer.alloc(0)),
      (signed: Map<Hex, Buffer>, { hash, encoded }: WholeTransaction) => signed.set(hash, encoded.subarray(0, -1)),
      (signed: Map<Hex, Buffer>, { hash }: WholeTransaction) => signed.set(hash, Buffer.from('c0', 'hex')),
      (signed: Map<Hex, Buffer>, { hash }: WholeTransaction) => signed.set(hash, Buffer.from('7fc0', 'hex')),
      (signed: Map<Hex, Buffer>) => signed.forEach((_raw, hash) => signed.set(hash, [...signed.values()][0]!)),
    ]) {
      const script = scriptedChain()
      const { hash, transactions } = mineAll(script)
      const block = await fetchBlock(script.chain.rpc, hash, source('bloom'))
      const ours = signedIn(transactions)
      spoil(ours.signed as Map<Hex, Buffer>, transactions[2]!)
      const { nonces, doubt } = await block.prove(ours)
      assert.equal(doubt, null)
      assert.equal(nonces.get(transactions[2]!.hash), Number(transactions[2]!.answer.nonce))
      assert.equal(script.asked.get('eth_getBlockByHash'), 2)
    }
  })

  for (const [name, lie] of Object.entries(lies)) {
    test(`with our own bytes a block with ${name} is not proven, and a lie that is not asked for harms nobody`, async () => {
      const script = scriptedChain()
      const { hash, transactions } = mineAll(script)
      const rpc = lying(script.chain.rpc, (block, receipts) => {
        const answer = script.respond('eth_getBlockByHash', [hash, true]) as Block
        lie(answer, receipts)
        if (isWhole(block)) Object.assign(block, answer)
        else block.transactions = answer.transactions.map((one) => one.hash) as never
      })
      const honest = await fetchBlock(script.chain.rpc, hash, source('bloom'))
      const told = await fetchBlock(rpc, hash, source('bloom')).catch(() => null)
      if (isDeepStrictEqual(told?.receipts, honest.receipts)) await told!.prove(signedIn(transactions))
      // Our own signed bytes determine the sender, so the node's value is not compared.
      else if (told !== null && !OF_SENDER.has(name))
        await assert.rejects(told.prove(signedIn(transactions)), { name: 'InvalidResponse' })
    })
  }

  const garbled: Record<string, Lie> = {
    'headers are not Ethereum’s': (block) => (block.extraData = '0x'),
    'transactions are not Ethereum’s': ofWhole(({ transactions }) => (transactions[0]!.type = '0x6a')),
  }
  for (const [name, garble] of Object.entries(garbled)) {
    test(`where ${name} our own are checked by their bytes, and the operator can be told`, async () => {
      const script = scriptedChain()
      const { hash, transactions } = mineAll(script)
      const rpc = lying(script.chain.rpc, garble)
      const block = await fetchBlock(rpc, hash, source('bloom'))
      const { nonces, doubt } = await block.prove(claimed(transactions[2]!.hash))
      assert.match(doubt!, /another hash|not with 0x6a/)
      assert.deepEqual([...nonces], [[transactions[2]!.hash, Number(transactions[2]!.answer.nonce)]])
      for (const field of ['nonce', 'input', 's']) {
        const worse = lying(
          rpc,
          ofWhole(({ transactions: some }) => (some[2]![field] = other(some[2]![field]))),
        )
        const lied = await fetchBlock(worse, hash, source('bloom'))
        await assert.rejects(async () => lied.prove(claimed(transactions[2]!.hash)), { name: 'InvalidResponse' }, field)
      }
    })

    test(`where blocks could be checked before, one whose ${name} is asked for 20 times before it counts`, async () => {
      const script = scriptedChain()
      const learned = source('bloom')
      const { hash: first } = mineAll(script)
      const { hash, transactions } = mineAll(script)
      assert.equal((await (await fetchBlock(script.chain.rpc, first, learned)).prove(claimed())).doubt, null)
      const rpc = lying(script.chain.rpc, garble)
      const ours: Hex[] = [transactions[2]!.hash]
      const ask = async () => (await fetchBlock(rpc, hash, learned)).prove(claimed(...ours))
      for (let count = 0; count < 20; count++) await assert.rejects(ask, { name: 'InvalidResponse' })
      assert.notEqual((await ask()).doubt, null)
    })
  }

  test('the lax mode believes in the block and checks the bytes of ours', async () => {
    const script = scriptedChain()
    const { hash, transactions } = mineAll(script)
    const ours: Hex[] = [transactions[2]!.hash]
    const moved = lying(script.chain.rpc, (_, receipts) => (receipts[2]!.effectiveGasPrice = '0x1'))
    const { doubt, nonces } = await (await fetchBlock(moved, hash, source('count'))).prove(claimed(...ours))
    assert.deepEqual([doubt, nonces.get(ours[0]!)], [null, Number(transactions[2]!.answer.nonce)])
    const forged = lying(
      script.chain.rpc,
      ofWhole(({ transactions: some }) => (some[2]!.nonce = '0x9')),
    )
    await assert.rejects(async () => (await fetchBlock(forged, hash, source('count'))).prove(claimed(...ours)), {
      name: 'InvalidResponse',
    })
  })

  test('twenty doubts are in a row: one whose blocks could be checked in between begins anew', async () => {
    const script = scriptedChain()
    const { hash, transactions } = mineAll(script)
    const learned = source('bloom')
    const prove = async (rpc: Rpc) => (await fetchBlock(rpc, hash, learned)).prove(claimed(transactions[2]!.hash))
    const rpc = lying(script.chain.rpc, garbled['headers are not Ethereum’s']!)
    await prove(script.chain.rpc)
    for (let count = 0; count < 20; count++) {
      await assert.rejects(prove(rpc), { name: 'InvalidResponse' })
      await prove(script.chain.rpc)
    }
    await assert.rejects(prove(rpc), { name: 'InvalidResponse' })
  })

  for (const [name, value] of [
    ['number', '0x2a'],
    ['parentHash', `0x${'77'.repeat(32)}`],
    ['timestamp', '0x1'],
    ['baseFeePerGas', '0x1'],
  ] as const)
    test(`a block whose ${name} is another at first than in its proof is not proven`, async () => {
      const script = scriptedChain()
      const { hash, transactions } = mineAll(script)
      const rpc = lying(script.chain.rpc, (block) => {
        if (!isWhole(block)) block[name] = value
      })
      const block = await fetchBlock(rpc, hash, source('bloom'))
      await assert.rejects(block.prove(claimed(transactions[2]!.hash)), /contradicts itself/)
    })

  for (const verification of ['count', 'bloom'] as const)
    test(`${verification}: what was signed here and is said to be of another network’s type is refused`, async () => {
      const script = scriptedChain()
      const { hash, transactions } = mineAll(script)
      const { hash: ours } = transactions[2]!
      const rpc = lying(
        script.chain.rpc,
        ofWhole((block) => {
          block.transactions[2] = { hash: ours, from: bob, nonce: '0x63', type: '0x6a' }
        }),
      )
      const block = await fetchBlock(rpc, hash, source(verification))
      await assert.rejects(block.prove({ signed: withoutBytes([ours]), claimed: [] }), /signed here has another type/)
    })
})
