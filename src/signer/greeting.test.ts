import assert from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { command } from '../../test/kit/command.ts'
import { isContinued, isIncluded } from '../../test/merkle.ts'
import { until } from '../../test/kit/until.ts'
import { ALICE, ask, refusal, world, type Place } from '../../test/kit/signer.ts'
import { askAt } from './programs/ask-operator.ts'
import { connectSigner } from '../signer-wire/client.ts'
import { encodeFrame, frameReader } from '../signer-wire/frames.ts'
import { readSignedHead, WIRE_VERSION } from '../signer-wire/wire.ts'

async function accept({ env }: Place, ...args: string[]): Promise<string> {
  const { out, err } = await command(env, ['signer', 'accept-restore', ...args])
  return out + err
}

const size = (head: string | null) => readSignedHead(head!)!.size
const bytes = (hexes: string[]) => hexes.map((one) => Buffer.from(one, 'hex'))

/** What a client has beside the verbs. */
const OF_CLIENT = new Set(['identity', 'bringRevocations', 'head', 'rememberHead', 'close', 'stderr', 'pid', 'ended', 'end', 'stdin']) // prettier-ignore

test('a folder restored as a whole is found at the first request of who kept a head, and accepted by its operator', async (t) => {
  const { place, signer, address, accessToken, again } = await world(t)
  const send = (nonce: number) => ask(address, { nonce, accessToken })
  await signer.sign(send(0))
  await signer.end('SIGTERM')
  const folder = place.env.SIGNER_DIR!
  cpSync(folder, join(place.folder, 'copy'), { recursive: true })
  const later = await again()
  for (const nonce of [1, 2]) await later.sign(send(nonce))
  const kept = later.head()!
  assert.equal(size(kept), 4)
  await later.end('SIGTERM')
  rmSync(folder, { recursive: true })
  cpSync(join(place.folder, 'copy'), folder, { recursive: true })

  const older = await again()
  const client = connectedWith(t, place, kept)
  const isFound = (error: unknown) =>
    refusal('ledger_damaged')(error) &&
    /older than what it has answered for: 4 records, of which it has 2/.test((error as Error).message)
  await assert.rejects(client.sign(send(1)), isFound)
  assert.equal(client.head(), kept)
  // For everyone, also who kept nothing, and after a start.
  await assert.rejects(older.createAccount({ userId: ALICE }), isFound)
  await assert.rejects(older.recallSince({ after: 0 }), isFound)
  await assert.rejects(older.recall({ intentId: 'tx_0' }), isFound)
  await older.end('SIGTERM')
  const restarted = await again()
  await assert.rejects(restarted.health(), isFound)
  // Each verb of its own; `prove` says where the ledger ends, and `greeting` is what found it.
  const verbs = [...Object.keys(restarted).filter((verb) => !OF_CLIENT.has(verb)), 'revocations']
  assert.ok(verbs.length >= 20, verbs.join())
  for (const verb of verbs.filter((one) => one !== 'prove'))
    await assert.rejects(askAt(place.env.SIGNER_SOCKET!, { verb, request: {} }), /older than what it has answered for/, verb) // prettier-ignore
  await restarted.end('SIGTERM')

  const shown = await accept(place)
  assert.match(shown, /A server stored a signed head of 4 records\. This store does not continue that head/)
  assert.match(
    await accept(place, '--without-networks', '--accept', /--accept ([0-9a-f]{16})/.exec(shown)![1]!),
    /Accepted as record 3/,
  )
  const accepted = await again()
  const reconnected = connectedWith(t, place, kept)
  await reconnected.sign(send(1))
  assert.equal(size(reconnected.head()), 4)
  assert.notEqual(reconnected.head(), kept)
  await accepted.end('SIGTERM')
})

test('the newest head comes with the answers, and records and sizes are proved under it', async (t) => {
  const { place, signer, address, accessToken } = await world(t)
  const send = (nonce: number) => ask(address, { nonce, accessToken })
  await signer.sign(send(0))
  const first = readSignedHead(signer.head()!)!
  assert.equal(first.size, 2)
  for (const nonce of [1, 2, 3]) await signer.sign(send(nonce))
  const second = readSignedHead(signer.head()!)!
  assert.equal(second.size, 5)
  const { proof, head } = await signer.prove({ from: first.size })
  assert.equal(head, signer.head())
  assert.ok(isContinued(first, second, bytes(proof)))
  assert.ok(!isContinued({ ...first, root: Buffer.alloc(32) }, second, bytes(proof)))
  const { record, proof: path } = await signer.prove({ seq: 3, size: 5 })
  assert.ok(isIncluded(Buffer.from(record!, 'hex'), { index: 2, size: 5, root: second.root, proof: bytes(path) }))
  for (const wrong of [
    { seq: 6 },
    { seq: 3, size: 6 },
    { seq: 3, size: 2 },
    { from: 3, to: 2 },
    { from: 6 },
    { seq: 1, from: 1 },
  ])
    await assert.rejects(signer.prove(wrong), refusal('bad_request'), JSON.stringify(wrong))

  // What is no head stops nobody.
  const stranger = connectedWith(t, place, 'x'.repeat(1_025))
  assert.equal((await stranger.health()).ok, true)
})

test('who knows the head of another identity gets nothing, from the first request on; others do', async (t) => {
  const { place, signer, address, accessToken } = await world(t)
  await signer.sign(ask(address, { nonce: 0, accessToken }))
  const other = signer.head()!.replace(/[0-9a-f]{16}\n/g, '0123456789abcdef\n')
  const client = connectedWith(t, place, other)
  const isFound = refusal('ledger_damaged')
  await Promise.all([
    assert.rejects(client.sign(ask(address, { nonce: 1, accessToken })), isFound),
    assert.rejects(client.createAccount({ userId: ALICE }), isFound),
    assert.rejects(client.recallSince({ after: 0 }), isFound),
  ])
  await assert.rejects(client.health(), isFound)
  assert.equal(client.head(), other)
  assert.equal((await signer.health()).ledgerEntries, 2)
})

test('a server that speaks another wire is refused in one sentence, whatever it asks on that connection', async (t) => {
  const { place, signer } = await world(t)
  const said =
    /^The server uses wire version (\d+|unknown) and the signer wire version 1\. Nothing was signed\. Run both programs from one release\.$/
  for (const wire of [WIRE_VERSION + 1, undefined, 'x'.repeat(9)]) {
    const socket = connect(place.env.SIGNER_SOCKET!)
    t.after(() => socket.destroy())
    const answers: { error?: { code: string; detail: string } }[] = []
    socket.on('data', frameReader((answer) => void answers.push(answer as (typeof answers)[0]))) // prettier-ignore
    const asked = [['greeting', { wire, head: null, unheardOf: 1 }], ['health', {}], ['prove', { seq: 1 }], ['createAccount', { userId: ALICE }]] // prettier-ignore
    for (const [n, [verb, request]] of asked.entries()) socket.write(encodeFrame({ id: n + 1, verb, request }))
    await until('all is answered', () => answers.length === asked.length)
    for (const { error } of answers) {
      assert.equal(error?.code, 'signer_unavailable')
      assert.match(error.detail, said)
    }
  }
  assert.equal((await signer.health()).ok, true)
})

test('a refusal carries no head, and hides none from who reads on', async (t) => {
  const { signer, address, accessToken } = await world(t)
  await signer.sign(ask(address, { nonce: 0, accessToken }))
  const taken = { ...ask(address, { nonce: 0, accessToken }), intentId: 'another', value: '7' }
  await Promise.all([
    assert.rejects(signer.sign(taken), refusal('nonce_conflict')),
    signer.sign(ask(address, { nonce: 1, accessToken })),
  ])
  assert.equal(size(signer.head()), 3)
})

function connectedWith(t: TestContext, place: Place, head: string) {
  const client = connectSigner({ path: place.env.SIGNER_SOCKET! })
  t.after(() => client.close())
  client.rememberHead(head)
  return client
}

test('a server whose operator has named the signer’s key believes no other one, also before it has kept any head', async (t) => {
  const { place, signer, address, accessToken } = await world(t)
  const { identity } = await signer.health()
  const other = await world(t)
  const { identity: foreign } = await other.signer.health()
  const pinned = (path: string, verifierKey: string) => {
    const client = connectSigner({ path, verifierKey })
    t.after(() => client.close())
    return client
  }
  const mine = pinned(place.env.SIGNER_SOCKET!, identity)
  await mine.sign(ask(address, { accessToken }))
  assert.equal((await mine.createAccount({ userId: ALICE })).address, address)
  // Someone stands in its place with a store of their own; or says its name, with another key.
  const bent = [...identity.split('+').slice(0, 2), ...foreign.split('+').slice(2)].join('+')
  for (const client of [
    pinned(other.place.env.SIGNER_SOCKET!, identity),
    pinned(other.place.env.SIGNER_SOCKET!, bent),
  ]) {
    await assert.rejects(client.createAccount({ userId: ALICE }), refusal('ledger_damaged'))
    // All that was asked together, and again on the next connection.
    const ends = await Promise.allSettled([client.health(), client.createAccount({ userId: 'DISCORD-9' })])
    for (const end of ends) assert.ok(end.status === 'rejected' && refusal('ledger_damaged')(end.reason))
    assert.equal(client.head(), null)
  }
})
