import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { indexed } from '../../test/indexed.ts'
import { world, type Person, type World } from '../../test/world.ts'

let here: World
let carol: Person
let erc721: string
let erc1155: string
before(async () => {
  here = await world()
  carol = await here.person('carol')
  ;({ erc721, erc1155 } = here.facts.contracts as { erc721: string; erc1155: string })
})
after(() => here.close())

const pathOf = ({ userId }: Person) => `/v1/users/${userId}/nfts`
const mint = (person: Person, id: string) =>
  person.write({ address: erc721, abi: 'mint(address to, uint256 tokenId) public', args: [person.address, id] })
const give = (from: Person, to: Person, id: string) =>
  from.write({
    address: erc721,
    abi: 'transferFrom(address from, address to, uint256 tokenId) public',
    args: [from.address, to.address, id],
  })

test('what the account holds is listed, newest arrival first, with its URI; what it gave away is not', async () => {
  const { alice } = here
  await mint(carol, '9001')
  await mint(carol, '9002')
  await give(carol, alice, '9001')
  await carol.write({
    address: erc1155,
    abi: 'mint(address to, uint256 id, uint256 amount) public',
    args: [carol.address, '3', '9'],
  })
  // OpenZeppelin keeps the URI of an ERC-1155 contract in slot 2: a short text with twice its length in the last byte.
  const uri = Buffer.alloc(32)
  uri.write('ipfs://x/{id}')
  uri[31] = 2 * 'ipfs://x/{id}'.length
  await here.rpc('anvil_setStorageAt', erc1155, `0x${'2'.padStart(64, '0')}`, `0x${uri.toString('hex')}`)
  await here.rpc('evm_mine')
  await indexed(here, carol)
  const { status, headers, body } = await carol.get(pathOf(carol))
  assert.equal(status, 200)
  const place = { network: 'devnet', chainId: 31_337 }
  assert.deepEqual(body, [
    {
      ...{ tokenType: 'ERC1155', tokenAddress: erc1155, tokenId: '3', symbol: 'SITM', name: 'Sample Items' },
      ...{ balance: '9', balanceBn: { type: 'BigNumber', hex: '0x09' } },
      tokenUri: `ipfs://x/${'3'.padStart(64, '0')}`,
      ...place,
    },
    {
      ...{ tokenType: 'ERC721', tokenAddress: erc721, tokenId: '9002', symbol: 'SNFT', name: 'Sample Collectible' },
      ...{ balance: '1', balanceBn: { type: 'BigNumber', hex: '0x01' } },
      tokenUri: null,
      ...place,
    },
  ])
  assert.ok(Number(headers.get('x-block-number')) > 0)
})

test('pages look at arrivals: nothing is missing at their end, whatever left and came back', async () => {
  const { alice } = here
  const dave = await here.person('dave')
  for (const id of ['9101', '9102', '9103']) await mint(dave, id)
  await give(dave, alice, '9101')
  await give(alice, dave, '9101')
  await give(dave, alice, '9102')
  await indexed(here, dave)
  const pages: string[][] = []
  let next: string | null = `${here.facts.origin}${pathOf(dave)}?limit=1&token=${erc721}`
  while (next !== null) {
    const { status, headers, body } = await dave.get(next)
    assert.equal(status, 200)
    pages.push((body as { tokenId: string }[]).map(({ tokenId }) => tokenId))
    next = headers.get('link')?.match(/^<([^>]+)>; rel="next"$/)?.[1] ?? null
  }
  assert.deepEqual(pages, [['9101'], ['9103'], [], ['9101']])
})

test('a contract that is gone, or answers nonsense, hides nothing else', async () => {
  const erin = await here.person('erin')
  const code = await here.rpc<string>('eth_getCode', erc721, 'latest')
  const other = `0x${'ef721'.padStart(40, '0')}`
  await here.rpc('anvil_setCode', other, code)
  for (const address of [other, erc721])
    await erin.write({ address, abi: 'mint(address to, uint256 tokenId) public', args: [erin.address, '9201'] })
  for (const broken of ['0x', '0x5b5f56', '0x60015ff3']) {
    await here.rpc('anvil_setCode', other, broken)
    await here.rpc('evm_mine')
    await indexed(here, erin)
    const { status, body } = await erin.get(pathOf(erin))
    assert.deepEqual([status, body.length, body[0].tokenAddress], [200, 1, erc721])
  }
})

test('NFTs are refused: no token, another user, bad parameters, a cursor of the history', async () => {
  const path = pathOf(carol)
  assert.equal((await here.request(path)).status, 401)
  const history = await carol.get(`/v1/users/${carol.userId}/history?limit=1`)
  const cases: [path: string, status: number, code: string][] = [
    ['/v1/users/DEV-bob/nfts', 403, 'forbidden_user'],
    [`${path}?limit=0`, 400, 'invalid_request'],
    [`${path}?token=x`, 400, 'invalid_request'],
    [`${path}?type=ERC20`, 400, 'unknown_parameter'],
    [`${path}?direction=out`, 400, 'unknown_parameter'],
    [`${path}?cursor=AAAA`, 400, 'invalid_cursor'],
    [`${path}?cursor=${history.headers.get('x-next-cursor')!}`, 400, 'invalid_cursor'],
  ]
  for (const [where, status, code] of cases) {
    const answer = await carol.get(where)
    assert.deepEqual([answer.status, answer.body.code], [status, code], where)
  }
})
