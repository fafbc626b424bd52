// tier: all, because it starts a node for most of its tests
import assert from 'node:assert/strict'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { command } from '../../test/kit/command.ts'
import { idleInstallation, type IdleInstallation } from '../../test/installation.ts'
import type { RpcServer } from '../../test/nodes/rpc-server.ts'
import { openSilentNode } from '../../test/silent-node.ts'

let here: IdleInstallation
let node: RpcServer
before(async () => {
  here = await idleInstallation()
  node = await openSilentNode({ chainId: 11_155_111 })
})
after(async () => {
  await node.close()
  await here.close()
})
const add = (name: string, ...words: string[]) => here.run('network', 'add', name, ...words)
const show = (name = 'sepolia') => here.json('network', 'show', name)

test('a network is added from a preset, its node asked, and the node’s address kept in a file of this user alone', async () => {
  const added = await add('sepolia', '--rpc-url', node.url)
  assert.deepEqual([added.code, added.err], [0, ''])
  const shown = await show()
  assert.deepEqual(
    [shown.chainId, shown.symbol, shown.finality, shown.nodes, shown.gas, shown.readFrom],
    [11_155_111, 'ETH', 'finalized', 1, 'self', null],
  )
  assert.equal(shown.explorer.tx, 'https://sepolia.etherscan.io/tx/{hash}')
  const file = join(here.folder, 'networks.json')
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), { sepolia: [node.url] })
  const list = await here.run('network', 'list')
  const { out } = await here.run('network', 'show', 'sepolia')
  assert.match(out, /^ +Blocks are read from +-$/m)
  assert.match(out, /^ +Backfill from +from the settings\n +Past transfers +not counted yet$/m)
  for (const text of [JSON.stringify(shown), list.out, added.out, out]) assert.doesNotMatch(text, /key-of-the-node/)
  assert.match(
    list.out,
    /^NAME +CHAIN ID +CURRENCY +GAS +NODES +APPLICATIONS +SERVED\nsepolia +11155111 +ETH +self +1 +0 +-\n$/,
  )
})

test('a network by hand names everything that is missing at once, and a node of another chain is refused', async () => {
  const bare = await add('Mine')
  assert.equal(bare.code, 1)
  for (const part of ['explorer', 'name', 'chain id', 'symbol', 'node']) assert.match(bare.err, new RegExp(part))
  const byHand = ['--symbol', 'ME', '--explorer', 'https://scan.example', '--rpc-url', node.url]
  const wrong = await add('mine', ...byHand, '--chain-id', '5')
  assert.deepEqual([wrong.code, wrong.err], [1, 'the node has chain id 11155111, expected 5\n'])
  const taken = await add('mine', ...byHand, '--chain-id', '11155111')
  assert.match(taken.err, /known to this database as sepolia/)
  const silent = await add('base', '--rpc-url', 'http://127.0.0.1:9/secret-key')
  assert.deepEqual([silent.code, silent.err], [1, 'No node responds. Check the URL and the API key in it.\n'])
  assert.match((await add('devnet', '--rpc-url', node.url)).err, /of the server’s settings/)
  const listed = (await here.json('network', 'list')) as { name: string }[]
  assert.deepEqual(
    listed.map(({ name }) => name),
    ['sepolia'],
  )
})

test('nodes are read from standard input, so that a key stands in no history; what is known already need not be said again', async () => {
  const words = ['network', 'add', 'sepolia', '--finality', '12', '--rpc-url', '-']
  const { code } = await command(here.settings, words, `${node.url}\nhttp://127.0.0.1:9/other\n`)
  assert.equal(code, 0)
  const shown = await show()
  assert.deepEqual([shown.finality, shown.nodes, shown.coin], [12, 2, 'Sepolia Ether'])
})

test('a network has a fee cap and checks of its own until `default` takes them back', async () => {
  const own = ['--block-verification', 'count', '--fee-cap-gwei', '40', '--backfill-from', '7']
  assert.equal((await add('sepolia', ...own)).code, 0)
  assert.equal((await add('sepolia', '--finality', '13')).code, 0)
  const shown = await show()
  assert.deepEqual(
    [shown.blockVerification, shown.feeCapGwei, shown.backfillFrom, shown.finality],
    ['count', 40, 7, 13],
  )
  assert.match((await here.run('network', 'show', 'sepolia')).out, /Fee cap +40 gwei per gas/)
  const refused = await add('sepolia', '--block-verification', 'loose', '--fee-cap-gwei', '1.5', '--backfill-from', 'first') // prettier-ignore
  assert.equal(refused.code, 1)
  for (const why of [/`hash`, `bloom` or `count`/, /fee cap must be .* above 0/, /0 or greater/])
    assert.match(refused.err, why)
  const undone = own.map((word) => (word.startsWith('--') ? word : 'default'))
  assert.equal((await add('sepolia', ...undone)).code, 0)
  const after = await show()
  assert.deepEqual([after.blockVerification, after.feeCapGwei, after.backfillFrom], [null, null, null])
})

test('a network says who pays for gas: itself until it is said, a sponsor refused with what is missing', async () => {
  const space = `0x${'5a'.repeat(20)}`
  for (const [words, sentence] of [
    [['sponsor'], /needs a gas space/],
    [['sponsor', '--gas-space', space], /--accept-unaudited/],
    [['sponsor', '--gas-space', space, '--accept-unaudited'], /Sponsors cannot submit operations on this network/],
    [['free', '--gas-space', '0x1', '--delegate', 'other'], /must be `self`, `topup` or `sponsor`[^]*delegate must be `chatelaine` or `calibur`[^]*must be the address/], // prettier-ignore
  ] as const) {
    const { code, err } = await add('sepolia', '--gas', ...words)
    assert.equal(code, 1)
    assert.match(err, sentence)
  }
  assert.equal((await add('sepolia', '--gas', 'topup')).code, 0)
  assert.equal((await add('sepolia', '--finality', '14')).code, 0)
  assert.match(
    (await here.run('network', 'show', 'sepolia')).out,
    /^  Gas +topup: .*It has no sponsor\. Create one: chatelaine sponsor create NAME --network sepolia$/m,
  )
  assert.match((await here.run('network', 'list')).out, /^NAME +.*GAS.*\nsepolia +.* topup /m)
  assert.equal((await add('sepolia', '--gas', 'self', '--delegate', 'calibur')).code, 0)
  const chosen = await show()
  assert.deepEqual([chosen.gas, chosen.delegate], ['self', 'calibur'])
  const sponsored = ['--gas', 'sponsor', '--gas-space', space, '--accept-unaudited']
  assert.match((await add('sepolia', ...sponsored)).err, /deploy-gas --delegate calibur/)
  assert.equal((await add('sepolia', '--delegate', 'chatelaine')).code, 0)
  assert.equal((await show()).delegate, 'chatelaine')
})

test('a network that no application is bound to is removed, with its nodes', async () => {
  const shop = ['--name', 'Shop', '--client-id', 'shop', '--network', 'sepolia', '--redirect-uri', 'https://a.example/']
  assert.equal((await here.run('app', 'create', ...shop)).code, 0)
  const bound = await here.run('network', 'remove', 'sepolia')
  assert.deepEqual(
    [bound.code, bound.err],
    [1, 'The network sepolia cannot be removed: applications bound to it: 1.\n'],
  )
  const other = await openSilentNode({ chainId: 1 })
  assert.equal((await add('ethereum', '--rpc-url', other.url)).code, 0)
  await other.close()
  assert.match(
    (await here.run('network', 'remove', 'ethereum')).out,
    /^Removed ethereum\. A running server serves the network/,
  )
  assert.deepEqual(Object.keys(JSON.parse(await readFile(join(here.folder, 'networks.json'), 'utf8')) as object), ['sepolia']) // prettier-ignore
})
