/**
 * The long proof of the rotation of keys: `npm run prove rotation -- --keys 1000000 --at-once 16 --seed 7`. So many accounts; while
 * some of them sign without a pause, all keys are wrapped by a new data key and the data keys by new master keys, and the signer is
 * killed at every kind of step and at moments of chance. Lost is what no longer opens, or gives another address: each key is opened
 * and its address derived once more at the end, in another process than the one that moved it. `--spoil` alters one wrapped key on the
 * way: the proof has to fail.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { AppError } from '../../src/errors.ts'
import { askAt } from '../../src/signer/programs/ask-operator.ts'
import { connectSigner } from '../../src/signer-wire/client.ts'
import type { CrashPoint } from '../../src/signer/crash.ts'
import { startCurve } from '../../src/signer/keys/curve.ts'
import { openKekFile, makeKekFile } from '../../src/signer/kek/file.ts'
import { openKeys } from '../../src/signer/keys/keys.ts'
import { Refusal } from '../../src/signer/refusal.ts'
import type { RotationState } from '../../src/signer/keys/rotation.ts'
import { openSigningLog } from '../../src/signer/ledger/signing-log.ts'
import { adminSocketIn } from '../../src/signer/socket.ts'
import { openStore } from '../../src/signer/store.ts'
import { verifyStoreWith } from '../../src/signer/programs/verify.ts'
import { openWitness } from '../../src/signer/ledger/witness.ts'
import type { Hex } from '../../src/signer-wire/wire.ts'
import { fractionsOf } from '../random.ts'
import { ask, makePlace, startSigner, type Running } from '../kit/signer.ts'

const { values: flags } = parseArgs({
  options: {
    keys: { type: 'string', default: '20000' },
    'at-once': { type: 'string', default: '16' },
    seed: { type: 'string', default: '7' },
    spoil: { type: 'boolean', default: false },
  },
})
const [KEYS, AT_ONCE] = [Number(flags.keys), Number(flags['at-once'])]
const random = fractionsOf(Number(flags.seed))

/** Where `rotate-dek` is killed, in the order of its way; `null`: from outside, at a moment of chance. */
const DEK_POINTS: (CrashPoint | null)[] = [
  'rotation.begun',
  'rotation.moving',
  'signer.before-commit',
  'signer.after-commit',
  'signer.after-witness',
  null,
  'rotation.moving',
  'signer.before-commit',
  null,
  'signer.after-commit',
  'signer.after-witness',
  null,
  'rotation.moved',
]
const KEK_POINTS: CrashPoint[] = [
  'rotation.wrapping',
  'signer.before-commit',
  'signer.after-commit',
  'rotation.wrapped',
]

const place = await makePlace()
process.once('exit', place.clear)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const { SIGNER_DIR: folder, SIGNER_KEK_FILE: kekFile, SIGNER_SOCKET: path } = place.env as Record<string, string>
const kekNext = join(place.folder, 'kek-next')
const pointFile = join(place.folder, 'point')
Object.assign(place.env, { SIGNER_KEK_NEXT_FILE: kekNext, CRASH_AT: `@${pointFile}`, LOG_LEVEL: 'error' })
const began = performance.now()

startCurve(Buffer.alloc(32, 1))
await timed('accounts created', fill)
const before = await digestOfAddresses()

let signer: Running = await start()
const kills = new Map<string, number>()
const load = await openLoad()
for (const point of KEK_POINTS) await rotateKek(point)
await timed('rotate-dek', rotateDek, KEYS)
for (const point of KEK_POINTS) await rotateKek(point)
const signed = await load.stop()
await assertAllThere(signed)
await signer.end('SIGTERM')

const epochs = inStore((db) => db.prepare('SELECT epoch, count(*) AS keys FROM accounts GROUP BY epoch').all())
const all = inStore((db) => db.prepare('SELECT epoch FROM deks').all()).length
const derived = await timed('every key opened, its address derived', deriveAll, KEYS)
const after = await digestOfAddresses()
const report = await timed('the ledger read, every MAC and signature', () =>
  verifyStoreWith(folder!, { kek: { provider: 'file', file: kekFile! }, kekNext: undefined }),
)
const of = [...kills].map(([point, times]) => `${point} ${times}`).join(', ')
say(`${[...kills.values()].reduce((a, b) => a + b, 0)} kills: ${of}`)
say(`${derived} of ${KEYS} keys open and give their address; ${all} data keys, of which ${epochs.length} are in use`)
say(`signatures beside it: ${signed.length}, p50 ${load.at(0.5)} ms, p99 ${load.at(0.99)} ms, longest ${load.at(1)} ms, starts after kills included`) // prettier-ignore
assert.equal(derived, KEYS, 'keys were lost')
assert.equal(after, before, 'addresses have changed')
assert.deepEqual(report.problems, [])
assert.ok(report.signatures >= signed.length)
say(`proven in ${((performance.now() - began) / 1_000).toFixed(0)} s: 0 lost, 0 addresses changed`)
process.exit(0)

async function fill(): Promise<void> {
  makeKekFile(kekFile!)
  const store = openStore(folder!)
  const { deks, ledger, heads } = await openSigningLog(store.db, openKekFile(kekFile!), Date.now)
  const keys = openKeys({ db: store.db, deks, now: Date.now })
  for (let made = 0; made < KEYS;) {
    await deks.prepare()
    store.db.exec('BEGIN IMMEDIATE')
    for (let n = 0; n < 1_000 && made < KEYS; n++, made++) {
      const { userId, address } = keys.create(`X-${made}`)
      // Long ago: a start looks at what was written within the hour.
      ledger.append({ at: Date.now() - 86_400_000, kind: 'account', userId, address, rule: 'one-account-per-user' })
    }
    heads.seal()
    store.db.exec('COMMIT')
  }
  openWitness(store.witnessPath, ledger.head()).close()
  store.close()
}

async function start(): Promise<Running> {
  writeFileSync(pointFile, '')
  const running = await startSigner(place)
  return running
}

function operator(verb: string): Promise<RotationState> {
  return askAt<RotationState>(adminSocketIn(folder!), { verb, request: {} })
}

/** The next time it comes there it dies, and is started again. @returns whether it did within some time */
async function kill(point: CrashPoint | null, times = 1, within = 60_000): Promise<void> {
  if (point === null) process.kill(signer.pid, 'SIGKILL')
  else writeFileSync(pointFile, `${point}:${times}`)
  const ended = await Promise.race([signer.ended, pause(within).then(() => 'alive')])
  assert.equal(ended, 'SIGKILL', `${point ?? 'chance'}: ${signer.stderr()}`)
  const name = point ?? 'a moment of chance'
  kills.set(name, (kills.get(name) ?? 0) + 1)
  signer = await start()
}

async function rotateDek(): Promise<void> {
  const [first, ...others] = DEK_POINTS
  const dying = kill(first!)
  await pause(50)
  await operator('rotateDek').catch(() => {})
  await dying
  // It continues by itself. Spread over its way: each dies when its share of the keys is done.
  for (const [n, point] of others.entries()) {
    await untilLeft(Math.floor((KEYS * (others.length - n)) / (others.length + 1)))
    if (flags.spoil && n === 5) await spoilOne()
    if (point === null) await pause(random() * 30)
    const killed = kill(point, point === 'rotation.moved' ? 1 : 1 + Math.floor(random() * 3), 600_000)
    // Few keys may have been done before that.
    if (point !== null && (await operator('rotation').catch(() => null))?.left === 0) await operator('rotateDek').catch(() => {}) // prettier-ignore
    await killed
  }
  await untilLeft(0)
}

async function untilLeft(most: number): Promise<void> {
  for (;;) {
    const { left, damaged } = await operator('rotation')
    if (!flags.spoil) assert.equal(damaged, 0)
    if (left <= most) return
    await pause(20)
  }
}

/** What a disk, or a mistake of the rotation, would do to one key. */
async function spoilOne(): Promise<void> {
  await signer.end('SIGTERM')
  const db = new DatabaseSync(join(folder!, 'signer.sqlite'))
  db.exec(`UPDATE accounts SET wrapped = randomblob(32) WHERE rowid = (SELECT max(rowid) FROM accounts)`)
  db.close()
  signer = await start()
}

async function rotateKek(point: CrashPoint): Promise<void> {
  const dying = kill(point)
  await pause(50)
  await operator('rotateKek').catch(() => {})
  await dying
  await operator('rotateKek')
  // From here on the new one alone opens the store.
  await signer.end('SIGTERM')

  renameSync(kekNext, kekFile!)
  signer = await start()
}

/** Callers that sign one nonce after the other, each again and again until it is answered, whatever dies meanwhile. */
async function openLoad() {
  const client = connectSigner({ path: path!, timeoutMs: 60_000 })
  const millis: number[] = []
  const signed: { from: Hex; nonce: number; hash: Hex }[] = []
  let isStopped = false
  const caller = async (n: number): Promise<void> => {
    const userId = `X-${Math.floor((n * KEYS) / AT_ONCE)}`
    const { address: from } = await client.createAccount({ userId })
    const accessToken = await place.token(userId, { exp: Math.floor(Date.now() / 1_000) + 86_000 })
    for (let nonce = 0; !isStopped; nonce++) {
      const request = ask(from, { nonce, intentId: `${userId}_${nonce}`, accessToken })
      const asked = performance.now()
      for (;;)
        try {
          const { hash } = await client.sign(request)
          signed.push({ from, nonce, hash })
          break
        } catch (error) {
          // Nobody knows what became of it: said again it gets the same bytes.
          if (!(error instanceof AppError) || error.code !== 'signer_unavailable') throw error
          await pause(20)
        }
      millis.push(performance.now() - asked)
    }
  }
  const running = Promise.all(Array.from({ length: AT_ONCE }, (_, n) => caller(n)))
  running.catch((error: unknown) => {
    console.error(error)
    process.exit(1)
  })
  return {
    async stop() {
      isStopped = true
      await running
      client.close()
      millis.sort((a, b) => a - b)
      return signed
    },
    at: (share: number) => (millis[Math.min(millis.length - 1, Math.floor(millis.length * share))] ?? 0).toFixed(1),
  }
}

/** What was answered is in the ledger, once. */
async function assertAllThere(answers: { from: Hex; nonce: number; hash: Hex }[]): Promise<void> {
  const found = inStore((db) => {
    const rows = db.prepare('SELECT lower(hex(address)) AS address, nonce, lower(hex(hash)) AS hash FROM ledger WHERE nonce IS NOT NULL').all() // prettier-ignore
    return new Map(rows.map(({ address, nonce, hash }) => [`0x${String(address)} ${String(nonce)}`, `0x${String(hash)}`])) // prettier-ignore
  })
  for (const { from, nonce, hash } of answers) assert.equal(found.get(`${from.toLowerCase()} ${nonce}`), hash)
}

async function digestOfAddresses(): Promise<string> {
  const digest = createHash('sha256')
  inStore((db) => {
    for (const row of db.prepare('SELECT user_id, hex(address) AS address FROM accounts ORDER BY user_id').iterate())
      digest.update(`${String(row.user_id)} ${String(row.address)}\n`)
  })
  return digest.digest('hex')
}

async function deriveAll(): Promise<number> {
  const store = openStore(folder!)
  try {
    const { deks } = await openSigningLog(store.db, openKekFile(kekFile!), Date.now)
    const keys = openKeys({ db: store.db, deks, now: Date.now })
    let derived = 0
    for (let after = 0; ;) {
      const { accounts, through } = keys.page(after, 1_000)
      if (accounts.length === 0) return derived
      after = through
      for (const account of accounts)
        try {
          keys.use(account, () => (derived += 1))
        } catch (error) {
          if (!(error instanceof Refusal)) throw error
        }
    }
  } finally {
    store.close()
  }
}

function inStore<T>(read: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(join(folder!, 'signer.sqlite'), { readOnly: true, timeout: 5_000 })
  try {
    return read(db)
  } finally {
    db.close()
  }
}

async function timed<T>(what: string, work: () => Promise<T>, many = KEYS): Promise<T> {
  const start = performance.now()
  const result = await work()
  const seconds = (performance.now() - start) / 1_000
  say(`${what}: ${seconds.toFixed(1)} s, ${Math.round(many / seconds)} a second`)
  return result
}

function say(line: string): void {
  console.log(line)
}
