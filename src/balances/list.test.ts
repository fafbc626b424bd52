import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { RpcError } from '../chain/rpc/rpc.ts'
import { until } from '../../test/kit/until.ts'
import { indexed } from '../../test/indexed.ts'
import { world, type Answer, type Person, type World } from '../../test/world.ts'

let here: World
let carol: Person
before(async () => {
  here = await world()
  carol = await here.person('carol')
})
after(() => here.close())

test('a user without tokens has the coin alone, also when there is none of it', async () => {
  const nobody = await here.person('nobody')
  await here.rpc('anvil_setBalance', nobody.address, '0x0')
  await here.rpc('evm_mine')
  const { status, headers, body } = await nobody.get(`/v1/users/${nobody.userId}/balances`)
  assert.equal(status, 200)
  assert.deepEqual(body, (await nobody.get(`/v1/users/${nobody.userId}/balance`)).body)
  assert.equal(body.ETH.balance, '0')
  assert.equal(headers.get('x-unanswered-tokens'), '0')
  assert.equal(headers.get('link'), null)
})

/** Returns answers at the same block, by their headers; repeats the requests if a block came in between. */
const atOneBlock = (...asks: (() => Promise<Answer>)[]): Promise<Answer[]> =>
  until('no block came in between', async () => {
    const answers: Answer[] = []
    for (const ask of asks) answers.push(await ask())
    return new Set(answers.map(({ headers }) => headers.get('x-block-number'))).size === 1 && answers
  })

test('every token the user holds is there once, tokens that went away and ERC-1155 are not', async () => {
  const { facts, alice, bob } = here
  const { erc20, erc721, erc1155 } = facts.contracts as { erc20: string; erc721: string; erc1155: string }
  await alice.write({ address: erc20, abi: 'mint(address to, uint256 amount) public', args: [alice.address, '700'] })
  await alice.write({ address: erc20, abi: 'mint(address to, uint256 amount) public', args: [alice.address, '77'] })
  await alice.write({
    address: erc721,
    abi: 'mint(address to, uint256 tokenId) public',
    args: [alice.address, '900001'],
  })
  await alice.write({
    address: erc1155,
    abi: 'mint(address to, uint256 id, uint256 amount) public',
    args: [alice.address, '3', '9'],
  })
  await indexed(here, alice)
  const { status, body } = await alice.get(`/v1/users/${alice.userId}/balances`)
  assert.equal(status, 200)
  const tokens = [erc20, erc721].map((address) => address.toLowerCase()).toSorted()
  assert.deepEqual(Object.keys(body), ['ETH', ...tokens])
  assert.equal(body[erc721.toLowerCase()].balance, '1')
  assert.equal(body[erc20.toLowerCase()].balance, '777')
  for (const token of tokens) {
    const [alone, list] = await atOneBlock(
      () => alice.get(`/v1/users/${alice.userId}/balance/${token}`),
      () => alice.get(`/v1/users/${alice.userId}/balances`),
    )
    assert.deepEqual(alone!.body, { [token]: list!.body[token] })
  }

  await alice.write({
    address: erc20,
    abi: 'transfer(address to, uint256 amount) public returns (bool)',
    args: [bob.address, '777'],
  })
  await indexed(here, alice)
  const after = await alice.get(`/v1/users/${alice.userId}/balances`)
  assert.deepEqual(Object.keys(after.body), ['ETH', erc721.toLowerCase()])
})

test('pages follow each other by Link and X-Next-Cursor, the coin is on the first, a cursor names a place and not a row', async () => {
  const { facts, rpc } = here
  const code = await rpc<string>('eth_getCode', facts.contracts.erc20, 'latest')
  const copies = Array.from({ length: 7 }, (_, index) => `0x${(0xc0de0000 + index).toString(16).padStart(40, '0')}`)
  for (const address of copies) {
    await rpc('anvil_setCode', address, code)
    await carol.write({ address, abi: 'mint(address to, uint256 amount) public', args: [carol.address, '5'] })
  }
  await indexed(here, carol)
  const path = `/v1/users/${carol.userId}/balances`
  const whole = await carol.get(path)
  assert.deepEqual(Object.keys(whole.body), ['ETH', ...copies])
  assert.equal(whole.headers.get('x-next-cursor'), null)

  const seen: string[] = []
  let next: string | null = `${facts.origin}${path}?limit=3`
  for (let page = 0; next !== null; page++) {
    const { status, headers, body } = await carol.get(next)
    assert.equal(status, 200)
    assert.ok(page < 3)
    seen.push(...Object.keys(body))
    const link: RegExpMatchArray | null = headers.get('link')?.match(/^<([^>]+)>; rel="next"$/) ?? null
    assert.equal(link === null, headers.get('x-next-cursor') === null)
    next = link?.[1] ?? null
  }
  assert.deepEqual(seen, ['ETH', ...copies])
})

test('a token that is gone, and one that became a bomb, are left out and counted, and hide nothing else', async () => {
  const { facts, rpc } = here
  const dave = await here.person('dave')
  const code = await rpc<string>('eth_getCode', facts.contracts.erc20, 'latest')
  const [gone, bomb, fine] = ['0xdead0001', '0xdead0002', '0xdead0003'].map((end) => `0x${end.slice(2).padStart(40, '0')}`) as [string, string, string] // prettier-ignore
  for (const address of [gone, bomb, fine]) {
    await rpc('anvil_setCode', address, code)
    await dave.write({ address, abi: 'mint(address to, uint256 amount) public', args: [dave.address, '5'] })
  }
  await rpc('anvil_setCode', gone, '0x')
  await rpc('anvil_setCode', bomb, '0x5b5f56')
  await rpc('evm_mine')
  await indexed(here, dave)
  const { status, headers, body } = await dave.get(`/v1/users/${dave.userId}/balances`)
  assert.equal(status, 200)
  assert.deepEqual(Object.keys(body), ['ETH', fine])
  assert.equal(headers.get('x-unanswered-tokens'), '2')
  for (const address of [gone, bomb]) {
    const alone = await dave.get(`/v1/users/${dave.userId}/balance/${address}`)
    assert.deepEqual([alone.status, alone.body.code], [422, 'not_a_token'])
  }
  const history = await dave.get(`/v1/users/${dave.userId}/history`)
  assert.equal(history.body.length, 3)
})

test('a list of balances is not shorter because the node limits us: it is refused', async () => {
  const { app, alice } = here
  const chain = app.chains.get(31_337)!
  const { rpc } = chain
  const limited: typeof rpc.call = async (method, params, options) => {
    if (method === 'eth_call') throw new RpcError(-32005, 'rate limit exceeded', undefined)
    return rpc.call(method, params, options)
  }
  await here.rpc('evm_mine')
  chain.rpc = { ...rpc, call: limited }
  try {
    const { status, body } = await alice.get(`/v1/users/${alice.userId}/balances`)
    assert.deepEqual([status, body.code], [502, 'chain_unavailable'])
  } finally {
    chain.rpc = rpc
  }
})

test('a node that answers a balance with something else than bytes has failed, and nothing of ours', async () => {
  const { app, alice, facts } = here
  const chain = app.chains.get(31_337)!
  const { rpc } = chain
  try {
    for (const nonsense of [`0x${'zz'.repeat(32)}`, '42', null, 42]) {
      await here.rpc('evm_mine')
      const call: typeof rpc.call = async (method, params, options) =>
        method === 'eth_call' || method === 'eth_getBalance' ? (nonsense as never) : rpc.call(method, params, options)
      chain.rpc = { ...rpc, call }
      for (const path of [`balance/${facts.contracts.erc20!}`, 'balance', 'balances']) {
        const { status, body } = await alice.get(`/v1/users/${alice.userId}/${path}`)
        assert.deepEqual([status, body.code], [502, 'chain_unavailable'], `${path} ${nonsense}`)
      }
    }
  } finally {
    chain.rpc = rpc
  }
})

test('balances are refused: no token, another user, no user id, bad limits, cursors of others and of other queries', async () => {
  const { alice, request } = here
  const path = `/v1/users/${alice.userId}/balances`
  assert.equal((await request(path)).status, 401)
  const cases: [path: string, status: number, code: string][] = [
    ['/v1/users/DEV-bob/balances', 403, 'forbidden_user'],
    ['/v1/users/bob/balances', 400, 'invalid_user_id'],
    [`${path}?limit=0`, 400, 'invalid_request'],
    [`${path}?limit=201`, 400, 'invalid_request'],
    [`${path}?limit=5&limit=5`, 400, 'invalid_request'],
    [`${path}?page=2`, 400, 'unknown_parameter'],
    [`${path}?cursor=AAAA`, 400, 'invalid_cursor'],
    [`${path}?cursor=${Buffer.from('["history","x"]').toString('base64url')}`, 400, 'invalid_cursor'],
    [`${path}?cursor=${Buffer.from('["balances","\\u0000"]').toString('base64url')}`, 400, 'invalid_cursor'],
  ]
  for (const [where, status, code] of cases) {
    const answer = await alice.get(where)
    assert.deepEqual([answer.status, answer.body.code], [status, code], where)
  }
  assert.equal((await alice.post(path, {})).status, 405)
})

test('a token that looks like a known one is listed and marked, left out where that is asked for, and an ordinary one once it was used', async () => {
  const { facts, rpc, request } = here
  const dora = await here.person('dora')
  const fake = `0x${'fa4e'.padStart(40, '0')}`
  await rpc('anvil_setCode', fake, await rpc<string>('eth_getCode', facts.contracts.erc20, 'latest'))
  // Name and symbol are in the first storage slots.
  for (const slot of [0, 1, 2, 3, 4, 5, 6, 7]) {
    const value = await rpc<string>('eth_getStorageAt', facts.contracts.erc20, `0x${slot.toString(16)}`, 'latest')
    await rpc('anvil_setStorageAt', fake, `0x${slot.toString(16).padStart(64, '0')}`, value)
  }
  // Carol creates the token, and sends it to a user without a request.
  await carol.write({ address: fake, abi: 'mint(address to, uint256 amount) public', args: [dora.address, '5'] })
  await carol.write({ address: facts.contracts.erc20!, abi: 'mint(address to, uint256 amount) public', args: [dora.address, '5'] }) // prettier-ignore
  await indexed(here, dora)
  const path = `/v1/users/${dora.userId}/balances`
  const { body } = await dora.get(path)
  assert.deepEqual(body[fake].spam, { score: 60, reasons: ['same_symbol'] })
  assert.equal(body[facts.contracts.erc20!.toLowerCase()].spam, undefined)
  assert.equal(body.ETH.spam, undefined)
  const without = await dora.get(`${path}?includeSpam=false`)
  assert.deepEqual(Object.keys(without.body), ['ETH', facts.contracts.erc20!.toLowerCase()])
  const history = `/v1/users/${dora.userId}/history`
  assert.equal((await dora.get(history)).body.length, 1)
  assert.deepEqual((await dora.get(`${history}?includeSpam=true`)).body[1].spam, body[fake].spam)

  const metrics = here.app.telemetry.registry
  assert.match(await metrics.metrics(), /spam_transfers_total\{reason="same_symbol"\} [1-9]/)
  await dora.write({ address: fake, abi: 'transfer(address to, uint256 amount) public returns (bool)', args: [carol.address, '1'] }) // prettier-ignore
  await indexed(here, dora)
  const used = await dora.get(path)
  assert.equal(used.body[fake].spam, undefined)
  assert.equal((await dora.get(history)).body.length, 3)
  assert.equal((await request(`${path}?includeSpam=maybe`)).status, 401)
})
