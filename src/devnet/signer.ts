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
  /** whether users can export their keys, and the delay after their request, seconds */
  keyExport: { isOn: boolean; delaySeconds: number }
  log: Logger
}

const READY_MS = 20_000
/** bytes; the path of a Unix socket is limited to 108 on Linux, 104 elsewhere, including the terminating zero */
const MAX_SOCKET_PATH = 100

/**
 * Starts the signer as a child process, and restarts it if it dies. The signer sees only its own settings and ends with
 * this process, however that ends. In production, the operator runs the signer as another user.
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

/** Returns the socket path: in the data folder, or, if that path is too long, in a private temporary folder. */
async function socketPath(dataDir: string): Promise<string> {
  const inside = join(dataDir, 'signer.sock')
  if (Buffer.byteLength(inside) <= MAX_SOCKET_PATH) return inside
  const outside = join(tmpdir(), `chatelaine-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`)
  await mkdir(outside, { recursive: true, mode: 0o700 })
  return join(outside, 'signer.sock')
}

/**
 * Starts the signer and resolves when it listens. Its own process group prevents Ctrl-C from ending it before the
 * server is done.
 */
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
      // scripts/run.mjs explains this flag.
      '--no-concurrent-sparkplug',
      // Disable the debugger, which could read keys, and `__proto__`, which could modify all objects.
      '--disable-sigusr1',
      '--disable-proto=throw',
      // The same value as in the production command.
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
        // Two thirds of the start are compilation. Anyone who can write to the cache runs this process and can read
        // these keys anyway.
        NODE_COMPILE_CACHE,
        LOG_LEVEL: logLevel,
        SIGNER_DIR: dir,
        SIGNER_SOCKET: socket,
        // In the data folder for simplicity; in production the key is stored elsewhere.
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
