import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { encodeFunctionData, getAddress, parseAbi } from 'viem'
import { ALICE, ask, makePlace, refusal, SOMEWHERE } from '../../../test/kit/signer.ts'
import { sponsored } from '../../../test/sponsored-world.ts'
import { readPolicy } from '../policy/document.ts'
import { replayLedger } from '../programs/replay.ts'

const DAY = { periodDuration: 86_400 }
const REST = { name: 'rest', effect: 'allow' }
const TOKEN = getAddress(`0x${'7e'.repeat(20)}`)
const abi = parseAbi(['function transfer(address,uint256)', 'function setApprovalForAll(address,bool)'])

const pay = (value: number) => ({ to: SOMEWHERE, value: String(value), data: '0x' as const })
const transfer = (amount: bigint) => ({
  ...{ to: TOKEN, value: '0' },
  data: encodeFunctionData({ abi, functionName: 'transfer', args: [SOMEWHERE, amount] }),
})
const approveAll = {
  ...{ to: TOKEN, value: '0' },
  data: encodeFunctionData({ abi, functionName: 'setApprovalForAll', args: [SOMEWHERE, true] }),
}

const denied = (rule: string, why = '') => (error: unknown) =>
  refusal('policy_denied')(error) && new RegExp(`The rule ${rule} rejects this transaction: ${why}`).test((error as Error).message) // prettier-ignore

async function governed(t: TestContext, rules: unknown[], more: Record<string, string> = {}) {
  const { folder, clear } = await makePlace()
  t.after(clear)
  const file = join(folder, 'policy.json')
  writeFileSync(file, JSON.stringify({ version: 1, rules }))
  return sponsored(t, { SIGNER_POLICY_FILE: file, ...more })
}

test('each call is judged as a write of its own: one that is refused refuses all, and nothing of it is charged', async (t) => {
  const { signer, ofAlice, rows, problems } = await governed(t, [
    { name: 'payments', effect: 'allow', to: [getAddress(SOMEWHERE)] },
    { name: 'tokens', effect: 'allow', to: [TOKEN] },
    { name: 'no-all', effect: 'deny', class: ['APPROVE_ALL'] },
    { name: 'day', effect: 'limit', per: ['user'], native: { perCall: '6', periodAmount: '10', ...DAY } },
    { name: 'coins', effect: 'limit', per: ['user'], tokens: [{ chainId: 31_337, tokenAddress: TOKEN, periodAmount: '50', ...DAY }] }, // prettier-ignore
  ])
  const before = rows().length
  const refused: [unknown[], (error: unknown) => boolean][] = [
    [[pay(1), approveAll], denied('no-all')],
    [[approveAll, pay(1)], denied('no-all')],
    [[pay(1), { ...pay(1), to: `0x${'99'.repeat(20)}` }], denied('no-allow')],
    [[pay(1), pay(7)], denied('day', 'native.perCall is 6, needed 7')],
    [[pay(6), pay(5)], denied('day', 'native.periodAmount is 10 in 86400 seconds, used 6, needed 5')],
    [[pay(4), pay(3), pay(3), pay(1)], denied('day', 'native.periodAmount .* used 10, needed 1')],
    [[transfer(30n), pay(1), transfer(21n)], denied('coins', '.* used 30, needed 21')],
  ]
  for (const [calls, why] of refused) {
    await assert.rejects(signer.signOperation(ofAlice({ calls: calls as never })), why)
    await assert.rejects(signer.checkOperation(ofAlice({ calls: calls as never })), why)
  }
  assert.equal(rows().length, before)
  const request = ofAlice({ calls: [pay(4), transfer(30n), pay(3), transfer(20n)] })
  const checked = await signer.checkOperation(request)
  assert.equal(checked.rule, 'payments, tokens')
  assert.deepEqual(checked.limits!.map(({ rule, amount, used, left }) => [rule, amount, used, left]), [['day', '10', '0', '10'], ['coins', '50', '0', '50']]) // prettier-ignore
  const signed = await signer.signOperation(request)
  assert.equal(signed.rule, 'payments, tokens')
  const { spent, policy } = rows().at(-1)!
  assert.match(policy as string, /^1 /)
  assert.deepEqual((JSON.parse(spent as string) as { amount: string }[]).map(({ amount }) => amount), ['7', '50']) // prettier-ignore
  // A repeated request is not charged. Three calls are left, and no native currency.
  await signer.signOperation(request)
  await signer.signOperation(ofAlice({ sequence: '1', calls: [pay(3)] }))
  await assert.rejects(signer.signOperation(ofAlice({ sequence: '2', calls: [pay(1)] })), denied('day'))
  await assert.rejects(signer.signOperation(ofAlice({ sequence: '2', calls: [transfer(1n)] })), denied('coins'))
  assert.deepEqual(problems(), [])
})

test('what is sent by oneself and by a sponsor is of one limit; calls are counted each, and fees are a sponsor’s', async (t) => {
  const { signer, ofAlice, outer, alice, tokens, problems } = await governed(t, [
    REST,
    { name: 'day', effect: 'limit', per: ['user'], native: { periodAmount: '10', ...DAY }, count: { periodAmount: '5', ...DAY } }, // prettier-ignore
    { name: 'gas', effect: 'limit', per: ['user'], fees: { perCall: '21000000', periodAmount: '21000000', ...DAY } },
  ])
  const own = (nonce: number, value: string) =>
    ask(alice, { nonce, value, accessToken: tokens.alice, intentId: `tx_${nonce}` })
  await signer.sign(own(0, '4'))
  const first = await signer.signOperation(ofAlice({ calls: [pay(1), pay(1), pay(1)] }))
  // A second sponsor transaction with the operation charges the user's policy limits no further.
  await signer.signOuter(outer([first]))
  await signer.signOuter(outer([first], { nonce: 1 }))
  await assert.rejects(signer.signOperation(ofAlice({ sequence: '1', calls: [pay(0), pay(0)] })), denied('day', 'count')) // prettier-ignore
  await assert.rejects(signer.signOperation(ofAlice({ sequence: '1', calls: [pay(4)] })), denied('day', 'native'))
  await assert.rejects(signer.sign(own(1, '4')), denied('day', 'native'))
  await signer.signOperation(ofAlice({ sequence: '1', calls: [pay(3)] }))
  await assert.rejects(signer.signOperation(ofAlice({ sequence: '2', calls: [pay(0)] })), denied('day', 'count'))
  assert.deepEqual(problems(), [])
})

test('a policy that is tried over the log is asked about operations, and about nothing that sponsors send', async (t) => {
  const { signer, ofAlice, ofBob, outer, folder } = await sponsored(t)
  const [first, second] = [
    await signer.signOperation(ofAlice({ calls: [pay(3), pay(3)], authorizationNonce: 0 })),
    await signer.signOperation(ofBob({ sequence: '1', calls: [pay(1), approveAll] })),
  ]
  await signer.signOperation(ofAlice({ sequence: '2', calls: [pay(3)] }))
  await signer.signOuter(outer([first, second]))
  const tried = (rules: unknown[], freeze = {}) => [
    ...replayLedger(folder, readPolicy(JSON.stringify({ version: 1, rules, freeze }))),
  ]
  const limit = { name: 'day', effect: 'limit', per: ['user'], native: { periodAmount: '8', ...DAY } }
  const deny = { name: 'no-all', effect: 'deny', class: ['APPROVE_ALL'] }
  const found = tried([REST, limit, deny])
  assert.deepEqual(found.map(({ refusal: each }) => each?.rule ?? null), [null, 'no-all', 'day']) // prettier-ignore
  assert.deepEqual(tried([REST], { users: [ALICE] }).map(({ refusal: each }) => each?.rule ?? null), ['frozen', null, 'frozen']) // prettier-ignore
})
