/**
 * `npm run bench:rotation [-- --keys=50000 --rounds=3]`: keys a second that `rotate-dek` wraps anew, in a store on a disk with every
 * check and every commit, beside a bare loop in memory that does what no check can do without: open a key, derive its address,
 * seal it. In one process, in turn, the best round of each; nothing is signed meanwhile.
 */
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Logger } from '../src/log.ts'
import { addressOf, publicKeyOf, startCurve } from '../src/signer/keys/curve.ts'
import { openDeks, unwrapDeks } from '../src/signer/keys/deks.ts'
import { openGroup } from '../src/signer/group.ts'
import { makeKekFile, openKekFile } from '../src/signer/kek/file.ts'
import { openKeys } from '../src/signer/keys/keys.ts'
import { openRotation } from '../src/signer/keys/rotation.ts'
import { openStore } from '../src/signer/store.ts'

const { values: flags } = parseArgs({
  options: { keys: { type: 'string', default: '50000' }, rounds: { type: 'string', default: '3' } },
})
const KEYS = Number(flags.keys)

type Round = { keysPerSecond: number; cpuMicros: number }

startCurve(randomBytes(32))
const folder = mkdtempSync(join(tmpdir(), 'chatelaine-rotation-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
makeKekFile(join(folder, 'kek'))
const kek = openKekFile(join(folder, 'kek'))
const store = openStore(join(folder, 'store'))
const { db } = store
const deks = openDeks({ db, unwrapped: await unwrapDeks(db, kek), now: Date.now })
const keys = openKeys({ db, deks, now: Date.now })
db.exec('BEGIN')
for (let n = 0; n < KEYS; n++) keys.create(`DISCORD-${80_351_110_224_678_912n + BigInt(n)}`)
db.exec('COMMIT')
const quiet = { info() {}, warn() {}, error: console.error } as unknown as Logger
const fatal = (error: unknown) => {
  throw error
}
const rotation = openRotation({ db, keys, group: openGroup({ db, committed() {}, fatal }), log: quiet, nextKek: null })

const best: Record<'bare' | 'rotation', Round[]> = { bare: [], rotation: [] }
for (let round = 0; round < Number(flags.rounds); round++) {
  best.bare.push(await measure(async () => bareLoop()))
  best.rotation.push(
    await measure(async () => {
      await rotation.rotateDek()
      await rotation.idle()
    }),
  )
}
const { damaged, left } = rotation.state()
if (damaged + left > 0) throw new Error(`${damaged} damaged, ${left} left`)
store.close()
const fastest = (rounds: Round[]) => rounds.toSorted((a, b) => b.keysPerSecond - a.keysPerSecond)[0]!
const cheapest = (rounds: Round[]) => Math.min(...rounds.map(({ cpuMicros }) => cpuMicros))
for (const [name, rounds] of Object.entries(best))
  console.log(`${name.padEnd(9)} ${Math.round(fastest(rounds).keysPerSecond)} keys/s, ${cheapest(rounds).toFixed(0)} µs of CPU a key`) // prettier-ignore
console.log(`ratio     ${(fastest(best.rotation).keysPerSecond / fastest(best.bare).keysPerSecond).toFixed(2)} of the rate, ${(cheapest(best.rotation) / cheapest(best.bare)).toFixed(2)} of the CPU`) // prettier-ignore

async function measure(work: () => Promise<void>): Promise<Round> {
  const [cpu, at] = [process.cpuUsage(), performance.now()]
  await work()
  const { user, system } = process.cpuUsage(cpu)
  return { keysPerSecond: (KEYS * 1_000) / (performance.now() - at), cpuMicros: (user + system) / KEYS }
}

/** Nothing but the three, on one key. */
function bareLoop(): void {
  const [from, to, key, aad] = [createSecretKey(randomBytes(32)), createSecretKey(randomBytes(32)), randomBytes(32), Buffer.alloc(90)] // prettier-ignore
  const iv = randomBytes(12)
  const sealing = createCipheriv('aes-256-gcm', from, iv).setAAD(aad)
  const sealed = Buffer.concat([sealing.update(key), sealing.final()])
  const tag = sealing.getAuthTag()
  const address = addressOf(publicKeyOf(key))
  for (let n = 0; n < KEYS; n++) {
    const opening = createDecipheriv('aes-256-gcm', from, iv, { authTagLength: 16 }).setAAD(aad).setAuthTag(tag)
    const opened = opening.update(sealed)
    opening.final()
    if (!addressOf(publicKeyOf(opened)).equals(address)) throw new Error('another address')
    const again = createCipheriv('aes-256-gcm', to, randomBytes(12)).setAAD(aad)
    again.update(opened)
    again.final()
    again.getAuthTag()
    opened.fill(0)
  }
}
