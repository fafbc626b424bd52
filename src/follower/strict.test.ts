import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import type { Abi } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { encodeFunctionData } from 'viem/utils'
import { openRpc, type Rpc } from '../chain/rpc/rpc.ts'
import { launchAnvil } from '../devnet/anvil.ts'
import type { Hex } from '../ids.ts'
import { scriptedChain, addressOf, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { signerAt } from '../../test/scripted-transactions.ts'
import { until } from '../../test/kit/until.ts'
import type { Receipt } from './block.ts'
import { bloomOf } from './bloom.ts'
import { fetchBlock } from './fetch.ts'
import { checkRoots, computeBlock, headerHash, receiptsRoot } from './strict.ts'
import { listRoot } from './trie.ts'

test('the root of an empty list is the one of every empty block', () => {
  // Source: go-ethereum core/types/hashes.go, EmptyReceiptsHash
  assert.equal(listRoot([]).toString('hex'), '56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421')
})

suite('blocks of a real chain', () => {
  let stop: () => Promise<void>
  let rpc: Rpc
  let sender: Hex
  let token: Hex
  let abi: Abi
  before(async () => {
    const dir = await mkdtemp(join(tmpdir(), 'chatelaine-strict-'))
    const genesisSeconds = Math.floor(Date.now() / 1_000) - 10_000
    const anvil = await launchAnvil({ dir, port: 0, genesisSeconds, loadFile: null, dumpFile: join(dir, 'state.json') })
    rpc = openRpc({ url: anvil.rpcUrl })
    stop = async () => {
      rpc.close()
      await anvil.stop()
      await rm(dir, { recursive: true })
    }
    ;[sender] = await rpc.call<[Hex]>('eth_accounts', [])
    const sample = await readFile(new URL('../../contracts/out/SampleToken.json', import.meta.url), 'utf8')
    const compiled = JSON.parse(sample) as { abi: Abi; bytecode: Hex }
    abi = compiled.abi
    const hash = await rpc.call<Hex>('eth_sendTransaction', [
      { from: sender, data: compiled.bytecode, gas: '0x4c4b40' },
    ])
    await rpc.call('evm_mine', [])
    token = (await rpc.call<{ contractAddress: Hex }>('eth_getTransactionReceipt', [hash])).contractAddress
  })
  after(() => stop())

  const send = (extra: object) =>
    rpc.call<Hex>('eth_sendTransaction', [{ from: sender, to: token, gas: '0x30d40', ...extra }])
  const latest = async () => {
    const [block, receipts] = await rpc.batch([
      { method: 'eth_getBlockByNumber', params: ['latest', true] },
      { method: 'eth_getBlockReceipts', params: ['latest'] },
    ])
    return { block: block as Record<string, Hex>, receipts: receipts as Record<string, unknown>[] }
  }

  test('headers, roots and filters are what the node computed, for each kind of transaction and for hundreds of them', async () => {
    const data = encodeFunctionData({ abi, functionName: 'mint', args: [sender, 5n] })
    const legacy = { data, gasPrice: '0x77359400' }
    const accessList = { ...legacy, accessList: [{ address: token, storageKeys: [] }] }
    const dynamic = { data, maxFeePerGas: '0x77359400', maxPriorityFeePerGas: '0x1' }
    const failing = { ...dynamic, data: '0xdeadbeef' }
    for (const kinds of [
      [],
      [legacy],
      [dynamic, accessList, legacy, failing, dynamic],
      Array.from({ length: 300 }, () => dynamic),
    ]) {
      const sent = []
      for (const kind of kinds) sent.push(await send(kind))
      await until(
        'the transactions are waiting',
        async () => Number((await rpc.call<{ pending: Hex }>('txpool_status', [])).pending) === sent.length,
      )
      await rpc.call('evm_mine', [])
      const { block, receipts } = await latest()
      assert.equal(receipts.length, kinds.length)
      checkRoots(block, computeBlock(block, receipts))
      const logs = receipts.flatMap((receipt) => receipt.logs as { address: Hex; topics: Hex[] }[])
      assert.equal(`0x${bloomOf(logs).toString('hex')}`, block.logsBloom)
      if (kinds.length === 5) {
        assert.deepEqual(receipts.map((receipt) => String(receipt.type)).toSorted(), [
          '0x0',
          '0x1',
          '0x2',
          '0x2',
          '0x2',
        ])
        assert.equal(receipts.filter(({ status }) => status === '0x0').length, 1)
      }
      const whole = await fetchBlock(rpc, block.hash!, { hasBlockReceipts: true, verification: 'hash' })
      assert.equal(whole.receipts.length, kinds.length)
    }
  })

  test('a contract created and an account delegated are proven as they are', async () => {
    const signer = privateKeyToAccount(`0x${'5e'.repeat(32)}`)
    await rpc.call('anvil_setBalance', [signer.address, '0x8ac7230489e80000'])
    const fees = { type: 'eip7702', maxFeePerGas: 2n * 10n ** 9n, maxPriorityFeePerGas: 3n, gas: 200_000n } as const
    const authorization = await signer.signAuthorization({ address: token, chainId: 31337, nonce: 1 })
    await rpc.call('eth_sendRawTransaction', [
      await signer.signTransaction({
        ...fees,
        chainId: 31337,
        nonce: 0,
        to: token,
        authorizationList: [authorization],
      }),
    ])
    await rpc.call('eth_sendTransaction', [{ from: sender, data: '0x5f5ff3', gas: '0x30d40' }])
    await rpc.call('evm_mine', [])
    const { block } = await latest()
    const { receipts, prove } = await fetchBlock(rpc, block.hash!, { hasBlockReceipts: true, verification: 'hash' })
    assert.deepEqual(receipts.map(({ from }) => from).toSorted(), [sender, signer.address.toLowerCase()].toSorted())
    const proven = await prove({ signed: new Map(), claimed: [] })
    assert.equal([...proven.receipts.values()].filter(({ contractAddress }) => contractAddress !== null).length, 1)
    assert.equal(proven.nonces.size, 2)
  })

  test('what nobody signed is refused in strict mode, and taken at its node’s word in the others', async () => {
    const nobody = addressOf(0xab)
    await rpc.call('anvil_setBalance', [nobody, '0x8ac7230489e80000'])
    await rpc.call('anvil_impersonateAccount', [nobody])
    for (const kind of [{}, { gasPrice: '0x77359400' }]) {
      await rpc.call('eth_sendTransaction', [{ from: nobody, to: token, gas: '0x30d40', ...kind }])
      await rpc.call('evm_mine', [])
      const { block } = await latest()
      await assert.rejects(
        fetchBlock(rpc, block.hash!, { hasBlockReceipts: true, verification: 'hash' }),
        /nobody has signed/,
      )
      const { receipts, prove } = await fetchBlock(rpc, block.hash!, { hasBlockReceipts: true, verification: 'bloom' })
      const [{ transactionHash, from }] = receipts as [Receipt]
      assert.equal(from, nobody)
      const { nonces, doubt } = await prove({ signed: new Map(), claimed: [transactionHash] })
      assert.deepEqual([doubt, nonces.has(transactionHash)], [null, true])
    }
  })

  test('a header that was touched has another hash', async () => {
    const { block, receipts } = await latest()
    for (const [name, value] of [
      ['stateRoot', block.receiptsRoot],
      ['timestamp', '0x1'],
      ['baseFeePerGas', null],
    ]) {
      const touched = { ...block, [name as string]: value }
      assert.throws(() => checkRoots(touched, computeBlock(touched, receipts)), /another hash|leaves out a field/)
    }
  })
})

/** All forgeries of a block's logs, by name. */
const forgeries: Record<string, (logs: Log[][]) => void> = {
  'a missing log': (logs) => logs.find((some) => some.length > 0)!.pop(),
  'a log twice': (logs) => logs[1]!.push({ ...logs[1]![0]! }),
  'two logs swapped': (logs) => logs[1]!.reverse(),
  'logs swapped between transactions': (logs) => ([logs[0], logs[1]] = [logs[1]!, logs[0]!]),
  'another amount': (logs) => (logs[1]![0]!.data = `${logs[1]![0]!.data.slice(0, -1)}9`),
  'another token': (logs) => (logs[1]![0]!.address = addressOf(0xbad)),
  'another recipient': (logs) => (logs[1]![0]!.topics[2] = `0x${'00'.repeat(31)}99`),
  'a topic less': (logs) => logs[1]![0]!.topics.pop(),
  'an invented log': (logs) => logs[2]!.push({ ...logs[1]![0]!, address: addressOf(0xbad) }),
  'an index with a gap': (logs) => (logs[1]![1]!.logIndex = '0xff'),
}
type Log = { address: Hex; topics: Hex[]; data: string; logIndex: string }

const coins = (from: number, to: number, value: bigint): ScriptedTransfer => ({
  ...{ type: 'ERC20', token: addressOf(0x70), from: addressOf(from), to: addressOf(to) },
  items: [{ id: null, value }],
})

for (const [name, forge] of Object.entries(forgeries)) {
  test(`in strict mode ${name} is noticed`, async () => {
    const script = scriptedChain()
    const { hash } = script.mine(
      { from: signerAt(1), transfers: [coins(1, 2, 3n)] },
      { from: signerAt(1), transfers: [coins(1, 2, 5n), coins(3, 4, 6n)] },
      { from: signerAt(1), transfers: [] },
    )
    const { rpc } = script.chain
    const forged = {
      ...rpc,
      batch: async (calls: Parameters<Rpc['batch']>[0]) => {
        const answers = (await rpc.batch(calls)) as [unknown, { logs: Log[] }[]]
        const logs = answers[1].map((receipt) => receipt.logs)
        forge(logs)
        for (const [index, receipt] of answers[1].entries()) receipt.logs = logs[index]!
        return answers
      },
    }
    await fetchBlock(rpc, hash, { hasBlockReceipts: true, verification: 'hash' })
    await assert.rejects(fetchBlock(forged, hash, { hasBlockReceipts: true, verification: 'hash' }), {
      name: 'InvalidResponse',
    })
  })
}

test('a receipt of a type that is not Ethereum’s is refused in strict mode, not guessed', () => {
  assert.throws(
    () => receiptsRoot([{ type: '0x7e', status: '0x1', cumulativeGasUsed: '0x1', logs: [] }]),
    /unknown type 0x7e/,
  )
})

const word = (byte: string) => `0x${byte.repeat(32)}`
const header = {
  ...{ parentHash: word('11'), sha3Uncles: word('22'), miner: `0x${'33'.repeat(20)}`, stateRoot: word('44') },
  ...{ transactionsRoot: word('55'), receiptsRoot: word('66'), logsBloom: `0x${'00'.repeat(256)}`, difficulty: '0x0' },
  ...{ number: '0x10', gasLimit: '0x1c9c380', gasUsed: '0x5208', timestamp: '0x65000000', extraData: '0x' },
  ...{ mixHash: word('77'), nonce: `0x${'00'.repeat(8)}` },
}
const cancun = {
  ...{ baseFeePerGas: '0x3b9aca00', withdrawalsRoot: word('88'), blobGasUsed: '0x20000', excessBlobGas: '0x40000' },
  parentBeaconBlockRoot: word('99'),
}
for (const [fork, right, moved] of [
  ['London', { baseFeePerGas: '0x3b9aca00' }, { withdrawalsRoot: '0x3b9aca00' }],
  [
    'Shanghai',
    { baseFeePerGas: '0x3b9aca00', withdrawalsRoot: word('88') },
    { withdrawalsRoot: '0x3b9aca00', parentBeaconBlockRoot: word('88') },
  ],
  [
    'Cancun',
    cancun,
    {
      ...{ withdrawalsRoot: '0x3b9aca00', blobGasUsed: word('88'), excessBlobGas: '0x20000' },
      ...{ parentBeaconBlockRoot: '0x040000', requestsHash: word('99') },
    },
  ],
] as const)
  test(`a header of ${fork} whose base fee stands under another name is refused, though it hashes to the same`, () => {
    assert.match(headerHash({ ...header, ...right }), /^0x[0-9a-f]{64}$/)
    assert.throws(() => headerHash({ ...header, ...moved }), /leaves out a field/)
  })
