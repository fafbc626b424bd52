// tier: all, because it deploys every sample contract
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Abi, decodeFunctionResult, encodeFunctionData, getAddress } from 'viem'
import { readGasContracts } from '../gas/contracts.ts'
import type { Hex } from '../ids.ts'
import { openLog } from '../log.ts'
import { type AnvilChain, startChain } from './chain.ts'
import { deploySamples } from './deploy.ts'
import { giveCoins } from './faucet.ts'
import { rpc } from './rpc.ts'

let chain: AnvilChain
const dir = mkdtempSync(join(tmpdir(), 'deploy-'))
before(async () => {
  chain = await startChain({ dir, port: 0, blockSeconds: 1, log: openLog('test', 'silent') })
})
after(async () => {
  await chain.stop()
  rmSync(dir, { recursive: true, force: true })
})

test('the committed artefacts are what the sources compile to', () => {
  const script = fileURLToPath(new URL('../../scripts/contracts.mjs', import.meta.url))
  const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' })
  assert.equal(stderr, '')
  assert.equal(status, 0)
})

test('samples are deployed once, at the same addresses every time', async () => {
  const first = await deploySamples(chain.rpcUrl)
  // The sender's count, not the height: the chain mines a block of its own now and then.
  const [sender] = await rpc<Hex[]>(chain.rpcUrl, 'eth_accounts')
  const sent = await rpc(chain.rpcUrl, 'eth_getTransactionCount', sender, 'latest')
  assert.deepEqual(await deploySamples(chain.rpcUrl), first)
  const count = await rpc(chain.rpcUrl, 'eth_getTransactionCount', sender, 'pending')
  assert.equal(count, sent, 'nothing was sent the second time')
  assert.deepEqual(
    Object.values(first),
    Object.values(first).map((address) => getAddress(address)),
  )
  assert.equal(first.multicall3, '0xcA11bde05977b3631167028862bE2a173976CA11')
})

test('the contracts of sponsored gas are where they are on every network, with the same code', async () => {
  await deploySamples(chain.rpcUrl)
  const { dispatcher, delegate, dispatcherCode, delegateCode } = readGasContracts()
  assert.equal(await rpc(chain.rpcUrl, 'eth_getCode', dispatcher, 'latest'), dispatcherCode)
  assert.equal(await rpc(chain.rpcUrl, 'eth_getCode', delegate, 'latest'), delegateCode)
  // The dispatcher finds its delegate: what it was made with is in its code.
  const data = encodeFunctionData({ abi: abiOf('Dispatcher'), functionName: 'delegate' })
  const answer = await rpc<Hex>(chain.rpcUrl, 'eth_call', { to: dispatcher, data }, 'latest')
  assert.equal(`0x${answer.slice(26)}`, delegate)
})

test('a sample that the chain lost comes back at its address', async () => {
  const { erc20 } = await deploySamples(chain.rpcUrl)
  await rpc(chain.rpcUrl, 'anvil_reset')
  assert.equal(await rpc(chain.rpcUrl, 'eth_getCode', erc20, 'latest'), '0x')
  assert.equal((await deploySamples(chain.rpcUrl)).erc20, erc20)
  assert.equal(await call(erc20, 'SampleToken', 'symbol'), 'SMPL')
})

test('anyone can mint every sample', async () => {
  const { erc20, erc721, erc1155 } = await deploySamples(chain.rpcUrl)
  const [, anyone] = (await rpc<Hex[]>(chain.rpcUrl, 'eth_accounts')) as [Hex, Hex]
  await send(anyone, erc20, 'SampleToken', 'mint', [anyone, 5n])
  assert.equal(await call(erc20, 'SampleToken', 'balanceOf', [anyone]), 5n)
  assert.equal(await call(erc20, 'SampleToken', 'decimals'), 18)
  await send(anyone, erc721, 'SampleCollectible', 'mint', [anyone, 2n])
  await send(anyone, erc721, 'SampleCollectible', 'mint', [anyone])
  await send(anyone, erc721, 'SampleCollectible', 'mint', [anyone])
  assert.equal(
    await call(erc721, 'SampleCollectible', 'ownerOf', [3n]),
    getAddress(anyone),
    'id 2 was taken and is passed over',
  )
  await send(anyone, erc1155, 'SampleItems', 'mintBatch', [anyone, [1n, 2n], [10n, 20n]])
  assert.deepEqual(
    await call(erc1155, 'SampleItems', 'balanceOfBatch', [
      [anyone, anyone],
      [1n, 2n],
    ]),
    [10n, 20n],
  )
})

test('forty gifts at once arrive and share blocks', async () => {
  const before = Number(await rpc(chain.rpcUrl, 'eth_blockNumber'))
  const people = Array.from({ length: 40 }, (_, i) => `0x${(0xabc000 + i).toString(16).padStart(40, '0')}` as Hex)
  const given = await Promise.all(people.map((address) => giveCoins(chain.rpcUrl, address)))
  assert.ok(given.every(Boolean))
  for (const address of people)
    assert.equal(BigInt(await rpc<Hex>(chain.rpcUrl, 'eth_getBalance', address, 'latest')), 10n ** 19n)
  const after = Number(await rpc(chain.rpcUrl, 'eth_blockNumber'))
  const numbers = Array.from({ length: after - before }, (_, i) => `0x${(before + 1 + i).toString(16)}`)
  const blocks = await Promise.all(numbers.map((number) => rpc<{ transactions: Hex[] }>(chain.rpcUrl, 'eth_getBlockByNumber', number, false))) // prettier-ignore
  assert.ok(blocks.filter(({ transactions }) => transactions.length > 0).length < 40)
})

test('giving twice gives once, giving again after spending fills up', async () => {
  const someone = `0x${'5e'.repeat(20)}` as const
  assert.equal(await giveCoins(chain.rpcUrl, someone), true)
  assert.equal(await giveCoins(chain.rpcUrl, someone), false)
  await rpc(chain.rpcUrl, 'anvil_setBalance', someone, '0x1')
  assert.equal(await giveCoins(chain.rpcUrl, someone), true)
  assert.equal(await rpc(chain.rpcUrl, 'eth_getBalance', someone, 'latest'), '0x8ac7230489e80000')
})

const abiOf = (contract: string): Abi =>
  JSON.parse(readFileSync(new URL(`../../contracts/out/${contract}.json`, import.meta.url), 'utf8')).abi

const encode = (contract: string, functionName: string, args: unknown[] = []) =>
  encodeFunctionData({ abi: abiOf(contract), functionName, args })

async function call(to: Hex, contract: string, functionName: string, args: unknown[] = []): Promise<unknown> {
  const data = await rpc<Hex>(chain.rpcUrl, 'eth_call', { to, data: encode(contract, functionName, args) }, 'latest')
  return decodeFunctionResult({ abi: abiOf(contract), functionName, data })
}

async function send(from: Hex, to: Hex, contract: string, functionName: string, args: unknown[]): Promise<void> {
  const hash = await rpc(chain.rpcUrl, 'eth_sendTransaction', { from, to, data: encode(contract, functionName, args) })
  await rpc(chain.rpcUrl, 'evm_mine')
  const receipt = await rpc<{ status: string } | null>(chain.rpcUrl, 'eth_getTransactionReceipt', hash)
  assert.equal(receipt?.status, '0x1')
}
