import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of one connection that wait for earlier responses. */
const MAX_WAITING = 16

/**
 * Handles the requests of a connection one at a time. Node dispatches pipelined requests together. For a client that
 * reads no responses, they would pile up in memory, unseen by the admission control, which counts them as finished. A
 * connection with more than 16 waiting requests is closed.
 * @returns  a function to call for each parsed request. It calls `begin` when it is its turn; never if the connection
 * has ended
 */
export function openTurns(): (request: IncomingMessage, response: ServerResponse, begin: () => void) => void {
  const waiting = new WeakMap<Socket, (() => void)[]>()
  return ({ socket }, response, begin) => {
    const turn = () => {
      response.once('close', () => {
        const next = socket.destroyed ? undefined : waiting.get(socket)?.shift()
        if (next === undefined) waiting.delete(socket)
        else next()
      })
      begin()
    }
    const others = waiting.get(socket)
    if (others === undefined) {
      waiting.set(socket, [])
      turn()
    } else if (others.length < MAX_WAITING) others.push(turn)
    else socket.destroy()
  }
}
