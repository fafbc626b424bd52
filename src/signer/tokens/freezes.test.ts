import assert from 'node:assert/strict'
import { join } from 'node:path'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { test, type TestContext } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { ALICE, ask, BOB, CHAIN_ID, refusal, SOMEWHERE, world } from '../../../test/kit/signer.ts'
import { openFreezes, type Freezes } from './freezes.ts'
import { openGroup } from '../group.ts'
import { Refusal } from '../refusal.ts'
import { draftNow, type Inside, type SigningJob } from '../verbs/pipeline.ts'
import { check } from '../verbs/sign.ts'
import { openStore } from '../store.ts'
import { encodeFrame } from '../../signer-wire/frames.ts'
import { frozenEntry, readFrozenEntry, revoked } from '../../signer-wire/wire.ts'

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

/** The real freezes on a real store, without a program around them. */
function opened(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-freezes-'))
  const { db, close } = openStore(folder)
  t.after(() => {
    close()
    rmSync(folder, { recursive: true, force: true })
  })
  const group = openGroup({ db, committed() {}, fatal: (error) => assert.fail(String(error)) })
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const open = () => openFreezes({ db, group, log, now: () => 5_000 })
  return { group, freezes: open(), open }
}
const alice = revoked.user(ALICE)
const by = ({ list }: Freezes) => list().subjects.map((one) => [one.subject, one.by])

test('what the operator freezes at the same moment as a list speaks stays theirs, in memory and on the disk', async (t) => {
  for (const entry of [unfrozen(9_000), frozen(9_000)])
    for (const known of [[], [frozen(1_000)]])
      for (const isListFirst of [true, false]) {
        const { freezes, open } = opened(t)
        await freezes.takeList(known, 10)
        const asked = [() => freezes.takeList([entry], 10), () => freezes.freeze(alice)]
        await Promise.all((isListFirst ? asked : asked.toReversed()).map((work) => work()))
        await freezes.takeList([unfrozen(9_500)], 10)
        assert.deepEqual([by(freezes), by(open())], [[[alice, 'admin']], [[alice, 'admin']]])
      }
})

test('of two lists at the same moment the later word holds', async (t) => {
  const { freezes, open } = opened(t)
  await freezes.takeList([frozen(1_000)], 10)
  await Promise.all([freezes.takeList([frozen(3_000)], 10), freezes.takeList([unfrozen(2_000)], 10)])
  assert.deepEqual([by(freezes), by(open())], [[[alice, 'list']], [[alice, 'list']]])
})

test('a freeze holds for what is asked in the same group, and waits behind no signature', async (t) => {
  const { group, freezes } = opened(t)
  const moved: number[] = []
  const jobs = Array.from({ length: 1_000 }, (_, number) =>
    group(number, () => {
      freezes.assertMoves({ chainId: 1, userId: ALICE })
      moved.push(number)
    }).catch(() => {}),
  )
  await freezes.freeze(alice)
  await Promise.all(jobs)
  assert.deepEqual(moved, [])
})

test('eight thousand freezes by lists can be listed in part, and lifted together', async (t) => {
  const { freezes, open } = opened(t)
  const names = Array.from({ length: 8_000 }, (_, number) =>
    revoked.user(`DISCORD-${String(number).padStart(60, '0')}`),
  )
  const entries = names.map((name) => frozen(1_000, name))
  await freezes.takeList(entries, 10)
  await freezes.freeze(alice)
  const { subjects, total } = freezes.list()
  assert.deepEqual([subjects.length, total, subjects[0]], [500, 8_001, { subject: alice, by: 'admin', at: 5_000 }])
  assert.ok(encodeFrame({ id: 1, answer: freezes.list() }).length < 400_000)
  await freezes.unfreeze('lists')
  assert.deepEqual([by(freezes), by(open())], [[[alice, 'admin']], [[alice, 'admin']]])
  await assert.rejects(freezes.unfreeze('lists'), Refusal)
})

test('a time from the future is kept as that of its list', async (t) => {
  const { freezes, open } = opened(t)
  // Lists are dated to the microsecond, and what is stored is whole milliseconds.
  await freezes.takeList([frozen(999_999_000)], 10.000_123)
  for (const one of [freezes, open()]) assert.equal(one.list().subjects[0]!.at, 20_000)
})

test('what an entry says, and what is no entry', () => {
  assert.deepEqual(readFrozenEntry(frozen(7)), { subject: `user ${ALICE}`, isFrozen: true, at: 7 })
  // Subjects of identity providers may hold spaces, and lines.
  const odd = 'user OIDC-frozen 1 user DEV-a'
  assert.deepEqual(readFrozenEntry(unfrozen(8, odd)), { subject: odd, isFrozen: false, at: 8 })
  for (const entry of [
    'user DEV-a',
    'frozen user DEV-a',
    'frozen -1 user DEV-a',
    'frozen 1 everything',
    'frozen 1 network 1',
    ' frozen 1 user DEV-a',
    'frozen 1 user DEV-a\u001b[2J',
    'frozen 1 user dev',
  ])
    assert.equal(readFrozenEntry(entry), null, entry)
})

test('the operator of the signer freezes a person, a network and everything, by command, and no list lifts it', async (t) => {
  const { signer, address, place, again } = await world(t)
  const { address: bob } = await signer.createAccount({ userId: BOB })
  const [alices, bobs] = [await place.token(ALICE), await place.token(BOB)]
  const admin = join(place.env.SIGNER_DIR!, 'admin.sock')
  assert.equal(statSync(admin).mode & 0o777, 0o600)
  const run = (...words: string[]) => command({ SIGNER_DIR: place.env.SIGNER_DIR! }, ['signer', ...words])
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
  assert.match((await run('frozen')).out, /everything .*\nuser DISCORD-1 /)
  await run('unfreeze', 'everything')
  await run('unfreeze', 'user', ALICE)
  await second.check(ask(address, { accessToken: alices }))

  for (const words of [
    ['unfreeze', 'everything'],
    ['freeze', 'network', '0'],
    ['freeze', 'discord-1'],
    ['freeze', 'user', 'DISCORD-nobody'],
    ['unfreeze', 'lists'],
  ]) {
    const { out, err, code } = await run(...words)
    assert.deepEqual([out, code, err.split('\n').length], ['', 1, 2], words.join(' '))
  }
  await second.end('SIGTERM')
  assert.match((await run('frozen')).err, /^No signer listens at /)
})

test('a freeze that comes while the token is looked at holds for that request', async () => {
  let isFrozen = false
  const inside = {
    keys: { ofAddress: () => ({ userId: ALICE }) },
    withdrawals: { find: () => null },
    approvals: { read: () => Promise.resolve(null) },
    limits: { chains: null, maxFeeWei: 10n ** 18n },
    freezes: {
      assertMoves() {
        if (isFrozen) throw new Refusal('account_frozen', 'frozen')
      },
      isApplicationFrozen: () => false,
    },
    tokens: {
      async check() {
        isFrozen = true
        return { userId: ALICE, clientId: 'shop', chainId: CHAIN_ID, scopes: ['contracts:write'] }
      },
    },
    now: Date.now,
  } as unknown as Inside
  const request = ask(SOMEWHERE, { accessToken: 'token' })
  await assert.rejects(check(inside, request), (error) => error instanceof Refusal && error.code === 'account_frozen')
})

test('an account that was frozen while a request waited signs nothing, whoever asks and whatever was shown', () => {
  const inside = {
    freezes: {
      assertMoves({ userId }: { userId: string }) {
        if (userId === BOB) throw new Refusal('account_frozen', 'frozen')
      },
      isApplicationFrozen: () => false,
    },
    assertUnattended() {},
  } as unknown as Inside
  for (const token of [null, { userId: ALICE, clientId: 'shop' }])
    assert.throws(
      () => draftNow(inside, { account: { userId: BOB }, chainId: CHAIN_ID, authority: { token, waitsForList: true }, draft: () => null } as unknown as SigningJob<null>, 0), // prettier-ignore
      (error) => error instanceof Refusal && error.code === 'account_frozen',
    )
})
