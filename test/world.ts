import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { App } from '../src/app.ts'
import { readConfig, type Config } from '../src/config.ts'
import type { DevelopmentFacts } from '../src/devnet/development.ts'
import { open } from '../src/open.ts'
import { migratedFolder, migratedPostgres, testCluster, testPooler } from './kit/database.ts'

/** An answer as a client sees it; `body` is parsed JSON, or the text where it is none. */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
export type Answer = { status: number; headers: Headers; body: any }

export type Person = {
  userId: string
  token: string
  address: `0x${string}`
  get(path: string, headers?: Record<string, string>): Promise<Answer>
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer>
  /** a write that must succeed, waited for until it is mined */
  write(call: { address: string; abi: string; args?: string[]; value?: string; reference?: string }): Promise<Answer>
}

export type World = {
  app: App
  facts: DevelopmentFacts
  dataDir: string
  alice: Person
  bob: Person
  person(name: string): Promise<Person>
  request(path: string, init?: RequestInit): Promise<Answer>
  rpc<T = unknown>(method: string, ...params: unknown[]): Promise<T>
  /** stops the program and starts it again on what it has kept */
  startAgain(): Promise<World>
  close(): Promise<void>
}

/**
 * The whole program in this process, on a free port: real database, real chain, real signer, development sign-in.
 * @param settings  environment settings on top of those that keep worlds apart
 */
export async function world(settings: Record<string, string> = {}): Promise<World> {
  const dataDir = await mkdtemp(join(tmpdir(), 'chatelaine-world-'))
  const database = testCluster === null ? null : await migratedPostgres(testCluster)
  if (database === null) await migratedFolder(join(dataDir, 'db'))
  const config = readConfig(
    {
      NODE_ENV: 'test',
      PORT: '0',
      CHAIN_PORT: '0',
      DATA_DIR: dataDir,
      RATE_LIMITS: 'off',
      LOG_LEVEL: 'error',
      FOLLOW_INTERVAL_MS: '50',
      CHAIN_BLOCK_SECONDS: '0.05',
      ...(database === null ? {} : { DATABASE_URL: database.url, DATABASE_POOLER: testPooler }),
      ...settings,
    },
    'server',
  )
  return start(config, async () => {
    await database?.drop()
    await rm(dataDir, { recursive: true, force: true })
  })
}

async function start(config: Config, clear: () => Promise<void>): Promise<World> {
  const { app, development, close } = await open(config)
  const { facts, issueToken } = development!

  async function request(path: string, init: RequestInit = {}): Promise<Answer> {
    const response = await fetch(path.startsWith('http') ? path : `${facts.origin}${path}`, init)
    const text = await response.text()
    let body: unknown = text
    if (/json/.test(response.headers.get('content-type') ?? '')) body = JSON.parse(text)
    return { status: response.status, headers: response.headers, body }
  }

  async function person(name: string): Promise<Person> {
    const { token, userId } = await issueToken({ username: name, clientId: facts.clientId })
    const authorization = `Bearer ${token}`
    const get: Person['get'] = (path, headers = {}) => request(path, { headers: { authorization, ...headers } })
    const post: Person['post'] = (path, body, headers = {}) =>
      request(path, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
    const { body } = await get('/v1/me')
    return {
      userId,
      token,
      address: body.address,
      get,
      post,
      write: async (call) => {
        const answer = await post('/v1/contracts/method/write?wait=mined', call)
        if (answer.status !== 200)
          throw new Error(`the write answered ${answer.status}: ${JSON.stringify(answer.body)}`)
        return answer
      },
    }
  }

  async function rpc<T>(method: string, ...params: unknown[]): Promise<T> {
    const { body } = await request(facts.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    if (body.error !== undefined) throw new Error(body.error.message)
    return body.result
  }

  return {
    app,
    facts,
    dataDir: config.DATA_DIR,
    alice: await person('alice'),
    bob: await person('bob'),
    person,
    request,
    rpc,
    startAgain: async () => {
      await close()
      return start(config, clear)
    },
    close: async () => {
      await close()
      await clear()
    },
  }
}
