import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { connectSigner, type SignerRefused } from '../signer-wire/client.ts'
import { ALICE, ask, makePlace, refusal, startSigner, type Place, type Running } from '../../test/kit/signer.ts'
import { verifyStore } from './programs/verify.ts'
import { encodeFrame, frameReader } from '../signer-wire/frames.ts'
import { type Hex } from '../signer-wire/wire.ts'

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

  test('two connections racing for one new user get one account', async () => {
    const other = connectSigner({ path: place.env.SIGNER_SOCKET! })
    const both = await Promise.all([signer, other].map((each) => each.createAccount({ userId: 'X-two' })))
    other.close()
    const [{ isNew: first, ...one }, { isNew: second, ...same }] = both as [(typeof both)[0], (typeof both)[0]]
    assert.deepEqual(one, same)
    assert.deepEqual(new Set([first, second]), new Set([true, false]), 'one call made it')
  })

  test('user ids differ by every character, and odd ones come back to their own account', async () => {
    const ids = ['X-é', 'X-e\u0301', 'X-%2F', 'X-/', 'X- ', 'X-\u2028', 'X-😀', `X-${'%'.repeat(255)}`, 'X-x', 'X-X']
    const made = await Promise.all(ids.map((userId) => signer.createAccount({ userId })))
    assert.equal(new Set(made.map(({ address }) => address)).size, ids.length)
    const found = await Promise.all(ids.map((userId) => signer.createAccount({ userId })))
    assert.deepEqual(found, made.map((one) => ({ ...one, isNew: false }))) // prettier-ignore
    await assert.rejects(signer.createAccount({ userId: `X-${'%'.repeat(300)}` }), refusal('bad_request'))
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
    const { attempts, hasMore } = await signer.recall({ intentId: 'recall' })
    assert.equal(hasMore, false)
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
    assert.deepEqual(await signer.recall({ intentId: 'never-seen' }), { attempts: [], hasMore: false })
    const slot = { chainId: first.chainId, from: address, nonce: first.nonce }
    assert.deepEqual(await signer.recall({ intentId: 'recall', before: attempts[0]!.seq }), {
      attempts: attempts.slice(1),
      hasMore: false,
    })
    assert.deepEqual(await signer.recall(slot), { attempts, hasMore }, 'by its nonce too, whosever it is')
    assert.deepEqual(await signer.recall({ ...slot, nonce: first.nonce + 1 }), { attempts: [], hasMore: false })
    await assert.rejects(signer.recall({ ...slot, intentId: 'recall' }), refusal('bad_request'))
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
      [{ value: '01' }, /value/],
      [{ value: ' 1' }, /value/],
      [{ value: '1\n' }, /value/],
      [{ value: '' }, /value/],
      [{ value: '0x1' }, /value/],
      [{ value: '１' }, /value/],
      [{ chainId: 1e21 }, /chainId/],
      [{ chainId: '31337' }, /chainId/],
      [{ gas: '1e3' }, /gas/],
      [{ to: `0X${'ab'.repeat(20)}` }, /to/],
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
      [{ accessList: [] }, /unknown field/],
      [{ digest: `0x${'00'.repeat(32)}` }, /unknown field/],
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

  test('a second signer on the same store does not start', async () => {
    const other = { env: { ...place.env, SIGNER_SOCKET: join(place.folder, 'other.sock') } }
    await assert.rejects(startSigner(other), /Another signer is using this store/)
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
    assert.ok(signatures > 10 && accounts > 10)
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
