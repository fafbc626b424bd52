/**
 * `node bench/meters.ts [meters] [records]`: what the seal over the meters costs: a start with so many meters, a start that has to count them
 * again from a ledger of so many records, and the CPU that it adds to a record with three charges.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Logger } from '../src/log.ts'
import { makeKekFile, openKekFile } from '../src/signer/kek/file.ts'
import { openMeterSeal } from '../src/signer/rules/meter-seal.ts'
import { openMeters, spentToText, type MeterSeal } from '../src/signer/rules/meters.ts'
import { openSigningLog } from '../src/signer/ledger/signing-log.ts'
import { openStore } from '../src/signer/store.ts'

const [METERS, RECORDS] = [Number(process.argv[2] ?? 300_000), Number(process.argv[3] ?? 300_000)]
const PERIOD = 86_400
const folder = mkdtempSync(join(tmpdir(), 'chatelaine-meters-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
makeKekFile(join(folder, 'kek'))
const { db, close } = openStore(join(folder, 'store'))
db.exec('PRAGMA synchronous = OFF')
const { deks, ledger } = await openSigningLog(db, openKekFile(join(folder, 'kek')), Date.now)
const log = { warn() {} } as unknown as Logger
const sealing = () => openMeterSeal({ db, macs: deks.macs, ledger, log })
const none: MeterSeal = { wrote() {}, write() {} }

/** Records that each charge one meter of a person and two that all share, 100 in a commit; µs of CPU for each. */
function load(records: number, seal: MeterSeal, of: (n: number) => number): number {
  const meters = openMeters(db, Date.now, seal)
  const began = process.cpuUsage()
  for (let made = 0; made < records;) {
    db.exec('BEGIN')
    for (let n = 0; n < 100 && made < records; n++, made++) {
      const charges = [`["person","native","X-${of(made)}"]`, '["breaker","native"]', '["often","count"]'].map((meter) => ({ meter, amount: 1_000_000_000_000_000n, limit: 10n ** 30n, period: PERIOD })) // prettier-ignore
      ledger.append({ at: Date.now(), kind: 'export-cancel', userId: `X-${made}`, address: Buffer.alloc(20), rule: 'bench', tokenId: null, spent: spentToText(charges) }) // prettier-ignore
      meters.charge(Date.now(), charges)
    }
    meters.write()
    db.exec('COMMIT')
  }
  return cpuSince(began) / records
}

load(RECORDS, sealing(), (n) => n % METERS)
const ratios: number[] = []
for (let round = 0; round < 5; round++) {
  const [without, by] = [load(20_000, none, (n) => n % 1_000), load(20_000, sealing(), (n) => n % 1_000)]
  ratios.push(by - without)
  console.log(`a record with three charges: ${without.toFixed(1)} µs without a seal, ${by.toFixed(1)} with it, of CPU`)
}
console.log(`of that the seal: ${ratios.toSorted((a, b) => a - b)[2]!.toFixed(1)} µs, the median of five`)
const { meters } = db.prepare('SELECT count(*) AS meters FROM meters').get() as { meters: number }
sealing()
timed(`a start with ${meters} meters`, sealing)
db.exec(`DELETE FROM meters WHERE meter LIKE '%X-1"%'`)
timed(`a start that counts ${ledger.head().count} records again`, sealing)
close()

function timed(what: string, work: () => unknown): void {
  const [cpu, began] = [process.cpuUsage(), performance.now()]
  work()
  const seconds = (performance.now() - began) / 1_000
  console.log(`${what}: ${seconds.toFixed(2)} s, of CPU ${(cpuSince(cpu) / 1e6).toFixed(2)} s`)
}

/** µs */
function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return user + system
}
