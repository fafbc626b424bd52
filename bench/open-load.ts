import { connect, type Socket } from 'node:net'
import { onAnswers, textOf, type Request } from './load.ts'

export type OpenOutcome = {
  /** arrivals per second that were begun, as many as asked for unless this process was too slow */
  offered: number
  /** answered 200 within a second of their arrival, per second */
  good: number
  /** answered 200 at all, per second */
  served: number
  /** of those answered 200, from arrival, milliseconds */
  p50: number
  p99: number
  /** answers 503 `overloaded`, per second, and how long they took from being sent, milliseconds */
  refused: number
  refusedP50: number
  refusedP99: number
  /** arrivals that found every connection busy and waited for one; answers that were neither; arrivals without an answer */
  queued: number
  others: number
  firstOther: string | null
  unanswered: number
}

const GOOD_MS = 1_000
/** what is not answered so long after the end never is */
const DRAIN_MS = 45_000
/** A connection idle for as long is not used again, as HTTP clients do: the server may be closing it (after 72 s). */
const MAX_IDLE_MS = 60_000

/**
 * Requests that arrive at a rate, whatever the server does: what comes while all connections are busy waits for one, and
 * its wait counts. The closed loop of `load.ts` waits with the server, and so never asks for more than it can do.
 * @param rate      arrivals per second
 * @param next      makes the request of the given number
 * @param answered  told of each answer; its status is 0 where the connection was closed instead
 */
export async function openLoad(
  url: string,
  { rate, connections, seconds }: { rate: number; connections: number; seconds: number },
  next: (number: number) => Request,
  answered: (number: number, status: number, ms: number, text: () => string) => void = () => {},
): Promise<OpenOutcome> {
  const { hostname, port } = new URL(url)
  const host = `${hostname}:${port}`
  const free: Client[] = []
  /** First: a server closes what has not asked anything in its first seconds, and 2,000 that wait for it are load of their own. */
  const unused: Client[] = []
  const waiting: { number: number; at: number }[] = []
  const sockets: Socket[] = []
  const good: number[] = []
  const refusals: number[] = []
  let head = 0
  let [queued, others, open] = [0, 0, 0]
  let firstOther: string | null = null

  type Client = { send(arrival: { number: number; at: number }): void; isOpen(): boolean }
  /** What is closed here or by the server is followed by another. */
  const takeFree = () => {
    for (const idle of [unused, free])
      for (let client = idle.pop(); client !== undefined; client = idle.pop()) if (client.isOpen()) return client
    return undefined
  }
  let isOver = false
  const begin = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true })
      sockets.push(socket)
      let current: { number: number; at: number } | null = null
      let sentAt = 0
      let idleSince = performance.now()
      const client: Client = {
        send(arrival) {
          current = arrival
          sentAt = performance.now()
          socket.write(textOf(next(arrival.number), host))
        },
        isOpen: () => {
          if (current === null && performance.now() - idleSince > MAX_IDLE_MS) socket.destroy()
          return socket.writable
        },
      }
      const goOn = (idle = free) => {
        if (head === waiting.length) waiting.length = head = 0
        if (head < waiting.length && client.isOpen()) client.send(waiting[head++]!)
        else idle.push(client)
      }
      onAnswers(socket, (status, text) => {
        if (current === null) return
        const { number, at } = current
        current = null
        const now = performance.now()
        idleSince = now
        open--
        if (status === 200) good.push(now - at)
        else if (status === 503 && text().includes('"overloaded"')) refusals.push(now - sentAt)
        else {
          others++
          firstOther ??= text().slice(-600)
        }
        answered(number, status, now - at, text)
        goOn()
      })
      socket.once('close', () => {
        if (isOver) return
        if (current !== null) {
          open--
          others++
          firstOther ??= 'closed without an answer'
          answered(current.number, 0, performance.now() - current.at, () => '')
        }
        void begin().catch(() => {})
      })
      socket.once('connect', () => {
        goOn(unused)
        resolve()
      })
      socket.on('error', reject)
    })
  for (let made = 0; made < connections; made += 200)
    await Promise.all(Array.from({ length: Math.min(200, connections - made) }, begin))

  const from = performance.now()
  let number = 0
  for (;;) {
    const now = performance.now()
    if (now - from >= seconds * 1_000) break
    const due = Math.floor(((now - from) / 1_000) * rate)
    // Not more than this in one turn: answers are to be read at once, too.
    for (let count = 0; number < due && count < 500; count++) {
      const arrival = { number: number++, at: now }
      open++
      const client = takeFree()
      if (client !== undefined) client.send(arrival)
      else {
        queued++
        waiting.push(arrival)
      }
    }
    await new Promise((resolve) => (number < due ? setImmediate(resolve) : setTimeout(resolve, 1)))
  }
  const took = (performance.now() - from) / 1_000
  const until = performance.now() + DRAIN_MS
  while (open > 0 && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 20))
  isOver = true
  for (const socket of sockets) socket.destroy()

  const [answers, no] = [good.toSorted((a, b) => a - b), refusals.toSorted((a, b) => a - b)]
  const at = (sorted: number[], share: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return {
    offered: number / took,
    good: answers.filter((ms) => ms <= GOOD_MS).length / took,
    served: answers.length / took,
    ...{ p50: at(answers, 0.5), p99: at(answers, 0.99) },
    ...{ refused: no.length / took, refusedP50: at(no, 0.5), refusedP99: at(no, 0.99) },
    ...{ queued, others, firstOther, unanswered: open },
  }
}
