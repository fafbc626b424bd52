import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { jwkThumbprint } from '../jwk-thumbprint.ts'
import { readTokenKeys } from '../signer/tokens/anchor.ts'
import { connectSigner } from '../signer-wire/client.ts'
import { makeKekFile, openKekFile } from '../signer/kek/file.ts'
import { openSigningLog } from '../signer/ledger/signing-log.ts'
import { openStore } from '../signer/store.ts'
import { command } from '../../test/kit/command.ts'
import { ALICE, makePlace } from '../../test/kit/signer.ts'

const main = join(import.meta.dirname, 'main.ts')

async function run(
  settings: Record<string, string>,
  ...words: string[]
): Promise<{ code: number | null; output: string }> {
  const { code, out, err } = await command(settings, words)
  return { code, output: out + err }
}

/** As a process, which becomes the signer. */
function chatelaine(env: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], {
    env: { PATH: process.env.PATH!, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const seen = { output: '' }
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => (seen.output += text))
  const ended = once(child, 'close').then(([code, signal]) => ({ code: (code ?? signal) as number | string, ...seen }))
  return { child, seen, ended }
}

test('the signer is run, verified and asked what it lost by commands; it is the very process that was started', async (t) => {
  const place = await makePlace()
  t.after(() => place.clear())
  const settings = { ...place.env, LOG_LEVEL: 'silent', SIGNER_REVOCATIONS_SECONDS: '60', SIGNER_CHAINS: '31337' }
  const early = await run(settings, 'signer', 'run')
  assert.deepEqual([early.code, /master key \(KEK\) cannot be opened/.test(early.output)], [1, true])
  // The store is there by now, and empty: a key made for another one would not do.
  rmSync(place.env.SIGNER_DIR!, { recursive: true })
  const made = await run(settings, 'signer', 'create-key')
  assert.deepEqual([made.code, /A master key \(KEK\) of 32 bytes/.test(made.output)], [0, true])
  const key = readFileSync(place.env.SIGNER_KEK_FILE!)
  assert.deepEqual([key.length, statSync(place.env.SIGNER_KEK_FILE!).mode & 0o777], [32, 0o600])

  const untrusting = await run(settings, 'signer', 'run')
  assert.deepEqual([untrusting.code, /trusts no key of an authorization server yet/.test(untrusting.output)], [1, true])
  const [offered] = readTokenKeys(readFileSync(place.env.SIGNER_JWKS_FILE!, 'utf8'))
  const trusted = await run(settings, 'signer', 'trust-key', '--accept', jwkThumbprint(offered!))
  assert.deepEqual(trusted.code, 0)

  // A module that Node's own options load says which programs it was loaded into.
  const spy = join(place.folder, 'spy.cjs')
  writeFileSync(spy, `require('fs').appendFileSync(${JSON.stringify(`${spy}.seen`)}, process.argv[1] + '\\n')`)
  const running = chatelaine({ ...settings, NODE_OPTIONS: `--require=${spy}` }, 'signer', 'run')
  await once(running.child.stdout, 'data')
  assert.equal(running.seen.output, 'ready\n')
  assert.match(readFileSync(`/proc/${running.child.pid}/cmdline`, 'utf8'), /\0--max-semi-space-size=8\0/)
  assert.doesNotMatch(readFileSync(`${spy}.seen`, 'utf8'), /signer\/main/)
  const client = connectSigner({ path: place.env.SIGNER_SOCKET! })
  await client.createAccount({ userId: ALICE })
  client.close()
  running.child.kill('SIGUSR1')
  const again = connectSigner({ path: place.env.SIGNER_SOCKET! })
  assert.equal((await again.health()).ok, true)
  again.close()
  running.child.kill('SIGTERM')
  const ended = await running.ended
  assert.deepEqual([ended.code, ended.output], [0, 'ready\n'], 'no debugger was opened')
  for (const [more, why] of [
    [{}, /A file already exists at SIGNER_KEK_FILE/],
    [{ SIGNER_KEK_FILE: join(place.folder, 'other') }, /SIGNER_DIR already has a store/],
    [{ SIGNER_KEK_FILE: join(place.env.SIGNER_DIR!, 'kek') }, /must not be inside SIGNER_DIR/],
    [{ SIGNER_DIR: '' }, /SIGNER_DIR is missing/],
  ] as const) {
    const refused = await run({ ...settings, ...more }, 'signer', 'create-key')
    assert.deepEqual([refused.code, why.test(refused.output)], [1, true], refused.output)
  }
  assert.deepEqual(readFileSync(place.env.SIGNER_KEK_FILE!), key)

  const { code, output } = await run({}, 'signer', 'verify', place.env.SIGNER_DIR!)
  assert.equal(code, 0)
  // Without the master key MACs cannot be checked, which is said.
  assert.match(
    output,
    /^MACs and the identity key were not checked.*\nVerifier key of the log: chatelaine-signing-log\/\S+\n1 records, 0 signatures, 1 accounts: whole\n$/,
  )
  assert.equal((await run(place.env, 'signer', 'verify')).code, 0)
  const shown = await run(place.env, 'signer', 'accept-restore')
  assert.deepEqual([shown.code, /there is nothing to accept/.test(shown.output)], [0, true])
  const refused = await run(place.env, 'signer', 'accept-restore', '--rpc-url', 'http://127.0.0.1:1', '--accept', 'x') // prettier-ignore
  assert.deepEqual([refused.code, /could not be reached/.test(refused.output)], [1, true])
})

test('a master key is split into shares that no folder beside it takes, and any that are enough bring it back', async (t) => {
  const place = await makePlace()
  t.after(place.clear)
  const folder = place.env.SIGNER_DIR!
  const kek = join(place.folder, 'keys', 'kek')
  const env = { SIGNER_KEK_FILE: kek, SIGNER_DIR: folder }
  const shares = (...words: string[]) => command(env, ['signer', 'kek-shares', ...words])
  assert.equal((await command(env, ['signer', 'create-key'])).code, 0)
  const key = readFileSync(kek)
  for (const [to, sentence] of [
    [join(place.folder, 'keys'), /beside the master key/],
    [join(place.folder, 'keys', 'shares'), /beside the master key/],
    [join(folder, 'shares'), /inside SIGNER_DIR/],
  ] as const) {
    const { code, err } = await shares('split', '--of', '5', '--need', '3', '--to', to)
    assert.deepEqual([code, sentence.test(err)], [1, true], err)
  }
  const to = join(place.folder, 'media')
  const { out } = await shares('split', '--of', '5', '--need', '3', '--to', to)
  const files = out.split('\n').filter((line) => line.startsWith(to))
  assert.equal(files.length, 5)
  for (const one of files) assert.equal(statSync(one).mode & 0o777, 0o600)
  assert.match((await shares('combine', ...files.slice(2))).err, /already exists/)
  rmSync(kek)
  assert.match((await shares('combine', ...files.slice(3))).err, /3 shares are needed, and 2 were given/)
  assert.ok(!existsSync(kek))
  // Shares of a key that does not open the store leave nothing, there or beside it: the right ones find their place free.
  const store = openStore(folder)
  const elsewhere = join(place.folder, 'elsewhere')
  makeKekFile(elsewhere)
  await openSigningLog(store.db, openKekFile(elsewhere), Date.now)
  store.close()
  const wrong = await shares('combine', ...files.slice(2))
  assert.deepEqual([wrong.code, /does not open the store in SIGNER_DIR/.test(wrong.err)], [1, true], wrong.err)
  assert.deepEqual(readdirSync(join(place.folder, 'keys')), [])
  rmSync(folder, { recursive: true })
  const right = openStore(folder)
  writeFileSync(elsewhere, key)
  await openSigningLog(right.db, openKekFile(elsewhere), Date.now)
  right.close()
  const combined = await shares('combine', ...files.slice(2))
  assert.equal(combined.code, 0, combined.err)
  assert.match(combined.out, /It opens the store in SIGNER_DIR/)
  assert.deepEqual(readdirSync(join(place.folder, 'keys')), ['kek'])
  assert.deepEqual(readFileSync(kek), key)
  assert.equal(statSync(kek).mode & 0o777, 0o600)
  for (const text of [combined.out, combined.err, out]) assert.ok(!text.includes(key.toString('hex')))
})
