import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { world, type World } from '../../test/world.ts'

/** Transfers of people who hold no coins, on a network where a sponsor sends what they sign. */
let here: World
before(async () => {
  here = await world({ NETWORK_GAS: 'sponsor' })
})
after(() => here?.close())

test('a transfer that a sponsor sends is told as what it moves and to whom, to a stranger too, and once', async () => {
  const { alice, facts } = here
  const token = (facts.contracts as { erc20: string }).erc20
  await alice.write({ address: token, abi: 'mint(address,uint256) public', args: [alice.address, String(5n * 10n ** 18n)] }) // prettier-ignore
  for (const to of [{ toAddress: `0x${'ab'.repeat(20)}` }, { toUserId: 'DEV-nobody-yet' }]) {
    const body = { tokenType: 'ERC20', tokenAddress: token, amount: '1', ...to }
    const sent = await alice.post('/v1/tokens/transfers?wait=mined', body, { 'idempotency-key': JSON.stringify(to) })
    assert.equal(sent.status, 200, JSON.stringify(sent.body))
    assert.equal(sent.body.amount.value, String(10n ** 18n))
    const { recipient } = sent.body
    if ('toAddress' in to) assert.equal(recipient.address.toLowerCase(), to.toAddress)
    else assert.equal(recipient.userId, to.toUserId)
    const again = await alice.post('/v1/tokens/transfers?wait=mined', body, { 'idempotency-key': JSON.stringify(to) })
    assert.deepEqual([again.body.id, again.body.recipient], [sent.body.id, recipient])
  }
  assert.equal(BigInt(await here.rpc<string>('eth_getBalance', alice.address, 'latest')), 0n)
})
