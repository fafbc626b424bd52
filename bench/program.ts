/**
 * The program as `src/main.ts` runs it, in a process of its own that a benchmark started: it says where it listens
 * and issues access tokens over the channel between the two, where a person would sign in with a browser.
 */
import { mkdir } from 'node:fs/promises'
import { Session } from 'node:inspector/promises'
import { readConfig } from '../src/config.ts'
import { open } from '../src/open.ts'

const config = readConfig(process.env, 'server')
await mkdir(config.DATA_DIR, { recursive: true, mode: 0o700 })
const { app, development, close } = await open(config)
const { facts, issueToken } = development!

const inspector = new Session()
inspector.connect()

process.on(
  'message',
  async ({
    id,
    users,
    memory,
    profile,
  }: {
    id: number
    users?: string[]
    memory?: true
    profile?: 'start' | 'stop'
  }) => {
    if (profile === 'start') {
      await inspector.post('Profiler.enable')
      await inspector.post('Profiler.start')
      process.send!({ id })
      return
    }
    if (profile === 'stop') {
      process.send!({ id, profile: (await inspector.post('Profiler.stop')).profile })
      return
    }
    if (memory) {
      ;(globalThis as { gc?: () => void }).gc?.()
      process.send!({ id, memory: process.memoryUsage() })
      return
    }
    const tokens: { userId: string; token: string }[] = []
    for (const username of users!) tokens.push(await issueToken({ username, clientId: facts.clientId }))
    process.send!({ id, tokens })
  },
)
process.on('SIGTERM', () => void close().then(() => process.exit()))
process.on('disconnect', () => void close().then(() => process.exit()))
process.send!({ origin: app.origin })
