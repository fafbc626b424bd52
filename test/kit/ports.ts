import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that an operating system gives to connections that leave: one of these is taken by nobody who did not choose it. */
const [LOWEST, HIGHEST] = [12_000, 32_000]

/** A port of this machine that nobody listens on now, nor is given to anyone who only connects. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(LOWEST, HIGHEST)
    const probe = createServer()
    const isFree = await once(probe.listen(port, '127.0.0.1'), 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    probe.close()
    await once(probe, 'close')
    return port
  }
}
