// tier: all, because it restores the store of a signer
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs' // prettier-ignore
import { basename, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'
import { makeIdentity, readIdentities, readRecipient } from '../../backup/age.ts'
import { readArchive, writeArchive } from '../../backup/archive.ts'
import { countingNode } from '../../../test/nodes/counting-node.ts'
import { ALICE, ask, BOB, refusal, world, type Place } from '../../../test/kit/signer.ts'
import { connectSigner } from '../../signer-wire/client.ts'
import { backupStore } from './backup.ts'
import { readIdentityFile, restoreStore } from './restore.ts'
import type { Hex } from '../../signer-wire/wire.ts'
import { verifyStoreWith } from './verify.ts'

/** A master key in a file. */
const keksAt = (file: string) => ({ kek: { provider: 'file', file } as const, kekNext: undefined })

type Ended = { code: number | null; out: string; err: string }

/** The programs behind `chatelaine signer …`, which only becomes them (cli/signer.test.ts). */
async function run(place: Pick<Place, 'env'>, program: string, ...words: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [join(import.meta.dirname, `${program}.ts`), ...words], {
    env: { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...place.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close') as Promise<[number | null]>
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: (await ended)[0], out, err }
}

async function backedUp(t: TestContext) {
  const made = await world(t)
  const { place } = made
  const [backups, identityFile] = [join(place.folder, 'backups'), join(place.folder, 'identity')]
  mkdirSync(backups)
  const { identity, recipient } = makeIdentity()
  writeFileSync(identityFile, `${identity}\n`, { mode: 0o600 })
  const back = (name: string) => run(place, 'backup', '--to', join(backups, name), '--recipient', recipient)
  /** On a machine that has nothing but the file, the identity and the master key. */
  const restore = (name: string) => run(place, 'restore', join(backups, name), '--identity', identityFile)
  const drill = (name: string) =>
    run(place, 'drill', join(backups, name), '--identity', identityFile, '--in', place.folder)
  return { ...made, backups, identityFile, recipient, back, restore, drill }
}

async function filesOf(file: string, identityFile: string): Promise<Record<string, Buffer>> {
  const found: Record<string, Buffer> = {}
  for await (const { name, data } of readArchive(file, readIdentities(readFileSync(identityFile, 'utf8')))) {
    const pieces: Uint8Array[] = []
    for await (const piece of data) pieces.push(piece)
    found[name] = Buffer.concat(pieces)
  }
  return found
}

test('a backup beside a signer that keeps signing is one state of its store, and whole', async (t) => {
  const { place, signer, address, accessToken, backups, identityFile, back, drill } = await backedUp(t)
  let isDone = false
  let nonce = 0
  t.after(() => (isDone = true))
  const signing = (async () => {
    for (; !isDone || nonce < 20; nonce++) await signer.sign(ask(address, { nonce, accessToken }))
  })()
  for (const name of ['a.age', 'b.age', 'c.age']) {
    const { code, err, out } = await back(name)
    assert.equal(code, 0, err)
    assert.match(out, /a?\.age: \d+ bytes, 1 accounts, \d+ records, as of \S+Z\.\n/)
  }
  isDone = true
  await signing
  const counts = ['a.age', 'b.age', 'c.age'].map((name) => {
    const record = JSON.parse(readFileSync(join(backups, `${name}.json`), 'utf8')) as { records: number; sha256: string; bytes: number } // prettier-ignore
    assert.equal(record.bytes, statSync(join(backups, name)).size)
    assert.equal(record.sha256, execFileSync('sha256sum', [join(backups, name)], { encoding: 'utf8' }).slice(0, 64))
    return record.records
  })
  assert.deepEqual(
    counts,
    counts.toSorted((a, b) => a - b),
  )
  assert.ok(counts[2]! > counts[0]!, 'it signed meanwhile')
  assert.deepEqual(readdirSync(backups).toSorted(), ['a.age', 'a.age.json', 'b.age', 'b.age.json', 'c.age', 'c.age.json']) // prettier-ignore
  for (const name of readdirSync(backups)) assert.equal(statSync(join(backups, name)).mode & 0o777, 0o600)
  assert.equal(existsSync(join(place.env.SIGNER_DIR!, 'backup-draft')), false)

  const before = readdirSync(place.folder).toSorted()
  const tried = await drill('b.age')
  assert.equal(tried.code, 0, tried.err)
  assert.match(tried.out, new RegExp(`: ${counts[1]} records, ${counts[1]! - 1} signatures, MACs of ${counts[1]} checked`)) // prettier-ignore
  assert.match(tried.out, /\n1 of 1 addresses derived from their keys\.\nRestored and checked in [\d.]+ s, derived in [\d.]+ s\.\nThis backup restores everything/) // prettier-ignore
  assert.deepEqual(readdirSync(place.folder).toSorted(), before, 'a drill leaves nothing')

  const kek = readFileSync(place.env.SIGNER_KEK_FILE!)
  const files = await filesOf(join(backups, 'c.age'), identityFile)
  assert.deepEqual(Object.keys(files), ['manifest.json', 'signer.sqlite'])
  for (const bytes of [...Object.values(files), readFileSync(join(backups, 'c.age'))]) {
    assert.equal(bytes.includes(kek), false)
    assert.equal(bytes.includes(kek.toString('hex')), false)
  }
  assert.equal(readFileSync(join(backups, 'c.age')).includes(ALICE), false)
})

test('disk gone, clean machine, a backup from before the last signatures: nothing is signed twice, no account is lost', async (t) => {
  const { place, signer, address, accessToken, again, back, restore } = await backedUp(t)
  const sent = new Map<number, Hex>()
  const send = (nonce: number, changes = {}) => ask(address, { nonce, accessToken, ...changes })
  for (const nonce of [0, 1, 2]) sent.set(nonce, (await signer.sign(send(nonce))).raw)
  assert.equal((await back('old.age')).code, 0)
  for (const nonce of [3, 4, 5]) sent.set(nonce, (await signer.sign(send(nonce))).raw)
  const { address: bob } = await signer.createAccount({ userId: BOB })
  // What the server's database has: `chatelaine account export-keys`.
  const { dataKeys, keys } = await signer.wrapped({ after: 0 })
  const lines = [...dataKeys.map((dataKey) => ({ dataKey })), ...keys.map((key) => ({ key })), { end: { keys: keys.length } }] // prettier-ignore
  writeFileSync(join(place.folder, 'keys.jsonl'), lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const head = signer.head()!
  await signer.end('SIGKILL')
  rmSync(place.env.SIGNER_DIR!, { recursive: true })

  const restored = await restore('old.age')
  assert.equal(restored.code, 0, restored.err)
  assert.match(restored.out, /MACs of 4 records and the identity key were checked\.\nRestored: 1 accounts, 4 records, 3 signatures/) // prettier-ignore
  const refusing = await again()
  await assert.rejects(refusing.sign(send(3, { value: '2' })), refusal('ledger_damaged'))
  await refusing.end('SIGTERM')
  const back2 = await run(place, 'restore-keys', join(place.folder, 'keys.jsonl'))
  assert.match(back2.out, /^1 keys restored, 1 already present, 0 rejected\./)
  // Six were mined or wait in the pool.
  const url = await countingNode(t, { [address.toLowerCase()]: ['0x4', '0x6'] })
  // The server keeps a later head than the copy's: accepted with it, it stops nobody. A freeze of the operator's is said again.
  const headFile = join(place.folder, 'head.json')
  writeFileSync(headFile, JSON.stringify({ note: head }))
  const given = ['--rpc-url', url, '--head', headFile, '--freeze', 'network 5']
  const shown = await run(place, 'accept-restore', ...given)
  assert.match(
    shown.out,
    /Frozen in it: 0 by the server's lists, 0 by the signer's operator\. Later freezes of the operator/,
  )
  const [, confirmation] = /--accept ([0-9a-f]{16})$/m.exec(shown.out)!
  writeFileSync(join(place.folder, 'foreign'), head.replaceAll('chatelaine-signing-log/', 'chatelaine-signing-log/0'))
  const foreign = await run(place, 'accept-restore', '--rpc-url', url, '--head', join(place.folder, 'foreign'), '--accept', confirmation!) // prettier-ignore
  assert.deepEqual([foreign.code, /--head/.test(foreign.err)], [1, true], foreign.err)
  const accepted = await run(place, 'accept-restore', ...given, '--accept', confirmation!)
  assert.equal(accepted.code, 0, accepted.err)
  assert.deepEqual((await verifyStoreWith(place.env.SIGNER_DIR!, keksAt(place.env.SIGNER_KEK_FILE!))).problems, [])

  const next = await again()
  // Answers that were given are given again; what was lost is signed for nothing else; the lane goes on.
  for (const nonce of [0, 1, 2]) assert.equal((await next.sign(send(nonce))).raw, sent.get(nonce))
  for (const nonce of [3, 4, 5]) await assert.rejects(next.sign(send(nonce, { value: '2', intentId: `x${nonce}` })), refusal('nonce_conflict')) // prettier-ignore
  await next.sign(send(6))
  assert.equal((await next.createAccount({ userId: BOB })).address, bob)
  await next.sign(ask(bob, { intentId: 'bob', accessToken: await place.token(BOB) }))
  await assert.rejects(next.sign(send(7, { chainId: 5, accessToken: await place.token(ALICE, { chain_id: 5 }) })), refusal('policy_denied')) // prettier-ignore
  const server = connectSigner({ path: place.env.SIGNER_SOCKET! })
  server.rememberHead(head)
  await server.sign(send(7))
  server.close()
})

test('the master key and the store are never in reach of a backup, and no file is replaced', async (t) => {
  const { place, backups, recipient } = await backedUp(t)
  const kekFile = place.env.SIGNER_KEK_FILE!
  const to = join(backups, 'b.age')
  const write = (to: string) =>
    backupStore({ folder: place.env.SIGNER_DIR!, to, recipients: [readRecipient(recipient)], kekFiles: [kekFile], now: Date.now }) // prettier-ignore
  await assert.rejects(write(join(place.env.SIGNER_DIR!, 'b.age')), /must not be inside SIGNER_DIR/)
  await assert.rejects(write(join(place.folder, 'b.age')), /The master key \(KEK\) is in the folder of --to/)
  await assert.rejects(write(join(place.folder, 'missing', 'b.age')), /The folder of --to is missing/)
  // By another name, too.
  symlinkSync(place.folder, join(place.folder, 'elsewhere'))
  await assert.rejects(write(join(place.folder, 'elsewhere', 'b.age')), /The master key \(KEK\) is in the folder/)
  copyFileSync(kekFile, join(backups, 'important.bin'))
  await assert.rejects(write(to), /A copy of the master key .*important\.bin/)
  rmSync(join(backups, 'important.bin'))
  assert.deepEqual(readdirSync(backups), [])
  await write(to)
  const first = readFileSync(to)
  await assert.rejects(write(to), /already exists/)
  assert.ok(readFileSync(to).equals(first))
  for (const [words, why] of [
    [['--to', join(backups, 'c.age'), '--recipient', 'age1nobody'], /A recipient must be age1/],
    [['--to', join(backups, 'c.age')], /Usage: backup --to/],
  ] as const) {
    const { code, err } = await run(place, 'backup', ...words)
    assert.deepEqual([code, why.test(err)], [1, true], err)
  }
  // The one that is to take over opens what a later backup has.
  const next = { env: { ...place.env, SIGNER_KEK_NEXT_FILE: join(backups, 'next') } }
  const beside = await run(next, 'backup', '--to', join(backups, 'c.age'), '--recipient', recipient)
  assert.match(beside.err, /The master key \(KEK\) is in the folder of --to/)
  assert.deepEqual(readdirSync(backups).toSorted(), ['b.age', 'b.age.json'])
  const mine = join(place.folder, 'mine')
  const [made, again] = [await run(place, 'create-backup-key', mine), await run(place, 'create-backup-key', mine)]
  assert.equal(readFileSync(mine, 'utf8').split('\n')[0], `# public key: ${made.out.trim()}`)
  assert.deepEqual([statSync(mine).mode & 0o777, again.code, /already exists/.test(again.err)], [0o600, 1, true])
})

test('a backup that was killed leaves no file under its name, and the next one clears what it left', async (t) => {
  const { place, backups, recipient, back } = await backedUp(t)
  const to = join(backups, 'b.age')
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, 'backup.ts'), '--to', to, '--recipient', recipient],
    {
      env: { ...place.env, NODE_OPTIONS: `--import=${new URL('../../../test/kill-when-partial.mjs', import.meta.url).href}`, PARTIAL: `${to}.partial` }, // prettier-ignore
      stdio: 'ignore',
    },
  )
  const [, signal] = await once(child, 'close')
  assert.equal(signal, 'SIGKILL')
  assert.deepEqual(readdirSync(backups), ['b.age.partial'])
  assert.equal(existsSync(join(place.env.SIGNER_DIR!, 'backup-draft')), true)
  assert.equal((await back('b.age')).code, 0)
  assert.deepEqual(readdirSync(backups).toSorted(), ['b.age', 'b.age.json'])
  assert.equal(existsSync(join(place.env.SIGNER_DIR!, 'backup-draft')), false)
})

test('what is restored is checked before it is in its place: nothing comes of a file that is bent, foreign or of another key', async (t) => {
  const { place, signer, address, accessToken, backups, identityFile, recipient, back } = await backedUp(t)
  await signer.sign(ask(address, { accessToken }))
  assert.equal((await back('good.age')).code, 0)
  await signer.end('SIGTERM')
  const settings = keksAt(place.env.SIGNER_KEK_FILE!)
  const identities = readIdentities(readFileSync(identityFile, 'utf8'))
  const folder = join(place.folder, 'new')
  const isNothing = () => !existsSync(folder) || readdirSync(folder).every((name) => name.startsWith('lock'))
  const refused = async (file: string, why: RegExp, given = {}) => {
    await assert.rejects(restoreStore({ file, identities, folder, settings, ...given }), why, basename(file))
    assert.ok(isNothing(), basename(file))
  }
  const whole = join(backups, 'good.age')
  await refused(whole, /SIGNER_DIR is not empty/, { folder: place.env.SIGNER_DIR! })
  const good = readFileSync(whole)
  const cut = join(backups, 'cut.age')
  writeFileSync(cut, good.subarray(0, -100))
  await refused(cut, /altered, or a part of it is missing/)
  await refused(join(backups, 'none.age'), /ENOENT/)
  const bent = join(backups, 'bent.age')
  writeFileSync(bent, Buffer.concat([good.subarray(0, 70_000), Buffer.of(good[70_000]! ^ 1), good.subarray(70_001)]))
  await refused(bent, /altered/)

  /** As someone does who knows the recipient and has an old copy, but no keys of the signer. */
  const forge = async (name: string, change: (db: DatabaseSync) => void, manifest = (text: string) => text) => {
    const files = await filesOf(join(backups, 'good.age'), identityFile)
    const path = join(place.folder, 'forged.sqlite')
    writeFileSync(path, files['signer.sqlite']!)
    const db = new DatabaseSync(path)
    change(db)
    db.close()
    const said = Buffer.from(manifest(files['manifest.json']!.toString()))
    const one = async function* (bytes: Buffer) {
      yield bytes
    }
    const data = readFileSync(path)
    await writeArchive(join(backups, name), {
      recipients: [readRecipient(recipient)],
      at: 0,
      files: [
        { name: 'manifest.json', size: said.length, data: one(said) },
        { name: 'signer.sqlite', size: data.length, data: one(data) },
      ],
    })
    return join(backups, name)
  }
  await refused(await forge('rule.age', (db) => db.exec(`UPDATE ledger SET rule = 'x' WHERE seq = 1`)), /damaged\. Nothing was restored\.\nRecord 1/) // prettier-ignore
  await refused(await forge('cut-ledger.age', (db) => db.exec('DELETE FROM ledger WHERE seq = 2; UPDATE ledger_head SET count = 1, record = (SELECT record FROM ledger)')), /does not match its manifest: records, record/) // prettier-ignore
  await refused(await forge('more.age', () => {}, (text) => text.replace('"accounts": 1', '"accounts": 2')), /does not match its manifest: accounts/) // prettier-ignore
  await refused(await forge('other.age', () => {}, (text) => text.replace('signer backup', 'sinner backup')), /not a signer backup/) // prettier-ignore
  await refused(await forge('identity.age', (db) => db.exec(`UPDATE identity SET tag = zeroblob(16)`)), /identity key of the signer was altered/) // prettier-ignore

  await refused(whole, /no given identity can open it/, { identities: readIdentities(makeIdentity().identity) })
  writeFileSync(join(place.folder, 'kek2'), Buffer.alloc(32, 7), { mode: 0o600 })
  await refused(whole, /master key/, { settings: keksAt(join(place.folder, 'kek2')) })
  assert.throws(() => readIdentityFile(join(place.folder, 'none')), /cannot be opened/)
  writeFileSync(join(place.folder, 'open'), readFileSync(identityFile), { mode: 0o644 })
  assert.throws(() => readIdentityFile(join(place.folder, 'open')), /readable by every user/)

  // An account whose key is damaged is restored with the rest, and the drill names it: `restore-keys` has it from the server.
  const swapped = await forge('key.age', (db) => db.exec(`UPDATE accounts SET tag = zeroblob(16)`))
  const place2 = { env: { ...place.env, SIGNER_DIR: folder } }
  const tried = await run(place2, 'drill', swapped, '--identity', identityFile)
  assert.deepEqual([tried.code, /^damaged {2}DISCORD-1$/m.test(tried.out), /0 of 1 addresses/.test(tried.out), isNothing()], [1, true, true, true], tried.err) // prettier-ignore
  const without = { env: { ...place2.env, SIGNER_KEK_FILE: '' } }
  const blind = await run(without, 'restore', whole, '--identity', identityFile)
  assert.deepEqual([blind.code, /MACs and the identity key were not checked/.test(blind.out)], [0, true], blind.err)
  assert.ok(existsSync(join(folder, 'signer.sqlite')))
})

test('a restore that was killed leaves a folder that counts as empty', async (t) => {
  const { place, backups, identityFile, recipient } = await backedUp(t)
  const folder = join(place.folder, 'new')
  const to = join(backups, 'b.age')
  await backupStore({ folder: place.env.SIGNER_DIR!, to, recipients: [readRecipient(recipient)], kekFiles: [], now: Date.now }) // prettier-ignore
  mkdirSync(join(folder, 'restore-draft'), { recursive: true })
  writeFileSync(join(folder, 'restore-draft', 'signer.sqlite'), 'half')
  const identities = readIdentities(readFileSync(identityFile, 'utf8'))
  const { manifest } = await restoreStore({ file: to, identities, folder, settings: null })
  assert.equal(manifest.accounts, 1)
  assert.deepEqual(readdirSync(folder).filter((name) => !name.startsWith('lock')), ['signer.sqlite']) // prettier-ignore
})
