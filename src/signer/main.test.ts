import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { Transaction } from 'ethers'
import { AppError } from '../errors.ts'
import { SignerRefused } from './client.ts'
import { ask, makePlace, startSigner, type Place, type Running } from './spawned.ts'
import { verifyStore } from './verify.ts'
import { encodeFrame, frameReader, type Hex } from './wire.ts'

const ALICE = 'DISCORD-1'
const BOB = 'DISCORD-2'

const refusal = (code: string) => (error: unknown) =>
  (error instanceof AppError || error instanceof SignerRefused) && error.code === code

/** A place with a running signer, an account and a token; cleared when the test ends. */
async function world(t: { after: (end: () => Promise<void>) => void }) {
  const place = await makePlace()
  const signer = await startSigner(place)
  const running = new Set([signer])
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
  })
  const { address } = await signer.createAccount({ userId: ALICE })
  const accessToken = await place.token(ALICE)
  const again = async (...options: Parameters<typeof startSigner> extends [unknown, ...infer O] ? O : never) => {
    const next = await startSigner(place, ...options)
    running.add(next)
    return next
  }
  return { place, signer, address, accessToken, again }
}

describe('one running signer', () => {
  let place: Place
  let signer: Running
  let alice: Hex
  let token: string

  before(async () => {
    place = await makePlace()
    signer = await startSigner(place)
    alice = (await signer.createAccount({ userId: ALICE })).address
    token = await place.token(ALICE)
  })
  after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })

  test('a user has one account, however often and however concurrently it is asked for', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => signer.createAccount({ userId: 'X-race' })))
    assert.equal(new Set(answers.map(({ address }) => address)).size, 1)
    assert.notEqual(answers[0]!.address, alice)
  })

  test('signed bytes are the account’s, for both forms of fees', async () => {
    const { address } = await signer.createAccount({ userId: 'X-forms' })
    const accessToken = await place.token('X-forms')
    const modern = await signer.sign(ask(address, { accessToken, intentId: 'forms_0', data: '0xa9059cbb00' }))
    const { maxFeePerGas: _, maxPriorityFeePerGas: __, ...rest } = ask(address, { nonce: 1, intentId: 'forms_1' })
    const legacy = await signer.sign({ ...rest, gasPrice: '7', accessToken })
    for (const [{ raw, hash }, type] of [
      [modern, 2],
      [legacy, 0],
    ] as const) {
      const read = Transaction.from(raw)
      assert.equal(read.from?.toLowerCase(), address)
      assert.equal(read.hash, hash)
      assert.equal(read.type, type)
    }
  })

  test('two hundred requests at once on one connection are all signed', async () => {
    const { address } = await signer.createAccount({ userId: 'X-crowd' })
    const accessToken = await place.token('X-crowd')
    const nonces = Array.from({ length: 200 }, (_, index) => index)
    const signed = await Promise.all(
      nonces.map((nonce) => signer.sign(ask(address, { nonce, intentId: `crowd_${nonce}`, accessToken }))),
    )
    assert.deepEqual(
      signed.map(({ raw }) => Transaction.from(raw).nonce),
      nonces,
    )
  })

  test('twenty identical requests at once make one record', async () => {
    const before = await signer.health()
    const request = ask(alice, { nonce: 0, intentId: 'same', accessToken: token })
    const answers = await Promise.all(Array.from({ length: 20 }, () => signer.sign(request)))
    assert.equal(new Set(answers.map(({ raw }) => raw)).size, 1)
    assert.equal(answers.filter(({ stored }) => !stored).length, 1)
    assert.equal((await signer.health()).ledgerEntries, before.ledgerEntries + 1)
  })

  test('two effects racing for one nonce: exactly one is signed', async () => {
    const { address } = await signer.createAccount({ userId: 'X-race2' })
    const accessToken = await place.token('X-race2')
    const answers = await Promise.allSettled(
      ['1', '2', '3', '4'].map((value) => signer.sign(ask(address, { value, intentId: `race_${value}`, accessToken }))),
    )
    assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1)
    for (const answer of answers) {
      if (answer.status === 'rejected') assert.ok(refusal('nonce_conflict')(answer.reason))
    }
  })

  test('an intent is recalled with all its attempts, newest first', async () => {
    const { address } = await signer.createAccount({ userId: 'X-recall' })
    const first = ask(address, { intentId: 'recall', accessToken: await place.token('X-recall') })
    const sent = await signer.sign(first)
    const { accessToken: _, ...tokenless } = first
    const raised = await signer.sign({
      ...tokenless,
      kind: 'replace',
      maxFeePerGas: '1100',
      maxPriorityFeePerGas: '110',
    })
    const cancel = { ...tokenless, kind: 'cancel' as const, to: address, value: '0' }
    await signer.sign({ ...cancel, maxFeePerGas: '1210', maxPriorityFeePerGas: '121' })
    const { attempts } = await signer.recall({ intentId: 'recall' })
    assert.deepEqual(
      attempts.map(({ kind }) => kind),
      ['cancel', 'replace', 'send'],
    )
    assert.equal(attempts[2]!.raw, sent.raw)
    assert.equal(attempts[1]!.raw, raised.raw)
    assert.deepEqual(
      [attempts[0]!.maxFeePerGas, attempts[0]!.maxPriorityFeePerGas, attempts[0]!.gas, attempts[0]!.stored],
      ['1210', '121', '21000', true],
    )
    assert.deepEqual(await signer.recall({ intentId: 'never-seen' }), { attempts: [] })
  })

  test('a token acts for its own user, on its own chain, with the scope to write', async () => {
    const { address: bob } = await signer.createAccount({ userId: BOB })
    const refused = async (from: Hex, accessToken: string, code: string) =>
      assert.rejects(signer.sign(ask(from, { nonce: 9, intentId: 'refused', accessToken })), refusal(code))
    await refused(bob, token, 'forbidden_user')
    await refused(bob, await place.token(BOB, { chain_id: 1 }), 'insufficient_scope')
    await refused(bob, await place.token(BOB, { chain_id: '31337' }), 'insufficient_scope')
    await refused(bob, await place.token(BOB, { scope: 'openid wallet:read' }), 'insufficient_scope')
    await refused(bob, 'e30.e30.e30', 'invalid_token')
    await assert.rejects(signer.sign(ask(bob)), refusal('invalid_token'))
    assert.deepEqual(await signer.recall({ intentId: 'refused' }), { attempts: [] })
  })

  test('an account that was never made here is unknown', async () => {
    const from: Hex = `0x${'ab'.repeat(20)}`
    await assert.rejects(signer.sign(ask(from, { accessToken: token })), refusal('unknown_account'))
  })

  test('policy stands before every kind: no contract creation, no fee above the limit', async () => {
    const creation = { ...ask(alice, { accessToken: token, nonce: 40 }), to: undefined as unknown as Hex }
    await assert.rejects(signer.sign(creation), /no-contract-creation/)
    const dear = { accessToken: token, nonce: 41, gas: '1000000', maxFeePerGas: '1000000000001' }
    await assert.rejects(signer.sign(ask(alice, dear)), refusal('policy_denied'))
    const { accessToken: _, ...tokenless } = dear
    const cancel = ask(alice, { ...tokenless, kind: 'cancel', to: alice, value: '0' })
    await assert.rejects(signer.sign(cancel), /max-total-fee/)
  })

  test('requests of a wrong shape are refused by name of the field', async () => {
    const wrong: [changes: object, named: RegExp][] = [
      [{ nonce: 1.5 }, /nonce/],
      [{ nonce: -1 }, /nonce/],
      [{ nonce: '1' }, /nonce/],
      [{ nonce: 2 ** 53 }, /nonce/],
      [{ chainId: 0 }, /chainId/],
      [{ value: '-1' }, /value/],
      [{ value: '1e18' }, /value/],
      [{ value: 1 }, /value/],
      [{ value: (2n ** 256n).toString() }, /value/],
      [{ data: '0xabc' }, /data/],
      [{ data: '0xzz' }, /data/],
      [{ gas: (2n ** 64n).toString() }, /gas/],
      [{ from: '0x12' }, /from/],
      [{ to: '0x12' }, /to/],
      [{ kind: 'sign' }, /kind/],
      [{ intentId: '' }, /intentId/],
      [{ gasPrice: '1' }, /fees/],
      [{ maxFeePerGas: undefined }, /maxFeePerGas/],
      [{ maxPriorityFeePerGas: '1001' }, /maxPriorityFeePerGas/],
      [{ accessList: [] }, /not known/],
      [{ digest: `0x${'00'.repeat(32)}` }, /not known/],
    ]
    for (const [changes, named] of wrong) {
      const request = { ...ask(alice, { accessToken: token, nonce: 50 }), ...changes } as never
      await assert.rejects(signer.sign(request), (error: SignerRefused) => {
        assert.equal(error.code, 'bad_request', JSON.stringify(changes))
        assert.match(error.message, named)
        return true
      })
    }
    for (const userId of ['', 'nobody', 'X-', 'x-1', `X-${'a'.repeat(256)}`, 'X-a\u0000b', 'X-\ud800']) {
      await assert.rejects(signer.createAccount({ userId }), refusal('bad_request'))
    }
  })

  test('a verb that does not exist is refused, and no verb signs a digest', async () => {
    const socket = connect(place.env.SIGNER_SOCKET!)
    for (const verb of ['signDigest', 'constructor', '__proto__']) {
      const text = JSON.stringify({ id: 1, verb, request: { digest: '00'.repeat(32) } })
      const frame = Buffer.alloc(4 + text.length)
      frame.writeUInt32BE(text.length)
      frame.write(text, 4)
      // One byte at a time: a frame may arrive in any pieces.
      for (const byte of frame) socket.write(Buffer.of(byte))
      const [answer] = (await once(socket, 'data')) as [Buffer]
      assert.equal(JSON.parse(answer.subarray(4).toString()).error.code, 'bad_request')
    }
    socket.destroy()
  })

  test('a peer that asks and does not read is held back, and gets every answer once it reads', async () => {
    const socket = connect(place.env.SIGNER_SOCKET!)
    const asked = 30_000
    for (let id = 0; id < asked; id++) socket.write(encodeFrame({ id, verb: 'health', request: {} }))
    // The others are served meanwhile, long enough to have read all of it if nothing held it back.
    for (let turn = 0; turn < 300; turn++) assert.equal((await signer.health()).ok, true)
    assert.ok(socket.writableLength > 0)
    let answered = 0
    const read = frameReader(() => (answered += 1))
    for await (const chunk of socket) {
      read(chunk as Buffer)
      if (answered === asked) break
    }
    assert.equal(answered, asked)
  })

  test('an intent of many large attempts is recalled as far as a frame holds', async () => {
    const { address } = await signer.createAccount({ userId: 'X-large' })
    const large = ask(address, { intentId: 'large', data: `0x${'11'.repeat(65_536)}`, gas: '2000000' })
    await signer.sign({ ...large, accessToken: await place.token('X-large') })
    let fee = 1_000n
    for (let attempt = 0; attempt < 5; attempt++) {
      fee = (fee * 12n) / 10n
      const fees = { maxFeePerGas: `${fee}`, maxPriorityFeePerGas: `${fee}` }
      await signer.sign({ ...large, kind: 'replace', ...fees })
    }
    const { attempts } = await signer.recall({ intentId: 'large' })
    assert.equal(attempts.length, 3)
    assert.equal(attempts[0]!.maxFeePerGas, `${fee}`)
  })

  test('a malformed frame ends its connection and no other', async () => {
    const frames = [
      Buffer.from([0xff, 0xff, 0xff, 0xff]),
      Buffer.from([0, 0, 0, 2, 0x7b, 0x7b]),
      Buffer.from([0, 0, 0, 2, 0xff, 0xff]),
      Buffer.from([0, 0, 0, 4, ...Buffer.from('null')]),
      Buffer.from([0, 0, 0, 2, ...Buffer.from('{}')]),
    ]
    for (const frame of frames) {
      const socket = connect(place.env.SIGNER_SOCKET!)
      socket.write(frame)
      socket.resume()
      await once(socket, 'close')
    }
    assert.equal((await signer.health()).ok, true)
  })

  test('a second signer on the same store does not start', async () => {
    const other = { env: { ...place.env, SIGNER_SOCKET: join(place.folder, 'other.sock') } }
    await assert.rejects(startSigner(other), /Another signer uses this store/)
  })

  test('folder, store and socket are this user’s alone', () => {
    const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
    assert.equal(mode(place.env.SIGNER_DIR!), '700')
    assert.equal(mode(place.env.SIGNER_SOCKET!), '600')
    assert.equal(mode(place.env.SIGNER_KEK_FILE!), '600')
    assert.equal(mode(join(place.env.SIGNER_DIR!, 'signer.sqlite')), '600')
    assert.equal(mode(join(place.env.SIGNER_DIR!, 'witness')), '600')
  })

  test('everything signed above verifies, beside the running signer', () => {
    const { problems, signatures, accounts } = verifyStore(place.env.SIGNER_DIR!)
    assert.deepEqual(problems, [])
    assert.ok(signatures > 200 && accounts >= 6)
  })

  test('neither tokens nor keys nor signed bytes are in the log', async () => {
    const log = signer.stderr()
    assert.match(log, /signer_ready/)
    const kek = readFileSync(place.env.SIGNER_KEK_FILE!)
    for (const secret of [token, token.split('.')[2]!, kek.toString('hex'), kek.toString('base64')]) {
      assert.ok(!log.includes(secret))
    }
    const { attempts } = await signer.recall({ intentId: 'same' })
    assert.ok(!log.includes(attempts[0]!.raw.slice(2)))
  })
})

test('after SIGKILL under load every answered signature is still there, byte for byte', async (t) => {
  const { place, signer, address, accessToken, again } = await world(t)
  const answered: { nonce: number; raw: Hex }[] = []
  const request = (nonce: number) => ask(address, { nonce, intentId: `load_${nonce}`, accessToken })
  let next = 0
  const caller = async () => {
    for (;;) {
      const nonce = next++
      const { raw } = await signer.sign(request(nonce))
      answered.push({ nonce, raw })
      if (answered.length === 150) process.kill(signer.pid, 'SIGKILL')
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: 8 }, caller))
  for (const end of ends) assert.ok(end.status === 'rejected' && refusal('signer_unavailable')(end.reason))
  assert.equal(await signer.ended, 'SIGKILL')

  const revived = await again()
  for (const { nonce, raw } of answered) {
    const repeated = await revived.sign(request(nonce))
    assert.equal(repeated.raw, raw)
    assert.equal(repeated.stored, true)
    const other = { ...request(nonce), value: '2', maxFeePerGas: '2000', maxPriorityFeePerGas: '200' }
    await assert.rejects(revived.sign(other), refusal('nonce_conflict'))
  }
  assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
})

for (const [point, isKept] of [
  ['signer.before-commit', false],
  ['signer.after-commit', true],
  ['signer.after-witness', true],
] as const) {
  test(`killed ${point}, the signature is ${isKept ? 'kept' : 'not there'} and the request can be repeated`, async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    await signer.end('SIGTERM')
    // The first commit of this run is the one of the signature.
    const doomed = await again({ more: { CRASH_AT: point } })
    await assert.rejects(doomed.sign(ask(address, { accessToken })), refusal('signer_unavailable'))
    assert.equal(await doomed.ended, 'SIGKILL')
    const revived = await again()
    assert.equal((await revived.recall({ intentId: 'tx_0' })).attempts.length, isKept ? 1 : 0)
    const { stored, raw } = await revived.sign(ask(address, { accessToken }))
    assert.equal(stored, isKept)
    assert.equal(Transaction.from(raw).from?.toLowerCase(), address)
    assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
  })
}

describe('a store that is not what it was', () => {
  const store = (place: Place, file: string) => join(place.env.SIGNER_DIR!, file)

  async function refusesEverything(signer: Running, reason: RegExp, address: Hex) {
    const damaged = (error: unknown) => refusal('ledger_damaged')(error) && reason.test((error as Error).message)
    await assert.rejects(signer.sign(ask(address)), damaged)
    await assert.rejects(signer.createAccount({ userId: ALICE }), damaged)
    await assert.rejects(signer.recall({ intentId: 'tx_0' }), damaged)
    await assert.rejects(signer.health(), damaged)
    assert.match(signer.stderr(), /ledger_damaged/)
  }

  test('a cut write-ahead log is noticed', async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    for (let nonce = 0; nonce < 3; nonce++) await signer.sign(ask(address, { nonce, accessToken }))
    await signer.end('SIGKILL')
    const log = store(place, 'signer.sqlite-wal')
    truncateSync(log, statSync(log).size - 5_000)
    await refusesEverything(await again(), /rolled back/, address)
  })

  test('an older copy put back is noticed, also when it only lacks an account', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    copyFileSync(store(place, 'signer.sqlite'), join(place.folder, 'old'))
    const later = await again()
    await later.createAccount({ userId: BOB })
    await later.end('SIGTERM')
    copyFileSync(join(place.folder, 'old'), store(place, 'signer.sqlite'))
    await refusesEverything(await again(), /1 of 2 records are missing/, address)
    assert.match(verifyStore(place.env.SIGNER_DIR!).problems.join(), /rolled back/)
  })

  test('a store that is gone is noticed', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    rmSync(store(place, 'signer.sqlite'))
    await refusesEverything(await again(), /rolled back/, address)
  })

  test('a missing witness is noticed', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    rmSync(store(place, 'witness'))
    await refusesEverything(await again(), /witness/, address)
  })

  test('a file that is no database is noticed', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    writeFileSync(store(place, 'signer.sqlite'), 'x'.repeat(8_192))
    await refusesEverything(await again(), /cannot be read/, address)
  })

  for (const [what, sql] of [
    ['altered', `UPDATE ledger SET intent_id = 'another' WHERE nonce = 1`],
    ['removed', 'DELETE FROM ledger WHERE nonce = 1'],
    ['cut off at the end', 'DELETE FROM ledger WHERE nonce = 2'],
    ['attributed to another token', `UPDATE ledger SET token_id = NULL, client_id = 'x' WHERE nonce = 0`],
  ] as const) {
    test(`a record ${what} is noticed`, async (t) => {
      const { place, signer, address, accessToken, again } = await world(t)
      for (let nonce = 0; nonce < 3; nonce++) await signer.sign(ask(address, { nonce, accessToken }))
      await signer.end('SIGTERM')
      const db = new DatabaseSync(store(place, 'signer.sqlite'))
      db.exec(sql)
      db.close()
      await refusesEverything(await again(), /altered|missing|head/, address)
      assert.notDeepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
    })
  }

  test('keys swapped between two users sign for neither', async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    const { address: bob } = await signer.createAccount({ userId: BOB })
    await signer.end('SIGTERM')
    const db = new DatabaseSync(store(place, 'signer.sqlite'))
    const row = (userId: string) => db.prepare('SELECT wrapped, iv, tag FROM accounts WHERE user_id = ?').get(userId)!
    const [first, second] = [row(ALICE), row(BOB)]
    const put = db.prepare('UPDATE accounts SET wrapped = ?, iv = ?, tag = ? WHERE user_id = ?')
    put.run(second.wrapped!, second.iv!, second.tag!, ALICE)
    put.run(first.wrapped!, first.iv!, first.tag!, BOB)
    db.close()
    const revived = await again()
    await assert.rejects(revived.sign(ask(address, { accessToken })), refusal('key_damaged'))
    const tokenOfBob = await place.token(BOB)
    await assert.rejects(revived.sign(ask(bob, { accessToken: tokenOfBob })), refusal('key_damaged'))
  })

  test('a whole row under another user’s name does not open, and verify names it', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    const db = new DatabaseSync(store(place, 'signer.sqlite'))
    db.exec(`UPDATE accounts SET user_id = '${BOB}'`)
    db.close()
    const accessToken = await place.token(BOB)
    await assert.rejects((await again()).sign(ask(address, { accessToken })), refusal('key_damaged'))
    assert.match(verifyStore(place.env.SIGNER_DIR!).problems.join(), /does not know/)
  })
})

describe('starting and ending', () => {
  test('settings that are missing are named all at once', async () => {
    await assert.rejects(startSigner({ env: { SIGNER_ISSUER: 'nonsense', LOG_LEVEL: 'loud' } }), (error: Error) => {
      for (const key of ['SOCKET', 'DIR', 'KEK_FILE', 'JWKS_FILE', 'AUDIENCE']) {
        assert.match(error.message, new RegExp(`SIGNER_${key} is missing`))
      }
      assert.match(error.message, /SIGNER_ISSUER must be/)
      assert.match(error.message, /LOG_LEVEL must be/)
      return true
    })
  })

  test('another master key, none, a short one or one open to all: the signer does not start', async (t) => {
    const { place, signer } = await world(t)
    await signer.end('SIGTERM')
    const kek = place.env.SIGNER_KEK_FILE!
    const right = readFileSync(kek)
    const put = (bytes: Buffer, mode: number) => {
      rmSync(kek, { force: true })
      writeFileSync(kek, bytes, { mode })
    }
    put(Buffer.alloc(32, 7), 0o600)
    await assert.rejects(startSigner(place), /does not open this store/)
    put(right.subarray(1), 0o600)
    await assert.rejects(startSigner(place), /exactly 32 bytes/)
    put(Buffer.concat([right, Buffer.of(10)]), 0o600)
    await assert.rejects(startSigner(place), /exactly 32 bytes/)
    put(right, 0o604)
    await assert.rejects(startSigner(place), /open to every user/)
    rmSync(kek)
    await assert.rejects(startSigner(place), /cannot be opened/)
    put(right, 0o600)
    const restored = await startSigner(place)
    assert.equal((await restored.health()).accounts, 1)
    await restored.end('SIGTERM')
  })

  test('in production no master key is made, and none is taken from inside the store', async (t) => {
    const place = await makePlace()
    t.after(() => place.clear())
    const production = { more: { NODE_ENV: 'production' } }
    await assert.rejects(startSigner(place, production), /cannot be opened/)
    const inside = join(place.env.SIGNER_DIR!, 'kek')
    const env = { ...place.env, SIGNER_KEK_FILE: inside }
    await assert.rejects(startSigner({ env }, production), /must not be inside SIGNER_DIR/)
  })

  test('SIGTERM leaves nothing signed and unanswered, and a store that opens again', async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    const nonces = Array.from({ length: 400 }, (_, nonce) => nonce)
    const underWay = nonces.map((nonce) => signer.sign(ask(address, { nonce, accessToken })))
    const settled = Promise.allSettled(underWay)
    await underWay[0]
    process.kill(signer.pid, 'SIGTERM')
    const answered = (await settled).filter(({ status }) => status === 'fulfilled').length
    assert.equal(await signer.ended, 0)
    assert.equal((await (await again()).health()).ledgerEntries, 1 + answered)
    assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
  })

  test('with --with-parent it ends when its standard input does', async (t) => {
    const place = await makePlace()
    t.after(() => place.clear())
    const signer = await startSigner(place, { flags: ['--with-parent'] })
    signer.stdin.end()
    assert.equal(await signer.ended, 0)
  })

  test('a file at the socket’s path that is no socket is left alone', async (t) => {
    const place = await makePlace()
    t.after(() => place.clear())
    writeFileSync(place.env.SIGNER_SOCKET!, 'mine')
    await assert.rejects(startSigner(place), /no socket/)
    assert.equal(readFileSync(place.env.SIGNER_SOCKET!, 'utf8'), 'mine')
  })
})
