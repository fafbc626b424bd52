import net from 'node:net'

/** The way between servers and PostgreSQL, which can break at the worst moment. */
export type TornDatabase = {
  /** connection string that leads through here */
  url: string
  /** `chance` of each commit to lose its connection: half of them before the database hears of it, half after */
  tear(chance: number, roll: () => number): void
  /** commits that lost their connection */
  torn: { before: number; after: number }
  close(): void
}

/** Passes connections on. The harness's own connection goes another way. */
export async function tearConnections(databaseUrl: string): Promise<TornDatabase> {
  const target = new URL(databaseUrl)
  const sockets = new Set<net.Socket>()
  const torn = { before: 0, after: 0 }
  let chance = 0
  let roll: () => number = () => 1

  const server = net.createServer((client) => {
    const upstream = net.connect(Number(target.port), target.hostname)
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    client.on('data', (bytes) => {
      if (chance > 0 && isCommit(bytes) && roll() < chance) {
        if (roll() < 0.5) {
          torn.before++
          return end()
        }
        torn.after++
        client.destroy()
        // The database reads it, commits, and finds nobody to tell.
        upstream.removeAllListeners('close')
        return void upstream.end(bytes)
      }
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => client.write(bytes))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(databaseUrl)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as net.AddressInfo).port)
  return {
    url: url.href,
    torn,
    tear: (next, by) => {
      chance = next
      roll = by
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

/** COMMIT, or one of the statements that commit by themselves: the first bytes of an intent, a raised attempt. */
const isCommit = (bytes: Buffer): boolean =>
  bytes.includes('commit\0', 0, 'latin1') || bytes.includes('insert into "attempts"', 0, 'latin1')
