import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../kit/ports.ts'
import { findAnvil } from '../../src/devnet/anvil-binary.ts'
import type { Hex } from '../../src/ids.ts'
import { until } from '../kit/until.ts'
import { openDriven } from './driven.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const packaged = (path: string): string => join(ROOT, 'node_modules', path)
/** What others wrote and has a lock of its own: docs/decisions/0042 */
const FOREIGN = join(ROOT, 'e2e/foreign')

/** `hasDriver`: it is told its genesis, and when to make a block */
type Program = { title: string; file: string; args: string[]; cwd?: string; manifest?: string; hasDriver?: true }

/** Nodes as their packages bring them, with no option but the address; but for one that is not made for development. */
const programs = {
  hardhat: {
    title: 'Hardhat',
    manifest: packaged('hardhat/package.json'),
    file: process.execPath,
    args: [
      packaged('hardhat/dist/src/cli.js'),
      'node',
      '--config',
      join(ROOT, 'test/nodes/hardhat.config.js'),
      '--hostname',
      '127.0.0.1',
      '--port',
    ],
  },
  hardhat2: {
    title: 'Hardhat',
    manifest: join(FOREIGN, 'node_modules/hardhat/package.json'),
    file: process.execPath,
    args: [
      join(FOREIGN, 'node_modules/hardhat/internal/cli/bootstrap.js'),
      '--config',
      join(ROOT, 'test/nodes/hardhat2.config.cjs'),
      'node',
      '--hostname',
      '127.0.0.1',
      '--port',
    ],
    // It runs only where it finds itself installed.
    cwd: FOREIGN,
  },
  ganache: {
    title: 'ganache',
    manifest: packaged('ganache/package.json'),
    file: process.execPath,
    args: [packaged('ganache/dist/node/cli.js'), '--server.host', '127.0.0.1', '--server.port'],
  },
  // No development node: of itself it makes no block with anything in it, so a driver does by its Engine API.
  ethereumjs: {
    title: '@ethereumjs/client',
    manifest: join(FOREIGN, 'node_modules/@ethereumjs/client/package.json'),
    file: process.execPath,
    args: [
      join(FOREIGN, 'node_modules/@ethereumjs/client/dist/esm/bin/cli.js'),
      ...['--isSingleNode', 'true', '--discV4', 'false', '--port', '0', '--logLevel', 'error'],
      ...['--rpcEngine', '--rpcEngineAuth', 'false', '--rpcEngineAddr', '127.0.0.1'],
      ...['--rpc', '--rpcAddr', '127.0.0.1', '--rpcPort'],
    ],
    hasDriver: true,
  },
  anvil: {
    title: 'anvil',
    file: findAnvil(),
    // The time of its first block is its genesis: started again it is the same chain, empty.
    args: ['--timestamp', '1700000000', '--port'],
  },
} as const satisfies Record<string, Program>

export type NodeName = keyof typeof programs

/** The program and its version as it says itself. */
export function titleOf(name: NodeName): string {
  const { title, file, manifest }: Program = programs[name]
  const version =
    manifest === undefined
      ? /[\d.]+/.exec(spawnSync(file, ['--version'], { encoding: 'utf8' }).stdout)![0]
      : (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
  return `${title} ${version}`
}

export type RealNode = {
  url: string
  rpc<T = unknown>(method: string, ...params: unknown[]): Promise<T>
  /** sends a transaction of one of its own accounts and waits until it is mined */
  send(transaction: { to?: string; data?: Hex; value?: Hex }): Promise<{ contractAddress: Hex; status: Hex }>
  /** ends it and starts it again at the same address: whatever it had is lost */
  startAgain(): Promise<void>
  stop(): Promise<void>
}

/** Starts a node on a free port of this machine. Without telemetry, and without a terminal to ask anything. */
export async function startNode(name: NodeName): Promise<RealNode> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const { hasDriver }: Program = programs[name]
  const driven = hasDriver === true ? openDriven({ url, enginePort: await freePort() }) : null
  let child = launch(name, port, driven?.args)
  await listening(url, child)
  driven?.drive()

  async function rpc<T>(method: string, ...params: unknown[]): Promise<T> {
    const body = await ask<T>(url, method, params)
    if (body.error !== undefined) throw new Error(`${method}: ${body.error.message}`)
    return body.result as T
  }
  const mined = (hash: Hex) =>
    until('the transaction is mined', () =>
      rpc<{ contractAddress: Hex; status: Hex } | null>('eth_getTransactionReceipt', hash).catch(() => null),
    )
  const end = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
  return {
    url,
    rpc,
    send: async (transaction) => {
      if (driven !== null) return mined(await driven.send(transaction))
      const [from] = await rpc<Hex[]>('eth_accounts')
      const hash = await rpc<Hex>('eth_sendTransaction', { from, gas: '0x3d0900', ...transaction })
      return mined(hash)
    },
    startAgain: async () => {
      await driven?.rest()
      await end()
      driven?.forget()
      child = launch(name, port, driven?.args)
      await listening(url, child)
      driven?.drive()
    },
    stop: async () => {
      await driven?.rest()
      await end()
      driven?.remove()
    },
  }
}

function launch(name: NodeName, port: number, more: string[] = []): ChildProcess {
  const { file, args, cwd = ROOT }: Program = programs[name]
  const { PATH = '', HOME = '/', TMPDIR = '/tmp' } = process.env
  return spawn(file, [...args, String(port), ...more], {
    cwd,
    env: {
      PATH,
      HOME,
      TMPDIR,
      HARDHAT_DISABLE_TELEMETRY: 'true',
      HARDHAT_DISABLE_TELEMETRY_PROMPT: 'true',
      CI: 'true',
    },
    stdio: 'ignore',
  })
}

async function listening(url: string, child: ChildProcess): Promise<void> {
  await until('the node answers', async () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('the node ended before it listened')
    return ask(url, 'eth_chainId', []).catch(() => null)
  })
}

type Body<T> = { result?: T; error?: { message: string } }

async function ask<T>(url: string, method: string, params: unknown[]): Promise<Body<T>> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  return (await response.json()) as Body<T>
}
