// tier: all, because it starts nodes of other makers
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, suite, test } from 'node:test'
import type { Hex } from '../../src/ids.ts'
import { until } from '../kit/until.ts'
import { world, type Person, type World } from '../world.ts'
import { startNode, titleOf, type NodeName, type RealNode } from './real-node.ts'

/**
 * The nodes people develop with, as their packages bring them, behind RPC_URL. What holds with which is the table of
 * docs/operate/nodes.md, row by row.
 */
const NAMES = ['hardhat', 'hardhat2', 'ganache', 'ethereumjs', 'anvil'] as const satisfies NodeName[]
const ETHER = 10n ** 18n
const quantity = (value: bigint): Hex => `0x${value.toString(16)}`
const MINT = 'mint(address to, uint256 amount)'
const BALANCE = 'balanceOf(address) view returns (uint256)'

/** Its receipts give the tip as the price, which the check of blocks refuses. */
const settingsOf = (name: NodeName): Record<string, string> =>
  name === 'ethereumjs' ? { BLOCK_VERIFICATION: 'count' } : {}

/** node → what it passed, in order */
const passed = new Map<NodeName, string[]>()

for (const name of NAMES)
  suite(`a ${name} node as it is installed`, () => {
    let node: RealNode
    let here: World
    let token: Hex
    const marks: string[] = []
    passed.set(name, marks)
    after(async () => {
      await here?.close()
      await node?.stop()
    })

    const balance = async ({ get, userId }: Person): Promise<unknown> => {
      const { status, body } = await get(`/v1/users/${userId}/balance`)
      assert.equal(status, 200, JSON.stringify(body))
      return BigInt(body.ETH.balance)
    }
    const held = async ({ post, address }: Person): Promise<unknown> => {
      const { status, body } = await post('/v1/contracts/method/read', {
        address: token,
        abi: BALANCE,
        args: [address],
      })
      assert.equal(status, 200, JSON.stringify(body))
      return BigInt(body.response.hex)
    }
    const mint = async (person: Person, amount: number): Promise<{ id: string; hash: Hex }> => {
      const { body } = await person.write({ address: token, abi: MINT, args: [person.address, String(amount)] })
      // Where the newest block is final, too, a write may be that by the time of the answer.
      assert.match(body.state, /^(MINED|FINALIZED)$/)
      return { id: body.id, hash: body.hash }
    }
    const amounts = async ({ get, userId }: Person): Promise<string[]> => {
      const { status, body } = await get(`/v1/users/${userId}/history`)
      assert.equal(status, 200, JSON.stringify(body))
      return body.map((entry: { amount: { value: string } }) => entry.amount.value).toSorted()
    }
    const checked = async (): Promise<{ ok: boolean; detail?: string }> =>
      (await here.request('/readyz')).body.checks.find((one: { name: string }) => one.name === 'chain devnet')
    const isReady = async (): Promise<boolean> => (await checked()).ok
    const check = (what: string, work: () => Promise<void>): void => {
      void test(what, async () => {
        await work()
        marks.push(what)
      })
    }

    check('start', async () => {
      node = await startNode(name)
      token = (await node.send({ data: bytecodeOf('SampleToken') })).contractAddress
      here = await world({ RPC_URL: node.url, ...settingsOf(name) })
      await until('it is ready', isReady)
    })

    check('balances', async () => {
      await node.send({ to: here.alice.address, value: quantity(3n * ETHER) })
      assert.equal(await balance(here.alice), 3n * ETHER)
      const { status, body } = await here.alice.get(`/v1/users/${here.alice.userId}/balance/${token}`)
      assert.equal(status, 200, JSON.stringify(body))
    })

    check('reads', async () => {
      assert.equal(await held(here.alice), 0n)
    })

    check('writes', async () => {
      await mint(here.alice, 11)
      assert.equal(await held(here.alice), 11n)
      const some = await Promise.all(
        [1, 2, 3, 4, 5].map(async (amount) => {
          const body = { address: token, abi: MINT, args: [here.alice.address, String(amount)] }
          const answer = await here.alice.post('/v1/contracts/method/write', body)
          // Under load ganache leaves one of several estimates without an answer: nothing was bound, so it is sent again.
          return answer.status === 504 ? here.alice.post('/v1/contracts/method/write', body) : answer
        }),
      )
      assert.deepEqual(
        some.map(({ status }) => status),
        [200, 200, 200, 200, 200],
      )
      await until('all are mined', async () => (await held(here.alice)) === 26n)
    })

    check('history', async () => {
      await until('all are in the history', async () => (await amounts(here.alice)).length === 6)
      assert.deepEqual(await amounts(here.alice), ['1', '11', '2', '3', '4', '5'])
    })

    // It has neither method.
    if (name !== 'ethereumjs') reverting()

    function reverting(): void {
      check('snapshot and revert', async () => {
        const snapshot = await node.rpc<Hex>('evm_snapshot')
        const { id, hash } = await mint(here.alice, 100)
        await node.rpc('evm_mine')
        assert.equal(await held(here.alice), 126n)
        assert.equal(await node.rpc('evm_revert', snapshot), true)
        // What was told is sent again by itself, on the chain as it is now; reads never stop meanwhile.
        await until('the lost write is mined again', async () => (await held(here.alice)) === 126n)
        const { body } = await here.alice.get(`/v1/transactions/${id}`)
        assert.equal(body.hash, hash)
        await mint(here.alice, 1)
        await until('the history has each once', async () => (await amounts(here.alice)).length === 8)
        assert.equal(await held(here.alice), 127n)
        assert.ok(await isReady())
      })

      check('revert below followed blocks', async () => {
        const before = await amounts(here.alice)
        const snapshot = await node.rpc<Hex>('evm_snapshot')
        for (let block = 0; block < 5; block++) await node.rpc('evm_mine')
        await node.rpc('evm_revert', snapshot)
        assert.equal(await held(here.alice), 127n)
        await until('it is ready', isReady)
        assert.deepEqual(await amounts(here.alice), before)
      })
    }

    check('restart of the service', async () => {
      const before = await amounts(here.alice)
      const has = await held(here.alice)
      here = await here.startAgain()
      await until('it is ready', isReady)
      assert.equal(await held(here.alice), has)
      assert.deepEqual(await amounts(here.alice), before)
      await mint(here.alice, 1)
    })

    check('lost chain', async () => {
      const genesis = await genesisOf(node)
      await node.startAgain()
      if ((await genesisOf(node)) === genesis) {
        await until('it is ready', isReady)
        assert.equal(await balance(here.bob), 0n)
        return
      }
      const { status, body } = await here.alice.post('/v1/contracts/method/write', {
        address: token,
        abi: MINT,
        args: [here.alice.address, '1'],
      })
      assert.deepEqual([status, body.code], [502, 'chain_unavailable'])
      await until('operators are told', async () => /another chain/.test((await checked()).detail ?? ''))
      await assert.rejects(here.startAgain(), /another chain[^]*DATA_DIR/)
    })
  })

test('docs/operate/nodes.md says of each node what it passed', () => {
  const page = readFileSync(new URL('../../docs/operate/nodes.md', import.meta.url), 'utf8')
  const rows = page
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
  const header = rows.find(([first]) => first === 'node')
  assert.ok(header !== undefined)
  for (const name of NAMES) {
    const row = rows.find(([first]) => first === titleOf(name))
    assert.ok(row !== undefined, `no row for ${titleOf(name)}`)
    const told: string[] = header.slice(1).filter((_, index) => row[index + 1] === 'yes')
    assert.deepEqual(told, passed.get(name))
  }
})

const genesisOf = async ({ rpc }: RealNode): Promise<Hex> =>
  (await rpc<{ hash: Hex }>('eth_getBlockByNumber', '0x0', false)).hash

function bytecodeOf(name: string): Hex {
  return JSON.parse(readFileSync(new URL(`../../contracts/out/${name}.json`, import.meta.url), 'utf8')).bytecode
}
