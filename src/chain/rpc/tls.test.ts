import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { after, before, suite, test } from 'node:test'
import tls from 'node:tls'
import { makeCertificate, noCertificates } from '../../../test/certificate.ts'
import { RpcUnavailable } from './failures.ts'
import { openRpc } from './rpc.ts'

/** A node behind TLS, like those of providers: its certificate is checked before any request is sent. */
suite('a node at an https address', { skip: noCertificates }, () => {
  const asked: { name: string | false; authorization: string | undefined }[] = []
  let connections = 0
  let respond: (response: ServerResponse, id: number) => void
  const plainAnswer = (response: ServerResponse, id: number) =>
    void response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id, result: '0x7' }))
  const servers: https.Server[] = []
  let trusted: string
  let stranger: string
  let usual: string[]

  async function serve(certificate: { key: Buffer; cert: Buffer }): Promise<string> {
    const server = https.createServer(certificate, async (request, response) => {
      const { servername } = request.socket as tls.TLSSocket & { servername: string | false }
      asked.push({ name: servername, authorization: request.headers.authorization })
      respond(response, ((await json(request)) as { id: number }).id)
    })
    server.on('secureConnection', () => connections++)
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `https://localhost:${(server.address() as AddressInfo).port}`
  }

  before(async () => {
    const certificate = await makeCertificate('localhost')
    usual = tls.getCACertificates('default')
    tls.setDefaultCACertificates([...usual, certificate.cert.toString()])
    trusted = await serve(certificate)
    stranger = await serve(await makeCertificate('localhost'))
  })
  after(() => {
    tls.setDefaultCACertificates(usual)
    for (const server of servers) {
      server.closeAllConnections()
      server.close()
    }
  })

  async function ask(url: string, times = 1): Promise<unknown[]> {
    asked.length = 0
    connections = 0
    const rpc = openRpc({ url, timeoutMs: 60_000 })
    try {
      const answers: unknown[] = []
      for (let count = 0; count < times; count++) answers.push(await rpc.call('eth_blockNumber', []))
      return answers
    } finally {
      rpc.close()
    }
  }
  const isUnreachable = (error: unknown) => error instanceof RpcUnavailable && !error.timedOut

  test('is asked on one kept connection, by its name, with the password of its address', async () => {
    respond = plainAnswer
    assert.deepEqual(await ask(trusted.replace('//', '//me:se%20cret@'), 3), ['0x7', '0x7', '0x7'])
    assert.equal(connections, 1)
    const authorization = `Basic ${Buffer.from('me:se cret').toString('base64')}`
    assert.deepEqual(asked, Array(3).fill({ name: 'localhost', authorization }))
  })

  test('is told nothing when nobody vouches for its certificate', async () => {
    respond = plainAnswer
    await assert.rejects(ask(stranger), isUnreachable)
    assert.deepEqual(asked, [])
  })

  test('is told nothing when its certificate is for another name', async () => {
    respond = plainAnswer
    await assert.rejects(ask(trusted.replace('localhost', '127.0.0.1')), isUnreachable)
    assert.deepEqual(asked, [])
  })

  test('is away for one who asks it without TLS', async () => {
    respond = plainAnswer
    await assert.rejects(ask(trusted.replace('https', 'http')), isUnreachable)
    assert.deepEqual(asked, [])
  })

  test('that breaks off in the middle of an answer is away, whether it told the length or not', async () => {
    for (const head of [{ 'content-length': 1_000 }, { connection: 'close' }]) {
      respond = (response) => {
        response.writeHead(200, head)
        response.write('{"jsonrpc":"2.0","id":0,"res', () => response.socket!.destroy())
      }
      await assert.rejects(ask(trusted), isUnreachable)
    }
  })
})
