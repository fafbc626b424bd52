import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of one connection that wait for the answers before theirs. */
const MAX_WAITING = 16

/**
 * One request of a connection at a time: the next is begun once the answer before has left. Node hands on all that come
 * together, and their answers would wait in memory for a client that does not read, which no gate sees: they were served.
 * A connection on which more come together than anyone sends is ended, for each is kept until its turn.
 * @returns  to be called for each request that the parser tells of; `begin` is not called of a connection that ended
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
