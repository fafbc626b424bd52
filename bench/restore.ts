/**
 * `ACCOUNTS=100000 node bench/restore.ts`: how long a clean machine needs for a backup: restored and checked, every address derived
 * from its key, the chain asked for every account, the restore accepted. The keys that the server kept are taken back in the same run,
 * into an empty store. In a temporary folder; the node is one of this process, so the network's time is not in it.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeIdentity, readIdentities, readRecipient } from '../src/backup/age.ts'
import { acceptRestore, findStore } from '../src/signer/programs/accept-restore.ts'
import { backupStore } from '../src/signer/programs/backup.ts'
import { countAll } from '../src/signer/ledger/chain-counts.ts'
import { startCurve } from '../src/signer/keys/curve.ts'
import { drill } from '../src/signer/programs/drill.ts'
import { makeKekFile, openKekFile } from '../src/signer/kek/file.ts'
import { openKeys } from '../src/signer/keys/keys.ts'
import { restoreKeys } from '../src/signer/programs/restore-keys.ts'
import { openSigningLog } from '../src/signer/ledger/signing-log.ts'
import { openStore } from '../src/signer/store.ts'
import { wrappedPage } from '../src/signer/verbs/wrapped.ts'

const ACCOUNTS = Number(process.env.ACCOUNTS ?? 100_000)
const BATCH = 1_000

const place = mkdtempSync(join(tmpdir(), 'chatelaine-bench-restore-'))
process.once('exit', () => rmSync(place, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
process.stdout.write(`${ACCOUNTS} accounts, curve ${startCurve(Buffer.alloc(32, 1))}\n`)
const [folder, kekFile] = [join(place, 'store'), join(place, 'secret', 'kek')]
makeKekFile(kekFile)
const kek = openKekFile(kekFile)
const settings = { kek: { provider: 'file', file: kekFile }, kekNext: undefined } as const

await timed('accounts created', async () => {
  const store = openStore(folder)
  const { deks, ledger, heads } = await openSigningLog(store.db, kek, Date.now)
  const keys = openKeys({ db: store.db, deks, now: Date.now })
  for (let made = 0; made < ACCOUNTS;) {
    store.db.exec('BEGIN IMMEDIATE')
    for (let n = 0; n < BATCH && made < ACCOUNTS; n++, made++) {
      const { userId, address } = keys.create(`BENCH-${made}`)
      ledger.append({ at: Date.now(), kind: 'account', userId, address, rule: 'one-account-per-user' })
    }
    heads.seal()
    store.db.exec('COMMIT')
  }
  store.close()
})

const { identity, recipient } = makeIdentity()
const file = join(place, 'backup.age')
const identities = readIdentities(identity)
await timed('backup', () =>
  backupStore({ folder, to: file, recipients: [readRecipient(recipient)], kekFiles: [], now: Date.now }),
)
process.stdout.write(`  ${(statSync(file).size / 1e6).toFixed(0)} MB\n`)

const began = performance.now()
const clean = join(place, 'clean')
const tried = await timed('restored, checked, derived', () => drill({ file, identities, folder: clean, settings }))
assert.deepEqual([tried.derived, tried.damaged.length], [ACCOUNTS, 0])
process.stdout.write(`  restore ${seconds(tried.restoreMs)} s, derive ${seconds(tried.deriveMs)} s\n`)

const node = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (text) => (body += text))
  request.on('end', () => {
    const calls = JSON.parse(body) as { id: number; method: string }[]
    response.end(JSON.stringify(calls.map(({ id, method }) => ({ id, result: method === 'eth_chainId' ? '0x1' : '0x2' })))) // prettier-ignore
  })
})
node.listen(0, '127.0.0.1')
await once(node, 'listening')
await timed('reconciled with the chain, accepted', async () => {
  const found = await findStore(clean, settings)
  assert.deepEqual(found.problems, [])
  const { floors } = await countAll(`http://127.0.0.1:${(node.address() as AddressInfo).port}`, found.accounts)
  assert.equal(floors.length, ACCOUNTS)
  await acceptRestore(clean, settings, found.head, { restored: { witness: null, floors }, head: null, frozen: [] })
})
node.close()
const all = (performance.now() - began) / 1_000
process.stdout.write(`clean machine, all of it: ${all.toFixed(1)} s, ${Math.round(ACCOUNTS / all)} accounts/s\n`)

await timed('the other way: keys from the database into an empty store', async () => {
  const store = openStore(folder)
  const { deks } = await openSigningLog(store.db, kek, Date.now)
  const keys = openKeys({ db: store.db, deks, now: Date.now })
  mkdirSync(join(place, 'new'))
  const empty = openStore(join(place, 'new'))
  const { restored, refused } = await restoreKeys(empty, kek, linesOf(keys))
  assert.deepEqual([restored, refused.length], [ACCOUNTS, 0])
  empty.close()
  store.close()
})

async function* linesOf(keys: ReturnType<typeof openKeys>): AsyncGenerator<string> {
  let isFirst = true
  for (let after = 0; ;) {
    const page = wrappedPage(keys, { after })
    if (isFirst) for (const dataKey of page.dataKeys) yield JSON.stringify({ dataKey })
    isFirst = false
    for (const key of page.keys) yield JSON.stringify({ key })
    if (page.isEnd) break
    after = page.through
  }
  yield JSON.stringify({ end: { keys: ACCOUNTS } })
}

async function timed<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  const start = performance.now()
  const result = await work()
  const ms = performance.now() - start
  process.stdout.write(`${what}: ${seconds(ms)} s, ${Math.round((ACCOUNTS / ms) * 1_000)} accounts/s\n`)
  return result
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1)
}
