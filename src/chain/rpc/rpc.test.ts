import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AppError } from '../../errors.ts'
import { badNode, reply } from '../../../test/bad-node.ts'
import { ethCall } from './call.ts'
import { openNode } from './node.ts'
import { openRpc, RpcError, RpcUnavailable, type Rpc } from './rpc.ts'
import { systemClock } from '../../clock.ts'

const balanceOf = (rpc: Rpc, number = 1) =>
  rpc.call('eth_getBalance', [`0x${number.toString(16).padStart(40, '0')}`, 'latest'])
const at = 'latest'
const to = `0x${'11'.repeat(20)}` as const

test('calls made together travel in one request, a lone call at once', async (t) => {
  const node = await badNode(t)
  const rpc = openRpc({ url: node.url })
  await balanceOf(rpc)
  await Promise.all(Array.from({ length: 40 }, (_, index) => balanceOf(rpc, index)))
  assert.deepEqual(node.requests, [1, 40])
  rpc.close()
})

test('calls that are made while the connections are busy collect, at most fifty in a request', async (t) => {
  const node = await badNode(t, { delayMs: 20 })
  const rpc = openRpc({ url: node.url })
  await Promise.all(Array.from({ length: 430 }, (_, index) => balanceOf(rpc, index)))
  assert.deepEqual(node.requests.slice(0, 4), [50, 50, 50, 50])
  assert.equal(Math.max(...node.requests), 50)
  assert.equal(
    node.requests.reduce((sum, size) => sum + size),
    430,
  )
  rpc.close()
})

test('answers of a batch are matched by id: out of order, and a missing one costs only itself', async (t) => {
  const node = await badNode(t, {
    interfere: (calls, response) => {
      reply(
        response,
        calls
          .filter(({ id }) => id !== 3)
          .toReversed()
          .map(({ id, params }) => ({ jsonrpc: '2.0', id, result: params[0] })),
      )
      return true
    },
  })
  const rpc = openRpc({ url: node.url })
  const answers = await Promise.allSettled(Array.from({ length: 6 }, (_, index) => rpc.call('eth_getBalance', [index])))
  assert.deepEqual(
    answers.map((one) => (one.status === 'fulfilled' ? one.value : one.reason.name)),
    [0, 1, 2, 'RpcUnavailable', 4, 5],
  )
  await assert.rejects(
    rpc.batch([
      { method: 'a', params: [] },
      { method: 'b', params: [] },
      { method: 'c', params: [] },
      { method: 'd', params: [] },
    ]),
    RpcUnavailable,
  )
  rpc.close()
})

test('two answers to one call are none, and an answer to an earlier request is nobody’s', async (t) => {
  const node = await badNode(t)
  const rpc = openRpc({ url: node.url })
  t.after(() => rpc.close())
  const both = () =>
    Promise.allSettled([balanceOf(rpc, 1), balanceOf(rpc, 2)]).then((all) =>
      all.map((one) => (one.status === 'fulfilled' ? one.value : one.reason.name)),
    )
  const ids: number[] = []
  node.interfere = (calls, response) => {
    ids.push(...calls.map(({ id }) => id))
    reply(response, [
      { jsonrpc: '2.0', id: calls[0]!.id, result: '0x1' },
      { jsonrpc: '2.0', id: calls[0]!.id, result: '0x2' },
    ])
    return true
  }
  assert.deepEqual(await both(), ['RpcUnavailable', 'RpcUnavailable'])
  node.interfere = (_calls, response) => {
    reply(
      response,
      ids.map((id) => ({ jsonrpc: '2.0', id, result: '0x1' })),
    )
    return true
  }
  assert.deepEqual(await both(), ['RpcUnavailable', 'RpcUnavailable'])
  node.interfere = (_calls, response) => {
    reply(response, { jsonrpc: '2.0', id: ids[0], error: { code: 3, message: 'execution reverted: of another call' } })
    return true
  }
  assert.deepEqual(await both(), ['RpcUnavailable', 'RpcUnavailable'])
  await assert.rejects(balanceOf(rpc), RpcUnavailable)
})

test('answers of which one has an id that nobody asked for are none: the others may be each other’s', async (t) => {
  const node = await badNode(t)
  const rpc = openRpc({ url: node.url })
  t.after(() => rpc.close())
  node.interfere = (calls, response) => {
    reply(
      response,
      calls.map(({ id }, index) => ({ jsonrpc: '2.0', id: id + 1, result: `0x${index}` })),
    )
    return true
  }
  const all = await Promise.allSettled([1, 2, 3].map((number) => balanceOf(rpc, number)))
  assert.deepEqual(
    all.map((one) => one.status === 'rejected' && one.reason instanceof RpcUnavailable),
    [true, true, true],
  )
})

test('connections that the node closes after a long silence do not add up to more than the time of a call', async (t) => {
  const node = await badNode(t)
  const rpc = openRpc({ url: node.url })
  t.after(() => rpc.close())
  node.delayMs = 20
  await Promise.all(
    Array.from({ length: 8 }, () => rpc.call('eth_getBalance', ['0x', 'latest'], { timeoutMs: 60_000 })),
  )
  let closed = 0
  node.interfere = (_calls, response) => (closed++, setTimeout(() => response.destroy(), 200), true)
  await assert.rejects(rpc.call('eth_getBalance', ['0x', 'latest'], { timeoutMs: 500 }), RpcUnavailable)
  // Eight connections are kept, and two of them are closed within the time of the call.
  assert.ok(closed <= 3, `${closed} were tried`)
})

test('a call that the node gives up, and a revert of more than a mebibyte, are refusals of that call', async (t) => {
  const node = await badNode(t)
  const rpc = openRpc({ url: node.url })
  t.after(() => rpc.close())
  const says = (error: { code: number; message: string; data?: string }) => {
    node.answer = ({ method }) => (method === 'eth_call' ? { error } : undefined)
    return ethCall(rpc, { to, data: '0x12345678', at })
  }
  const isCode = (code: string) => (error: AppError) => error.code === code
  await assert.rejects(says({ code: -32000, message: 'execution aborted (timeout = 5s)' }), isCode('chain_timeout'))
  const long = { code: 3, message: 'execution reverted', data: `0x${'00'.repeat(1_048_577)}` }
  await assert.rejects(says(long), isCode('invalid_return_data'))
  assert.ok('reverted' in (await says({ ...long, data: long.data.slice(0, -2) })))
})

test('a node that refuses batches, in whatever words, is asked one by one from then on', async (t) => {
  for (const error of [
    { code: -32600, message: 'batch requests are not supported' },
    { message: 'Batch requests are not allowed' },
    'batch not supported',
  ]) {
    const node = await badNode(t)
    node.interfere = (calls, response) => {
      if (calls.length > 1) reply(response, { jsonrpc: '2.0', id: null, error })
      return calls.length > 1
    }
    const rpc = openRpc({ url: node.url })
    t.after(() => rpc.close())
    const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => balanceOf(rpc, index)))
    assert.deepEqual(answers, Array(8).fill('0x2a'))
    node.requests.length = 0
    const calls = ['eth_chainId', 'eth_blockNumber'].map((method) => ({ method, params: [] }))
    assert.deepEqual(await rpc.batch(calls), ['0x7a69', '0x64'])
    assert.deepEqual(node.requests, [1, 1])
  }
})

test('a node that refused a batch once is sent one as long a minute later', async (t) => {
  const node = await badNode(t)
  let clock = 1_000_000
  const { ask, close } = openNode(node.url, { ...systemClock, ticks: () => clock })
  t.after(close)
  let isRefusing = true
  node.interfere = (calls, response) => {
    const isRefused = isRefusing && calls.length > 1
    if (isRefused) reply(response, { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'request too large' } })
    return isRefused
  }
  const calls = Array.from({ length: 8 }, () => ({ method: 'eth_chainId', params: [] }))
  const sizes = async () => {
    node.requests.length = 0
    assert.deepEqual(await ask(calls, { timeoutMs: 60_000 }), Array(8).fill('0x7a69'))
    return Math.max(...node.requests)
  }
  assert.equal(await sizes(), 8)
  isRefusing = false
  assert.equal(await sizes(), 1)
  clock += 60_000
  assert.deepEqual([await sizes(), await sizes()], [8, 8])
  isRefusing = true
  assert.equal(await sizes(), 8)
  assert.equal(await sizes(), 1)
})

test('one error object for a whole batch is the answer to each of its calls', async (t) => {
  const node = await badNode(t, {
    interfere: (_calls, response) => {
      reply(response, { jsonrpc: '2.0', id: null, error: { code: -32005, message: 'limit exceeded' } })
      return true
    },
  })
  const rpc = openRpc({ url: node.url })
  for (const answer of await Promise.allSettled([balanceOf(rpc, 1), balanceOf(rpc, 2)])) {
    assert.equal((answer as PromiseRejectedResult).reason.rpcCode, -32005)
  }
  rpc.close()
})

const useless: [string, Parameters<typeof badNode>[1]][] = [
  ['garbage', { interfere: (_calls, response) => (reply(response, 'no JSON {'), true) }],
  ['a 502 page', { interfere: (_calls, response) => (reply(response, '<html>Bad gateway</html>', 502), true) }],
  [
    'a 500 with an error that is none of JSON-RPC',
    { interfere: (_calls, response) => (reply(response, { error: 'internal' }, 500), true) },
  ],
  [
    'another id',
    { interfere: (_calls, response) => (reply(response, { jsonrpc: '2.0', id: 77, result: '0x1' }), true) },
  ],
  ['null', { interfere: (_calls, response) => (reply(response, 'null'), true) }],
  ['a hung-up connection', { interfere: (_calls, response) => (response.destroy(), true) }],
]
for (const [what, behaviour] of useless) {
  test(`${what} is no answer, and nobody takes it for one`, async (t) => {
    const node = await badNode(t, behaviour)
    const rpc = openRpc({ url: node.url })
    await assert.rejects(
      balanceOf(rpc),
      (error: RpcUnavailable) => error instanceof RpcUnavailable && !error.timedOut && !error.message.includes('kkkk'),
    )
    rpc.close()
  })
}

test('a node that hangs is given up after the time a call may take', async (t) => {
  const node = await badNode(t, { interfere: () => true })
  const rpc = openRpc({ url: node.url, timeoutMs: 60 })
  await assert.rejects(balanceOf(rpc), (error: RpcUnavailable) => error.timedOut)
  rpc.close()
})

test('batches that hang keep others waiting for a second, not until they are given up', async (t) => {
  const node = await badNode(t, { interfere: (calls) => calls.some(({ params }) => params[0] === 'hangs') })
  const rpc = openRpc({ url: node.url, timeoutMs: 120_000 })
  let givenUp = 0
  const hanging: Promise<unknown>[] = []
  // Use as many as the maximum of batches in flight.
  for (let lane = 0; lane < 4; lane++) {
    hanging.push(rpc.call('eth_getBalance', ['hangs', at]).catch(() => givenUp++))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  assert.equal(await balanceOf(rpc), '0x2a')
  assert.equal(givenUp, 0)
  rpc.close()
  await Promise.all(hanging)
})

test('a node that is not there is unavailable at once', async (t) => {
  const node = await badNode(t)
  await node.close()
  const rpc = openRpc({ url: node.url })
  await assert.rejects(balanceOf(rpc), (error: RpcUnavailable) => error instanceof RpcUnavailable && !error.timedOut)
  rpc.close()
})

test('connections that the node has closed meanwhile are not noticed', async (t) => {
  const node = await badNode(t)
  const rpc = openRpc({ url: node.url })
  let isClosing = false
  node.interfere = (_calls, response, request) => {
    if (isClosing) request.socket.destroy()
    isClosing = false
    return response.socket === null || request.socket.destroyed
  }
  await balanceOf(rpc)
  isClosing = true
  assert.equal(await balanceOf(rpc), '0x2a')
  rpc.close()
})

test('one answer of 26 MB costs its neighbours in the batch nothing, and is a refusal to its caller', async (t) => {
  const long = `0x${'ab'.repeat(13_000_000)}`
  const node = await badNode(t, {
    answer: ({ params }) => ((params[0] as { data?: string }).data === '0x02' ? { result: long } : undefined),
  })
  const rpc = openRpc({ url: node.url, timeoutMs: 60_000 })
  const answers = await Promise.allSettled(
    (['0x01', '0x02', '0x03', '0x04'] as const).map((data) => ethCall(rpc, { to, data, at })),
  )
  assert.deepEqual(
    answers.map((one) => (one.status === 'fulfilled' ? 'data' in one.value : one.reason.code)),
    [true, 'invalid_return_data', true, true],
  )
  rpc.close()
})

test('a function that burnt all its gas is called outside of the batches of others', async (t) => {
  const bomb = '0xb0b0b0b0'
  const isBomb = (params: unknown[]) => (params[0] as { data: string }).data.startsWith(bomb)
  const node = await badNode(t, {
    answer: ({ params }) => (isBomb(params) ? { error: { code: -32003, message: 'EVM error OutOfGas' } } : undefined),
  })
  const rpc = openRpc({ url: node.url })
  const round = () => {
    node.requests.length = 0
    const calls = (['0x01020304', bomb, '0x05060708', `${bomb}01`] as const).map((data) =>
      ethCall(rpc, { to, data, at }),
    )
    return Promise.all(calls)
  }
  const first = await round()
  assert.deepEqual(node.requests, [4])
  assert.deepEqual(await round(), first, 'with the same answers')
  assert.deepEqual(
    node.requests.toSorted((a, b) => a - b),
    [1, 1, 2],
  )
  rpc.close()
})

test('a call answered with something else than bytes is no answer', async (t) => {
  for (const result of [5, null, {}, 'text', true]) {
    const node = await badNode(t, { answer: () => ({ result }) })
    const rpc = openRpc({ url: node.url })
    await assert.rejects(ethCall(rpc, { to, data: '0x01', at }), RpcUnavailable)
    rpc.close()
  }
})

test('an error of the node keeps its code and its data', async (t) => {
  const node = await badNode(t, { answer: () => ({ error: { code: 3, message: 'execution reverted', data: '0x01' } }) })
  const rpc = openRpc({ url: node.url })
  await assert.rejects(
    balanceOf(rpc),
    (error: RpcError) => error instanceof RpcError && error.rpcCode === 3 && error.data === '0x01',
  )
  rpc.close()
})

test('calls are counted by method and outcome', async (t) => {
  const node = await badNode(t)
  const counted: unknown[][] = []
  const rpc = openRpc({ url: node.url, onCall: (...count) => counted.push(count) })
  await Promise.allSettled([balanceOf(rpc, 1), balanceOf(rpc, 2), rpc.call('eth_nonsense', [])])
  await node.close()
  await balanceOf(rpc).catch(() => {})
  assert.deepEqual(counted, [
    ['eth_getBalance', 'ok', 2],
    ['eth_nonsense', 'error', 1],
    ['eth_getBalance', 'unavailable', 1],
  ])
  rpc.close()
})
