import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { ask, makePlace, startSigner } from '../test/kit/signer.ts'
import type { Hex } from '../src/signer-wire/wire.ts'

/**
 * `node bench/signer-memory.ts [--minutes=10] [--rate=0] [--at-once=32]`: what the signer's process holds in memory against how
 * much it has signed, a line every `--every` seconds, as fast as it can or at a rate; a list of what is revoked every second, five times as
 * often as a server sends one. A leak grows by the signature, caches and the engine's heap level off. By /proc, so Linux only:
 * resident, of that the heap of the C library, everything else that is anonymous (the engine's heap), and mapped files.
 */
const { values: flags } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    rate: { type: 'string', default: '0' },
    'at-once': { type: 'string', default: '32' },
    every: { type: 'string', default: '20' },
    'semi-space': { type: 'string', default: '8' },
  },
})
// As `chatelaine signer run` starts it; 16 is Node's own.
process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --max-semi-space-size=${flags['semi-space']}`.trim()
const endAt = performance.now() + Number(flags.minutes) * 60_000
const rate = Number(flags.rate)
const ACCOUNTS = 100
/** A token transfer: 68 bytes of calldata. */
const DATA: Hex = `0xa9059cbb${'00'.repeat(64)}`

const place = await makePlace()
const signer = await startSigner(place, { more: { LOG_LEVEL: 'warn', SIGNER_REVOCATIONS_SECONDS: '60' } })
const timers: NodeJS.Timeout[] = []
try {
  const publish = async () =>
    signer.bringRevocations([await place.revocations({ entries: Array.from({ length: 50 }, (_, n) => `revoked${n}`) })])
  await publish()
  timers.push(setInterval(() => void publish().catch(() => {}), 1_000))
  const accounts = await Promise.all(
    Array.from({ length: ACCOUNTS }, async (_, index) => {
      const userId = `BENCH-${index}`
      const { address } = await signer.createAccount({ userId })
      return { address, accessToken: await place.token(userId), nonce: 0 }
    }),
  )
  let signed = 0
  console.log('| seconds | signatures | resident MB | C library’s heap | other anonymous | files |')
  console.log('|---|---|---|---|---|---|')
  const began = performance.now()
  const look = () => {
    const { resident, heap, anonymous, files } = memoryOf(signer.pid)
    const columns = [
      Math.round((performance.now() - began) / 1_000),
      signed,
      ...[resident, heap, anonymous, files].map(mb),
    ]
    console.log(`| ${columns.join(' | ')} |`)
  }
  look()
  timers.push(setInterval(look, Number(flags.every) * 1_000))
  let turn = 0
  const caller = async () => {
    while (performance.now() < endAt) {
      // At a rate: nobody begins before their time has come.
      const dueAt = rate === 0 ? 0 : began + (turn / rate) * 1_000
      const account = accounts[turn++ % ACCOUNTS]!
      const nonce = account.nonce++
      if (dueAt > performance.now()) await new Promise((resolve) => setTimeout(resolve, dueAt - performance.now()))
      const intentId = `${account.address}_${nonce}`
      await signer.sign(ask(account.address, { nonce, intentId, accessToken: account.accessToken, data: DATA }))
      signed++
    }
  }
  await Promise.all(Array.from({ length: Number(flags['at-once']) }, caller))
  look()
} finally {
  timers.forEach(clearInterval)
  await signer.end('SIGTERM')
  place.clear()
}

/** Bytes; proc(5), smaps: `Rss` of each mapping, by its name. */
function memoryOf(pid: number): Record<'resident' | 'heap' | 'anonymous' | 'files', number> {
  const held = { resident: 0, heap: 0, anonymous: 0, files: 0 }
  let into: 'heap' | 'anonymous' | 'files' = 'files'
  for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    const mapping = /^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+) *(.*)$/.exec(line)
    if (mapping !== null) into = mapping[2] === '[heap]' ? 'heap' : mapping[1] === '0' ? 'anonymous' : 'files'
    const rss = /^Rss: +(\d+) kB/.exec(line)
    if (rss === null) continue
    held[into] += Number(rss[1]) * 1_024
    held.resident += Number(rss[1]) * 1_024
  }
  return held
}

function mb(bytes: number): string {
  return (bytes / 1_048_576).toFixed(1)
}
