import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addressOf, publicKeyOf, signDigest } from '../src/signer/keys/curve.ts'
import { ask, makePlace, startSigner, type Running } from '../test/kit/signer.ts'
import type { Hex } from '../src/signer-wire/wire.ts'

/**
 * `node bench/signer.ts [seconds]`: signatures per second through the signer's socket, durable ledger and token check
 * included, beside what the native library alone does in the same run; and what a new account with its first
 * signature costs in CPU; and the same load under a policy of ten rules, and with permits in place of transactions, as ratios. The signer process is measured by /proc, so Linux only. SIGNER_DIR is below TMPDIR: put
 * that on the disk whose fsync you mean.
 */
const seconds = Number(process.argv[2] ?? 3)
const ACCOUNTS = 100
/** A token transfer: 68 bytes of calldata. */
const DATA: Hex = `0xa9059cbb${'00'.repeat(64)}`

const DAY = { periodAmount: '1000000000000000000000000', periodDuration: 86_400 }
/** Three limits that are charged, two of a token elsewhere, four that forbid, and what is left. */
const TEN_RULES = [
  { name: 'person', effect: 'limit', per: ['user', 'chainId'], native: DAY, fees: DAY },
  { name: 'often', effect: 'limit', per: ['client'], count: DAY },
  { name: 'breaker', effect: 'limit', per: ['chainId'], native: DAY },
  ...['one', 'two'].map((name, index) => ({
    name,
    effect: 'limit',
    per: ['user'],
    tokens: [{ chainId: index + 1, tokenAddress: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238', ...DAY }],
  })),
  { name: 'no-all', effect: 'deny', class: ['APPROVE_ALL', 'APPROVE_UNLIMITED', 'UNREADABLE_CALL'] },
  { name: 'not-there', effect: 'deny', recipients: ['0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'] },
  { name: 'not-they', effect: 'deny', users: ['BENCH-NONE'] },
  { name: 'not-so', effect: 'deny', functions: ['mint(address,uint256)'] },
  { name: 'rest', effect: 'allow' },
]

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
  await compareWithPermits(signer, accounts)
  await compareWithPolicy(signer, accounts)
  const first = await firstSignatures(signer, 200)
  console.log(`new account, new token, first signature: ${first.toFixed(2)} ms of CPU, signer and caller together`)
} finally {
  await signer.end('SIGTERM')
  place.clear()
}

/** Five rounds by turns, so that both meet the same machine; the ratio of each two that follow each other, and their median. */
async function compareWithPolicy(signer: Running, accounts: Account[]): Promise<void> {
  const other = await makePlace()
  const file = join(other.folder, 'policy.json')
  writeFileSync(file, JSON.stringify({ version: 1, rules: TEN_RULES }))
  const governed = await startSigner(other, { more: { LOG_LEVEL: 'warn', SIGNER_POLICY_FILE: file } })
  try {
    const make = async (_: unknown, index: number) => {
      const userId = `BENCH-${index}`
      const { address } = await governed.createAccount({ userId })
      return { address, accessToken: await other.token(userId), nonce: 0, permits: 0 }
    }
    const others = await Promise.all(Array.from({ length: ACCOUNTS }, make))
    // As warm as the other one is by now.
    for (const atOnce of [1, 32, 128]) await load(governed, others, atOnce)
    for (const atOnce of [1, 32]) {
      const ratios: number[] = []
      const cpu: number[] = []
      for (let round = 0; round < 5; round++) {
        const plain = await load(signer, accounts, atOnce)
        const limited = await load(governed, others, atOnce)
        ratios.push(limited.p50 / plain.p50)
        cpu.push(limited.cpuMicros / plain.cpuMicros)
      }
      const [sorted, ofCpu] = [ratios, cpu].map((each) => each.toSorted((a, b) => a - b)) as [number[], number[]]
      console.log(
        `${String(atOnce).padStart(3)} at once under a policy of ten rules: p50 ${sorted[2]!.toFixed(2)} of that without ` +
          `(${sorted.map((ratio) => ratio.toFixed(2)).join(', ')}), CPU ${ofCpu[2]!.toFixed(2)}`,
      )
    }
  } finally {
    await governed.end('SIGTERM')
    other.clear()
  }
}

/** The same two calls of the library that every signature of the signer makes, on one thread. */
function rawRate(): number {
  const key = randomBytes(32)
  const address = addressOf(publicKeyOf(key))
  const digest = randomBytes(32)
  const started = performance.now()
  let count = 0
  while (performance.now() - started < 1_000) {
    for (let i = 0; i < 100; i++) signDigest(digest, key, address)
    count += 100
  }
  return count / ((performance.now() - started) / 1_000)
}

type Account = { address: Hex; accessToken: string; nonce: number; permits: number }

function makeAccounts(signer: Running, count: number): Promise<Account[]> {
  const make = async (_: unknown, index: number) => {
    const userId = `BENCH-${index}`
    const { address } = await signer.createAccount({ userId })
    return {
      address,
      accessToken: await place.token(userId, { scope: 'openid contracts:write messages:sign' }),
      nonce: 0,
      permits: 0,
    }
  }
  return Promise.all(Array.from({ length: count }, make))
}

/** Five rounds by turns of transactions and of EIP-2612 permits of the same accounts. */
async function compareWithPermits(signer: Running, accounts: Account[]): Promise<void> {
  for (const atOnce of [1, 32]) {
    const ratios: number[] = []
    for (let round = 0; round < 5; round++) {
      const plain = await load(signer, accounts, atOnce)
      const permits = await load(signer, accounts, atOnce, signPermit)
      ratios.push(permits.p50 / plain.p50)
    }
    const sorted = ratios.toSorted((a, b) => a - b)
    console.log(
      `${String(atOnce).padStart(3)} at once, permits: p50 ${sorted[2]!.toFixed(2)} of a transaction's ` +
        `(${sorted.map((ratio) => ratio.toFixed(2)).join(', ')})`,
    )
  }
}

type Sign = (signer: Running, account: Account) => Promise<unknown>

function signTransaction(signer: Running, account: Account): Promise<unknown> {
  const { address, accessToken } = account
  const nonce = account.nonce++
  return signer.sign(ask(address, { nonce, intentId: `${address}_${nonce}`, accessToken, data: DATA }))
}

function signPermit(signer: Running, account: Account): Promise<unknown> {
  const { address, accessToken } = account
  const nonce = account.permits++
  const fields = { owner: 'address', spender: 'address', value: 'uint256', nonce: 'uint256', deadline: 'uint256' }
  return signer.signMessage({
    intentId: `permit_${address}_${nonce}`,
    ...{ accessToken, chainId: 31_337, from: address },
    typedData: JSON.stringify({
      types: { Permit: Object.entries(fields).map(([name, type]) => ({ name, type })) },
      primaryType: 'Permit',
      domain: { name: 'USDC', version: '2', chainId: 31_337, verifyingContract: `0x${'1c'.repeat(20)}` },
      message: {
        ...{ owner: address, spender: `0x${'70'.repeat(20)}`, value: '1', nonce: String(nonce) },
        deadline: String(Math.floor(Date.now() / 1_000) + 3_600),
      },
    }),
  })
}

async function load(signer: Running, accounts: Account[], atOnce: number, sign: Sign = signTransaction) {
  const latencies: number[] = []
  const started = performance.now()
  const cpu = cpuMillis(signer.pid)
  let turn = 0
  const caller = async () => {
    while (performance.now() - started < seconds * 1_000) {
      const account = accounts[turn++ % accounts.length]!
      const asked = performance.now()
      await sign(signer, account)
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
