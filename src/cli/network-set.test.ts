// tier: all, because it starts a server for each setting
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { idleInstallation, type IdleInstallation } from '../../test/installation.ts'
import { openSilentNode } from '../../test/silent-node.ts'

let here: IdleInstallation
before(async () => {
  here = await idleInstallation()
  const node = await openSilentNode({ chainId: 11_155_111 })
  assert.equal((await here.run('network', 'add', 'sepolia', '--finality', '14', '--rpc-url', node.url)).code, 0)
  await node.close()
})
after(() => here.close())
const set = (...words: string[]) => here.run('network', 'set', 'sepolia', ...words)
const show = () => here.json('network', 'show', 'sepolia')

const [PROBE, OTHER] = ['0x5FbDB2315678afecb367f032d93F642f64180aa3', '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512']

test('of a network that is there what is named is changed and nothing else, and it is said what waits for the next start', async () => {
  const before = await show()
  const gas = await set('--gas', 'topup', '--fee-cap-gwei', '40')
  assert.deepEqual([gas.code, gas.err], [0, ''])
  assert.match(gas.out, /after its next start: feeCapGwei, gas\.[^]*^  Gas +topup/m)
  const capped = await set('--sponsor-per-day', '1000', '--sponsor-low', '5')
  assert.match(capped.out, /All processes apply it immediately/)
  assert.match(capped.out, /^  Sponsors spent +0 wei in 24 hours of 1000$/m)
  assert.match(capped.out, /^  Sponsor is low +below 5 wei$/m)
  const past = await set('--backfill-from', '4800000')
  assert.match(past.out, /All processes apply it immediately[^]*^  Backfill from +block 4800000$/m)
  assert.deepEqual(await show(), { ...before, gas: 'topup', feeCapGwei: 40, sponsorPerDay: '1000', sponsorLow: '5', backfillFrom: 4_800_000 }) // prettier-ignore
  const undone = ['gas', 'fee-cap-gwei', 'sponsor-per-day', 'sponsor-low', 'backfill-from'].flatMap((name) => [`--${name}`, name === 'gas' ? 'self' : 'default']) // prettier-ignore
  assert.equal((await set(...undone)).code, 0)
  assert.deepEqual(await show(), before)
  const [last, action] = await here.json('actions', 'list', '--limit', '2')
  assert.deepEqual([action.action, action.target], ['set-network', 'sepolia'])
  assert.deepEqual([action.before, action.after], [{ backfillFrom: null }, { backfillFrom: 4_800_000 }])
  assert.equal(last.after.backfillFrom, null)
})

test('the account pages get a gas budget with both amounts, or none', async () => {
  const before = await show()
  const half = await set('--pages-per-user', '5')
  assert.deepEqual([half.code, half.err.match(/needs both amounts/g)?.length], [1, 1])
  assert.deepEqual(await show(), before)
  const given = await set('--gas', 'topup', '--pages-per-user', '5', '--pages-per-day', '70')
  assert.match(given.out, /^  Account pages +gas budget 5 wei per user and 70 wei in total, in 24 hours$/m)
  assert.deepEqual(await show(), { ...before, gas: 'topup', pagesPerUser: '5', pagesPerDay: '70' })
  assert.equal((await set('--pages-per-day', 'none')).code, 1)
  assert.equal((await set('--gas', 'self', '--pages-per-user', 'none', '--pages-per-day', 'none')).code, 0)
  assert.deepEqual(await show(), before)
})

test('contracts whose writes accounts send themselves are replaced as a whole, named once each, until `none`', async () => {
  const named = await set('--topup-contract', PROBE, '--topup-contract', OTHER, '--topup-contract', PROBE)
  assert.match(named.out, /after its next start: topUpContracts\.[^]*^  Called directly .*\n +0x5fbd/m)
  assert.deepEqual((await show()).topUpContracts, [PROBE.toLowerCase(), OTHER.toLowerCase()])
  assert.equal((await set('--topup-contract', OTHER)).code, 0)
  assert.deepEqual((await show()).topUpContracts, [OTHER.toLowerCase()])
  assert.doesNotMatch((await set('--topup-contract', 'none')).out, /Called directly/)
  assert.deepEqual((await show()).topUpContracts, [])
})

test('what a network cannot be is refused, all of it at once, and nothing is changed', async () => {
  const before = await show()
  const wrong = ['--gas', 'free', '--topup-contract', '0x12', '--topup-contract', PROBE.replace('F', 'f'), '--sponsor-per-day', '1e18', '--sponsor-low', `${2n ** 256n}`, '--explorer-tx', 'https://x.example/tx'] // prettier-ignore
  const everything = await set(...wrong)
  assert.equal(everything.code, 1)
  for (const why of [
    /must be `self`/,
    /0x12 must be 0x and 40 hexadecimal digits/,
    /wrong checksum/,
    /in a day must be wei/,
    /as low must be wei/,
    /must contain \{hash\}/,
  ])
    // prettier-ignore
    assert.match(everything.err, why)
  for (const [words, why] of [
    [['--gas', 'sponsor'], /must be tested with the nodes first/],
    [['--fee-cap-gwei', 'many', '--backfill-from', '1e6'], /whole number: feeCapGwei, backfillFrom/],
    [['--backfill-from', '-1'], /whole number: backfillFrom/],
    [[], /Give at least one option to change/],
    [['--rpc-url', 'http://127.0.0.1:9'], /unknown option/],
    [['--chain-id', '5'], /unknown option/],
    [['--decimals', '6'], /unknown option/],
  ] as const) {
    const { code, err } = await set(...words)
    assert.equal(code, 1)
    assert.match(err, why)
  }
  assert.match((await here.run('network', 'set', 'mars', '--gas', 'topup')).err, /No network has the name mars/)
  assert.match((await here.run('network', 'set', 'devnet', '--gas', 'topup')).err, /of the server’s settings/)
  assert.deepEqual(await show(), before)
})
