import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { exportJWK, generateKeyPair } from 'jose'
import { computeAddress } from 'ethers'
import { exportTokens } from '../../../test/export-tokens.ts'
import { ALICE, ask, BOB, ISSUER, makePlace, refusal, startSigner } from '../../../test/kit/signer.ts'
import { askAt } from '../programs/ask-operator.ts'
import { openExportChain } from './export-chain.ts'
import { openExportRecords, type ExportRecord } from './export-records.ts'
import { openExportTokens } from './export-tokens.ts'
import { exportInfo, openExports } from './exports.ts'
import { openFreezes } from '../tokens/freezes.ts'
import { openGroup } from '../group.ts'
import { newKeyPair, unseal } from './hpke.ts'
import type { Logger } from '../../log.ts'
import { makeKekFile, openKekFile } from '../kek/file.ts'
import { openKeyFile } from '../tokens/key-file.ts'
import { openKeys } from '../keys/keys.ts'
import { LedgerDamaged, Refusal } from '../refusal.ts'
import { openSigningLog } from '../ledger/signing-log.ts'
import { adminSocketIn } from '../socket.ts'
import { openStore } from '../store.ts'
import { openWitness } from '../ledger/witness.ts'
import { verifyStoreWith } from '../programs/verify.ts'
import { openRevocations } from '../tokens/revocations.ts'
import { frozenEntry, revoked, type SealedKey } from '../../signer-wire/wire.ts'

const log = { debug() {}, info() {}, warn() {}, error() {} }
const HOUR = 3_600_000
const DAY = 24 * HOUR

/** The verbs on a real store and a clock of their own, without a program around them. */
async function world(
  t: TestContext,
  {
    delaySeconds = 86_400 as number | null,
    log: said = log as Logger,
    looked = async () => {},
  }: { delaySeconds?: number | null; log?: Logger; looked?: () => Promise<void> } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-exports-'))
  const clock = { at: Date.UTC(2026, 0, 1) }
  const now = () => clock.at
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const jwks = join(folder, 'jwks.json')
  writeFileSync(jwks, JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'first', alg: 'ES256' }] }))
  makeKekFile(join(folder, 'kek'))
  const kek = openKekFile(join(folder, 'kek'))
  const store = openStore(join(folder, 'store'))
  const { db } = store
  t.after(() => {
    store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const { deks, ledger, heads, identity } = await openSigningLog(db, kek, now)
  const keys = openKeys({ db, deks, now })
  const witness = openWitness(store.witnessPath, ledger.head())
  t.after(() => witness.close())
  const group = openGroup({
    db,
    committing: () => heads.seal(),
    committed: () => witness.write(ledger.head()),
    fatal: (error) => assert.fail(String(error)),
  })
  const freezes = openFreezes({ db, group, log, now, onFreeze: (subject) => exports.frozen(subject) })
  const tokenKeys = openKeyFile(jwks, log, now)
  const revocations = openRevocations({ keys: tokenKeys, issuer: ISSUER, maxAgeSeconds: 0, log, freezes, now })
  const records = openExportRecords(db, deks.macs)
  const tokens = openExportTokens({ keys: tokenKeys, revocations, issuer: ISSUER, now })
  const real = openExportChain({ db, macs: deks.macs, ledger })
  const chain = { ...real, look: (asked: ExportRecord) => real.look(asked).then(looked) }
  const exports = openExports({
    keys,
    ledger,
    identity,
    records,
    chain,
    group,
    freezes,
    tokens,
    delaySeconds,
    now,
    log: said,
  })
  for (const userId of [ALICE, BOB])
    await group(-1, () => {
      const { address } = keys.create(userId)
      ledger.append({ at: now(), kind: 'account', userId, address, rule: 'one-account-per-user' })
    })
  const token = exportTokens({ key: privateKey, issuer: ISSUER, now })
  const browser = newKeyPair()
  const recipient = browser.getPublicKey('base64url')
  return {
    ...{
      clock,
      db,
      keys,
      exports,
      records,
      chain,
      macs: deks.macs,
      freezes,
      token,
      browser,
      recipient,
      kek: { provider: 'file' as const, file: join(folder, 'kek') },
      folder: join(folder, 'store'),
      ledger,
      /** what a start looks at */
      restart: () => openSigningLog(db, kek, now),
    },
    /** records of other people, as many as there are in a while */
    writeMany(many: number) {
      db.exec('BEGIN')
      const one = { at: now(), kind: 'export-request', rule: 'export-asked', tokenId: null } as const
      for (let n = 0; n < many; n++) ledger.append({ ...one, userId: `M-${n}`, address: Buffer.alloc(20, 7) })
      heads.seal()
      db.exec('COMMIT')
      witness.write(ledger.head())
    },
    ask: async (userId = ALICE) => exports.ask({ token: await token(userId, 'ask') }),
    take: async (request: string, more: Record<string, unknown> = {}, userId = ALICE) =>
      exports.take({ token: await token(userId, 'take', { claims: { request, recipient, ...more } }) }),
    state: (userId = ALICE) => exports.stateOf({ userId }),
    open(sealed: SealedKey & { id: string }, userId = ALICE) {
      const { address } = keys.ofUser(userId)!
      return unseal(
        browser,
        { enc: Buffer.from(sealed.enc, 'base64url'), ciphertext: Buffer.from(sealed.ciphertext, 'base64url') },
        { info: exportInfo({ userId, address, id: sealed.id }) },
      )
    },
    kinds: () => db.prepare('SELECT kind, rule FROM ledger WHERE kind LIKE ? ORDER BY seq').all('export%').map(({ kind, rule }) => `${String(kind)} ${String(rule)}`), // prettier-ignore
  }
}

const refused = (code: string) => (error: unknown) => error instanceof Refusal && error.code === code

test('a token of an export is refused as an access token is: by its session, its application and its person', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-exports-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const now = () => Date.UTC(2026, 0, 1)
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const jwks = join(folder, 'jwks.json')
  writeFileSync(jwks, JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'first', alg: 'ES256' }] }))
  const asked: unknown[] = []
  const tokens = openExportTokens({
    ...{ keys: openKeyFile(jwks, log, now), issuer: ISSUER, now },
    revocations: {
      check: (caller) => {
        asked.push(caller.marks)
        throw new Refusal(
          'invalid_token',
          'The access token was revoked. Nothing was done. Ask the user to sign in again.',
        )
      },
    },
  })
  const token = await exportTokens({ key: privateKey, issuer: ISSUER, now })(ALICE, 'ask')
  await assert.rejects(tokens.check(token, 'ask'), { code: 'invalid_token' })
  const [grant, application, user] = [revoked.grant('account session'), revoked.application('urn:chatelaine:account'), revoked.user(ALICE)] // prettier-ignore
  assert.deepEqual(asked, [{ grant, application, user }])
})

test('a key leaves a day after its request, sealed to the browser; it is the key of the address, and the ledger has it all', async (t) => {
  const { ask, take, state, clock, open, keys, kinds, kek, folder, ledger } = await world(t)
  const asked = await ask()
  assert.deepEqual([asked.state, asked.readyAt, asked.exportedAt], ['waiting', clock.at + DAY, null])
  assert.equal(ledger.isHeldElsewhere(ALICE), false)
  clock.at += DAY - 1
  await assert.rejects(take(asked.id!), refused('export_not_ready'))
  clock.at += 1
  assert.equal(state().state, 'ready')
  const sealed = await take(asked.id!)
  const key = open(sealed)
  assert.equal(computeAddress(`0x${key.toString('hex')}`).toLowerCase(), sealed.address)
  assert.equal(sealed.address, `0x${keys.ofUser(ALICE)!.address.toString('hex')}`)
  assert.deepEqual([state().state, state().exportedAt], ['none', clock.at])
  assert.deepEqual([ledger.isHeldElsewhere(ALICE), ledger.isHeldElsewhere(BOB)], [true, false])
  assert.deepEqual(kinds(), ['export-request export-asked', 'export export-by-person'])
  // Of what the signer keeps, nothing is the key.
  const bytes = readFileSync(join(folder, 'signer.sqlite'))
  for (const form of [key, Buffer.from(key.toString('hex')), Buffer.from(key.toString('base64url'))])
    assert.equal(bytes.includes(form), false)
  assert.deepEqual((await verifyStoreWith(folder, { kek, kekNext: undefined })).problems, [])
})

test('one request at a time: asked for again it stays what it was, and waits no shorter', async (t) => {
  const { ask, clock, state, exports } = await world(t)
  const first = await ask()
  clock.at += 5 * HOUR
  assert.deepEqual(await ask(), first)
  await ask(BOB)
  assert.deepEqual(
    exports.open().exports.map(({ userId, id }) => [userId, id]),
    [
      [ALICE, first.id],
      [BOB, state(BOB).id],
    ],
  )
})

test('a key that left leaves once: another recipient waits again, the same one whose answer was lost does not', async (t) => {
  const { ask, take, clock, open } = await world(t)
  const { id } = await ask()
  clock.at += DAY
  const first = open(await take(id!))
  assert.deepEqual(open(await take(id!)), first)
  const other = { recipient: newKeyPair().getPublicKey('base64url') }
  await assert.rejects(take(id!, other), refused('invalid_token'))
  const again = await ask()
  assert.notEqual(again.id, id)
  await assert.rejects(take(again.id!, other), refused('export_not_ready'))
})

test('cancelled, nothing leaves: by its person, by the operator, by a freeze of the person or of everything', async (t) => {
  const { ask, take, clock, exports, freezes, kinds } = await world(t)
  const ways = [
    () => exports.cancel({ userId: ALICE, by: 'person' }),
    () => exports.cancel({ userId: ALICE, by: 'operator' }),
    () => freezes.freeze(revoked.user(ALICE)).then(() => freezes.unfreeze(revoked.user(ALICE))),
    () => freezes.freeze('everything').then(() => freezes.unfreeze('everything')),
    () => freezes.freeze('network 8453').then(() => freezes.unfreeze('network 8453')),
  ]
  for (const cancel of ways) {
    const { id } = await ask()
    clock.at += DAY
    await cancel()
    await assert.rejects(take(id!), refused('invalid_token'))
  }
  assert.deepEqual(kinds().filter((kind) => kind.startsWith('export-cancel')), [
    'export-cancel export-cancelled-by-person',
    'export-cancel export-cancelled-by-operator',
    // Everything, and a network: of who asked, and of all.
    ...Array.from({ length: 1 + 2 + 2 }, () => 'export-cancel export-cancelled-by-freeze'),
  ]) // prettier-ignore
  // Of somebody else: nothing ends.
  const { id } = await ask()
  await freezes.freeze(revoked.user(BOB))
  await exports.cancel({ userId: BOB, by: 'person' })
  clock.at += DAY
  await take(id!)
})

test('the frozen ask for nothing and get nothing', async (t) => {
  const { ask, freezes } = await world(t)
  await freezes.freeze(revoked.user(ALICE))
  await assert.rejects(ask(), refused('account_frozen'))
  await freezes.unfreeze(revoked.user(ALICE))
  for (const subject of ['everything', 'network 1']) {
    await freezes.freeze(subject)
    await assert.rejects(ask(), refused('policy_denied'))
    await freezes.unfreeze(subject)
  }
  assert.equal((await ask()).state, 'waiting')
})

test('a request that nobody comes back for lapses after a week', async (t) => {
  const { ask, take, clock, state } = await world(t)
  const { id } = await ask()
  clock.at += 8 * DAY
  assert.equal(state().state, 'ready')
  clock.at += 1
  assert.equal(state().state, 'none')
  await assert.rejects(take(id!), refused('invalid_token'))
})

test('where it is off nothing is given, whatever is shown', async (t) => {
  const { ask, state } = await world(t, { delaySeconds: null })
  await assert.rejects(ask(), refused('export_disabled'))
  assert.equal(state().delaySeconds, null)
})

test('a token of another kind, time, person, purpose, request or recipient gets nothing', async (t) => {
  const { ask, token, exports, clock, recipient, take, open } = await world(t)
  const fresh = Math.floor(clock.at / 1_000)
  const bad: [string, Parameters<typeof token>[2]][] = [
    ['invalid_token', { header: { typ: 'at+jwt' } }],
    ['invalid_token', { audience: 'http://localhost:4000/v1' }],
    ['invalid_token', { seconds: 61 }],
    ['invalid_token', { claims: { purpose: 'sign' } }],
    ['invalid_token', { claims: { purpose: undefined } }],
    ['invalid_token', { claims: { auth_time: undefined } }],
    ['invalid_token', { claims: { auth_time: 'now' } }],
    ['invalid_token', { claims: { auth_time: fresh + 10 } }],
    ['sign_in_too_old', { claims: { auth_time: fresh - 306 } }],
    ['invalid_token', { claims: { jti: undefined } }],
    ['invalid_token', { claims: { gid: undefined } }],
    ['unknown_account', { claims: { sub: 'X-nobody' } }],
  ]
  for (const [code, bent] of bad)
    await assert.rejects(
      exports.ask({ token: await token(bent?.claims?.sub === undefined ? ALICE : 'X-nobody', 'ask', bent) }),
      refused(code),
      JSON.stringify(bent),
    )
  for (const request of [null, {}, { token: 7 }, { token: 'x'.repeat(9_000) }, { token: '', more: 1 }])
    await assert.rejects(exports.ask(request), refused('bad_request'))
  assert.equal(exports.open().exports.length, 0)

  const { id } = await ask()
  clock.at += DAY
  const off = Buffer.from(recipient, 'base64url')
  off[64]! ^= 1
  for (const [code, more, userId] of [
    ['invalid_token', { request: 'other' }],
    ['invalid_token', { recipient: undefined }],
    ['invalid_token', { recipient: off.toString('base64url') }],
    ['invalid_token', { request: undefined }],
    ['invalid_token', { purpose: 'ask' }],
    ['sign_in_too_old', { auth_time: fresh }],
    ['invalid_token', {}, BOB],
  ] as const)
    await assert.rejects(take(id!, more, userId), refused(code), JSON.stringify([more, userId]))
  await exports.cancel({ userId: ALICE, by: 'person' })
  open(await take(await ask().then(({ id: next }) => ((clock.at += DAY), next!))))
})

test('who ends what was not asked for writes so many records a day, and ends what was asked for all the same', async (t) => {
  const { ask, take, clock, exports, kinds } = await world(t)
  const end = () => exports.cancel({ userId: ALICE, by: 'person' })
  for (let times = 0; times < 10; times++) await end()
  const before = kinds().length
  await assert.rejects(end(), refused('rate_limited'))
  assert.equal(kinds().length, before)
  const { id } = await ask()
  await end()
  clock.at += DAY
  await assert.rejects(take(id!), refused('invalid_token'))
  await end()
})

test('a token is used once: after a cancel it opens no new request', async (t) => {
  const { exports, token } = await world(t)
  const one = await token(ALICE, 'ask')
  const first = await exports.ask({ token: one })
  assert.deepEqual(await exports.ask({ token: one }), first)
  await exports.cancel({ userId: ALICE, by: 'person' })
  await assert.rejects(exports.ask({ token: one }), refused('invalid_token'))
})

test('a request that was written into the store by others, or dated back, opens nothing', async (t) => {
  const { ask, take, db, clock, kek, folder } = await world(t)
  const { id } = await ask()
  // Far from the end of the ledger, where a start does not look.
  db.exec(`UPDATE ledger SET evidence = json_set(evidence, '$.ready_at', 0) WHERE kind = 'export-request'`)
  await assert.rejects(take(id!), LedgerDamaged)
  db.exec(
    `UPDATE ledger SET evidence = json_set(evidence, '$.ready_at', ${clock.at + DAY}) WHERE kind = 'export-request'`,
  )
  await assert.rejects(take(id!), refused('export_not_ready'))
  db.exec(`UPDATE ledger SET mac = zeroblob(36) WHERE kind = 'export-request'`)
  clock.at += DAY
  await assert.rejects(take(id!), LedgerDamaged)
  assert.match(
    (await verifyStoreWith(folder, { kek, kekNext: undefined })).problems.join(),
    /was not written by this signer/,
  )
})

test('a request that was cancelled stays so when the record of that is removed, or given another kind or person', async (t) => {
  const ways = [
    'DELETE FROM ledger WHERE seq = ?',
    `UPDATE ledger SET kind = 'account', user_id = 'nobody' WHERE seq = ?`,
    `UPDATE ledger SET user_id = '${BOB}' WHERE seq = ?`,
    `UPDATE ledger SET rule = 'exported-before' WHERE seq = ?`,
  ]
  for (const sql of ways) {
    const { ask, take, db, clock, exports, state, ledger, writeMany, restart, kek, folder } = await world(t)
    const { id } = await ask()
    await exports.cancel({ userId: ALICE, by: 'person' })
    const { count: cancelled } = ledger.head()
    writeMany(1_001)
    clock.at += DAY
    db.prepare(sql).run(cancelled)
    // Further from the end of the ledger than a start looks: it counts as open again, and gives nothing.
    await restart()
    assert.equal(state().state, 'ready', sql)
    for (const _ of ['once', 'again']) await assert.rejects(take(id!), LedgerDamaged, sql)
    assert.equal(state().exportedAt, null)
    assert.match((await verifyStoreWith(folder, { kek, kekNext: undefined })).problems.join(), /Record/)
    // It is ended like any other, and the next one is whole.
    await exports.cancel({ userId: ALICE, by: 'operator' })
    const next = await ask()
    await assert.rejects(take(next.id!), refused('export_not_ready'))
    clock.at += DAY
    await take(next.id!)
  }
})

test('a key that left leaves no second time to another browser when the record of that is removed', async (t) => {
  const { ask, take, db, clock, ledger, writeMany } = await world(t)
  const { id } = await ask()
  clock.at += DAY
  await take(id!)
  const { count: left } = ledger.head()
  writeMany(3)
  db.prepare('DELETE FROM ledger WHERE seq = ?').run(left)
  await assert.rejects(take(id!, { recipient: newKeyPair().getPublicKey('base64url') }), LedgerDamaged)
})

test('a request that was hidden while it was cancelled or frozen, and put back, gives nothing', async (t) => {
  type Here = Awaited<ReturnType<typeof world>>
  const ends: [string, (here: Here) => Promise<unknown>][] = [
    ['its person', ({ exports }) => exports.cancel({ userId: ALICE, by: 'person' })],
    ['the operator', ({ exports }) => exports.cancel({ userId: ALICE, by: 'operator' })],
    ...[revoked.user(ALICE), 'everything', 'network 1'].map((subject): (typeof ends)[number] => [
      subject,
      ({ freezes }) => freezes.freeze(subject).then(() => freezes.unfreeze(subject)),
    ]),
    [
      'a list',
      async ({ freezes, clock }) => {
        await freezes.takeList([frozenEntry(revoked.user(ALICE), { isFrozen: true, at: clock.at })], clock.at / 1_000)
        await freezes.unfreeze('lists')
      },
    ],
  ]
  // The request alone; with the account, so that the signer knows of nobody whom to cancel it for; as a record of another kind.
  const ways: [hide: string, show: string, isAccountHidden: boolean][] = [
    [
      `UPDATE ledger SET user_id = 'nobody' WHERE seq = ?`,
      `UPDATE ledger SET user_id = '${ALICE}' WHERE seq = ?`,
      false,
    ],
    [
      `UPDATE ledger SET user_id = 'nobody' WHERE seq = ?`,
      `UPDATE ledger SET user_id = '${ALICE}' WHERE seq = ?`,
      true,
    ],
    [`UPDATE ledger SET kind = 'account', user_id = 'nobody' WHERE seq = ?`, `UPDATE ledger SET kind = 'export-request', user_id = '${ALICE}' WHERE seq = ?`, false], // prettier-ignore
  ]
  for (const [by, end] of ends)
    for (const [hide, show, isAccountHidden] of ways) {
      const here = await world(t)
      const { id } = await here.ask()
      const { seq } = here.records.newest(ALICE)!
      here.writeMany(1_001)
      here.db.prepare(hide).run(seq)
      if (isAccountHidden) here.db.exec(`UPDATE accounts SET user_id = 'hidden' WHERE user_id = '${ALICE}'`)
      await here.restart()
      await end(here)
      here.db.prepare(show).run(seq)
      if (isAccountHidden) here.db.exec(`UPDATE accounts SET user_id = '${ALICE}' WHERE user_id = 'hidden'`)
      await here.restart()
      here.clock.at += DAY
      const why = `${by}, ${hide}, ${isAccountHidden}`
      await assert.rejects(here.take(id!), (error) => error instanceof LedgerDamaged || refused('invalid_token')(error), why) // prettier-ignore
      // Who did not ask is asked nothing: what ended everything concerns nobody who asks later.
      await here.exports.cancel({ userId: ALICE, by: 'person' })
      const again = await here.ask()
      here.clock.at += DAY
      await here.take(again.id!)
      if (!isAccountHidden) continue
      assert.deepEqual((await verifyStoreWith(here.folder, { kek: here.kek, kekNext: undefined })).problems, [], why)
    }
})

test('an end of the ledger that was cut off while the signer runs gives nothing either', async (t) => {
  const { ask, take, db, clock, exports } = await world(t)
  const { id } = await ask()
  await exports.cancel({ userId: ALICE, by: 'person' })
  clock.at += DAY
  db.exec(`DELETE FROM ledger WHERE kind = 'export-cancel'`)
  await assert.rejects(take(id!), LedgerDamaged)
})

test('a cancel that comes after the look, and is removed before the key leaves, is noticed too', async (t) => {
  let meanwhile = async () => {}
  const { ask, take, db, clock, exports } = await world(t, { looked: () => meanwhile() })
  const { id } = await ask()
  clock.at += DAY
  meanwhile = async () => {
    await exports.cancel({ userId: ALICE, by: 'person' })
    db.exec(`DELETE FROM ledger WHERE kind = 'export-cancel'`)
  }
  await assert.rejects(take(id!), LedgerDamaged)
})

test('what ended a request is found among the records that followed it, whatever an index says', async (t) => {
  const { ask, exports, records, chain, db, ledger, macs } = await world(t)
  await ask()
  const asked = records.newest(ALICE)!
  await chain.look(asked)
  chain.assertOpen(asked)
  await exports.cancel({ userId: BOB, by: 'person' })
  await ask(BOB)
  await chain.look(asked)
  assert.throws(() => chain.assertOpen(records.newest(BOB)!), refused('export_not_ready'))
  // Genuine records, of a ledger that was accepted at this size once and goes on otherwise in memory.
  const head = () => ({ ...ledger.head(), record: Buffer.alloc(32, 7) })
  await assert.rejects(openExportChain({ db, macs, ledger: { head } }).look(asked), /does not end where it did/)
  await exports.cancel({ userId: ALICE, by: 'person' })
  assert.throws(() => chain.assertOpen(asked), /ended a request/)
  await assert.rejects(chain.look(asked), LedgerDamaged)
})

test('a restore ends every request before it, found or not when it was accepted', async (t) => {
  const { ask, take, clock, chain, records, ledger, db } = await world(t)
  const { id } = await ask()
  const who = { userId: '', address: Buffer.alloc(0), rule: 'accept-restore' }
  ledger.append({ ...who, at: clock.at, kind: 'restore', restored: { witness: null, floors: [] } })
  await assert.rejects(chain.look(records.newest(ALICE)!), /ended a request/)
  clock.at += DAY
  await assert.rejects(take(id!), LedgerDamaged)
  assert.equal(db.prepare(`SELECT 1 FROM ledger WHERE kind = 'export-cancel'`).get(), undefined)
})

test('a freeze that the operator sets where the store has it already ends requests, too: someone may have put it there', async (t) => {
  for (const subject of [revoked.user(ALICE), 'everything']) {
    const { ask, take, clock, freezes, exports } = await world(t)
    const { id } = await ask()
    const end = exports.frozen
    exports.frozen = () => {}
    await freezes.freeze(subject)
    exports.frozen = end
    await freezes.freeze(subject)
    await freezes.unfreeze(subject)
    clock.at += DAY
    await assert.rejects(take(id!), refused('invalid_token'))
  }
})

test('one altered record stops no freeze: it reaches everyone it names, and that request ends with the others', async (t) => {
  const errors: string[] = []
  const { ask, take, clock, db, exports, freezes, kinds, state } = await world(t, { log: { ...log, error: (event: string) => void errors.push(event) } }) // prettier-ignore
  const alter = (to: number) =>
    db.exec(`UPDATE ledger SET evidence = json_set(evidence, '$.ready_at', ${to}) WHERE kind = 'export-request' AND user_id = '${ALICE}' AND seq = (SELECT max(seq) FROM ledger WHERE kind = 'export-request' AND user_id = '${ALICE}')`) // prettier-ignore
  const ways: [() => Promise<unknown>, () => Promise<unknown>][] = [
    [() => freezes.freeze('everything'), () => freezes.unfreeze('everything')],
    [
      () => freezes.takeList([revoked.user(ALICE), revoked.user(BOB)].map((one) => frozenEntry(one, { isFrozen: true, at: clock.at })), clock.at / 1_000), // prettier-ignore
      () => freezes.unfreeze('lists'),
    ],
    [() => exports.cancel({ userId: ALICE, by: 'operator' }), () => exports.cancel({ userId: BOB, by: 'operator' })],
  ]
  for (const [freeze, lift] of ways) {
    const [alices, bobs] = [await ask(), await ask(BOB)]
    alter(0)
    assert.deepEqual(
      exports.open().exports.map(({ userId, state }) => [userId, state]),
      [
        [ALICE, 'damaged'],
        [BOB, 'waiting'],
      ],
    )
    errors.length = 0
    await freeze()
    assert.deepEqual(errors, ['export_record_damaged'])
    await lift()
    assert.deepEqual([state().state, state(BOB).state, exports.open().exports], ['none', 'none', []])
    // Put back as it was, it stays ended.
    alter(alices.readyAt!)
    clock.at += DAY
    await assert.rejects(take(alices.id!), refused('invalid_token'))
    await assert.rejects(take(bobs.id!, {}, BOB), refused('invalid_token'))
  }
  // Of each way two, and that of everything.
  assert.equal(kinds().filter((kind) => kind.startsWith('export-cancel')).length, 7)
  // Nor does one of a key that left.
  const { id } = await ask()
  clock.at += DAY
  await take(id!)
  await ask()
  await ask(BOB)
  db.exec(`UPDATE ledger SET evidence = NULL WHERE kind = 'export'`)
  assert.deepEqual(exports.open().exports.map(({ userId, state }) => [userId, state]), [[ALICE, 'damaged'], [BOB, 'waiting']]) // prettier-ignore
  await freezes.freeze('everything')
  assert.deepEqual(exports.open().exports, [])
})

test('verify finds a key that left without its request, by that of another, or before its delay was over, also where the signer itself wrote it', async (t) => {
  const { ask, keys, clock, db, ledger, kek, folder } = await world(t)
  const problems = async () =>
    (await verifyStoreWith(folder, { kek, kekNext: undefined })).problems.filter((one) =>
      one.startsWith('Keys that were exported'),
    )
  const { id, readyAt } = await ask()
  const leave = (userId: string, at: number, request: string | null = id) => {
    const { address } = keys.ofUser(userId)!
    db.exec('BEGIN')
    ledger.append({ at, kind: 'export', userId, address, rule: 'export-by-person', tokenId: 't', evidence: JSON.stringify({ request }) }) // prettier-ignore
    db.exec('COMMIT')
  }
  leave(ALICE, readyAt!)
  assert.deepEqual(await problems(), [])
  leave(ALICE, readyAt! - 1)
  assert.deepEqual(await problems(), ['Keys that were exported before the delay of a request was over: 1.'])
  leave(BOB, readyAt!)
  leave(ALICE, clock.at + DAY, 'another')
  assert.deepEqual(await problems(), ['Keys that were exported before the delay of a request was over: 3.'])
})

test('the program: off unless it is switched on, a delay below half a day is refused in production, and its tokens sign nothing', async (t) => {
  const place = await makePlace()
  let signer = await startSigner(place)
  t.after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })
  const { address } = await signer.createAccount({ userId: ALICE })
  await assert.rejects(signer.askKey({ token: await place.exportToken(ALICE, 'ask') }), refusal('export_disabled'))
  await signer.end('SIGTERM')
  const more = { SIGNER_EXPORT: 'on', SIGNER_EXPORT_DELAY_SECONDS: '0' }
  signer = await startSigner(place, { more })
  await assert.rejects(
    signer.sign(ask(address, { accessToken: await place.exportToken(ALICE, 'ask') })),
    refusal('invalid_token'),
  )
  await assert.rejects(signer.askKey({ token: await place.token(ALICE) }), refusal('invalid_token'))
  const { id, state } = await signer.askKey({ token: await place.exportToken(ALICE, 'ask') })
  assert.equal(state, 'ready')
  // Over a restart, too: it is in the ledger.
  await signer.end('SIGKILL')
  signer = await startSigner(place, { more })
  assert.deepEqual((await signer.keyExports()).exports.map((one) => one.id), [id]) // prettier-ignore
  const browser = newKeyPair()
  const recipient = browser.getPublicKey('base64url')
  const sealed = await signer.takeKey({ token: await place.exportToken(ALICE, 'take', { request: id, recipient }) })
  const key = unseal(
    browser,
    { enc: Buffer.from(sealed.enc, 'base64url'), ciphertext: Buffer.from(sealed.ciphertext, 'base64url') },
    { info: exportInfo({ userId: ALICE, address: Buffer.from(address.slice(2), 'hex'), id: id! }) },
  )
  assert.equal(computeAddress(`0x${key.toString('hex')}`).toLowerCase(), address)
  assert.equal(signer.stderr().includes(key.toString('hex')), false)
  const production = {
    ...more,
    SIGNER_CHAINS: '1',
    SIGNER_REVOCATIONS_SECONDS: '60',
    SIGNER_EXPORT_DELAY_SECONDS: '43199',
  }
  await assert.rejects(
    startSigner(place, { more: production, flags: [] }),
    /SIGNER_EXPORT_DELAY_SECONDS must be at least 43200/,
  )
})

test('the list has requests under way, the newest where there are too many, and says how many there are; what lapsed takes no place', async (t) => {
  for (const lapse of [0, 9 * DAY]) {
    const { ask, take, clock, db, exports, ledger } = await world(t)
    db.exec('BEGIN')
    for (let n = 0; n < 500; n++) {
      const evidence = JSON.stringify({ request: `r${n}`, ready_at: clock.at + DAY })
      const one = { at: clock.at, kind: 'export-request', rule: 'export-asked', tokenId: null } as const
      ledger.append({ ...one, userId: `M-${n}`, address: Buffer.alloc(20, 7), evidence })
    }
    db.exec('COMMIT')
    assert.deepEqual([exports.open().exports.length, exports.open().total], [500, 500])
    clock.at += lapse
    const { id } = await ask()
    const { exports: listed, total } = exports.open()
    assert.deepEqual(
      [listed.at(-1)!.userId, listed[0]!.userId, listed.length, total],
      lapse === 0 ? [ALICE, 'M-1', 500, 501] : [ALICE, ALICE, 1, 1],
    )
    clock.at += DAY
    await take(id!)
    assert.equal(exports.open().total, lapse === 0 ? 500 : 0)
  }
})

test('the program: what a policy freezes keeps its keys, from its person and from the operator who takes all of them', async (t) => {
  const place = await makePlace()
  const file = join(place.folder, 'policy.json')
  const more = {
    SIGNER_EXPORT: 'on',
    SIGNER_EXPORT_DELAY_SECONDS: '0',
    SIGNER_EXPORT_ALL: 'on',
    SIGNER_POLICY_FILE: file,
  }
  const put = (version: number, freeze: object) =>
    writeFileSync(file, JSON.stringify({ version, freeze, rules: [{ name: 'rest', effect: 'allow' }] }))
  put(1, {})
  let signer = await startSigner(place, { more })
  t.after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })
  for (const userId of [ALICE, BOB]) await signer.createAccount({ userId })
  const recipient = newKeyPair().getPublicKey('base64url')
  const { id } = await signer.askKey({ token: await place.exportToken(ALICE, 'ask') })
  const taken = async () =>
    signer.takeKey({ token: await place.exportToken(ALICE, 'take', { request: id, recipient }) })
  const all = () =>
    askAt<{ keys: unknown[]; refused: unknown[] }>(adminSocketIn(place.env.SIGNER_DIR!), {
      verb: 'exportKeys',
      request: { recipient, batch: 'b', after: 0 },
    })
  for (const [version, freeze, code, given] of [
    [2, { users: [ALICE] }, 'account_frozen', 1],
    [3, { chains: [1] }, 'policy_denied', 0],
    [4, { everything: true }, 'policy_denied', 0],
  ] as const) {
    await signer.end('SIGTERM')
    put(version, freeze)
    signer = await startSigner(place, { more })
    await assert.rejects(taken(), refusal(code))
    await assert.rejects(signer.askKey({ token: await place.exportToken(ALICE, 'ask') }), refusal(code))
    const { keys, refused } = await all()
    assert.deepEqual([keys.length, refused.length], [given, 2 - given], code)
  }
})
