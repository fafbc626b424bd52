import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { hashTypedData } from 'viem'
import { openBrowser, textOf } from '../../../test/kit/browser.ts'
import { world, type World } from '../../../test/world.ts'
import type { Caller } from '../../http/bearer.ts'
import { permit } from '../../../test/kit/messages.ts'
import { listSignatures, readSignatures } from './signatures.ts'
import { verifyLog } from '../../verify-log/main.ts'

let here: World
before(async () => {
  here = await world()
})
after(() => here.close())

const MINT = 'mint(address,uint256) public'

test('every signature is listed with its proof, one too that was made behind the back of the server', async (t) => {
  const { app, alice, bob, facts } = here
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-signatures-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const written = await alice.write({ address: facts.contracts.erc20!, abi: MINT, args: [alice.address, '1'] })
  // An attacker with the user's token and the socket signs this. The database has no row of it.
  const target = `0x${'66'.repeat(20)}` as const
  const stolen = await app.signer.sign({
    ...{ intentId: 'behind-the-back', accessToken: alice.token, chainId: facts.chainId, from: alice.address, nonce: 1 },
    ...{ to: target, value: '5', data: '0x', gas: '21000', maxFeePerGas: '2000000000', maxPriorityFeePerGas: '1' },
    kind: 'send',
  })
  const { status, body, headers } = await alice.get('/v1/me/signatures')
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(headers.get('x-next-cursor'), null)
  const [theirs, hers] = body
  assert.equal(body.length, 2)
  assert.deepEqual(
    [theirs.hash, theirs.to, theirs.value.hex, theirs.selector, theirs.clientId],
    [stolen.hash, target, '0x05', null, 'demo'],
  )
  assert.deepEqual(
    [hers.hash, hers.to, hers.function, hers.selector, hers.kind, hers.nonce, hers.chainId, hers.network],
    [
      written.body.hash,
      facts.contracts.erc20,
      'mint',
      '0x40c10f19',
      'send',
      0,
      facts.chainId,
      app.chains.get(facts.chainId)!.name,
    ],
  )
  assert.equal(hers.transactionId, written.body.id)
  assert.match(hers.evidenceHash, /^[0-9a-f]{64}$/)
  assert.ok(Math.abs(Date.parse(hers.signedAt) - Date.now()) < 600_000)

  const key = await app.signer.identity()
  const check = (proof: object, ...more: string[]) => {
    const file = join(folder, 'proof.json')
    writeFileSync(file, JSON.stringify(proof))
    const lines: string[] = []
    const code = verifyLog(['--proof', file, ...more], (line) => lines.push(line))
    return { code, text: lines.join('\n') }
  }
  for (const one of body) {
    const { code, text } = check(one, '--key', key)
    assert.equal(code, 0, text)
    assert.match(text, new RegExp(`^Record ${one.record} is in the log of \\d+ records`))
  }
  const { proof } = hers
  assert.match(check(proof).text, /signature of the head was not checked/)
  const wrong = {
    'of another record': { ...proof, record: proof.record + 1 },
    'of no record': { ...proof, record: 0 },
    'with another leaf': { ...proof, leaf: theirs.proof.leaf },
    'with a hash less': { ...proof, path: proof.path.slice(1) },
    'with a hash more': { ...proof, path: [...proof.path, proof.leaf] },
    'under a head that someone changed': { ...proof, head: proof.head.replace(/at 20\d\d/, 'at 2001') },
  }
  for (const [name, one] of Object.entries(wrong)) assert.equal(check(one, '--key', key).code, 1, name)
  assert.equal(check({ proof: 'none' }).code, 2)

  const published = await here.request('/.well-known/chatelaine-signing-log')
  assert.equal(published.body.note, theirs.proof.head)
  assert.deepEqual((await bob.get('/v1/me/signatures')).body, [])
  const browser = openBrowser(facts.origin)
  await browser.signIn('/account', 'alice')
  const page = textOf((await browser.go('/account/signatures')).text)
  assert.match(page, /mint/)
  assert.ok(page.includes(stolen.hash) || page.includes(stolen.hash.slice(0, 10)), 'the other is shown, too')
  assert.ok(page.includes(proof.leaf))
})

test('an operation and an authorization are listed in words: every call of it, the code, and that a sponsor pays', async () => {
  const { app, facts } = here
  const carol = await here.person('carol')
  const target = `0x${'77'.repeat(20)}` as const
  const mint = `0x40c10f19${'00'.repeat(64)}` as const
  const { digest, authorization } = await app.signer.signOperation({
    ...{ intentId: 'op-carol', accessToken: carol.token, chainId: facts.chainId, from: carol.address },
    ...{ space: target, sequence: '7', gasLimit: '90000', deadline: Math.floor(Date.now() / 1_000) + 600 },
    calls: [
      { to: target, value: '5', data: '0x' },
      { to: facts.contracts.erc20!, value: '0', data: mint },
    ],
    authorizationNonce: 0,
  })
  const { status, body } = await carol.get('/v1/me/signatures')
  assert.equal(status, 200)
  const [delegation, operation] = body
  assert.deepEqual(
    [operation.kind, operation.nonce, operation.hash, operation.to, operation.value.hex, operation.selector, operation.clientId],
    ['operation', null, digest, target, '0x05', null, 'demo'],
  ) // prettier-ignore
  assert.deepEqual(
    operation.calls.map(({ to, value, selector }: { to: string; value: { hex: string }; selector: string | null }) => [to, value.hex, selector]),
    [[target, '0x05', null], [facts.contracts.erc20, '0x00', '0x40c10f19']],
  ) // prettier-ignore
  assert.deepEqual([delegation.kind, delegation.nonce, delegation.to.toLowerCase(), delegation.calls], ['authorization', 0, authorization!.address, undefined]) // prettier-ignore
  const key = await app.signer.identity()
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-signatures-'))
  for (const one of body) {
    const file = join(folder, 'proof.json')
    writeFileSync(file, JSON.stringify(one))
    assert.equal(
      verifyLog(['--proof', file, '--key', key], () => {}),
      0,
    )
  }
  rmSync(folder, { recursive: true, force: true })
  const browser = openBrowser(facts.origin)
  await browser.signIn('/account', 'carol')
  const page = textOf((await browser.go('/account/signatures')).text)
  assert.match(page, /Sent to 0x7777/)
  assert.match(page, /0x40c10f19 of /)
  assert.match(page, /a sponsor pays the fee · all or nothing/)
  assert.match(page, /Your account runs the code at 0xA91B807E/i)
})

test('a message is listed with its class, to its own application with its content, and on the page in words', async () => {
  const { app, facts } = here
  const dave = await here.person('dave')
  const sample = { address: dave.address, chainId: facts.chainId, at: Date.now() }
  const content = permit(sample, { token: facts.contracts.erc20! })
  const request = { accessToken: dave.token, chainId: facts.chainId, from: dave.address }
  const { hash } = await app.signer.signMessage({ ...request, ...content, intentId: 'message-dave' })
  const { status, body } = await dave.get('/v1/me/signatures')
  assert.equal(status, 200)
  const [listed] = body
  assert.deepEqual(
    [listed.kind, listed.nonce, listed.hash, listed.to, listed.value.hex, listed.selector, listed.transactionId, listed.clientId],
    ['message', null, hash, null, '0x00', null, null, 'demo'],
  ) // prettier-ignore
  assert.deepEqual([listed.message.kind, listed.message.class], ['typedData', 'allowance'])
  assert.equal(hashTypedData(JSON.parse(listed.message.content)), hash)
  const { entries } = await listSignatures(app, { userId: dave.userId }, {})
  assert.equal(entries[0]!.message!.class, 'allowance')
  const foreign = await readSignatures(app, { userId: dave.userId, chainId: facts.chainId, clientId: 'other' } as Caller, {}) // prettier-ignore
  assert.deepEqual(foreign.signatures[0]!.message, { kind: 'typedData', class: 'allowance', content: null })
  const browser = openBrowser(facts.origin)
  await browser.signIn('/account', 'dave')
  const page = textOf((await browser.go('/account/signatures')).text)
  assert.match(page, /Signed allowance to take tokens/)
  assert.ok(page.includes(hash))
})

test('pages follow each other without a gap; a cursor of another list is refused, and a token that may not read', async () => {
  const { alice, app, facts } = here
  const first = (await alice.get('/v1/me/signatures')).body as { record: number }[]
  const many = 25
  for (let nonce = 2; nonce < 2 + many; nonce++)
    await app.signer.sign({
      ...{ intentId: `more-${nonce}`, accessToken: alice.token, chainId: facts.chainId, from: alice.address, nonce },
      ...{ to: alice.address, value: '0', data: '0x', gas: '21000', gasPrice: '2000000000', kind: 'send' },
    })
  const seen: number[] = []
  let path: string | null = '/v1/me/signatures'
  let pages = 0
  for (; path !== null; pages++) {
    const { body, headers } = await alice.get(path)
    seen.push(...(body as { record: number }[]).map(({ record }) => record))
    const cursor = headers.get('x-next-cursor')
    if (cursor !== null) assert.match(headers.get('link')!, new RegExp(`cursor=${cursor}`))
    path = cursor === null ? null : `/v1/me/signatures?cursor=${cursor}`
  }
  assert.deepEqual([pages, seen.length], [2, many + first.length])
  assert.deepEqual(
    seen,
    seen.toSorted((a, b) => b - a),
  )
  for (const cursor of [
    'x',
    Buffer.from('["signatures",0]').toString('base64url'),
    Buffer.from('["sent",1]').toString('base64url'),
  ]) {
    const { status, body } = await alice.get(`/v1/me/signatures?cursor=${cursor}`)
    assert.deepEqual([status, body.code], [400, 'invalid_cursor'])
  }
  assert.equal((await alice.get('/v1/me/signatures?limit=5')).body.code, 'unknown_parameter')
  assert.equal((await here.request('/v1/me/signatures')).status, 401)
})
