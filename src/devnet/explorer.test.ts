import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import fastify, { type FastifyInstance } from 'fastify'
import { getAddress, toFunctionSelector } from 'viem'
import { readConfig } from '../config.ts'
import { openBrand } from '../http/brand.ts'
import { PAGE_CSP, pageAssets } from '../http/page.ts'
import type { Hex } from '../ids.ts'
import { openLog } from '../log.ts'
import { type AnvilChain, startChain } from './chain.ts'
import { deploy } from './deploy.ts'
import { explorer } from './explorer.ts'
import { rpc } from './rpc.ts'

let chain: AnvilChain
let server: FastifyInstance
let sender: Hex
let someone: Hex
const dir = mkdtempSync(join(tmpdir(), 'explorer-'))
const log = openLog('test', 'silent')

before(async () => {
  chain = await startChain({ dir, port: 0, blockSeconds: 60, log })
  server = await serve(chain.rpcUrl)
  ;[sender, someone] = (await rpc<Hex[]>(chain.rpcUrl, 'eth_accounts')) as [Hex, Hex]
})
after(async () => {
  await server.close()
  await chain.stop()
  rmSync(dir, { recursive: true, force: true })
})

test('a transaction shows its status, its parties, and its value to the last digit', async () => {
  const hash = await mined({ to: someone, value: `0x${123456789012345621n.toString(16)}` })
  const { status, text } = await get(`/explorer/tx/${hash}`)
  assert.equal(status, 200)
  for (const part of [
    hash,
    '>success<',
    getAddress(sender),
    getAddress(someone),
    '0.123456789012345621 ETH',
    '21,000 of 21,000',
  ]) {
    assert.ok(text.includes(part), part)
  }
})

test('a reverted transaction, a waiting one and one that creates a contract say so', async () => {
  const [probe] = (await deploy(chain.rpcUrl, ['Probe'])) as [Hex]
  const reverted = await mined({ to: probe, data: toFunctionSelector('failPlain()'), gas: '0x20000' })
  assert.match((await get(`/explorer/tx/${reverted}`)).text, />reverted</)
  const creation = await mined({ data: '0x60006000f3' })
  assert.match((await get(`/explorer/tx/${creation}`)).text, /Contract created/)
  const waiting = await rpc<Hex>(chain.rpcUrl, 'eth_sendTransaction', { from: sender, to: someone, value: '0x1' })
  assert.match((await get(`/explorer/tx/${waiting}`)).text, /pending/)
  await rpc(chain.rpcUrl, 'evm_mine')
})

test('logs and input are shown as they are', async () => {
  const [probe] = (await deploy(chain.rpcUrl, ['Probe'])) as [Hex]
  const { text } = await get(`/explorer/tx/${await mined({ to: probe, data: toFunctionSelector('increment()') })}`)
  assert.match(text, /1 log</)
  assert.match(text, new RegExp(toFunctionSelector('increment()')))
  assert.match(text, /Topic 1/)
})

test('blocks are found by number, hash and tag, and the list turns its pages', async () => {
  await rpc(chain.rpcUrl, 'anvil_mine', '0x40')
  const { number, hash } = await rpc<{ number: Hex; hash: Hex }>(chain.rpcUrl, 'eth_getBlockByNumber', 'latest', false)
  for (const id of [Number(number), hash, 'latest'])
    assert.match((await get(`/explorer/block/${id}`)).text, new RegExp(hash))
  assert.match((await get('/explorer/block/0')).text, />final</)
  assert.match((await get('/explorer')).text, new RegExp(`/explorer/block/${Number(number)}"`))
  assert.match((await get('/explorer')).text, /Empty ones follow until it is final, and one a minute after that/)
  const older = await get(`/explorer?before=20`)
  assert.match(older.text, /\/explorer\/block\/19"/)
  assert.doesNotMatch(older.text, /\/explorer\/block\/20"/)
})

test('an address shows its balance, whether it is a contract, and its newest transactions', async () => {
  const [probe] = (await deploy(chain.rpcUrl, ['Probe'])) as [Hex]
  const hash = await mined({ to: probe, data: toFunctionSelector('increment()') })
  const contract = await get(`/explorer/address/${probe.toLowerCase()}`)
  assert.match(contract.text, /<h1>Contract<\/h1>/)
  assert.match(contract.text, new RegExp(`/explorer/tx/${hash}`))
  const fresh = await get(`/explorer/address/0x${'ab'.repeat(20)}`)
  assert.match(fresh.text, /<h1>Account<\/h1>/)
  assert.match(fresh.text, /0 ETH/)
  assert.match(fresh.text, /None\./)
})

test('what is not there, and what is no address, hash or number, is a 404 page', async () => {
  const paths = [
    `/explorer/tx/0x${'0'.repeat(64)}`,
    '/explorer/tx/0x12',
    '/explorer/tx/latest',
    '/explorer/address/0x12',
    '/explorer/address/someone',
    '/explorer/block/999999999',
    '/explorer/block/-1',
    '/explorer/block/0x1',
    '/explorer/block/pending',
    `/explorer/block/${'9'.repeat(90)}`,
    '/explorer?before=0',
    '/explorer/search?q=nonsense',
    `/explorer/tx/${encodeURIComponent('<script>alert(1)</script>')}`,
  ]
  for (const path of paths) {
    const { status, text } = await get(path)
    assert.equal(status, 404, path)
    assert.match(text, /Not found/)
    assert.doesNotMatch(text, /<script/)
  }
})

test('the search box leads to blocks, transactions and addresses', async () => {
  const hash = await mined({ to: someone, value: '0x1' })
  const block = await rpc<{ hash: Hex }>(chain.rpcUrl, 'eth_getBlockByNumber', '0x1', false)
  const wanted = {
    [hash]: `tx/${hash}`,
    [block.hash]: `block/${block.hash}`,
    [someone]: `address/${someone}`,
    ' 7 ': 'block/7',
  }
  for (const [text, path] of Object.entries(wanted)) {
    const { headers } = await server.inject(`/explorer/search?q=${encodeURIComponent(text)}`)
    assert.equal(headers.location, `/explorer/${path}`)
  }
})

test('pages run no script and may be framed by nobody', async () => {
  const { headers, text } = await get('/explorer')
  assert.equal(headers['content-security-policy'], PAGE_CSP)
  assert.match(PAGE_CSP, /default-src 'none'.*frame-ancestors 'none'/)
  assert.doesNotMatch(text, /<script|style=|onclick/)
  const sheet = /href="(\/assets\/pages\.css[^"]*)"/.exec(text)![1]!.replaceAll('&#61;', '=')
  const css = await server.inject(sheet)
  assert.equal(css.statusCode, 200)
  assert.match(String(css.headers['cache-control']), /immutable/)
})

test('a time that no calendar has is still a page', async () => {
  const own = await startChain({ dir: join(dir, 'far'), port: 0, blockSeconds: 60, log })
  try {
    await rpc(own.rpcUrl, 'evm_setNextBlockTimestamp', '0x7fffffffffff')
    await rpc(own.rpcUrl, 'evm_mine')
    const far = await serve(own.rpcUrl)
    assert.match((await far.inject('/explorer')).body, /second 140737488355327/)
    await far.close()
  } finally {
    await own.stop()
  }
})

test('a node that calls nothing final has pages of its blocks all the same', async (t) => {
  const proxy = createServer(async (request, response) => {
    const asked = JSON.parse(await text(request)) as { method: string; params: unknown[] }
    response.setHeader('content-type', 'application/json')
    if (asked.params[0] === 'finalized')
      return response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'unknown tag' } }))
    response.end(
      await (
        await fetch(chain.rpcUrl, {
          method: 'POST',
          body: JSON.stringify(asked),
          headers: { 'content-type': 'application/json' },
        })
      ).text(),
    )
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.after(() => proxy.close())
  const bare = await serve(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`)
  t.after(() => bare.close())
  const { statusCode, body } = await bare.inject('/explorer/block/latest')
  assert.equal(statusCode, 200)
  assert.match(body, /not final yet/)
})

test('a node that is down is a 502 page that does not name it', async () => {
  const down = await serve('http://127.0.0.1:9/secret-key')
  for (const path of [
    '/explorer',
    `/explorer/tx/0x${'1'.repeat(64)}`,
    `/explorer/address/${someone}`,
    '/explorer/block/1',
  ]) {
    const { statusCode, body } = await down.inject(path)
    assert.equal(statusCode, 502)
    assert.match(body, /is not responding/)
    assert.doesNotMatch(body, /secret|127\.0/)
  }
  await down.close()
})

async function serve(rpcUrl: string): Promise<FastifyInstance> {
  const made = fastify()
  pageAssets(made, openBrand(readConfig({}, 'server')))
  await made.register(explorer, { rpcUrl, networkName: 'devnet', symbol: 'ETH' })
  return made
}

async function get(path: string) {
  const { statusCode, body, headers } = await server.inject(path)
  return { status: statusCode, text: body, headers }
}

async function mined(transaction: Record<string, string>): Promise<Hex> {
  const hash = await rpc<Hex>(chain.rpcUrl, 'eth_sendTransaction', { from: sender, ...transaction })
  await rpc(chain.rpcUrl, 'evm_mine')
  return hash
}
