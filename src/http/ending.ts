import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.ts'

/** milliseconds in which a request that arrives while the server closes must be whole */
const ARRIVAL_MS = 5_000

export type Ending = {
  /** Notes a response that is to be written, before anything of it is. */
  follow(response: ServerResponse): void
  /** Returns the response to the newest request of a connection. */
  responseOn(socket: Socket): ServerResponse | undefined
  /** Lets each connection end with its last response; to be called when the server closes. */
  begin(): void
}

/**
 * Ends the connections of a server that closes. Node ends only those that are idle at that moment: it would wait for the
 * keep-alive time of a client that is answered later, and for a connection on which nothing was ever sent.
 */
export function openEnding(server: Server, clock: Clock): Ending {
  const open = new Set<Socket>()
  const newest = new WeakMap<Socket, ServerResponse>()
  let isClosing = false

  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })

  const isAwaited = (response: ServerResponse | undefined): response is ServerResponse =>
    response !== undefined && !response.writableFinished

  function endWith(response: ServerResponse): void {
    const { socket } = response.req
    // RFC 9112 §9.6: nothing is answered behind it. A response whose head has left is the last one without a word.
    if (!response.headersSent) response.setHeader('connection', 'close')
    response.once('finish', () => {
      if (newest.get(socket) === response) socket.destroySoon()
    })
  }

  return {
    follow(response) {
      newest.set(response.req.socket, response)
      if (isClosing) endWith(response)
    },
    responseOn: (socket) => newest.get(socket),
    begin() {
      isClosing = true
      for (const socket of open) {
        const response = newest.get(socket)
        if (isAwaited(response)) endWith(response)
        else if (socket.bytesRead === 0) socket.destroy()
      }
      // A server that closes looks for late requests no more.
      const arrival = clock.after(ARRIVAL_MS, () => {
        for (const socket of open) {
          const response = newest.get(socket)
          if (!isAwaited(response) || !response.req.complete) socket.destroy()
        }
      })
      server.once('close', () => arrival.cancel())
    },
  }
}
