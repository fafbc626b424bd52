import assert from 'node:assert/strict'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Ended } from '../../test/kit/command.ts'
import { accountOf, caliburCode, ETHER } from '../../test/gas/stage.ts'
import { idleInstallation, type IdleInstallation } from '../../test/installation.ts'
import { startNode, type RealNode } from '../../test/nodes/real-node.ts'
import type { RpcServer } from '../../test/nodes/rpc-server.ts'
import { openSilentNode } from '../../test/silent-node.ts'
import { readGasContracts } from '../gas/contracts.ts'
import { quantityOf } from '../ids.ts'

let here: IdleInstallation
let folder: string
let node: RealNode
let publicNode: RpcServer
const operator = accountOf('an operator at the command line')
const sponsor = accountOf('a sponsor at the command line')
before(async () => {
  here = await idleInstallation()
  ;({ folder } = here)
  node = await startNode('anvil')
  await writeFile(join(folder, 'key'), `0x${operator.key.toString('hex')}\n`, { mode: 0o600 })
  publicNode = await openSilentNode({ chainId: 11_155_111 })
  const facts = ['--chain-id', '31337', '--symbol', 'ETH', '--explorer', 'http://127.0.0.1:1']
  for (const words of [
    ['local', '--rpc-url', node.url, ...facts],
    ['sepolia', '--rpc-url', publicNode.url],
  ]) {
    const { code, err } = await here.run('network', 'add', ...words)
    assert.equal(code, 0, err)
  }
})
after(async () => {
  await node?.stop()
  await publicNode?.close()
  await here?.close()
})
const run = (words: string[], name = 'local'): Promise<Ended> =>
  here.run('network', 'deploy-gas', name, '--key-file', join(folder, 'key'), ...words)

test('the contracts are deployed once, with a sponsor, and the second time nothing is sent', async () => {
  await node.rpc('anvil_setBalance', operator.hex, quantityOf(ETHER))
  const first = await run(['--sponsor', sponsor.hex, '--json'])
  assert.deepEqual([first.code, first.err], [0, ''])
  const said = JSON.parse(first.out)
  const { dispatcher, delegate, dispatcherCode, delegateCode } = readGasContracts()
  assert.deepEqual([said.dispatcher.toLowerCase(), said.delegate.toLowerCase()], [dispatcher, delegate])
  assert.deepEqual([said.space.toLowerCase(), said.sent.length], [operator.hex, 2])
  assert.equal(await node.rpc('eth_getCode', dispatcher, 'latest'), dispatcherCode)
  assert.equal(await node.rpc('eth_getCode', delegate, 'latest'), delegateCode)
  const again = await run(['--sponsor', sponsor.hex])
  assert.equal(again.code, 0, again.err)
  assert.match(again.out, /^All contracts exist on local\./)
  for (const { out, err } of [first, again]) assert.ok(!`${out}${err}`.includes(operator.key.toString('hex')))
})

test('the dispatcher for Calibur is deployed where Calibur is; another delegate is none', async () => {
  assert.match((await run(['--delegate', 'other'])).err, /must be `chatelaine` or `calibur`/)
  assert.match((await run(['--delegate', 'calibur'])).err, /Calibur is not on this network/)
  const { dispatcher, delegate } = readGasContracts('calibur')
  await node.rpc('anvil_setCode', delegate, caliburCode())
  const { code, err, out } = await run(['--delegate', 'calibur', '--sponsor', sponsor.hex, '--json'])
  assert.equal(code, 0, err)
  const said = JSON.parse(out)
  assert.deepEqual([said.dispatcher.toLowerCase(), said.delegate.toLowerCase()], [dispatcher, delegate])
})

test('a key that others can read, or that is none, is refused without a word of it', async () => {
  const file = join(folder, 'key')
  await chmod(file, 0o644)
  assert.match((await run([])).err, /can be read by every user/)
  await writeFile(file, 'not a key at all')
  await chmod(file, 0o600)
  const { code, err } = await run([])
  assert.equal(code, 1)
  assert.match(err, /is not a private key/)
  assert.doesNotMatch(err, /not a key at all/)
  await writeFile(file, `${operator.key.toString('hex')}`)
})

test('an address that is none is refused, and so is a network that is not for development without --accept-unaudited', async () => {
  assert.match((await run(['--sponsor', '0x12'])).err, /must be 0x and 40/)
  const { code, err } = await run([], 'sepolia')
  assert.equal(code, 1)
  assert.match(err, /not audited.*--accept-unaudited/s)
})
