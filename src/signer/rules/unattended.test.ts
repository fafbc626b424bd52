import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ALICE, ask, BOB, CHAIN_ID, refusal, world } from '../../../test/kit/signer.ts'
import { dearerBy, openUnattendedFees } from './unattended.ts'
import type { Hex, SignRequest } from '../../signer-wire/wire.ts'

const fees = (fee: number | bigint): Partial<SignRequest> => ({
  maxFeePerGas: String(fee),
  maxPriorityFeePerGas: String(fee),
})
const cancelOf = (address: Hex, changes: Partial<SignRequest>): SignRequest =>
  ask(address, { kind: 'cancel', to: address, value: '0', ...changes })

/** Signatures that a server can get without the user's token. */
describe('without a token', () => {
  test('no chain but the listed ones, whatever is asked; with a token neither', async (t) => {
    const { signer, address, place, again } = await world(t)
    await signer.end('SIGTERM')
    const listed = await again({ more: { SIGNER_CHAINS: '1, 10' } })
    assert.deepEqual((await listed.health()).chains, [1, 10])
    const elsewhere = cancelOf(address, { chainId: CHAIN_ID })
    await assert.rejects(listed.sign(elsewhere), /chain-not-listed/)
    await assert.rejects(listed.check(elsewhere), /chain-not-listed/)
    const accessToken = await place.token(ALICE)
    await assert.rejects(listed.sign(ask(address, { accessToken })), /chain-not-listed/)
    const onTen = await place.token(ALICE, { chain_id: 10 })
    assert.equal((await listed.sign(ask(address, { accessToken: onTen, chainId: 10 }))).kind, 'send')
  })

  test('a raise costs at most eight times the first attempt, however many steps it takes; with a token more', async (t) => {
    const { signer, address, accessToken, again } = await world(t)
    await signer.end('SIGTERM')
    const strict = await again({ more: { SIGNER_MAX_FILL_FEE_WEI: '1000' } })
    await strict.sign(ask(address, { accessToken, ...fees(1_000) }))
    const raise = (fee: number, changes: Partial<SignRequest> = {}) =>
      strict.sign(ask(address, { kind: 'replace', ...fees(fee), ...changes }))
    for (const fee of [2_000, 4_000, 7_000, 8_000]) assert.equal((await raise(fee)).kind, 'replace')
    await assert.rejects(raise(8_800), /max-raise/)
    await assert.rejects(strict.sign(cancelOf(address, fees(8_800))), /max-raise/)
    // More gas also costs more of the account's funds.
    await assert.rejects(raise(8_800, { gas: '84000' }), /max-raise/)
    // With a token the user agrees to a higher fee, by which later fee bumps are measured.
    assert.equal((await raise(8_800, { accessToken })).kind, 'replace')
    assert.equal((await raise(9_700)).kind, 'replace')
  })

  test('a first attempt that was nearly free may be raised to what a fill may cost', async (t) => {
    const { signer, address, accessToken } = await world(t)
    await signer.sign(ask(address, { accessToken, ...fees(7) }))
    const raised = await signer.sign(ask(address, { kind: 'replace', ...fees(1_000_000) }))
    assert.equal(raised.kind, 'replace')
  })

  test('a raise never has less gas than the first attempt, nor with a token', async (t) => {
    const { signer, address, accessToken } = await world(t)
    await signer.sign(ask(address, { accessToken, gas: '100000' }))
    for (const token of [{}, { accessToken }])
      await assert.rejects(
        signer.sign(ask(address, { kind: 'replace', gas: '30000', ...fees(1_200), ...token })),
        /gas-below-first/,
      )
    // A cancellation does nothing, so less gas is enough.
    assert.equal((await signer.sign(cancelOf(address, fees(1_200)))).kind, 'cancel')
  })

  test('all accounts together add at most so much to the fees of a network in an hour; a restart forgets nothing', async (t) => {
    const { signer, address, place, again } = await world(t)
    const { address: bob } = await signer.createAccount({ userId: BOB })
    await signer.end('SIGTERM')
    const more = { SIGNER_MAX_UNATTENDED_FEE_WEI: String(21_000n * 6_800n) }
    const first = await again({ more })
    for (const [from, user] of [
      [address, ALICE],
      [bob, BOB],
    ] as const)
      // prettier-ignore
      await first.sign(ask(from, { intentId: user, accessToken: await place.token(user), ...fees(1_000) }))
    const raise = (server: typeof first, from: Hex, user: string, fee: number) =>
      server.sign(ask(from, { intentId: user, kind: 'replace', ...fees(fee) }))
    await raise(first, address, ALICE, 2_000)
    await raise(first, address, ALICE, 4_000)
    await assert.rejects(raise(first, bob, BOB, 3_100), /max-unattended-fee/)
    await assert.rejects(
      first.check(ask(bob, { intentId: BOB, kind: 'replace', ...fees(3_100) })),
      /max-unattended-fee/,
    )
    // Rejected and repeated requests cost nothing.
    await raise(first, address, ALICE, 4_000)
    await raise(first, bob, BOB, 2_500)
    await first.end('SIGKILL')

    const second = await again({ more })
    await assert.rejects(raise(second, bob, BOB, 3_100), /max-unattended-fee/)
    // Only the most expensive attempt of a nonce was counted again.
    await raise(second, bob, BOB, 2_750)
    // Another network has a separate hourly limit.
    const fill = cancelOf(bob, { intentId: 'other-chain', chainId: 10, ...fees(4_000) })
    assert.equal((await second.sign(fill)).kind, 'cancel')
    const accessToken = await place.token(BOB)
    await second.sign(ask(bob, { intentId: BOB, kind: 'replace', ...fees(9_000), accessToken }))
  })

  test('a fee that the user agreed to counts in full where an attempt without a token may spend it', async (t) => {
    const { signer, address, accessToken, again } = await world(t)
    await signer.end('SIGTERM')
    const strict = await again({ more: { SIGNER_MAX_UNATTENDED_FEE_WEI: String(21_000n * 47_000n - 1n) } })
    // A high gas limit at a high maximum price: the transaction itself would have cost 2 % of it.
    await strict.sign(ask(address, { accessToken, gas: '10000000', maxFeePerGas: '100000', maxPriorityFeePerGas: '1' }))
    await assert.rejects(strict.sign(cancelOf(address, { maxFeePerGas: '110000', maxPriorityFeePerGas: '47000' })), /max-unattended-fee/) // prettier-ignore
  })

  test('fills count, and a fill that is raised counts once', async (t) => {
    const { signer, address, accessToken, again } = await world(t)
    await signer.sign(ask(address, { accessToken }))
    await signer.end('SIGTERM')
    const strict = await again({ more: { SIGNER_MAX_UNATTENDED_FEE_WEI: String(21_000n * 250n) } })
    const fill = (nonce: number, fee: number) =>
      strict.sign(cancelOf(address, { intentId: `fill-${nonce}`, nonce, ...fees(fee) }))
    await fill(1, 100)
    await fill(1, 200)
    await assert.rejects(fill(2, 51), /max-unattended-fee/)
    await fill(2, 50)
  })

  test('a frozen person’s transaction is not raised, cancelled or filled beside, with a token or without', async (t) => {
    const { signer, address, accessToken, place } = await world(t)
    await signer.sign(ask(address, { accessToken }))
    const at = Date.now()
    await signer.bringRevocations([await place.revocations({ entries: [`frozen ${at} user ${ALICE}`] })])
    const asked = [
      ask(address, { kind: 'replace', ...fees(1_200) }),
      cancelOf(address, fees(1_200)),
      cancelOf(address, { intentId: 'fill', nonce: 1, ...fees(10) }),
      ask(address, { intentId: 'new', nonce: 1, accessToken }),
    ]
    for (const request of asked) {
      await assert.rejects(signer.sign(request), refusal('account_frozen'), request.kind)
      await assert.rejects(signer.check(request), refusal('account_frozen'), request.kind)
    }
  })
})

describe('the hour of unattended fees', () => {
  const hour = (maxWei: bigint) => {
    const clock = { ms: 1_800_000_000_000 }
    const open = (earlier: Parameters<typeof openUnattendedFees>[0]['earlier'] = []) =>
      openUnattendedFees({ maxWei, earlier, now: () => clock.ms })
    return { clock, open }
  }

  test('what was charged counts for an hour at least, and a minute more at most', () => {
    const { clock, open } = hour(100n)
    const fees = open()
    clock.ms += 59_999
    fees.charge(1, 100n)
    assert.equal(fees.hasRoom(1, 1n), false)
    assert.equal(fees.hasRoom(1, 0n), true)
    clock.ms -= 59_999
    clock.ms += 3_599_999
    assert.equal(fees.hasRoom(1, 1n), false)
    clock.ms += 59_999
    assert.equal(fees.hasRoom(1, 1n), false)
    clock.ms += 2
    assert.equal(fees.hasRoom(1, 100n), true)
    assert.equal(fees.hasRoom(1, 101n), false)
  })

  test('a clock that is set back frees nothing, and set forward and back keeps nothing for ever', () => {
    const { clock, open } = hour(100n)
    const fees = open()
    fees.charge(1, 60n)
    clock.ms -= 7_200_000
    assert.equal(fees.hasRoom(1, 41n), false)
    fees.charge(1, 40n)
    assert.equal(fees.hasRoom(1, 1n), false)
    clock.ms += 7_200_000 + 3_660_000
    assert.equal(fees.hasRoom(1, 100n), true)
    // The ledger was written by a clock that was a day ahead.
    const again = open([{ chainId: 1, at: clock.ms + 86_400_000, wei: 100n }])
    assert.equal(again.hasRoom(1, 1n), false)
    clock.ms += 3_660_001
    assert.equal(again.hasRoom(1, 1n), true)
  })

  test('of several attempts at a nonce one is mined: only what is added counts', () => {
    const attempt = (gas: bigint, max: bigint) => ({ gas, max })
    assert.equal(dearerBy(attempt(10n, 5n), []), 50n)
    assert.equal(dearerBy(attempt(10n, 8n), [attempt(10n, 5n), attempt(10n, 7n)]), 10n)
    assert.equal(dearerBy(attempt(5n, 9n), [attempt(10n, 5n)]), 0n)
  })
})
