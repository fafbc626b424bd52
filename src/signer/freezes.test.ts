import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { join } from 'node:path'
import { statSync } from 'node:fs'
import { test } from 'node:test'
import { ALICE, ask, BOB, CHAIN_ID, refusal, world } from '../../test/spawned-signer.ts'
import { frozenEntry, readFrozenEntry, revoked } from './wire.ts'

const frozen = (at: number, subject = revoked.user(ALICE)) => frozenEntry(subject, { isFrozen: true, at })
const unfrozen = (at: number, subject = revoked.user(ALICE)) => frozenEntry(subject, { isFrozen: false, at })

test('a freeze stays when a list lacks it, over a restart too; only a list that says so lifts it, with a later time', async (t) => {
  const { signer, address, accessToken, place, again } = await world(t)
  const at = Date.now()
  let running = signer
  const bring = async (entries: string[]) => running.bringRevocations([await place.revocations({ entries })])
  const isFrozen = () =>
    running.check(ask(address, { accessToken })).then(
      () => false,
      (error: unknown) => {
        assert.ok(refusal('account_frozen')(error))
        return true
      },
    )
  assert.equal(await isFrozen(), false)
  await bring([revoked.user(ALICE), frozen(at)])
  assert.equal(await isFrozen(), true)
  // As read from a database that was restored to before the freeze.
  await bring([])
  assert.equal(await isFrozen(), true)
  await running.end('SIGKILL')
  running = await again()
  assert.equal(await isFrozen(), true)
  // From between an earlier unfreezing and this freeze.
  await bring([unfrozen(at - 1)])
  await bring([unfrozen(at)])
  assert.equal(await isFrozen(), true)
  await bring([unfrozen(at + 1)])
  assert.equal(await isFrozen(), false)
  await running.end('SIGKILL')
  running = await again()
  assert.equal(await isFrozen(), false)
  // Both in one list, whichever comes first: the later one.
  await bring([unfrozen(at + 2), frozen(at + 3)])
  assert.equal(await isFrozen(), true)
  await bring([unfrozen(at + 5), frozen(at + 4)])
  assert.equal(await isFrozen(), false)
})

test('a freeze from the future can be lifted today', async (t) => {
  const { signer, address, accessToken, place } = await world(t)
  const bring = async (entries: string[]) => signer.bringRevocations([await place.revocations({ entries })])
  await bring([frozen(Date.now() + 864_000_000)])
  await assert.rejects(signer.check(ask(address, { accessToken })), refusal('account_frozen'))
  await bring([unfrozen(Date.now() + 11_000)])
  await signer.check(ask(address, { accessToken }))
})

test('a suspended application: none of its tokens, no raise of its writes, after a restored database either; a cancel frees the lane', async (t) => {
  const { signer, address, accessToken, place } = await world(t)
  await signer.sign(ask(address, { accessToken }))
  const shop = revoked.application('shop')
  const bring = async (entries: string[]) => signer.bringRevocations([await place.revocations({ entries })])
  await bring([shop, frozen(Date.now(), shop)])
  await bring([])
  const fees = { maxFeePerGas: '1200', maxPriorityFeePerGas: '120' }
  const suspended = refusal('application_suspended')
  await assert.rejects(signer.sign(ask(address, { nonce: 1, accessToken })), suspended)
  await assert.rejects(signer.sign(ask(address, { kind: 'replace', ...fees })), suspended)
  const other = await place.token(ALICE, { client_id: 'other' })
  assert.equal((await signer.sign(ask(address, { nonce: 1, accessToken: other }))).kind, 'send')
  assert.equal((await signer.sign(ask(address, { kind: 'cancel', to: address, value: '0', ...fees }))).kind, 'cancel')
})

test('what an entry says, and what is no entry', () => {
  assert.deepEqual(readFrozenEntry(frozen(7)), { subject: `user ${ALICE}`, isFrozen: true, at: 7 })
  // Subjects of identity providers may hold spaces, and lines.
  const odd = 'user OIDC-frozen 1 user DEV-a\nb'
  assert.deepEqual(readFrozenEntry(unfrozen(8, odd)), { subject: odd, isFrozen: false, at: 8 })
  for (const entry of [
    'user DEV-a',
    'frozen user DEV-a',
    'frozen -1 user DEV-a',
    'frozen 1 everything',
    'frozen 1 network 1',
    ' frozen 1 user a',
  ])
    // prettier-ignore
    assert.equal(readFrozenEntry(entry), null, entry)
})

test('the operator of the signer freezes a person, a network and everything, by command, and no list lifts it', async (t) => {
  const { signer, address, place, again } = await world(t)
  const { address: bob } = await signer.createAccount({ userId: BOB })
  const [alices, bobs] = [await place.token(ALICE), await place.token(BOB)]
  const admin = join(place.env.SIGNER_DIR!, 'admin.sock')
  assert.equal(statSync(admin).mode & 0o777, 0o600)
  const run = async (...words: string[]) => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'freeze.ts'), ...words], {
      env: { SIGNER_DIR: place.env.SIGNER_DIR },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [out, err, code] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      new Promise<number | null>((resolve) => child.once('close', resolve)),
    ])
    return { out, err, code }
  }
  assert.deepEqual(await run('frozen'), { out: 'Nothing is frozen.\n', err: '', code: 0 })
  assert.match((await run('freeze', 'user', ALICE)).out, /^user DISCORD-1 {2}frozen here, since 20\d\d-/)
  await assert.rejects(signer.check(ask(address, { accessToken: alices })), refusal('account_frozen'))
  await signer.bringRevocations([await place.revocations({ entries: [unfrozen(Date.now() + 5_000)] })])
  await assert.rejects(signer.check(ask(address, { accessToken: alices })), refusal('account_frozen'))
  await signer.check(ask(bob, { accessToken: bobs }))

  assert.equal((await run('freeze', 'network', String(CHAIN_ID))).code, 0)
  await assert.rejects(signer.check(ask(bob, { accessToken: bobs })), /frozen/)
  assert.equal((await run('unfreeze', 'network', String(CHAIN_ID))).code, 0)
  await signer.check(ask(bob, { accessToken: bobs }))
  assert.equal((await run('freeze', 'everything')).code, 0)
  await signer.end('SIGKILL')
  const second = await again()
  await assert.rejects(second.check(ask(bob, { accessToken: bobs })), refusal('policy_denied'))
  assert.match((await run('frozen')).out, /user DISCORD-1 .*\neverything /)
  await run('unfreeze', 'everything')
  await run('unfreeze', 'user', ALICE)
  await second.check(ask(address, { accessToken: alices }))

  for (const words of [
    ['unfreeze', 'everything'],
    ['freeze', 'network', '0'],
    ['freeze', 'discord-1'],
    ['freeze'],
    ['sign', 'x'],
  ]) {
    // prettier-ignore
    const { out, err, code } = await run(...words)
    assert.deepEqual([out, code, err.split('\n').length], ['', 1, 2], words.join(' '))
  }
  await second.end('SIGTERM')
  assert.match((await run('frozen')).err, /^No signer listens at /)
})
