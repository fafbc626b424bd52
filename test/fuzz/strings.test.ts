// tier: all, because it sends thousands of hostile requests
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { bytesToHex, encodeAbiParameters, numberToHex, type Hex } from 'viem'
import { deploy } from '../../src/devnet/deploy.ts'
import { fromHex, toHex } from '../../src/hex.ts'
import { noteTokens } from '../../src/tokens/record.ts'
import { refreshTokens } from '../../src/tokens/refresh.ts'
import { until } from '../kit/until.ts'
import { world, type World } from '../world.ts'
import { answer, contract } from './assembler.ts'
import { anyAbi, anyText } from './junk.ts'

/** Strings of the run, over all doors; ten times as many and more in the long form. A seed makes the same ones again. */
const STRINGS = Number(process.env.FUZZ_STRINGS ?? 10_000)
const SEED = Number(process.env.FUZZ_SEED ?? 1)

let here: World
let probe: Hex
before(async () => {
  here = await world({ LOG_LEVEL: 'silent' })
  probe = (await deploy(here.facts.rpcUrl, ['Probe']))[0]!
})
after(() => here.close())

const texts = (share: number, seed: number): string[] =>
  fc.sample(anyText, { numRuns: Math.ceil(STRINGS * share), seed: SEED * 101 + seed })

/** UTF-8, in which a lone surrogate is the three bytes that it would be. */
function bytesOf(text: string): Buffer {
  return Buffer.concat(
    Array.from(text, (character) => {
      if (character.isWellFormed()) return Buffer.from(character)
      const code = character.charCodeAt(0)
      return Buffer.from([0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)])
    }),
  )
}

const percentEncoded = (text: string): string =>
  [...bytesOf(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')

function assertExpected(status: number, code: string | undefined, what: string, text: string): void {
  assert.ok(status < 500, `${what}: a ${status} ${code} for ${JSON.stringify(text).slice(0, 300)}`)
}

test('what tokens call themselves is stored and shown, whatever it is', async () => {
  const { app, alice, request, facts } = here
  const chain = app.chains.get(31_337)!
  const names = texts(0.25, 1)
  const tokens = names.map((text, index) => ({ text, address: numberToHex(0xface_0000 + index, { size: 20 }) }))
  for (let start = 0; start < tokens.length; start += 100) {
    const calls = tokens.slice(start, start + 100).map(({ text, address }, id) => {
      const data = answer(encodeAbiParameters([{ type: 'bytes' }], [bytesToHex(bytesOf(text))]))
      const one = answer(numberToHex(1, { size: 32 }))
      const code = contract({ 'symbol()': data, 'name()': data, 'decimals()': one, 'balanceOf(address)': one })
      return { jsonrpc: '2.0', id, method: 'anvil_setCode', params: [address, code] }
    })
    await request(facts.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(calls),
    })
  }
  await here.rpc('evm_mine')
  // Tokens are asked at the block that the service has seen.
  assert.notEqual(await chain.head.waitFor(Number(await here.rpc('eth_blockNumber')), 120_000), null)
  await noteTokens(app.db, chain, tokens.map(({ address }) => ({ address, form: 'ERC20' }))) // prettier-ignore
  await until('each token was asked', async () => {
    // A run that is about to end does not see the newest.
    await refreshTokens(app, chain)
    return (await app.db.selectFrom('tokens').select('address').where('state', '=', 'NEW').execute()).length === 0
  })

  const rows = await app.db.selectFrom('tokens').selectAll().where('address', 'in', tokens.map(({ address }) => fromHex(address))).execute() // prettier-ignore
  const stored = new Map(rows.map((row) => [toHex(row.address), row]))
  for (const [index, { text, address }] of tokens.entries()) {
    const { symbol, name, state } = stored.get(address)!
    assert.equal(state, 'KNOWN', JSON.stringify(text).slice(0, 300))
    assert.equal(symbol, name)
    assert.ok(symbol.isWellFormed() && Array.from(symbol).length <= 64)
    assert.doesNotMatch(symbol, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u)
    if (/^[\x20-\x7e]*$/.test(text)) assert.equal(symbol, text.trim().slice(0, 64).trim())
    if (index % 10 !== 0) continue
    const { status, body } = await alice.get(`/v1/users/${alice.userId}/balance/${address}`)
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual([body[address].symbol, body[address].formatted, body[address].decimals], [symbol, '0.1', '1'])
  }
})

test('a user id of any text is refused alike at every door', async () => {
  const { alice } = here
  const doors = ['', '/balance', '/balances', '/history', `/balance/${probe}`]
  for (const [index, text] of texts(0.2, 2).entries()) {
    const userId = index % 2 === 0 ? `DEV-${text}` : text
    const { status, body } = await alice.get(
      `/v1/users/${percentEncoded(userId).slice(0, 3_500)}${doors[index % doors.length]}`,
    )
    assertExpected(status, body.code, 'a user id', userId)
    assert.ok([400, 403, 404, 405, 414].includes(status), `${status} for ${JSON.stringify(userId).slice(0, 300)}`)
    // An address, token or filter of any text, at the caller's own doors.
    const own = await alice.get(
      [`/balance/${percentEncoded(text).slice(0, 3_000)}`, `/history?token=${percentEncoded(text).slice(0, 3_000)}`, `/history?from=${percentEncoded(text).slice(0, 3_000)}`].map((path) => `/v1/users/${alice.userId}${path}`)[index % 3]!, // prettier-ignore
    )
    assertExpected(own.status, own.body.code, 'a parameter', text)
  }
})

test('an argument of any text comes back as it was, or is refused', async () => {
  const types = ['string', 'uint256', 'int24', 'bool', 'bytes', 'bytes4', 'uint256[]', 'string[]', 'int64[3]']
  const echoes: Record<string, string> = { string: 'echoString', uint256: 'echoUint256', int24: 'echoInt24', bool: 'echoBool', bytes: 'echoBytes', bytes4: 'echoBytes4', 'uint256[]': 'echoList', 'string[]': 'echoStrings', 'int64[3]': 'echoThree' } // prettier-ignore
  const callOf = (type: string, arg: string) => ({ address: probe, abi: `${echoes[type]}(${type}) public pure returns (${type})`, args: [arg] }) // prettier-ignore
  const list = texts(0.25, 3)
  let judged = 0
  for (let start = 0; start < list.length; start += 8) {
    const some = list.slice(start, start + 8)
    const calls = some.flatMap((text, index) => [
      callOf('string', text),
      callOf(types[(start + index) % types.length]!, text),
    ])
    const body = JSON.stringify({ calls })
    if (Buffer.byteLength(body) > 60_000) continue
    judged += some.length
    const answered = await here.alice.post('/v1/contracts/method/read/batch', body)
    assert.equal(answered.status, 200, JSON.stringify(answered.body).slice(0, 300))
    for (const [index, text] of some.entries()) {
      const [echoed, other] = answered.body.results.slice(index * 2, index * 2 + 2)
      if (text.isWellFormed()) assert.equal(echoed.response, text)
      else assert.deepEqual([echoed.status, echoed.code], [422, 'invalid_argument'], JSON.stringify(text).slice(0, 300))
      assert.ok(other.status === 'SUCCESS' || other.code === 'invalid_argument', JSON.stringify(other))
    }
  }
  assert.ok(judged > list.length / 2, `${judged} of ${list.length}`)
})

test('an ABI of any text is read or refused', async () => {
  const list = fc.sample(fc.oneof(anyAbi, anyText), { numRuns: Math.ceil(STRINGS * 0.2), seed: SEED * 101 + 4 })
  let judged = 0
  for (let start = 0; start < list.length; start += 10) {
    const some = list.slice(start, start + 10).map((abi) => abi.slice(0, 5_000))
    const calls = some.map((abi) => ({ address: probe, abi }))
    const { status, body } = await here.alice.post('/v1/contracts/method/read/batch', { calls })
    assertExpected(status, body.code, 'a batch of ABIs', JSON.stringify(some))
    // Ten long ones may be more than a body holds.
    if (status !== 200) continue
    judged += some.length
    for (const [index, result] of body.results.entries())
      assert.ok(
        result.status === 'SUCCESS' || [400, 422].includes(result.status),
        `${JSON.stringify(some[index])}: ${JSON.stringify(result)}`,
      )
  }
  assert.ok(judged > list.length / 2, `${judged} of ${list.length}`)
})

test('a header of any bytes is read or refused, and nothing of it becomes a header of the answer', async () => {
  const { alice } = here
  const { host, hostname, port } = new URL(here.facts.origin)
  const names = ['authorization', 'idempotency-key', 'x-request-id', 'cookie', 'origin', 'accept', 'content-type', 'content-length', 'transfer-encoding', 'expect', 'host', 'connection', 'x-forwarded-for', 'upgrade', 'range'] // prettier-ignore
  const list = texts(0.1, 5)
  const exchange = (bytes: Buffer): Promise<string> => {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(bytes))
    let received = ''
    socket.setTimeout(120_000, () => socket.destroy(new Error('no answer within 2 minutes')))
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
      // An odd Connection header may keep it open.
      if (/^HTTP\/1\.1 \d{3}[^]*\r\n\r\n[^]*[}>]$/.test(received)) socket.end()
    })
    socket.on('close', () => resolve(received))
    socket.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' ? resolve(received) : reject(error),
    )
    return promise
  }
  const waiting = list.entries()
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (const [index, text] of waiting) {
        const name = names[index % names.length]!
        // A length or an encoding of the body that may be right leaves the server waiting for it, rightly.
        if (/content-length|transfer-encoding|upgrade/.test(name) && /^\s*\d+\s*$/.test(text)) continue
        const head = `GET /v1/me HTTP/1.1\r\nHost: ${host}\r\n${name === 'authorization' ? '' : `Authorization: Bearer ${alice.token}\r\n`}Connection: close\r\n`
        const received = await exchange(Buffer.concat([Buffer.from(`${head}${name}: `), bytesOf(text), Buffer.from('\r\n\r\n')])) // prettier-ignore
        assert.match(
          received,
          /^HTTP\/1\.1 [1-4]\d\d /,
          `${name}: ${JSON.stringify(text).slice(0, 300)}: ${received.slice(0, 300)}`,
        )
        assert.doesNotMatch(received.split('\r\n\r\n', 1)[0]!, /set-cookie/i)
      }
    }),
  )
})
