/** Exits with 0 if the program of this container is healthy: the signer by its socket, a server by its health route. */
import { connect } from 'node:net'

const { SIGNER_DIR, SIGNER_SOCKET, PORT = '4000' } = process.env
const TIMEOUT_MS = 3_000

if (SIGNER_DIR !== undefined) {
  const socket = connect(SIGNER_SOCKET)
  socket.setTimeout(TIMEOUT_MS, () => process.exit(1))
  socket.once('connect', () => process.exit(0))
  socket.once('error', () => process.exit(1))
} else {
  const response = await fetch(`http://127.0.0.1:${PORT}/healthz`, { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(
    () => null,
  )
  process.exit(response?.ok === true ? 0 : 1)
}
