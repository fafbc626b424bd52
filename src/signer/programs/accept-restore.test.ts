// tier: all, because it restores a signer for each way in which a copy can be old
import assert from 'node:assert/strict'
import { copyFileSync, cpSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { countingNode } from '../../../test/nodes/counting-node.ts'
import { ask, BOB, CHAIN_ID, refusal, SOMEWHERE, world, type Place } from '../../../test/kit/signer.ts'
import { acceptRestore, findStore } from './accept-restore.ts'
import { askAt } from './ask-operator.ts'
import { adminSocketIn } from '../socket.ts'
import { verifyStore } from './verify.ts'
import type { ShownGrant } from '../rules/withdrawals.ts'
import { frozenEntry, revoked, type Hex } from '../../signer-wire/wire.ts'

const HOUSE = 'SPONSOR-HOUSE'

async function accept({ env }: Place, ...args: string[]): Promise<{ code: number | null; output: string }> {
  const { code, out, err } = await command(env, ['signer', 'accept-restore', ...args])
  return { code, output: out + err }
}

const confirmation = (output: string): string => /--accept ([0-9a-f]{16})$/m.exec(output)![1]!

const database = (place: Place) => join(place.env.SIGNER_DIR!, 'signer.sqlite')

/** A store with nonces 0 to 2, put back after 3 to 5 and another account were signed. */
async function rolledBack(t: TestContext) {
  const { place, signer, address, accessToken, again } = await world(t)
  const send = (nonce: number) => ask(address, { nonce, accessToken })
  const first = await signer.sign(send(0))
  for (const nonce of [1, 2]) await signer.sign(send(nonce))
  await signer.end('SIGTERM')
  copyFileSync(database(place), join(place.folder, 'old'))
  const later = await again()
  for (const nonce of [3, 4, 5]) await later.sign(send(nonce))
  await later.createAccount({ userId: BOB })
  await later.end('SIGTERM')
  copyFileSync(join(place.folder, 'old'), database(place))
  return { place, address, accessToken, again, send, first }
}

test('an older copy signs again when it was accepted, and no nonce that the chain has counted', async (t) => {
  const { place, address, again, send, first } = await rolledBack(t)
  const shown = await accept(place)
  assert.equal(shown.code, 1)
  assert.match(
    shown.output,
    /The store: 4 records, the last [0-9a-f]{16} of \S+Z \(send, nonce 2 on chain 31337\); 1 acc/,
  )
  assert.match(shown.output, /Its witness: 8 records, the last [0-9a-f]{16}\.\n4 records are lost/)
  assert.match(shown.output, /Chain 31337 was not checked \(--rpc-url\), and 1 accounts/)
  const refusing = await again()
  await assert.rejects(refusing.sign(send(3)), refusal('ledger_damaged'))
  // Not under a signer that runs, though it refuses.
  const blind = await accept(place, '--accept', confirmation(shown.output))
  assert.deepEqual([blind.code, /No network was asked/.test(blind.output)], [1, true])
  const busy = await accept(place, '--without-networks', '--accept', confirmation(shown.output))
  assert.deepEqual([busy.code, /Another signer is using this store/.test(busy.output)], [1, true])
  await refusing.end('SIGTERM')

  // The node knows five of the six for sure, and the last from its pool.
  const url = await countingNode(t, { [address.toLowerCase()]: ['0x5', '0x6'] })
  const wrong = await accept(place, '--rpc-url', url, '--accept', 'f'.repeat(16))
  assert.deepEqual([wrong.code, /--accept must be/.test(wrong.output)], [1, true])
  const done = await accept(place, '--rpc-url', url, '--accept', confirmation(shown.output))
  assert.equal(done.code, 0, done.output)
  assert.match(
    done.output,
    /^Chain 31337 counts transactions of 1 of 1 accounts, at most 6 of one\.$[^]*Accepted, as record 5/m,
  )
  assert.doesNotMatch(done.output, /S3CRET|not checked/)

  assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
  const signer = await again()
  assert.equal((await signer.sign(send(0))).raw, first.raw)
  for (const nonce of [3, 4, 5]) await assert.rejects(signer.sign(send(nonce)), refusal('nonce_conflict'))
  await assert.rejects(
    signer.sign(ask(address, { nonce: 4, intentId: 'fill', kind: 'cancel', to: address, value: '0' })),
    refusal('nonce_conflict'),
  )
  assert.equal((await signer.sign(send(6))).stored, false)
  await assert.rejects(signer.sign(send(23)), refusal('nonce_gap'))
  await signer.end('SIGTERM')
  // It holds for every start to come.
  const restarted = await again()
  await assert.rejects(restarted.sign(ask(address, { nonce: 5, intentId: 'again', accessToken: await place.token('DISCORD-1') })), refusal('nonce_conflict')) // prettier-ignore
  await restarted.end('SIGTERM')
  const nothing = await accept(place)
  assert.deepEqual([nothing.code, /nothing to accept/.test(nothing.output)], [0, true])
})

test('a store that changed after it was looked at is not accepted', async (t) => {
  const { place } = await rolledBack(t)
  const folder = place.env.SIGNER_DIR!
  const settings = { kek: { provider: 'file' as const, file: place.env.SIGNER_KEK_FILE! }, kekNext: undefined }
  const { head } = await findStore(folder, settings)
  const terms = { restored: { witness: null, floors: [] }, head: null, frozen: [] }
  // As many records, the last of them another.
  const other = { ...head, record: Buffer.alloc(32, 7) }
  await assert.rejects(acceptRestore(folder, settings, other, terms), /The store has changed since it was shown/)
  assert.equal((await findStore(folder, settings)).head.count, head.count)
  assert.equal((await acceptRestore(folder, settings, head, terms)).record, head.count + 1)
})

test('limits are full for a period where nonces were lost, that the chain counted and the ledger has no signature for: behind a gap, one alone, none twice', async (t) => {
  const { place, signer, address, accessToken, again } = await world(t)
  const { address: bob } = await signer.createAccount({ userId: BOB })
  const users = { [address]: accessToken, [bob]: await place.token(BOB) }
  const file = join(place.folder, 'policy.json')
  const limit = { name: 'day', effect: 'limit', per: ['user'], native: { periodAmount: '1000', periodDuration: 86_400 } } // prettier-ignore
  writeFileSync(file, JSON.stringify({ version: 1, rules: [limit, { name: 'rest', effect: 'allow' }] }))
  const start = () => again({ more: { SIGNER_POLICY_FILE: file } })
  const send = (from: Hex, nonce: number) => ask(from, { nonce, accessToken: users[from], intentId: `${from}_${nonce}` }) // prettier-ignore
  // An account that came with a past: nobody knows of it, and nothing was lost.
  await signer.sign(send(bob, 40))
  for (const nonce of [0, 16]) await signer.sign(send(address, nonce))
  await signer.end('SIGTERM')
  const restore = async (counts: [Hex, number][]) => {
    const hex = (count: number): [string, string] => [`0x${count.toString(16)}`, `0x${count.toString(16)}`]
    const url = await countingNode(
      t,
      Object.fromEntries(counts.map(([from, count]) => [from.toLowerCase(), hex(count)])),
    )
    const { output } = await accept(place, '--rpc-url', url)
    const { code } = await accept(place, '--rpc-url', url, '--accept', confirmation(output))
    assert.equal(code, 0)
    return start()
  }
  const isFull = /counts as used after a restore that lost signatures/
  const first = await restore([
    [address, 17],
    [bob, 41],
  ])
  await assert.rejects(first.sign(send(address, 17)), isFull)
  // What takes nothing of a period is not held up.
  await first.check({ ...send(address, 17), value: '0' })
  await first.sign(send(bob, 41))
  await first.end('SIGTERM')
  // Nothing of Bob's is missing but what the restore before has told already; then one nonce is.
  const second = await restore([[bob, 42]])
  await second.sign(send(bob, 42))
  await second.end('SIGTERM')
  const third = await restore([[bob, 44]])
  await assert.rejects(third.sign(send(bob, 44)), isFull)
  // What is told is told: a node that is behind at a restore does not have it counted a second time by the next.
  const roomFrom = async (signer: typeof third) => {
    const error = await signer.sign(send(address, 17)).then(() => assert.fail('it was signed'), (error: Error) => error) // prettier-ignore
    return /more is available from (\S+)/.exec(error.message)![1]
  }
  const since = await roomFrom(third)
  await third.end('SIGTERM')
  await (await restore([[address, 5]])).end('SIGTERM')
  assert.equal(await roomFrom(await restore([[address, 17]])), since)
})

test('a folder that was restored as a whole is reconciled with the chain, though its witness agrees', async (t) => {
  const { place, signer, address, accessToken, again } = await world(t)
  await signer.end('SIGTERM')
  cpSync(place.env.SIGNER_DIR!, join(place.folder, 'copy'), { recursive: true })
  const later = await again()
  await later.sign(ask(address, { accessToken }))
  await later.end('SIGTERM')
  rmSync(place.env.SIGNER_DIR!, { recursive: true })
  cpSync(join(place.folder, 'copy'), place.env.SIGNER_DIR!, { recursive: true })

  const url = await countingNode(t, { [address.toLowerCase()]: ['0x1', '0x1'] })
  const shown = await accept(place, '--rpc-url', url)
  assert.equal(shown.code, 1)
  assert.equal((await accept(place, '--rpc-url', url, '--accept', confirmation(shown.output))).code, 0)
  const restored = await again()
  await assert.rejects(restored.sign(ask(address, { accessToken, value: '2' })), refusal('nonce_conflict'))
  await restored.sign(ask(address, { accessToken, nonce: 1 }))
})

test('a store without a witness can be accepted; one that is damaged or has another’s witness cannot', async (t) => {
  const { place, again, send } = await rolledBack(t)
  const [shown, witness] = [await accept(place), join(place.env.SIGNER_DIR!, 'witness')]
  const other = await rolledBack(t)
  const [mine, foreign] = [join(place.folder, 'witness'), join(other.place.env.SIGNER_DIR!, 'witness')]
  copyFileSync(witness, mine)

  // The other's ends later than this store does now, so this one is made longer than it first.
  rmSync(witness)
  assert.match((await accept(place)).output, /missing or incomplete/)
  assert.equal((await accept(place, '--without-networks', '--accept', confirmation(shown.output))).code, 0)
  const signer = await again()
  for (let nonce = 3; nonce < 12; nonce++) await signer.sign(send(nonce))
  await signer.end('SIGTERM')
  copyFileSync(witness, mine)
  copyFileSync(foreign, witness)
  const strange = await accept(place, '--accept', '0'.repeat(16))
  assert.deepEqual([strange.code, /belongs to another store/.test(strange.output)], [1, true])

  copyFileSync(mine, witness)
  const db = new DatabaseSync(database(place))
  db.exec("UPDATE ledger SET rule = 'x' WHERE seq = 2")
  db.close()
  const damaged = await accept(place, '--accept', '0'.repeat(16))
  assert.deepEqual([damaged.code, /damaged, not merely older[^]*Record 2/.test(damaged.output)], [1, true])
})

test('a node that does not answer for every account changes nothing, and its address is not shown', async (t) => {
  const { place, address } = await rolledBack(t)
  const { output } = await accept(place)
  const bad: Record<string, string> = {
    'a count that is none': await countingNode(t, { [address.toLowerCase()]: ['0x', '0x'] }),
    'no answer': 'http://127.0.0.1:1/key-S3CRET',
    'no address': 'S3CRET',
  }
  for (const [name, url] of Object.entries(bad)) {
    const refused = await accept(place, '--rpc-url', url, '--accept', confirmation(output))
    assert.deepEqual([refused.code, /--rpc-url/.test(refused.output)], [1, true], name)
    assert.doesNotMatch(refused.output, /S3CRET/, name)
  }
  assert.equal((await accept(place)).output, output)
})

test('after a restore nothing is signed without a token before the first list, which has what the copy may lack', async (t) => {
  const { place, signer, address, accessToken, again } = await world(t)
  const { address: bob } = await signer.createAccount({ userId: BOB })
  const bobs = { accessToken: await place.token(BOB), intentId: 'bob' }
  await signer.sign(ask(address, { accessToken }))
  await signer.sign(ask(bob, bobs))
  await signer.end('SIGTERM')
  rmSync(join(place.env.SIGNER_DIR!, 'witness'))
  const shown = await accept(place)
  assert.equal((await accept(place, '--without-networks', '--accept', confirmation(shown.output))).code, 0)
  const lists = { more: { SIGNER_REVOCATIONS_SECONDS: '60' } }
  const restored = await again(lists)
  const raise = (from: Hex, intentId: string) => ask(from, { kind: 'replace', intentId, maxFeePerGas: '2000', maxPriorityFeePerGas: '200' }) // prettier-ignore
  for (const [from, intentId] of [
    [address, 'tx_0'],
    [bob, 'bob'],
  ] as const)
    // prettier-ignore
    await assert.rejects(restored.sign(raise(from, intentId)), refusal('revocations_stale'))
  // Frozen after the copy was made.
  await restored.bringRevocations([
    await place.revocations({
      entries: [revoked.user(BOB), frozenEntry(revoked.user(BOB), { isFrozen: true, at: Date.now() })],
    }),
  ])
  await assert.rejects(restored.sign(raise(bob, 'bob')), refusal('account_frozen'))
  await restored.sign(raise(address, 'tx_0'))
  await restored.end('SIGTERM')
  // Lists may be withheld from any signer for a while; the restore is over with the first token that was accepted.
  const early = await again(lists)
  await assert.rejects(early.sign(ask(address, { kind: 'cancel', intentId: 'tx_0', maxFeePerGas: '3000', maxPriorityFeePerGas: '300', to: address, value: '0' })), refusal('revocations_stale')) // prettier-ignore
  await early.bringRevocations([await place.revocations({ entries: [] })])
  await early.sign(ask(address, { nonce: 1, accessToken }))
  await early.end('SIGTERM')
  const later = await again(lists)
  await later.sign(ask(address, { kind: 'cancel', nonce: 1, intentId: 'tx_1', maxFeePerGas: '3000', maxPriorityFeePerGas: '300', to: address, value: '0' })) // prettier-ignore
  await assert.rejects(later.sign(raise(bob, 'bob')), refusal('account_frozen'))
})

test('after a restore a withdrawal that is granted waits for the first list, which may say that the sponsor is frozen', async (t) => {
  const { place, signer, again } = await world(t)
  const { address: house } = await signer.createAccount({ userId: HOUSE })
  await signer.end('SIGTERM')
  rmSync(join(place.env.SIGNER_DIR!, 'witness'))
  const shown = await accept(place)
  assert.equal((await accept(place, '--without-networks', '--accept', confirmation(shown.output))).code, 0)
  const restored = await again({ more: { SIGNER_REVOCATIONS_SECONDS: '60' } })
  const request = { sponsor: 'HOUSE', chainId: CHAIN_ID, to: SOMEWHERE, most: '1000000000' }
  const { grant } = await askAt<ShownGrant>(adminSocketIn(place.env.SIGNER_DIR!), { verb: 'grantWithdrawal', request })
  const withdraw = () => restored.sign(ask(house, { intentId: 'withdrawal', accessToken: grant, value: '500' }))
  await assert.rejects(withdraw(), refusal('revocations_stale'))
  const frozen = (isFrozen: boolean, at: number) => frozenEntry(revoked.user(HOUSE), { isFrozen, at })
  const bring = async (isFrozen: boolean, at: number) =>
    restored.bringRevocations([await place.revocations({ entries: [frozen(isFrozen, at)] })])
  await bring(true, Date.now())
  await assert.rejects(withdraw(), refusal('account_frozen'))
  await bring(false, Date.now() + 1)
  assert.equal((await withdraw()).rule, 'sponsor-withdrawal')
})
