import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { WebSocketServer, type WebSocket } from 'ws'
import { launchAnvil } from '../../devnet/anvil.ts'
import { rpc } from '../../devnet/rpc.ts'
import { until } from '../../../test/kit/until.ts'
import { connect } from './connect.ts'
import { watchNewHeads } from './new-heads.ts'
import { stoppedClock } from '../../../test/kit/clock.ts'
import { systemClock, type Clock } from '../../clock.ts'

/** Longer than a slow machine needs to respond, milliseconds. */
const PATIENCE_MS = 30_000

type Node = {
  url: string
  chainId: string
  /** false: accepts the subscription and sends nothing, not even pongs */
  isAwake: boolean
  refusesSubscriptions: boolean
  sockets: Set<WebSocket>
  connections: number
  pings: number
  announce(number: unknown): void
  say(text: string): void
}

/** A node with only the subscription. */
async function openNode(t: TestContext): Promise<Node> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, autoPong: false })
  await once(server, 'listening')
  const node: Node = {
    ...{ url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/key-in-the-path`, chainId: '0x7a69' },
    ...{ isAwake: true, refusesSubscriptions: false, sockets: new Set(), connections: 0, pings: 0 },
    announce: (number) =>
      node.say(JSON.stringify({ jsonrpc: '2.0', method: 'eth_subscription', params: { result: { number } } })),
    say: (text) => node.sockets.forEach((socket) => socket.send(text)),
  }
  server.on('connection', (socket) => {
    node.connections++
    node.sockets.add(socket)
    socket.on('close', () => node.sockets.delete(socket))
    socket.on('ping', () => {
      node.pings++
      if (node.isAwake) socket.pong()
    })
    socket.on('message', (data) => {
      const { id, method, params } = JSON.parse((data as Buffer).toString()) as {
        id: number
        method: string
        params: unknown[]
      }
      if (!node.isAwake) return
      if (method === 'eth_subscribe') assert.deepEqual(params, ['newHeads'])
      const answer =
        method === 'eth_chainId'
          ? { result: node.chainId }
          : node.refusesSubscriptions
            ? { error: { code: -32601, message: 'no subscriptions here' } }
            : { result: '0x1' }
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
    })
  })
  t.after(() => {
    for (const socket of node.sockets) socket.terminate()
    server.close()
  })
  return node
}

const watch = (t: TestContext, ...nodes: Node[]) => watchBy(systemClock, t, ...nodes)

function watchBy(clock: Clock, t: TestContext, ...nodes: Node[]) {
  const events: string[] = []
  const heads = watchNewHeads(
    nodes.map(({ url }, index) => ({ url, position: index + 2 })),
    {
      clock,
      chainId: 31_337,
      onNode: (position, event) => events.push(`${position} ${event}`),
      patienceMs: PATIENCE_MS,
      firstRetryMs: 20,
    },
  )
  t.after(() => heads.close())
  let hints = 0
  heads.onHint(() => hints++)
  return { heads, events, hints: () => hints }
}

test('each announced block is a hint, and its number is waited for until it is there', async (t) => {
  const node = await openNode(t)
  const { heads, hints } = watch(t, node)
  await until('it is subscribed', () => heads.isLive())
  assert.equal(hints(), 1, 'a look after subscribing: what came before is not announced again')
  node.announce('0x10')
  await until('the hint comes', () => hints() === 2)
  assert.ok(heads.hasAbove(15))
  assert.ok(!heads.hasAbove(16))
  node.announce('0x10')
  await until('another block of that height is a hint too', () => hints() === 3)
})

test('what is no announcement moves nothing, and what is no JSON ends the connection', async (t) => {
  const node = await openNode(t)
  const { heads, hints } = watch(t, node)
  await until('it is subscribed', () => heads.isLive())
  for (const number of [null, 16, '16', '0x', `0x${'f'.repeat(64)}`, {}]) node.announce(number)
  node.say('{"jsonrpc":"2.0","method":"eth_subscription","params":null}')
  node.say('{"jsonrpc":"2.0","method":"eth_subscription","params":"0x10"}')
  node.announce('0x11')
  await until('the sound one is heard', () => hints() === 2)
  assert.ok(!heads.hasAbove(17))
  node.say('<html>')
  await until('it connects again', () => node.connections === 2 && heads.isLive())
})

test('a message larger than any header ends the connection', async (t) => {
  const node = await openNode(t)
  const { heads } = watch(t, node)
  await until('it is subscribed', () => heads.isLive())
  node.say(' '.repeat(300_000))
  await until('it connects again', () => node.connections === 2 && heads.isLive())
})

test('a lost connection is told once, hinted at, and made again', async (t) => {
  const node = await openNode(t)
  const { heads, events, hints } = watch(t, node)
  await until('it is subscribed', () => heads.isLive())
  const before = hints()
  node.refusesSubscriptions = true
  for (const socket of node.sockets) socket.terminate()
  await until('it was refused twice', () => node.connections >= 3)
  assert.ok(!heads.isLive())
  assert.ok(hints() > before, 'who trusted the silence is woken')
  assert.deepEqual(events, ['2 down'])
  node.refusesSubscriptions = false
  await until('it is subscribed again', () => heads.isLive())
  assert.deepEqual(events, ['2 down', '2 up'])
})

test('a node that falls silent is asked for a sign of life, and given up without one', async (t) => {
  const node = await openNode(t)
  const clock = stoppedClock()
  const { heads } = watchBy(clock, t, node)
  await until('it is subscribed', () => heads.isLive())
  for (let silences = 1; silences <= 3; silences++) {
    await clock.advance(PATIENCE_MS)
    await until('it is asked', () => node.pings === silences)
    // The response was received if the node is pinged again after the next silence, instead of disconnected.
    const [socket] = node.sockets
    await answered(socket!)
  }
  assert.ok(heads.isLive(), 'silence alone is no fault: it answers the question')
  assert.equal(node.connections, 1)
  node.isAwake = false
  await clock.advance(PATIENCE_MS)
  await until('it is asked once more', () => node.pings === 4)
  assert.ok(heads.isLive())
  await clock.advance(PATIENCE_MS)
  await until('it is given up', () => !heads.isLive())
})

/** Resolves when the other end has read everything sent on this connection, because it answers in order. */
async function answered(socket: WebSocket): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  socket.once('pong', () => resolve())
  socket.ping()
  await promise
}

test('a node of another chain is never listened to', async (t) => {
  const node = await openNode(t)
  node.chainId = '0x1'
  const { heads, events, hints } = watch(t, node)
  await until('it was refused', () => node.connections >= 2)
  node.announce('0x10')
  assert.ok(!heads.isLive())
  assert.ok(!heads.hasAbove(0))
  assert.ok(events.includes('2 wrong_chain'))
  assert.ok(hints() >= 1)
})

test('of two nodes one is enough', async (t) => {
  const [first, second] = [await openNode(t), await openNode(t)]
  first.refusesSubscriptions = true
  const { heads } = watch(t, first, second)
  await until('the second is subscribed', () => heads.isLive())
  second.announce('0x2')
  await until('its block is heard', () => heads.hasAbove(1))
})

test('a closed one connects no more', async (t) => {
  const node = await openNode(t)
  const clock = stoppedClock()
  const { heads } = watchBy(clock, t, node)
  await until('it is subscribed', () => heads.isLive())
  heads.close()
  await until('it is gone', () => node.sockets.size === 0 && !heads.isLive())
  assert.equal(clock.sleepers(), 0, 'nothing is due, ever')
  assert.equal(node.connections, 1)
})

test('on a real node: a mined block is announced', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'chatelaine-heads-'))
  const genesisSeconds = Math.floor(Date.now() / 1_000) - 1_000
  const anvil = await launchAnvil({ dir, port: 0, genesisSeconds, loadFile: null, dumpFile: join(dir, 'state.json') })
  t.after(async () => {
    await anvil.stop()
    await rm(dir, { recursive: true })
  })
  const { newHeads, rpc: pool } = await connect([anvil.rpcUrl, anvil.rpcUrl.replace('http', 'ws')], {
    clock: systemClock,
    wantedChainId: 31_337,
    onCall: () => {},
    onNode: () => {},
  })
  t.after(() => pool.close())
  await until('it is subscribed', () => newHeads!.isLive())
  await rpc(anvil.rpcUrl, 'evm_mine')
  await until('the block is announced', () => newHeads!.hasAbove(0))
  pool.close()
  assert.equal(newHeads!.isLive(), true)
  await until('the subscription ends with the rest', () => !newHeads!.isLive())
})
