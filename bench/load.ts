import { connect, type Socket } from 'node:net'

export type Request = { method: 'GET' | 'POST'; path: string; headers?: string; body?: string }
export type Outcome = {
  /** requests answered per second */
  rate: number
  /** milliseconds */
  p50: number
  p99: number
  /** answers whose status is not 200, with the first of them */
  failures: number
  firstFailure: string | null
}

/**
 * Keeps `connections` keep-alive connections busy, one request at a time on each, for so many seconds after as much
 * warming up as told. Bare sockets: an HTTP client would take more of the shared cores than what is measured.
 * @param url       of the server, or of several that share the connections evenly
 * @param pauseMs   for which a connection waits after an answer that is not 200
 * @param next      makes the request of the given number; called once per request
 * @param answered  told of every answer, warming up included
 */
export async function load(
  url: string | readonly string[],
  {
    connections,
    seconds,
    warmUpSeconds = 0.5,
    pauseMs = 0,
  }: { connections: number; seconds: number; warmUpSeconds?: number; pauseMs?: number },
  next: (number: number) => Request,
  answered: (number: number, status: number, text: () => string) => void = () => {},
): Promise<Outcome> {
  const targets = [url].flat().map((one) => new URL(one))
  const latencies: number[] = []
  let failures = 0
  let firstFailure: string | null = null
  let number = 0
  const from = performance.now() + warmUpSeconds * 1_000
  const until = from + seconds * 1_000

  const client = ({ hostname, port }: URL) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true })
      let sentAt = 0
      let sent = 0
      const send = () => {
        sentAt = performance.now()
        sent = number++
        socket.write(textOf(next(sent), `${hostname}:${port}`))
      }
      onAnswers(socket, (status, text) => {
        const now = performance.now()
        answered(sent, status, text)
        if (status !== 200) {
          failures++
          firstFailure ??= text().slice(0, 1_000)
        } else if (sentAt >= from) latencies.push(now - sentAt)
        if (now >= until) socket.end()
        else if (status === 200 || pauseMs === 0) send()
        else setTimeout(send, pauseMs)
      })
      socket.once('connect', send)
      socket.once('error', reject)
      socket.once('close', () => resolve())
    })
  await Promise.all(Array.from({ length: connections }, (_, index) => client(targets[index % targets.length]!)))

  const sorted = Float64Array.from(latencies).sort()
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { rate: sorted.length / seconds, p50: at(0.5), p99: at(0.99), failures, firstFailure }
}

export function textOf({ method, path, headers = '', body }: Request, host: string): string {
  if (body === undefined) return `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n${headers}\r\n`
  return `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n${headers}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

/** Calls back for each whole answer; every server measured here sends a Content-Length. */
export function onAnswers(socket: Socket, answered: (status: number, text: () => string) => void): void {
  let held: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    const headEnd = held.indexOf('\r\n\r\n')
    if (headEnd === -1) return
    const head = held.toString('latin1', 0, headEnd)
    const length = /content-length: *(\d+)/i.exec(head)
    if (length === null) throw new Error(`an answer without a length: ${head}`)
    const end = headEnd + 4 + Number(length[1])
    if (held.length < end) return
    const answer = held.subarray(0, end)
    held = held.subarray(end)
    answered(Number(head.slice(9, 12)), () => answer.toString())
  })
}
