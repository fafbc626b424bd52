import net from 'node:net'

/** A TCP way from a port of its own to another one, which can be led elsewhere, cut, or hang without a sign. */
export type Cable = {
  port: number
  /** connections lead there from now on; those that stand are ended, unless it leads there already */
  lead(port: number): void
  /** ends all connections and takes no more */
  cut(): void
  /** passes nothing on, in no direction, and ends nothing: what a failed switch or a lost address looks like */
  hang(): void
  /** passes on again what was held back */
  goOn(): void
  close(): void
}

export async function startCable(target: number | null): Promise<Cable> {
  let leadsTo = target
  let isHanging = false
  const sockets = new Set<net.Socket>()
  const endAll = () => {
    for (const socket of sockets) socket.destroy()
  }

  const server = net.createServer((client) => {
    if (leadsTo === null) return void client.destroy()
    const upstream = net.connect(leadsTo, '127.0.0.1')
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', () => {
        sockets.delete(socket)
        end()
      })
      socket.on('data', (bytes) => void other.write(bytes))
      if (isHanging) socket.pause()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as net.AddressInfo).port,
    lead(port) {
      if (leadsTo !== port) endAll()
      leadsTo = port
    },
    cut() {
      leadsTo = null
      endAll()
    },
    hang() {
      isHanging = true
      for (const socket of sockets) socket.pause()
    },
    goOn() {
      isHanging = false
      for (const socket of sockets) socket.resume()
    },
    close() {
      endAll()
      server.close()
    },
  }
}
