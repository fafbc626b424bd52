// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { ContractFactory, JsonRpcProvider, Wallet } from 'ethers'
import { installation } from './start.ts'

const installed = installation()

test('a stranger deploys a contract of their own on the development chain, calls it, and sees its reverts', async () => {
  const { facts } = installed.program
  const { abi, bytecode } = JSON.parse(await readFile(new URL('../contracts/out/Probe.json', import.meta.url), 'utf8'))
  // The first account of the phrase that every development chain has: "test test … junk".
  const provider = new JsonRpcProvider(facts.rpcUrl, facts.chainId, { staticNetwork: true, pollingInterval: 100 })
  const wallet = new Wallet('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80', provider)
  const contract = await new ContractFactory(abi, bytecode, wallet).deploy()
  await contract.waitForDeployment()
  const address = await contract.getAddress()
  provider.destroy()

  const token = /Bearer ([^']+)'/.exec(installed.program.printed())![1]!
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
  const call = async (path: string, body: unknown): Promise<{ status: number; body: any }> => {
    const response = await fetch(`${facts.baseUrl}/contracts/method/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: await response.json() }
  }
  const count = { address, abi: 'count() public view returns (uint256)' }
  assert.deepEqual((await call('read', count)).body.response, { type: 'BigNumber', hex: '0x00' })
  const write = await call('write?wait=mined', {
    address,
    abi: 'add(uint256 amount) public returns (uint256)',
    args: ['41'],
  })
  assert.deepEqual([write.status, write.body.status, write.body.state], [200, 'SUCCESS', 'MINED'])
  assert.deepEqual((await call('read', count)).body.response, { type: 'BigNumber', hex: '0x29' })

  const paid = await call('write?wait=mined', {
    address,
    abi: 'pay() public payable returns (uint256)',
    value: '12345',
  })
  assert.equal(paid.status, 200)
  assert.deepEqual((await call('read', { address, abi: 'paid() public view returns (uint256)' })).body.response, {
    type: 'BigNumber',
    hex: '0x3039',
  })

  const refused = await call('write', {
    address,
    abi: 'failTooMuch(uint256,uint256) public; error TooMuch(address who, uint256 asked, uint256 held)',
    args: ['2', '1'],
  })
  assert.deepEqual(
    [refused.status, refused.body.code, refused.body.revert.name],
    [422, 'execution_reverted', 'TooMuch'],
  )
  const late = await call('write', { address, abi: 'failError(string) public', args: ['closed on Sundays'] })
  assert.match(late.body.detail, /closed on Sundays/)
})
