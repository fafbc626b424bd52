/**
 * `node bench/refusals.ts [--connections=1000] [--turns=3] [--kinds=socket,http,ours]`: CPU of one refusal of a read over connections that stay open, the least
 * it can cost: a socket that answers prebuilt bytes to whatever it reads, Node's HTTP server that does nothing else, and our gate
 * where nothing finds room. Prints lines, writes nothing.
 */
import { fork } from 'node:child_process'
import http from 'node:http'
import net from 'node:net'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { audienceOf, issuerOf } from '../src/app.ts'
import { verifyAccessToken } from '../src/http/bearer.ts'
import { openGate } from '../src/http/gate.ts'
import { openListener } from '../src/http/listener.ts'
import { fakeApp } from '../test/fake-app.ts'

const PATH = '/v1/contracts/method/read'
const SETTLE_MS = 1_500
const SECONDS = 4

const { values: flags } = parseArgs({
  options: {
    connections: { type: 'string', default: '1000' },
    turns: { type: 'string', default: '3' },
    kinds: { type: 'string', default: 'socket,http,ours' },
    serve: { type: 'string' },
  },
})
const body = JSON.stringify({
  ...{ type: 'http://localhost:4000/docs/errors#overloaded', title: 'Overloaded', status: 503, code: 'overloaded' },
  ...{
    detail: 'The service has too many requests. This request had no effect. Retry.',
    requestId: 'req_0123456789abcdef',
  },
})
const headers = [
  ...['content-type', 'application/problem+json; charset=utf-8', 'content-length', String(Buffer.byteLength(body))],
  ...['cache-control', 'no-store', 'retry-after', '1', 'x-request-id', 'req_0123456789abcdef'],
  ...['x-content-type-options', 'nosniff'],
]

if (flags.serve === undefined)
  for (let turn = 0; turn < Number(flags.turns); turn++) for (const kind of flags.kinds.split(',')) await measure(kind)
else if (flags.serve === 'ours') await serveOurs()
else serve(flags.serve)

/** The listener with its gate, full: one application and person holds all there is. */
async function serveOurs(): Promise<void> {
  const { app } = await fakeApp({ MAX_IN_FLIGHT: '16', NODE_ENV: 'test' })
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
  app.tokenKeys = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }] }
  const token = await new SignJWT({ client_id: 'shop', chain_id: 31_337 })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'k' })
    .setIssuer(issuerOf(app))
    .setAudience(audienceOf(app.origin))
    .setSubject('shop')
    .setJti('1'.repeat(300))
    .setExpirationTime('1h')
    .sign(privateKey)
  await verifyAccessToken(app, token)
  const server = openListener(app)
  openGate(server, app).refuseBehindCors()
  server.post(PATH, { config: { admission: 'read' } }, () => new Promise(() => {}))
  const url = await server.listen({ host: '127.0.0.1', port: 0 })
  for (let held = 0; held < 16; held++)
    void fetch(`${url}${PATH}`, { method: 'POST', headers: { authorization: `Bearer ${token}` } }).catch(() => {})
  process.on('message', () => process.send!({ cpu: process.cpuUsage() }))
  process.send!({ port: Number(new URL(url).port), token })
}

function serve(kind: string): void {
  const lines = Array.from({ length: headers.length / 2 }, (_, at) => `${headers[2 * at]}: ${headers[2 * at + 1]}\r\n`)
  const prebuilt = Buffer.from(`HTTP/1.1 503 Service Unavailable\r\n${lines.join('')}\r\n${body}`)
  const server =
    kind === 'socket'
      ? net.createServer({ noDelay: true }, (socket) => {
          socket.on('error', () => {})
          socket.on('data', () => socket.write(prebuilt))
        })
      : http.createServer((_request, response) => response.writeHead(503, headers).end(body))
  server.listen(0, '127.0.0.1', () => process.send!({ port: (server.address() as AddressInfo).port }))
  process.on('message', () => process.send!({ cpu: process.cpuUsage() }))
}

async function measure(kind: string): Promise<void> {
  const child = fork(fileURLToPath(import.meta.url), ['--serve', kind])
  const told = <T>() => new Promise<T>((resolve) => child.once('message', (message) => resolve(message as T)))
  const { port, token = 'e'.repeat(700) } = await told<{ port: number; token?: string }>()
  const asked = JSON.stringify({ address: `0x${'1'.repeat(40)}`, abi: 'balanceOf(address) view returns (uint256)' })
  const request = Buffer.from(
    `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n` +
      `content-length: ${asked.length}\r\nauthorization: Bearer ${token}\r\n\r\n${asked}`,
  )
  let count = 0
  const sockets = Array.from({ length: Number(flags.connections) }, () => {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
    socket.on('error', () => {})
    socket.on('connect', () => socket.write(request))
    socket.on('data', (chunk) => {
      if (!chunk.includes('overloaded')) return
      count++
      socket.write(request)
    })
    return socket
  })
  const look = async () => {
    const answer = told<{ cpu: NodeJS.CpuUsage }>()
    child.send('cpu')
    const { cpu } = await answer
    return { count, micros: cpu.user + cpu.system }
  }
  await pause(SETTLE_MS)
  const before = await look()
  await pause(SECONDS * 1_000)
  const after = await look()
  const refused = after.count - before.count
  const each = (after.micros - before.micros) / refused
  console.log(`${kind}: ${Math.round(refused / SECONDS)} a second, ${each.toFixed(1)} µs of CPU each`)
  for (const socket of sockets) socket.destroy()
  child.kill()
}
