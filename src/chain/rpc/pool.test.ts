import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { AppError } from '../../errors.ts'
import { until } from '../../../test/kit/until.ts'
import { badNode, hashOf, reply, type BadNode } from '../../../test/bad-node.ts'
import { connect } from './connect.ts'
import { explorerAt, type Chain } from '../network.ts'
import { newMember, pick, type Member } from './node-health.ts'
import { openNode } from './node.ts'
import { poolOf } from './pool.ts'
import { readAt } from '../reads.ts'
import { RpcError, RpcUnavailable, type Rpc } from './rpc.ts'
import { openedHead } from '../../../test/opened.ts'
import { openExpensiveCalls } from './expensive-calls.ts'
import { stoppedClock } from '../../../test/kit/clock.ts'
import { systemClock, type Clock } from '../../clock.ts'

type Event = [position: number, event: string]

/** The program's own way in; the nodes' heads are asked for every 20 ms. */
async function pool(
  t: TestContext,
  nodes: (BadNode | { url: string })[],
  clock: Clock = systemClock,
): Promise<{ rpc: Rpc; events: Event[] }> {
  const events: Event[] = []
  const { rpc } = await connect(
    nodes.map(({ url }) => url),
    {
      clock,
      wantedChainId: undefined,
      onCall: () => {},
      onNode: (position, event) => events.push([position, event]),
      probeEveryMs: 20,
    },
  )
  t.after(() => rpc.close())
  for (const node of nodes) if ('asked' in node) forget(node)
  return { rpc, events }
}

const forget = (node: BadNode) => {
  node.asked.length = 0
}
const reads = (node: BadNode) => node.asked.filter(({ method }) => method === 'eth_getBalance').length
const pinned = (number: number) => ({ blockHash: hashOf(number) })
const balance = (rpc: Rpc, at: unknown = pinned(90)) => rpc.call('eth_getBalance', [`0x${'11'.repeat(20)}`, at])
const refuse: BadNode['interfere'] = (_calls, response) => (reply(response, 'out of order', 503), true)
const hang: BadNode['interfere'] = () => true
const happened = (events: Event[], wanted: string, position?: number) =>
  until(`${wanted} ${position ?? ''}`, () =>
    events.some(([at, event]) => event === wanted && (position === undefined || at === position)),
  )

test('reads go on at another node while one answers 503 or hangs up', async (t) => {
  const faults: BadNode['interfere'][] = [refuse, (_calls, response) => (response.destroy(), true)]
  const [good, bad] = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [bad, good])
  for (const fault of faults) {
    bad.interfere = fault
    for (let round = 0; round < 10; round++) {
      assert.deepEqual(await Promise.all(Array.from({ length: 5 }, () => balance(rpc))), Array(5).fill('0x2a'))
    }
  }
})

test('three failures in a row open the breaker, and a node that answers again comes back', async (t) => {
  const [good, bad] = [await badNode(t), await badNode(t)]
  const { rpc, events } = await pool(t, [good, bad])
  bad.interfere = refuse
  await happened(events, 'down', 2)
  forget(bad)
  for (let round = 0; round < 20; round++) await balance(rpc)
  assert.equal(reads(bad), 0, 'nobody asks a node whose breaker is open')
  bad.interfere = () => false
  await happened(events, 'up', 2)
  good.interfere = refuse
  assert.equal(await balance(rpc), '0x2a')
})

test('a node that hangs is left for another one, long before a call is given up', async (t) => {
  const nodes = [await badNode(t, { interfere: hang }), await badNode(t)]
  const clock = stoppedClock()
  const { ask } = poolOf({ clock, members: membersOf(t, nodes, clock), random: () => 0, onNode: () => {} })
  const answer = ask([{ method: 'eth_getBalance', params: [pinned(90)] }], { timeoutMs: 10_000 })
  await until('the first is asked', () => reads(nodes[0]!) === 1)
  await clock.advance(1_499)
  assert.equal(reads(nodes[1]!), 0)
  await clock.advance(1)
  assert.deepEqual(await answer, ['0x2a'])
  assert.equal(reads(nodes[0]!), 1)
})

test('when all nodes are away a read fails, and works again as soon as one is back', async (t) => {
  const nodes = [await badNode(t), await badNode(t)]
  const { rpc, events } = await pool(t, nodes)
  for (const node of nodes) node.interfere = refuse
  for (let round = 0; round < 6; round++) await assert.rejects(balance(rpc), RpcUnavailable)
  await Promise.all([happened(events, 'down', 1), happened(events, 'down', 2)])
  nodes[1]!.interfere = () => false
  assert.equal(await balance(rpc), '0x2a', 'with every breaker open the nodes are asked all the same')
})

test('a node more than two blocks behind is not asked; one within two is, but not for what is latest', async (t) => {
  const [best, near, far] = [
    await badNode(t, { head: 100 }),
    await badNode(t, { head: 98 }),
    await badNode(t, { head: 97 }),
  ]
  const { rpc } = await pool(t, [far, near, best])
  for (let round = 0; round < 60; round++) await balance(rpc)
  // A node with a slow first response is rarely asked, until probes show that it is fast.
  await until('both are asked', async () => {
    await balance(rpc)
    return reads(near) > 0 && reads(best) > 0
  })
  assert.equal(reads(far), 0)
  forget(near)
  for (let round = 0; round < 30; round++) await balance(rpc, 'latest')
  assert.equal(reads(near), 0)
  far.head = 100
  forget(far)
  await until('the node that caught up is asked again', async () => {
    await balance(rpc)
    return reads(far) > 0
  })
})

test('one of three nodes that claims a head far ahead does not make the others look late', async (t) => {
  const [liar, one, other] = [await badNode(t, { head: 9_000_000 }), await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [liar, one, other])
  for (let round = 0; round < 200; round++) await balance(rpc)
  // Latency decides how often each node is asked; this checks only that both are asked.
  assert.ok(reads(one) + reads(other) > 0)
})

test('a block that one node does not have yet is asked of another, before anybody waits', async (t) => {
  const [late, early] = [await badNode(t, { head: 100 }), await badNode(t, { head: 100 })]
  const { rpc } = await pool(t, [late, early])
  early.head = 101
  for (let round = 0; round < 12; round++) assert.equal(await balance(rpc, pinned(101)), '0x2a')
  await assert.rejects(balance(rpc, pinned(102)), (error: RpcError) => error.message === 'header not found')
  const chain: Chain = { ...network, rpc, ...openedHead() }
  chain.head.set({ number: 101, hash: hashOf(101) as `0x${string}`, parentHash: '0x', timestamp: 0, baseFee: null })
  assert.equal(await readAt(chain, 'latest', (at) => at.balance(`0x${'22'.repeat(20)}`)), 42n)
})

const chainOver = (rpc: Rpc, settings: Partial<Chain> = {}): Chain => ({
  ...{ ...network, rpc, ...openedHead() },
  ...settings,
})
const at = (number: number) => ({
  ...{ number, hash: hashOf(number) as `0x${string}`, parentHash: hashOf(number - 1) as `0x${string}` },
  ...{ timestamp: 0, baseFee: null },
})

test('a numbered block that one node does not have yet is asked of another, and waited for when it is known', async (t) => {
  const [late, early] = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [late, early])
  early.head = 101
  const numbers = new Set<number>()
  for (let round = 0; round < 12; round++)
    numbers.add(await readAt(chainOver(rpc), 101, ({ block }) => Promise.resolve(block.number)))
  assert.deepEqual([...numbers], [101])

  const alone = await badNode(t)
  const one = await pool(t, [alone])
  const chain = chainOver(one.rpc)
  const isNone = (error: AppError) => error.code === 'invalid_request'
  await assert.rejects(
    readAt(chain, 102, () => Promise.resolve(1)),
    isNone,
  )
  assert.equal(alone.asked.length, 1, 'nobody waits for what nobody has seen')
  chain.head.set(at(103))
  const clock = stoppedClock()
  chain.clock = clock
  const waiting = readAt(chain, 102, (reads) => reads.balance(`0x${'22'.repeat(20)}`))
  await until('it waits for the node', () => clock.sleepers() === 1)
  alone.head = 103
  await clock.advance(25)
  assert.equal(await waiting, 42n)
})

test('an old read is asked again of a node that lags, and refused at once where the state is gone', async (t) => {
  const node = await badNode(t)
  const { rpc } = await pool(t, [node])
  const texts = ['header not found', 'header not found']
  node.answer = ({ method }) => {
    const message = method === 'eth_getBalance' ? texts.shift() : undefined
    return message === undefined ? undefined : { error: { code: -32000, message } }
  }
  const balanceAt = (number: number) => readAt(chainOver(rpc), number, (reads) => reads.balance(`0x${'22'.repeat(20)}`))
  assert.equal(await balanceAt(90), 42n)
  for (const message of [
    'missing trie node 0123 (path ) state 0x45 is not available',
    'No state available for block 0x5',
    'state at block #5 is pruned',
  ]) {
    node.asked.length = 0
    texts.push(message)
    await assert.rejects(balanceAt(5), (error: AppError) => error.code === 'chain_unsupported')
    assert.equal(reads(node), 1)
  }
  // Response of anvil about the state of a block that it still has.
  texts.push(...Array<string>(10).fill('Resource not found'))
  await assert.rejects(balanceAt(5), (error: AppError) => error.code === 'chain_unsupported')
  texts.length = 0
  node.asked.length = 0
  await readAt(chainOver(rpc), 90, (at) => Promise.all([1, 2, 3].map(() => at.balance(`0x${'33'.repeat(20)}`))))
  assert.equal(reads(node), 1, 'equal reads of one request are one')
})

test('finalized is what the network calls final: the tag, or so many blocks below the newest', async (t) => {
  const node = await badNode(t)
  const { rpc } = await pool(t, [node])
  const finalOf = (settings: Partial<Chain>) =>
    readAt(chainOver(rpc, settings), 'finalized', ({ block }) => Promise.resolve(block.number))
  node.answer = ({ method, params }) =>
    method === 'eth_getBlockByNumber' && params[0] === 'finalized'
      ? { error: { code: -32602, message: 'invalid argument 0: hex string without 0x prefix' } }
      : undefined
  assert.equal(await finalOf({ finality: 12 }), 88)
  assert.equal(await finalOf({ finality: 500 }), 0)
  assert.equal(await finalOf({ finality: 'finalized' }), 36, 'as the history takes it: 64 blocks')
  node.answer = ({ params }) => (params[0] === 'finalized' ? { result: { ...at(70), ...quantities(70) } } : undefined)
  assert.equal(await finalOf({ finality: 'finalized' }), 70)
})

const quantities = (number: number) => ({ number: `0x${number.toString(16)}`, timestamp: '0x1' })

test('reverts of megabytes fill the memory of a block as answers do', async () => {
  let asked = 0
  const revert = new RpcError(3, 'execution reverted', `0x${'00'.repeat(1_000_000)}`)
  const rpc = { call: () => (asked++, Promise.reject(revert)), expensive: openExpensiveCalls() } as unknown as Rpc
  const chain = chainOver(rpc)
  chain.head.set(at(100))
  chain.head.ageMs = () => 0
  const to = `0x${'33'.repeat(20)}` as const
  const call = (index: number) =>
    readAt(chain, 'latest', (reads) => reads.call({ to, data: `0x${index.toString(16).padStart(8, '0')}` }))
  for (let index = 0; index < 40; index++) assert.ok('reverted' in (await call(index)))
  await call(39)
  assert.equal(asked, 40, 'what came last is kept')
  await call(0)
  assert.equal(asked, 41, 'what came first made room')
})

const network = {
  ...{ chainId: 31_337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 12, feeCapWei: 1n },
  ...{ verification: 'bloom' as const, gas: 'self' as const },
  ...{ explorer: explorerAt(''), faucet: null },
}

test('a batch is answered by one node alone, or as a whole by another', async (t) => {
  const named = (name: string) => (): { result: unknown } => ({ result: name })
  const [one, other] = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [one, other])
  one.answer = named('one')
  other.answer = ({ method }) => (method === 'eth_getBlockReceipts' ? { result: null } : { result: 'other' })
  const calls = ['eth_getBlockByHash', 'eth_getBlockReceipts', 'eth_getBalance'].map((method) => ({
    method,
    params: [hashOf(1)],
  }))
  for (let round = 0; round < 12; round++) assert.deepEqual(await rpc.batch(calls), ['one', 'one', 'one'])
  one.answer = () => ({ error: { code: -32000, message: 'header not found' } })
  const answers = await rpc.batch(calls)
  assert.ok(
    answers.every((answer) => answer instanceof RpcError) || answers.join() === 'other,,other',
    'where no node has everything, still one node',
  )
})

test('what a node left out of an answer is asked of another', async (t) => {
  const [one, other] = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [one, other])
  one.interfere = (calls, response) => (
    calls.length > 1 && reply(response, [{ jsonrpc: '2.0', id: 0, result: '0x1' }]),
    calls.length > 1
  )
  for (let round = 0; round < 6; round++) {
    for (const answer of await Promise.all([balance(rpc), balance(rpc), balance(rpc)]))
      assert.match(String(answer), /^0x(1|2a)$/)
  }
})

test('a method that one node lacks is asked of the others from then on', async (t) => {
  const [one, other] = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [one, other])
  other.answer = ({ method }) => (method === 'debug_traceTransaction' ? { result: 'trace' } : undefined)
  for (let round = 0; round < 30; round++) assert.equal(await rpc.call('debug_traceTransaction', []), 'trace')
  // Once, or twice if an idle connection was closed under the first request. Without memory, it would be 15.
  assert.ok(one.asked.filter(({ method }) => method === 'debug_traceTransaction').length <= 2)
  await assert.rejects(rpc.call('eth_nonsense', []), (error: RpcError) => error.rpcCode === -32601)
})

test('a revert is an answer: nobody else is asked', async (t) => {
  const nodes = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, nodes)
  for (const node of nodes)
    node.answer = ({ method }) =>
      method === 'eth_call'
        ? { error: { code: 3, message: 'execution reverted: rate limit, too many requests' } }
        : undefined
  await assert.rejects(rpc.call('eth_call', [{}, pinned(1)]), (error: RpcError) => error.rpcCode === 3)
  assert.equal(nodes.flatMap(({ asked }) => asked).filter(({ method }) => method === 'eth_call').length, 1)
})

test('a node that refuses long logs stays in use', async (t) => {
  const nodes = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, nodes)
  const refusal = { error: { code: -32005, message: 'query returned more than 10000 results' } }
  for (const node of nodes) node.answer = ({ method }) => (method === 'eth_getLogs' ? refusal : undefined)
  for (let round = 0; round < 4; round++)
    await assert.rejects(rpc.call('eth_getLogs', [{}]), (error: RpcError) => error.rpcCode === -32005)
  assert.equal(nodes.flatMap(({ asked }) => asked).filter(({ method }) => method === 'eth_getLogs').length, 4)
})

test('a read that is later than usual is asked a second time, at most one in twenty', async () => {
  const { clock, nodes, ask, finished } = slowPool()
  for (let round = 0; round < 40; round++) assert.deepEqual(await finished(ask()), ['0x2a'])
  nodes[0]!.delayMs = Infinity
  const both = [...nodes.map(({ asked }) => asked)]
  const answer = ask()
  await clock.advance(4)
  assert.deepEqual(nodes.map(({ asked }) => asked), [both[0]! + 1, both[1]]) // prettier-ignore
  await clock.advance(1)
  assert.deepEqual(await answer, ['0x2a'], 'the answer of the second node counts, though the first one hangs')
  nodes[0]!.delayMs = 40
  for (const node of nodes) node.asked = 0
  for (let round = 0; round < 40; round++) await finished(ask())
  assert.ok(nodes[1]!.asked > 0)
  assert.ok(nodes[0]!.asked + nodes[1]!.asked <= 40 + 3, `${nodes[0]!.asked} and ${nodes[1]!.asked}`)
})

test('a second node that is quick to say that it cannot answer does not win over the first', async () => {
  const { nodes, ask, finished } = slowPool()
  for (let round = 0; round < 40; round++) await finished(ask())
  nodes[0]!.delayMs = 200
  nodes[1]!.answer = new RpcError(-32000, 'header not found', undefined)
  for (const node of nodes) node.asked = 0
  assert.deepEqual(await finished(ask()), ['0x2a'])
  assert.deepEqual(
    nodes.map(({ asked }) => asked),
    [1, 1],
  )
})

/**
 * Two nodes whose response times the test sets, of which the first is asked first, and a clock that does not advance by
 * itself.
 */
function slowPool() {
  const clock = stoppedClock()
  const nodes = [0, 1].map(() => ({ asked: 0, delayMs: 0, answer: '0x2a' as unknown }))
  const members = nodes.map((node, index): Member => {
    const ask = async () => {
      node.asked++
      const { delayMs, answer } = node
      if (delayMs > 0) await clock.sleep(delayMs)
      return [answer]
    }
    return { ...newMember(index + 1, { ask, close: () => {} }), identityState: 'verified', latencyMs: 1 }
  })
  const { ask } = poolOf({ clock, members, random: () => 0, onNode: () => {} })
  const calls = [{ method: 'eth_getBalance', params: [pinned(90)] }]
  return {
    clock,
    nodes,
    ask: () => ask(calls, { timeoutMs: 5_000 }),
    /** returns the response, and the time until it arrived */
    async finished<T>(answer: Promise<T>): Promise<T> {
      let isOver = false
      const end = () => void (isOver = true)
      answer.then(end, end)
      for (await clock.advance(0); !isOver;) await clock.advance(1)
      return answer
    },
  }
}

test('null is no balance, no code and no result of a call: another node is asked', async (t) => {
  const [nothing, good] = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [nothing, good])
  nothing.answer = ({ method }) => (/^eth_(call|getBalance|getCode)$/.test(method) ? { result: null } : undefined)
  good.answer = ({ method }) => (method === 'eth_getCode' ? { result: '0x60' } : undefined)
  for (let round = 0; round < 12; round++) {
    assert.equal(await balance(rpc), '0x2a')
    assert.equal(await rpc.call('eth_call', [{}, pinned(1)]), hashOf(42))
    assert.equal(await rpc.call('eth_getCode', ['0x', pinned(1)]), '0x60')
  }
})

test('a node that answers everything with an internal error is not the only one asked', async (t) => {
  const [broken, good] = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [broken, good])
  const says = (message: string) => {
    broken.answer = good.answer = ({ method }) =>
      method === 'eth_call' ? { error: { code: -32603, message } } : undefined
  }
  broken.answer = ({ method }) =>
    method === 'eth_getBalance' ? { error: { code: -32603, message: 'Internal error' } } : undefined
  for (let round = 0; round < 12; round++) assert.equal(await balance(rpc), '0x2a')
  for (const node of [broken, good]) forget(node)
  says('VM Exception while processing transaction: reverted with reason string "Internal error"')
  await assert.rejects(rpc.call('eth_call', [{}, pinned(1)]), RpcError)
  const asked = [broken, good].flatMap((node) => node.asked.filter(({ method }) => method === 'eth_call'))
  assert.equal(asked.length, 1, 'some nodes revert under this code')
})

test('a broadcast goes to one node, and to the next one only when nobody knows what became of it', async (t) => {
  const [one, other] = [await badNode(t), await badNode(t)]
  const { rpc } = await pool(t, [one, other])
  const send = () => rpc.call('eth_sendRawTransaction', ['0x02'])
  const sends = () =>
    [one, other].map(({ asked }) =>
      asked.filter(({ method }) => method === 'eth_sendRawTransaction').map(({ params }) => params[0]),
    )
  one.answer = other.answer = ({ method }) => (method === 'eth_sendRawTransaction' ? { result: '0xhash' } : undefined)
  assert.equal(await send(), '0xhash')
  assert.equal(sends().flat().length, 1)

  one.answer = other.answer = ({ method }) =>
    method === 'eth_sendRawTransaction' ? { error: { code: -32000, message: 'nonce too low' } } : undefined
  await assert.rejects(send(), (error: RpcError) => error.message === 'nonce too low')
  assert.equal(sends().flat().length, 2, 'a refusal is an answer')
})

test('what one node refuses by rules of its own another may take; where none does, it is refused', async (t) => {
  const [strict, other] = [await badNode(t, { head: 99 }), await badNode(t)]
  const { rpc } = await pool(t, [strict, other])
  const send = () => rpc.call('eth_sendRawTransaction', ['0x02'])
  const saying = (message: string | null): BadNode['answer'] => ({ method }) =>
    method !== 'eth_sendRawTransaction' ? undefined : message === null ? { result: '0xhash' } : { error: { code: -32000, message } } // prettier-ignore
  for (const words of [
    'transaction type not supported',
    'transaction underpriced: gas tip cap 1, minimum needed 99999999',
    'authority already reserved',
  ]) {
    strict.answer = saying(words)
    other.answer = saying(null)
    assert.equal(await send(), '0xhash')
    other.answer = saying(words)
    await assert.rejects(send(), (error: RpcError) => error.message === words)
    other.answer = saying('nonce too low')
    await assert.rejects(send(), (error: RpcError) => error.message === 'nonce too low', 'that is no rule of a node')
  }
})

test('after a broadcast without an answer only a yes is believed', async (t) => {
  const [silent, other] = [await badNode(t), await badNode(t, { head: 99 })]
  const { rpc } = await pool(t, [silent, other])
  const send = () => rpc.call('eth_sendRawTransaction', ['0x02'])
  silent.interfere = (calls, response) => calls[0]!.method === 'eth_sendRawTransaction' && (response.destroy(), true)
  const says = (answer: ReturnType<BadNode['answer']>) => {
    other.answer = ({ method }) => (method === 'eth_sendRawTransaction' ? answer : undefined)
  }
  says({ error: { code: -32000, message: 'nonce too low' } })
  await assert.rejects(send(), RpcUnavailable, 'the silent node may have had it mined')
  says({ error: { code: -32000, message: 'already known' } })
  await assert.rejects(send(), (error: RpcError) => error.message === 'already known')
  says({ result: '0xhash' })
  assert.equal(await send(), '0xhash')
  const bytes = [...silent.asked, ...other.asked]
    .filter(({ method }) => method === 'eth_sendRawTransaction')
    .map(({ params }) => params[0])
  assert.deepEqual(new Set(bytes), new Set(['0x02']))
})

test('a node of another chain refuses the start, by its position and without its URL', async (t) => {
  const [right, otherId, otherGenesis] = [
    await badNode(t),
    await badNode(t, { chainId: 1 }),
    await badNode(t, { genesis: hashOf(0xdef) }),
  ]
  for (const wrong of [otherId, otherGenesis]) {
    await assert.rejects(
      pool(t, [right, wrong]),
      (error: Error) => /node 2 of the network/.test(error.message) && !/127\.0\.0\.1|kkkk/.test(error.message),
    )
  }
  const wanted = { clock: systemClock, wantedChainId: 1, onCall: () => {}, onNode: () => {} }
  await assert.rejects(connect([right.url], wanted), /the node has chain id 31337, expected 1/)
})

test('a node that is down at the start is tolerated and joins later, unless it is of another chain', async (t) => {
  const [good, late, wrong] = [
    await badNode(t),
    await badNode(t, { interfere: refuse }),
    await badNode(t, { interfere: refuse, chainId: 5 }),
  ]
  const { rpc, events } = await pool(t, [good, late, wrong])
  assert.equal(await balance(rpc), '0x2a')
  late.interfere = wrong.interfere = () => false
  await Promise.all([happened(events, 'up', 2), happened(events, 'wrong_chain', 3)])
  good.interfere = refuse
  assert.equal(await balance(rpc), '0x2a')
  assert.ok(reads(late) > 0)
  assert.equal(reads(wrong), 0)
  await assert.rejects(
    pool(t, [await badNode(t, { interfere: refuse }), await badNode(t, { interfere: refuse })]),
    RpcUnavailable,
  )
})

test('a node that comes back as another chain is never asked again', async (t) => {
  const [good, bad] = [await badNode(t), await badNode(t)]
  const { rpc, events } = await pool(t, [good, bad])
  bad.interfere = refuse
  await happened(events, 'down', 2)
  bad.genesis = hashOf(0xdef)
  bad.interfere = () => false
  await happened(events, 'wrong_chain', 2)
  forget(bad)
  good.interfere = refuse
  await assert.rejects(balance(rpc), RpcUnavailable)
  assert.equal(bad.asked.length, 0)
})

test('with one URL nothing is probed', async (t) => {
  const node = await badNode(t)
  const clock = stoppedClock()
  const { rpc } = await pool(t, [node, { url: node.url }], clock)
  await balance(rpc)
  assert.equal(clock.sleepers(), 0, 'nothing is due, ever')
  assert.deepEqual(
    node.asked.map(({ method }) => method),
    ['eth_getBalance'],
  )
})

test('nodes are drawn by speed and reliability', () => {
  const members = [1, 2].map((position): Member => ({
    ...newMember(position, openNode('http://127.0.0.1:1')),
    identityState: 'verified',
    latencyMs: 9.5,
  }))
  const draw = (random: number) => pick(members, [], new Set(), () => random)?.position
  assert.deepEqual([0, 0.49, 0.51, 0.99].map(draw), [1, 1, 2, 2])
  members[0]!.latencyMs = 89.5
  assert.deepEqual([0, 0.09, 0.11, 0.99].map(draw), [1, 1, 2, 2])
  members[0]!.latencyMs = 9.5
  members[1]!.errorRate = 1
  assert.deepEqual([0, 0.99].map(draw), [1, 1])
})

function membersOf(t: TestContext, nodes: BadNode[], clock: Clock): Member[] {
  return nodes.map(({ url }, index) => {
    const node = openNode(url, clock)
    t.after(() => node.close())
    return { ...newMember(index + 1, node), identityState: 'verified', latencyMs: 1 } satisfies Member
  })
}
