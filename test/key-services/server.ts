import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Certificate } from '../certificate.ts'

/** What a stand-in for a key service does instead of answering. `times` of it, then it answers again. */
export type Misbehaviour =
  | 'hangs'
  | 'hangs up'
  | 'breaks off'
  | 'redirects'
  | 'answers too much'
  | 'answers nothing'
  | 'answers no JSON'
  | 'answers for another key'
  | 'fails'
  | 'throttles'
  | 'denies'
  | 'is disabled'
  | 'has no such key'
  | 'spoils a checksum'
  | 'answers without'
  | 'is not reached'

export type Received = { method: string; path: string; headers: Record<string, string>; body: Buffer }
export type Reply = { status: number; json: unknown }
type Context = { after: (end: () => void | Promise<void>) => void }

/** What stands in for a key service: it answers only to what the service's own description asks for, to the byte. */
export type StandIn = {
  /** scheme, host and port; '' on a Unix socket */
  origin: string
  /** what it was asked, in order */
  received: Received[]
  /** what was not as the description of the service says */
  faults: string[]
  /** @param field  what `answers without` leaves out; what stands between says, with 400, where it `is not reached` */
  misbehave: (how: Misbehaviour, times?: number, field?: string) => void
  behave: () => void
  /** Nobody listens. */
  leave: () => Promise<void>
  comeBack: () => Promise<void>
}

/**
 * @param answer  to a request; what is wrong with it goes to `fault`
 * @param refuse  what the service itself says where it is throttled, denies, is disabled
 */
export async function standIn(
  t: Context,
  {
    socketPath,
    tls,
    answer,
    refuse,
  }: {
    socketPath?: string
    tls?: Certificate
    answer: (asked: Received, fault: (what: string) => void, how: Misbehaviour | null) => Reply
    refuse: (how: Misbehaviour) => Reply
  },
): Promise<StandIn> {
  let plan: { how: Misbehaviour; times: number; field: string } | null = null
  const [received, faults]: [Received[], string[]] = [[], []]
  const listener = (request: IncomingMessage, reply: ServerResponse) => void serve(request, reply)
  const make = () => (tls === undefined ? http.createServer(listener) : https.createServer(tls, listener))
  let server = make()
  let port = 0
  const listen = () =>
    new Promise<void>((resolve) => {
      if (socketPath !== undefined) rmSync(socketPath, { force: true })
      if (socketPath === undefined) server.listen(port, '127.0.0.1', resolve)
      else server.listen(socketPath, resolve)
    })
  await listen()
  if (socketPath === undefined) port = (server.address() as AddressInfo).port
  const leave = () =>
    new Promise<void>((resolve) => {
      server.closeAllConnections()
      server.close(() => resolve())
    })
  t.after(leave)
  return {
    origin: socketPath === undefined ? `http${tls === undefined ? '' : 's'}://127.0.0.1:${port}` : '',
    received,
    faults,
    misbehave: (how, times = Number.POSITIVE_INFINITY, field = '') => void (plan = { how, times, field }),
    behave: () => void (plan = null),
    leave,
    async comeBack() {
      server = make()
      await listen()
    },
  }

  async function serve(request: IncomingMessage, reply: ServerResponse): Promise<void> {
    const headers: Record<string, string> = {}
    for (let at = 0; at < request.rawHeaders.length; at += 2) {
      const name = request.rawHeaders[at]!.toLowerCase()
      if (headers[name] !== undefined) faults.push(`header ${name} twice`)
      headers[name] = request.rawHeaders[at + 1]!
    }
    const asked = { method: request.method!, path: request.url!, headers, body: await buffer(request) }
    received.push(asked)
    const how = plan !== null && plan.times-- > 0 ? plan.how : null
    switch (how) {
      case 'hangs':
        return
      case 'hangs up':
        return void request.socket.destroy()
      case 'breaks off':
        reply.writeHead(200, { 'content-length': '1000' }).write('{"data":', () => request.socket.destroy())
        return
      case 'redirects':
        return void reply.writeHead(307, { location: 'http://127.0.0.1:1/elsewhere' }).end()
      case 'answers too much':
        return void reply.writeHead(200).end(`{"data":"${'x'.repeat(70_000)}"}`)
      case 'answers nothing':
        return void reply.writeHead(200).end('{}')
      case 'answers no JSON':
        return void reply.writeHead(200).end('<html>hello</html>')
      case 'is not reached':
        return void reply.writeHead(400).end(plan!.field)
      case 'fails':
        return void reply.writeHead(503).end('{}')
      case 'throttles':
      case 'denies':
      case 'is disabled':
      case 'has no such key':
        return give(reply, refuse(how))
      default: {
        const { status, json } = answer(asked, (what) => void faults.push(what), how)
        if (how === 'answers without') delete (json as Record<string, unknown>)[plan!.field]
        give(reply, { status, json })
      }
    }
  }
}

const give = (reply: ServerResponse, { status, json }: Reply): void =>
  void reply.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json))

/** Keys of AES-256 with versions, as a key service keeps them: new ones wrap, all open. */
export function versionedKey() {
  const versions = [randomBytes(32)]
  return {
    versions,
    newest: () => versions.length,
    rotate: () => void versions.push(randomBytes(32)),
    seal(plaintext: Buffer, aad: Buffer): Buffer {
      const iv = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', versions.at(-1)!, iv).setAAD(aad)
      return Buffer.concat([iv, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
    },
    /** null where it was sealed otherwise */
    open(version: number, sealed: Buffer, aad: Buffer): Buffer | null {
      const key = versions[version - 1]
      if (key === undefined || sealed.length < 28) return null
      const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12), { authTagLength: 16 })
      decipher.setAAD(aad).setAuthTag(sealed.subarray(-16))
      const plaintext = decipher.update(sealed.subarray(12, -16))
      try {
        decipher.final()
        return plaintext
      } catch {
        return null
      }
    },
  }
}

/** The one form of base64 (RFC 4648 §4); a fault otherwise. */
export function strictBase64(value: unknown, fault: (what: string) => void): Buffer {
  const bytes = Buffer.from(String(value), 'base64')
  if (typeof value !== 'string' || bytes.toString('base64') !== value) fault('base64 in another form')
  return bytes
}

/** Faults where a body is another than these fields in this order, or headers are others than these. */
export function sameBytes(
  asked: Received,
  { headers, body }: { headers: Record<string, string>; body: unknown },
  fault: (what: string) => void,
): void {
  // prettier-ignore
  const text = body === null ? '' : JSON.stringify(body)
  if (asked.body.toString('utf8') !== text) fault(`the body is not ${Object.keys(body ?? {}).join(', ')}`)
  const expected = { ...headers, 'content-length': String(asked.body.length), connection: 'close' }
  for (const name of new Set([...Object.keys(asked.headers), ...Object.keys(expected)]))
    if (asked.headers[name] !== (expected as Record<string, string>)[name]) fault(`header ${name}`)
}
