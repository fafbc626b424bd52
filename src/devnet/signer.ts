import { spawn, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Logger } from '../log.ts'
import { systemClock } from '../clock.ts'

export type SignerProcess = { socket: string; stop(): Promise<void> }

export type SignerSettings = {
  dataDir: string
  jwksFile: string
  issuer: string
  audience: string
  logLevel: string
  /** whether people get their keys, and how long after they asked, seconds */
  keyExport: { isOn: boolean; delaySeconds: number }
  log: Logger
}

const READY_MS = 20_000
/** bytes; the address of a Unix socket holds 108 on Linux, 104 elsewhere, with its closing zero */
const MAX_SOCKET_PATH = 100

/**
 * Starts the signer as a process of its own, and starts it again if it dies. It sees only its own settings, and
 * ends when this process does, however that happens. In production the operator runs it, under another user.
 */
export async function startSigner(settings: SignerSettings): Promise<SignerProcess> {
  const dir = join(settings.dataDir, 'signer')
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const socket = await socketPath(settings.dataDir)
  let isStopping = false
  let child = await launch(dir, socket, settings)
  let gone = supervise(child)

  function supervise(process: ChildProcess): Promise<void> {
    return new Promise((resolve) => {
      process.once('exit', (code, signal) => {
        resolve()
        if (isStopping) return
        settings.log.error('signer_died', { code, signal })
        void restart()
      })
    })
  }

  async function restart(): Promise<void> {
    for (let waitMs = 100; !isStopping; waitMs = Math.min(waitMs * 2, 5_000)) {
      try {
        child = await launch(dir, socket, settings)
        gone = supervise(child)
        return
      } catch (error) {
        settings.log.error('signer_restart_failed', {}, error)
        await systemClock.sleep(waitMs)
      }
    }
  }

  return {
    socket,
    stop: async () => {
      isStopping = true
      child.kill('SIGTERM')
      await gone
      if (!socket.startsWith(settings.dataDir)) await rm(join(socket, '..'), { recursive: true, force: true })
    },
  }
}

/** In the data folder, or, where that path is too long for a socket, in a private folder for temporary files. */
async function socketPath(dataDir: string): Promise<string> {
  const inside = join(dataDir, 'signer.sock')
  if (Buffer.byteLength(inside) <= MAX_SOCKET_PATH) return inside
  const outside = join(tmpdir(), `chatelaine-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`)
  await mkdir(outside, { recursive: true, mode: 0o700 })
  return join(outside, 'signer.sock')
}

/** Resolves when the signer listens. Its own process group keeps Ctrl-C from ending it before the server is done with it. */
function launch(
  dir: string,
  socket: string,
  { dataDir, jwksFile, issuer, audience, logLevel, keyExport }: SignerSettings,
): Promise<ChildProcess> {
  const { PATH, TMPDIR, NODE_COMPILE_CACHE } = process.env
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      // scripts/run.mjs says why.
      '--no-concurrent-sparkplug',
      // No debugger beside the keys, and no way from an object to the prototype of all.
      '--disable-sigusr1',
      '--disable-proto=throw',
      // As the command starts it.
      '--max-semi-space-size=8',
      fileURLToPath(new URL('../signer/main.ts', import.meta.url)),
      '--development',
      '--with-parent',
    ],
    {
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {
        PATH,
        TMPDIR,
        // Two thirds of its start are compiling. Who can write there is who started us, and has these keys anyway.
        NODE_COMPILE_CACHE,
        LOG_LEVEL: logLevel,
        SIGNER_DIR: dir,
        SIGNER_SOCKET: socket,
        // Beside the store here for want of a better place; in production it lives elsewhere.
        SIGNER_KEK_FILE: join(dataDir, 'signer-kek'),
        SIGNER_JWKS_FILE: jwksFile,
        SIGNER_ISSUER: issuer,
        SIGNER_AUDIENCE: audience,
        SIGNER_EXPORT: keyExport.isOn ? 'on' : 'off',
        SIGNER_EXPORT_DELAY_SECONDS: String(keyExport.delaySeconds),
      },
    },
  )
  child.stdin!.on('error', () => {})
  return new Promise((resolve, reject) => {
    const timer = systemClock.after(READY_MS, () => {
      child.kill('SIGKILL')
      reject(new Error('the signer did not start in time'))
    })
    child.once('error', reject)
    child.once('exit', (code) => {
      timer.cancel()
      reject(new Error(`the signer exited at its start, with code ${code}`))
    })
    child.stdout!.on('data', (chunk: Buffer) => {
      if (!chunk.toString().includes('ready')) return
      timer.cancel()
      resolve(child)
    })
  })
}
