import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { BigNumber } from 'ethers5'
import { world, type World } from '../../test/world.ts'

let here: World
before(async () => {
  here = await world()
})
after(() => here.close())

const ofEthers5 = (value: bigint): unknown => JSON.parse(JSON.stringify(BigNumber.from(value)))

test('a native balance has every field of the specification, as ethers 5 writes big numbers', async () => {
  const { alice, rpc } = here
  for (const wei of [0n, 1n, 25_000_000_000_000_000n, 7_569_809_500_000_000_000_000_000n]) {
    await rpc('anvil_setBalance', alice.address, `0x${wei.toString(16)}`)
    await rpc('evm_mine')
    const { status, headers, body } = await alice.get(`/v1/users/${alice.userId}/balance`)
    assert.equal(status, 200)
    assert.deepEqual(Object.keys(body), ['ETH'])
    const { formatted, ...rest } = body.ETH
    assert.deepEqual(rest, {
      balance: wei.toString(),
      balanceBn: ofEthers5(wei),
      decimals: 18,
      symbol: 'ETH',
      name: 'Ether',
      tokenAddress: null,
      tokenType: 'NATIVE',
      network: 'devnet',
      chainId: 31_337,
    })
    assert.equal(
      formatted,
      { '0': '0', '1': '0.000000000000000001', '25000000000000000': '0.025', '7569809500000000000000000': '7569809.5' }[
        wei.toString()
      ],
    )
    assert.ok(Number(headers.get('x-block-number')) > 0)
  }
  await rpc('anvil_setBalance', alice.address, '0x8ac7230489e80000')
  await rpc('evm_mine')
})

test('a token balance is keyed by the lower-case address, shows the checksummed one, and gives decimals as text', async () => {
  const { alice, facts } = here
  const token = facts.contracts.erc20!
  await alice.write({
    address: token,
    abi: 'mint(address to, uint256 amount) public',
    args: [alice.address, '1500000000000000000'],
  })
  for (const written of [token, token.toLowerCase(), `0x${token.slice(2).toUpperCase()}`]) {
    const { status, body } = await alice.get(`/v1/users/${alice.userId}/balance/${written}`)
    assert.equal(status, 200)
    assert.deepEqual(body, {
      [token.toLowerCase()]: {
        balance: '1500000000000000000',
        balanceBn: ofEthers5(1_500_000_000_000_000_000n),
        formatted: '1.5',
        decimals: '18',
        symbol: 'SMPL',
        name: 'Sample Token',
        tokenAddress: token,
        tokenType: 'ERC20',
        network: 'devnet',
        chainId: 31_337,
      },
    })
  }
})

test('a balance is refused: no token, another user, an unknown user, no user id, bad addresses, no token contract', async () => {
  const { alice, bob, facts, request } = here
  const token = facts.contracts.erc20!
  const expect = async (
    answer: Promise<{ status: number; body: { code: string; errors?: unknown } }>,
    status: number,
    code: string,
  ) => {
    const { status: got, body } = await answer
    assert.deepEqual([got, body.code], [status, code])
    return body
  }
  await expect(request(`/v1/users/${alice.userId}/balance`), 401, 'invalid_token')
  const foreign = await expect(alice.get(`/v1/users/${bob.userId}/balance`), 403, 'forbidden_user')
  const unknown = await expect(alice.get('/v1/users/DEV-nobody-at-all/balance'), 403, 'forbidden_user')
  const plain = ({ requestId: _r, instance: _i, ...rest }: Record<string, unknown>) => rest
  assert.deepEqual(plain(foreign as never), plain(unknown as never))
  await expect(alice.get('/v1/users/alice/balance'), 400, 'invalid_user_id')
  await expect(alice.get(`/v1/users/${alice.userId}/balance?at=latest`), 400, 'unknown_parameter')
  await expect(alice.get(`/v1/users/${alice.userId}/balance/0x1234`), 400, 'invalid_address')
  const wrongChecksum = token
    .replace(/[a-f]/, (letter) => letter.toUpperCase())
    .replace(/[A-F](?=[^A-F]*$)/, (letter) => letter.toLowerCase())
  await expect(alice.get(`/v1/users/${alice.userId}/balance/${wrongChecksum}`), 400, 'invalid_address')
  await expect(alice.get(`/v1/users/${alice.userId}/balance/${alice.address}`), 422, 'not_a_token')
  await expect(alice.get(`/v1/users/${alice.userId}/balance/${facts.contracts.multicall3}`), 422, 'not_a_token')
  // SHA-256, RIPEMD-160 and identity have no code, and answer any call with a word.
  for (const number of [2, 3, 4])
    await expect(
      alice.get(`/v1/users/${alice.userId}/balance/0x${String(number).padStart(40, '0')}`),
      422,
      'not_a_token',
    )
})
