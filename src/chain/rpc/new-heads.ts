import { WebSocket, type RawData } from 'ws'
import type { Clock, Timer } from '../../clock.ts'
import type { OnNode } from './pool.ts'
import { exactQuantityIn } from '../../digits.ts'

/**
 * Announcements of new blocks by nodes, so that polling can be less frequent. An announcement is only a hint: the block
 * is then requested as usual. Without announcements, polling continues at a lower rate.
 */
export type NewHeads = {
  /** false: no subscription is active, so the absence of announcements means nothing */
  isLive(): boolean
  /** true if a higher block was announced recently: the node that is asked next may lack it */
  hasAbove(number: number): boolean
  /** @returns a function that unsubscribes */
  onHint(listener: () => void): () => void
  close(): void
}

/**
 * A WebSocket node. `position` in the settings' list, from 1: logs show it instead of the URL, which may include a key.
 */
export type HeadSource = { url: string; position: number }

export type NewHeadsSettings = {
  clock: Clock
  chainId: number
  onNode: OnNode
  patienceMs?: number
  firstRetryMs?: number
}

/** Milliseconds for which an announced number counts: it may be false, or belong to a fork that lost. */
const BELIEVED_MS = 5_000
/** milliseconds until a silent connection is pinged, and again until it is closed */
const PATIENCE_MS = 10_000
const FIRST_RETRY_MS = 500
const MAX_RETRY_MS = 30_000
/** maximum bytes of a message; a header has about 1,000 */
const MAX_MESSAGE = 262_144

export const isHeadUrl = (url: string): boolean => /^wss?:\/\//.test(url)

/** Subscribes to `newHeads` of each node, and reconnects until closed. Never throws. */
export function watchNewHeads(sources: readonly HeadSource[], settings: NewHeadsSettings): NewHeads {
  const listeners = new Set<() => void>()
  let announced = { number: -1, at: Number.NEGATIVE_INFINITY }
  const tell = (number: number) => {
    if (number >= announced.number || isStale()) announced = { number, at: settings.clock.ticks() }
    for (const listener of listeners) listener()
  }
  const isStale = () => settings.clock.ticks() - announced.at > BELIEVED_MS
  const subscriptions = sources.map((source) => subscribe(source, { ...settings, tell }))
  return {
    isLive: () => subscriptions.some(({ isLive }) => isLive()),
    hasAbove: (number) => !isStale() && announced.number > number,
    onHint: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close: () => subscriptions.forEach(({ close }) => close()),
  }
}

/** Connects to one node, checks its chain and subscribes. Reconnects after a loss, with growing delays. */
function subscribe(
  { url, position }: HeadSource,
  {
    clock,
    chainId,
    onNode,
    patienceMs = PATIENCE_MS,
    firstRetryMs = FIRST_RETRY_MS,
    tell,
  }: NewHeadsSettings & { tell: (number: number) => void },
) {
  let socket: WebSocket | null = null
  let retryTimer: Timer | undefined
  let failures = 0
  let isLive = false
  let isClosed = false
  connect()
  return {
    isLive: () => isLive,
    close: () => {
      isClosed = true
      retryTimer?.cancel()
      socket?.terminate()
    },
  }

  function connect(): void {
    let timer: Timer | undefined
    let isAsked = false
    // Disable compression, with which a small message could become a large one, and redirects, which could lead to
    // another host.
    const opened = new WebSocket(url, {
      handshakeTimeout: patienceMs,
      maxPayload: MAX_MESSAGE,
      perMessageDeflate: false,
      followRedirects: false,
    })
    socket = opened
    const give = () => opened.terminate()
    /** Records a message, which shows that the connection is alive, and schedules a ping after the next silence. */
    const heard = () => {
      isAsked = false
      timer?.cancel()
      timer = clock.after(patienceMs, check).unref()
    }
    const check = () => {
      if (isAsked) return give()
      isAsked = true
      opened.ping()
      timer = clock.after(patienceMs, check).unref()
    }
    const send = (id: number, method: string, params: unknown[]) =>
      opened.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))

    opened.on('open', () => {
      heard()
      send(1, 'eth_chainId', [])
    })
    opened.on('pong', heard)
    opened.on('message', (data) => {
      heard()
      const message = readMessage(data)
      if (message === null) return give()
      if (message.id === 1) {
        if (Number(message.result) === chainId) return send(2, 'eth_subscribe', ['newHeads'])
        if (typeof message.result === 'string') onNode(position, 'wrong_chain')
        return give()
      }
      if (message.id === 2) {
        if (typeof message.result !== 'string') return give()
        isLive = true
        if (failures > 0) onNode(position, 'up')
        failures = 0
        // Check once, because blocks announced before the subscription are not announced again.
        return tell(-1)
      }
      const number = message.method === 'eth_subscription' ? exactQuantityIn(message.params?.result?.number) : null
      if (number !== null) tell(number)
    })
    // 'close' follows every error, and the error's message may include the URL.
    opened.on('error', () => {})
    opened.on('close', () => {
      timer?.cancel()
      isLive = false
      if (isClosed) return
      if (failures === 0) onNode(position, 'down')
      const waitMs = Math.min(MAX_RETRY_MS, firstRetryMs * 2 ** Math.min(failures++, 10))
      retryTimer = clock.after(waitMs * (0.75 + Math.random() / 2), connect).unref()
      // Wake callers that relied on the subscription, so that they resume polling.
      tell(-1)
    })
  }
}

type NodeMessage = { id?: unknown; result?: unknown; method?: unknown; params?: { result?: { number?: unknown } } }

function readMessage(data: RawData): NodeMessage | null {
  try {
    const message: unknown = JSON.parse((data as Buffer).toString('utf8'))
    return typeof message === 'object' && message !== null ? message : null
  } catch {
    return null
  }
}
