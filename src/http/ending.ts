import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.ts'

/** milliseconds after closing begins in which a started request must be complete */
const ARRIVAL_MS = 5_000

export type Ending = {
  /** Registers a response, before anything of it is written. */
  follow(response: ServerResponse): void
  /** Returns the response to the newest request of a connection. */
  responseOn(socket: Socket): ServerResponse | undefined
  /** Ends each connection after its last response. Call it when the server closes. */
  begin(): void
}

/**
 * Ends the connections of a closing server. Node ends only those that are idle at that moment. It would wait for the
 * keep-alive time of clients that are answered later, and for connections on which nothing was ever sent.
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
    // RFC 9112 §9.6: no request is answered after `Connection: close`. If the headers were sent already, just end after
    // this one.
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
      // A closing server no longer checks the request time-outs.
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
