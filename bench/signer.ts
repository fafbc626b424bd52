import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { publicKeyOf, signDigest } from '../src/signer/curve.ts'
import { ask, makePlace, startSigner, type Running } from '../test/spawned-signer.ts'
import type { Hex } from '../src/signer/wire.ts'

/**
 * `node bench/signer.ts [seconds]`: signatures per second through the signer's socket, durable ledger and token check
 * included, beside what the native library alone does in the same run; and what a new account with its first
 * signature costs in CPU. The signer process is measured by /proc, so Linux only. SIGNER_DIR is below TMPDIR: put
 * that on the disk whose fsync you mean.
 */
const seconds = Number(process.argv[2] ?? 3)
const ACCOUNTS = 100
/** A token transfer: 68 bytes of calldata. */
const DATA: Hex = `0xa9059cbb${'00'.repeat(64)}`

const place = await makePlace()
const signer = await startSigner(place, { more: { LOG_LEVEL: 'warn' } })
try {
  const raw = rawRate()
  console.log(`native library alone, sign and recover: ${raw.toFixed(0)}/s`)
  const accounts = await makeAccounts(signer, ACCOUNTS)
  for (const atOnce of [1, 32, 128]) {
    const { rate, p50, p99, cpuMicros } = await load(signer, accounts, atOnce)
    console.log(
      `${String(atOnce).padStart(3)} at once: ${rate.toFixed(0)} signatures/s (${(rate / raw).toFixed(2)} of raw), ` +
        `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, ${cpuMicros.toFixed(0)} µs of the signer's CPU each`,
    )
  }
  const first = await firstSignatures(signer, 200)
  console.log(`new account, new token, first signature: ${first.toFixed(2)} ms of CPU, signer and caller together`)
} finally {
  await signer.end('SIGTERM')
  place.clear()
}

/** The same two calls of the library that every signature of the signer makes, on one thread. */
function rawRate(): number {
  const key = randomBytes(32)
  const publicKey = publicKeyOf(key)
  const digest = randomBytes(32)
  const started = performance.now()
  let count = 0
  while (performance.now() - started < 1_000) {
    for (let i = 0; i < 100; i++) signDigest(digest, key, publicKey)
    count += 100
  }
  return count / ((performance.now() - started) / 1_000)
}

type Account = { address: Hex; accessToken: string; nonce: number }

function makeAccounts(signer: Running, count: number): Promise<Account[]> {
  const make = async (_: unknown, index: number) => {
    const userId = `BENCH-${index}`
    const { address } = await signer.createAccount({ userId })
    return { address, accessToken: await place.token(userId), nonce: 0 }
  }
  return Promise.all(Array.from({ length: count }, make))
}

async function load(signer: Running, accounts: Account[], atOnce: number) {
  const latencies: number[] = []
  const started = performance.now()
  const cpu = cpuMillis(signer.pid)
  let turn = 0
  const caller = async () => {
    while (performance.now() - started < seconds * 1_000) {
      const account = accounts[turn++ % accounts.length]!
      const nonce = account.nonce++
      const intentId = `${account.address}_${nonce}`
      const asked = performance.now()
      await signer.sign(ask(account.address, { nonce, intentId, accessToken: account.accessToken, data: DATA }))
      latencies.push(performance.now() - asked)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, caller))
  const elapsed = performance.now() - started
  const cpuMicros = ((cpuMillis(signer.pid) - cpu) * 1_000) / latencies.length
  latencies.sort((a, b) => a - b)
  const at = (share: number) => latencies[Math.floor(latencies.length * share)]!
  return { rate: latencies.length / (elapsed / 1_000), p50: at(0.5), p99: at(0.99), cpuMicros }
}

async function firstSignatures(signer: Running, count: number): Promise<number> {
  // Issuing a token is the authorization server's work, not ours.
  const tokens = await Promise.all(Array.from({ length: count }, (_, index) => place.token(`FRESH-${index}`)))
  const before = cpuMillis(signer.pid) + ownCpuMillis()
  for (const [index, accessToken] of tokens.entries()) {
    const { address } = await signer.createAccount({ userId: `FRESH-${index}` })
    await signer.sign(ask(address, { intentId: `fresh_${index}`, accessToken }))
  }
  return (cpuMillis(signer.pid) + ownCpuMillis() - before) / count
}

function ownCpuMillis(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

/** User and system time in milliseconds; proc(5), fields 14 and 15, in ticks of 10 ms. */
function cpuMillis(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}
