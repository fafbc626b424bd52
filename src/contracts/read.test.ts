import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { BigNumber, Contract, providers } from 'ethers5'
import { world, type Answer, type World } from '../../test/world.ts'
import { encodeCall } from '../abi/args.ts'
import { parseAbi } from '../abi/parse.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import { deploy } from '../devnet/deploy.ts'
import type { Hex } from '../ids.ts'

let here: World
let probe: Hex
let oracle: Contract
before(async () => {
  here = await world()
  probe = (await deploy(here.facts.rpcUrl, ['Probe']))[0]!
  const { abi } = JSON.parse(await readFile(new URL('../../contracts/out/Probe.json', import.meta.url), 'utf8'))
  oracle = new Contract(probe, abi, new providers.StaticJsonRpcProvider(here.facts.rpcUrl, 31_337))
})
after(() => here.close())

const READ = '/v1/contracts/method/read'
const read = (abi: string, args?: unknown[], more: Record<string, unknown> = {}): Promise<Answer> =>
  here.alice.post(READ, { address: probe, abi, ...(args === undefined ? {} : { args }), ...more })

/** Formats a value like ethers 5, with its small integers in the form of large ones. */
function asEthers5(value: unknown): unknown {
  if (typeof value === 'number') return JSON.parse(JSON.stringify(BigNumber.from(value)))
  if (BigNumber.isBigNumber(value)) return JSON.parse(JSON.stringify(value))
  if (Array.isArray(value)) return value.map(asEthers5)
  return value
}

const ORDER = '(address maker, uint256 amount, bool open, string note, (int32 x, int32 y)[] path, bytes32[2] marks)'

test('what a contract returns is what ethers 5 gives for the same call', async (t) => {
  const cases: [name: string, abi: string][] = [
    ['oneInt', 'oneInt() public pure returns (int256)'],
    [
      'integers',
      'integers() public pure returns (uint8 small, uint64 middle, uint256 large, int8 negative, int24 odd, int256 lowest, uint256 zero)',
    ],
    ['several', 'several() public view returns (address who, bool yes, string words, bytes raw, bytes4 four)'],
    ['orders', `orders() public view returns (uint256 total, ${ORDER}[] all)`],
  ]
  for (const [name, abi] of cases) {
    await t.test(name, async () => {
      const { status, body } = await read(abi)
      assert.equal(status, 200, JSON.stringify(body))
      assert.deepEqual(body.response, asEthers5(await oracle[name]!()))
      assert.equal(body.status, 'SUCCESS')
      assert.equal(body.explorerUrl, `${here.facts.origin}/explorer/address/${probe}`)
      assert.ok(Number.isInteger(body.blockNumber))
    })
  }
})

test('a function that returns nothing answers null', async () => {
  const { status, body } = await read('nothing() public pure')
  assert.deepEqual([status, body.response, body.outputs], [200, null, []])
})

test('outputs carry names and types beside the positions', async () => {
  const { body } = await read(
    'several() public view returns (address who, bool yes, string words, bytes raw, bytes4 four)',
  )
  assert.deepEqual(
    body.outputs.map(({ name, type }: { name: string; type: string }) => [name, type]),
    [
      ['who', 'address'],
      ['yes', 'bool'],
      ['words', 'string'],
      ['raw', 'bytes'],
      ['four', 'bytes4'],
    ],
  )
  assert.equal(body.outputs[2].value, 'Zoë, 日本, 🔑')
})

test('arguments reach the contract as they were given', async (t) => {
  const order = [
    probe,
    '1000000000000000000000000000000',
    true,
    'say "hi", ok?',
    [[-1, 2]],
    [`0x${'11'.repeat(32)}`, `0x${'00'.repeat(32)}`],
  ]
  const cases: [abi: string, args: string[], ethers: unknown[]][] = [
    ['echoUint256(uint256) public pure returns (uint256)', [(2n ** 256n - 1n).toString()], [2n ** 256n - 1n]],
    ['echoInt256(int256) public pure returns (int256)', [(-(2n ** 255n)).toString()], [-(2n ** 255n)]],
    ['echoString(string) public pure returns (string)', ['[1,2] "quoted" 🔑'], ['[1,2] "quoted" 🔑']],
    [
      'echoList(uint256[]) public pure returns (uint256[])',
      ['[1, "2", 115792089237316195423570985008687907853269984665640564039457584007913129639935]'],
      [[1n, 2n, 2n ** 256n - 1n]],
    ],
    [`echoOrder(${ORDER}) public pure returns (${ORDER})`, [JSON.stringify(order)], [order]],
    [
      `echoOrder(tuple${ORDER} order) public pure returns (tuple${ORDER})`,
      [
        JSON.stringify({
          maker: probe,
          amount: order[1],
          open: true,
          note: order[3],
          path: [{ x: -1, y: '2' }],
          marks: order[5],
        }),
      ],
      [order],
    ],
  ]
  for (const [abi, args, given] of cases) {
    await t.test(`${abi.slice(0, 30)} ${args[0]!.slice(0, 20)}`, async () => {
      const { status, body } = await read(abi, args)
      assert.equal(status, 200, JSON.stringify(body))
      assert.deepEqual(body.response, asEthers5(await oracle[abi.slice(0, abi.indexOf('('))]!(...given)))
    })
  }
})

test('a bad input of a read is refused with its place', async (t) => {
  const { facts } = here
  const count = 'count() public view returns (uint256)'
  const echo = (type: string) => `echo(${type}) public view returns (${type})`
  const wrong = facts.contracts.erc20!.replace(/[a-f]/, (letter) => letter.toUpperCase())
  const cases: [name: string, body: Record<string, unknown>, status: number, code: string, pointer: string][] = [
    ['no address', { abi: count }, 400, 'invalid_request', '/address'],
    ['a short address', { address: '0x12', abi: count }, 400, 'invalid_address', '/address'],
    ['a wrong checksum', { address: wrong, abi: count }, 400, 'invalid_address', '/address'],
    ['no ABI', { address: probe }, 400, 'invalid_request', '/abi'],
    ['two functions', { address: probe, abi: `${count}; other() public view` }, 422, 'invalid_abi', '/abi'],
    ['no view', { address: probe, abi: 'count() public returns (uint256)' }, 400, 'abi_not_view', '/abi'],
    ['too few arguments', { address: probe, abi: echo('uint8'), args: [] }, 422, 'invalid_argument', '/args'],
    ['out of range', { address: probe, abi: echo('uint8'), args: ['256'] }, 422, 'invalid_argument', '/args/0'],
    [
      'a deep place',
      {
        address: probe,
        abi: `echoOrder(${ORDER}) public view`,
        args: [
          JSON.stringify({
            maker: probe,
            amount: '1',
            open: true,
            note: '',
            path: [{ x: '3000000000', y: '2' }],
            marks: [`0x${'00'.repeat(32)}`, `0x${'00'.repeat(32)}`],
          }),
        ],
      },
      422,
      'invalid_argument',
      '/args/0/path/0/x',
    ],
    ['a value on a read', { address: probe, abi: count, value: '1' }, 400, 'unknown_parameter', '/value'],
    ['an unknown block tag', { address: probe, abi: count, blockTag: 'pending' }, 400, 'invalid_request', '/blockTag'],
    ['a block to come', { address: probe, abi: count, blockTag: 99_999_999 }, 400, 'invalid_request', '/blockTag'],
    ['an account without code', { address: here.alice.address, abi: count }, 422, 'no_contract', '/address'],
  ]
  for (const [name, request, status, code, pointer] of cases) {
    await t.test(name, async () => {
      const { status: got, body } = await here.alice.post(READ, request)
      assert.deepEqual([got, body.code], [status, code], JSON.stringify(body))
      assert.ok(
        body.errors.some((one: { pointer?: string }) => one.pointer === pointer),
        JSON.stringify(body.errors),
      )
    })
  }
})

test('reverts are decoded: Error, Panic in words, built-in and given errors, raw and empty', async (t) => {
  const cases: [abi: string, args: string[], name: string | null, reason: RegExp][] = [
    ['failError(string) public view', ['out of tea'], 'Error', /out of tea/],
    ['failOverflow(uint256) public view returns (uint256)', ['1'], 'Panic', /overflow/i],
    [
      'failTooMuch(uint256,uint256) public view; error TooMuch(address who, uint256 asked, uint256 held)',
      ['5', '3'],
      'TooMuch',
      /TooMuch/,
    ],
    ['failPlain() public view', [], null, /./],
    ['failRaw(bytes) public view', ['0x01'], null, /./],
    ['failInvalid() public view', [], null, /./],
  ]
  for (const [abi, args, name, reason] of cases) {
    await t.test(abi.slice(0, 40), async () => {
      const { status, body } = await read(abi, args)
      assert.deepEqual([status, body.code], [422, 'execution_reverted'], JSON.stringify(body))
      assert.equal(body.revert.name, name)
      assert.match(body.revert.reason, reason)
    })
  }
  const { body } = await read(
    'failTooMuch(uint256,uint256) public view; error TooMuch(address who, uint256 asked, uint256 held)',
    ['5', '3'],
    { sender: true },
  )
  assert.deepEqual(body.revert.args, [
    here.alice.address,
    { type: 'BigNumber', hex: '0x05' },
    { type: 'BigNumber', hex: '0x03' },
  ])
})

test('an endless loop and a megabyte of revert data are refusals, not failures', async () => {
  for (const abi of ['failEndless() public view', 'failHuge() public view']) {
    const { status, body } = await read(abi)
    assert.deepEqual([status, body.code], [422, 'execution_reverted'], JSON.stringify(body))
  }
})

test('an answer of another shape is a 422, never a wrong value', async () => {
  for (const abi of ['oneInt() public view returns (string)', 'nothing() public view returns (uint256)']) {
    const { status, body } = await read(abi)
    assert.deepEqual([status, body.code], [422, 'invalid_return_data'], `${abi}: ${JSON.stringify(body)}`)
  }
})

test('a user who has written and been mined reads the result at once', async () => {
  const { alice } = here
  for (let round = 0; round < 5; round++) {
    const before = BigInt((await read('count() public view returns (uint256)')).body.response.hex)
    await alice.write({ address: probe, abi: 'increment() public returns (uint256)' })
    assert.equal(BigInt((await read('count() public view returns (uint256)')).body.response.hex), before + 1n)
  }
})

test('a read at a numbered block sees that block, at finalized an older one', async () => {
  const { alice, rpc } = here
  const block = Number(await rpc('eth_blockNumber'))
  const before = (await read('count() public view returns (uint256)')).body.response.hex
  await alice.write({ address: probe, abi: 'increment() public returns (uint256)' })
  for (const blockTag of [block, String(block)]) {
    const { body } = await read('count() public view returns (uint256)', [], { blockTag })
    assert.deepEqual([body.response.hex, body.blockNumber], [before, block])
  }
  const finalized = await read('blockNumber() public view returns (uint256)', [], { blockTag: 'finalized' })
  assert.equal(Number(finalized.body.response.hex), finalized.body.blockNumber)
})

test('a batch is answered at one block, each call on its own', async () => {
  const { status, body } = await here.alice.post(`${READ}/batch`, {
    calls: [
      { address: probe, abi: 'blockNumber() public view returns (uint256)' },
      { address: probe, abi: 'failError(string) public view', args: ['no'] },
      { address: probe, abi: 'nonsense(' },
      { address: 'x', abi: 'count() public view returns (uint256)' },
      { address: probe, abi: 'blockNumber() public view returns (uint256)' },
    ],
  })
  assert.equal(status, 200)
  assert.deepEqual(
    body.results.map((one: { code?: string; status: unknown }) => one.code ?? one.status),
    ['SUCCESS', 'execution_reverted', 'invalid_abi', 'invalid_address', 'SUCCESS'],
  )
  assert.equal(Number(body.results[0].response.hex), body.blockNumber)
  assert.equal(body.results[4].response.hex, body.results[0].response.hex)
  assert.equal((await here.alice.post(`${READ}/batch`, { calls: [] })).status, 400)
  assert.equal(
    (
      await here.request(`${READ}/batch`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      })
    ).status,
    401,
  )
})

test('a batch of answers that are long together is answered as far as it may be long', async () => {
  const { rpc, alice } = here
  const long = `0x${'10'.repeat(20)}`
  // The code returns 32,700 words as uint256[].
  await rpc('anvil_setCode', long, '0x60205f52617fbc602052620ff7c05ff3')
  await rpc('evm_mine')
  const abi = 'list() public view returns (uint256[])'
  const { status, body } = await alice.post(`${READ}/batch`, { calls: Array(60).fill({ address: long, abi }) })
  assert.equal(status, 200)
  const kinds: string[] = body.results.map((one: { code?: string; status: string }) => one.code ?? one.status)
  const whole = kinds.indexOf('invalid_return_data')
  assert.ok(whole > 1 && whole < 10, String(whole))
  assert.deepEqual(kinds, [...Array(whole).fill('SUCCESS'), ...Array(60 - whole).fill('invalid_return_data')])
  assert.equal(body.results[whole - 1].response.length, 32_700)
})

test('what the node refuses one call of a batch costs the others nothing; what it refuses all is refused', async () => {
  const { app, alice } = here
  const chain = app.chains.get(31_337)!
  const { rpc } = chain
  const fails = (isHit: (data: string) => boolean, failure: () => Error) => {
    chain.rpc = {
      ...rpc,
      call: (method, params, options) =>
        method === 'eth_call' && isHit((params[0] as { data: string }).data)
          ? Promise.reject(failure())
          : rpc.call(method, params, options),
    }
  }
  const calls = ['count()', 'oneInt()'].map((name) => ({ address: probe, abi: `${name} public view returns (int256)` }))
  const batch = () => alice.post(`${READ}/batch`, { calls })
  const isCount = (data: string) => data.startsWith('0x06661abd')
  const failures = {
    chain_timeout: () => new RpcError(-32000, 'execution aborted (timeout = 5s)', undefined),
    chain_unavailable: () => new RpcUnavailable('the node gave no answer to eth_call', { timedOut: false }),
  }
  try {
    for (const [code, failure] of Object.entries(failures)) {
      await here.rpc('evm_mine')
      fails(isCount, failure)
      const { status, body } = await batch()
      assert.equal(status, 200, JSON.stringify(body))
      assert.deepEqual(
        [body.results[0].code, body.results[0].retryable, body.results[1].status],
        [code, true, 'SUCCESS'],
      )
      fails(() => true, failure)
      await here.rpc('evm_mine')
      assert.equal((await batch()).body.code, code)
    }
    let left = 1
    fails(
      (data) => isCount(data) && left-- > 0,
      () => new RpcError(-32000, 'header not found', undefined),
    )
    await here.rpc('evm_mine')
    const { body } = await batch()
    assert.deepEqual([body.results[0].status, body.results[1].status], ['SUCCESS', 'SUCCESS'])
    assert.equal(body.results[0].blockNumber, body.results[1].blockNumber)
  } finally {
    chain.rpc = rpc
  }
})

test('a write may rest on one of the same account that is not mined yet', async () => {
  const { alice, bob, facts } = here
  const erc20 = facts.contracts.erc20!
  const write = (abi: string, args: string[]) => alice.post('/v1/contracts/method/write', { address: erc20, abi, args })
  const amount = '123456789'
  const answers = [
    await write('mint(address,uint256) public', [alice.address, amount]),
    await write('transfer(address,uint256) public returns (bool)', [bob.address, amount]),
  ]
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
    JSON.stringify(answers.map(({ body }) => body.detail)),
  )
  const last = await alice.get(`/v1/transactions/${answers[1]!.body.id}?wait=mined`)
  assert.match(last.body.state, /^(MINED|FINALIZED)$/)
  const refused = await write('transfer(address,uint256) public returns (bool)', [bob.address, '1'])
  assert.equal(refused.body.code, 'execution_reverted')
})

test('what a contract keeps outside the chain (ERC-3668) is said so in a read and in a dry run, and no URL is asked', async () => {
  const lookup = encodeCall(parseAbi('OffchainLookup(address,string[],bytes,bytes4,bytes)').function, [
    here.alice.address,
    JSON.stringify([`${here.facts.rpcUrl}/{sender}/{data}`]),
    ...['0x1234', '0xb4a85801', '0x'],
  ])
  const size = ((lookup.length - 2) / 2).toString(16).padStart(4, '0')
  const resolver = `0x${'3668'.padStart(40, '0')}`
  // The code copies the bytes behind it, and reverts with them.
  await here.rpc('anvil_setCode', resolver, `0x61${size}600e60003961${size}6000fd${lookup.slice(2)}`)
  const abi = 'addr(bytes32 node) public'
  const call = { address: resolver, args: [`0x${'00'.repeat(32)}`] }
  for (const { status, body } of [
    await here.alice.post(READ, { ...call, abi: `${abi} view returns (address)` }),
    await here.alice.post('/v1/contracts/method/write', { ...call, abi, dryRun: true }),
  ]) {
    assert.deepEqual([status, body.code, body.revert.name], [422, 'execution_reverted', 'OffchainLookup'])
    assert.match(
      body.detail,
      /outside the network \(OffchainLookup, ERC-3668\)\. This service does not fetch that data\./,
    )
    assert.equal(body.revert.args[3], '0xb4a85801')
  }
})
