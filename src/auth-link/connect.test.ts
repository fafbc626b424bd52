import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { systemClock } from '../clock.ts'
import { AppError } from '../errors.ts'
import { connectAuth, pack, unpack } from './connect.ts'

/** A program at the other end of the socket that answers as it is told. */
async function stand(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-link-'))
  const socketPath = join(folder, 'auth.sock')
  let answer: 'breaks' | object = {}
  const behind = createServer((request, response) => {
    if (answer === 'breaks') request.socket.destroy()
    else response.writeHead(422).end(JSON.stringify(answer))
  })
  await new Promise<void>((done) => void behind.listen(socketPath, done))
  const link = connectAuth(socketPath, systemClock)
  t.after(async () => {
    link.close()
    behind.closeAllConnections()
    behind.close()
    await rm(folder, { recursive: true })
  })
  return { link, behind, answer: (next: typeof answer) => (answer = next) }
}

test('a program that breaks off or is not there is auth_unavailable', async (t) => {
  const { link, behind, answer } = await stand(t)
  const isAway = async () => {
    await assert.rejects(link.makeAccount({ provider: 'DEV', providerUserId: 'x' }), { code: 'auth_unavailable' })
    await assert.rejects(async () => link.subjectForm('DEV'), { code: 'auth_unavailable' })
    assert.equal(await link.isThere(), false)
  }
  answer('breaks')
  await isAway()
  behind.closeAllConnections()
  await new Promise((done) => void behind.close(done))
  await isAway()
})

test('a refusal of the other program arrives as it was told, with what it says of the account', async (t) => {
  const { link, answer } = await stand(t)
  const funds = { needed: '7', available: '3' }
  const approval = {
    id: 'apr_1',
    url: 'http://localhost:4000/account/approvals/apr_1',
    expiresAt: '2026-11-28T12:30:00.000Z',
  }
  answer({
    code: 'insufficient_funds',
    detail: 'It needs 7 wei and has 3.',
    funds,
    revert: { reason: 'none' },
    approval,
  })
  await assert.rejects(link.makeAccount({ provider: 'DEV', providerUserId: 'x' }), (error) => {
    assert.ok(error instanceof AppError)
    assert.deepEqual([error.code, error.message], ['insufficient_funds', 'It needs 7 wei and has 3.'])
    assert.deepEqual([error.funds, error.revert, error.approval], [funds, { reason: 'none' }, approval])
    return true
  })
  answer({ code: 'no code of ours', detail: '' })
  await assert.rejects(link.makeAccount({ provider: 'DEV', providerUserId: 'x' }), { code: 'auth_unavailable' })
})

test('whole numbers of any size and times arrive as they were', () => {
  const given = { value: 2n ** 255n, at: new Date(0), list: [{ left: null, text: '$int' }], nothing: null }
  assert.deepEqual(unpack(pack(given)), given)
  assert.equal(unpack(pack(null)), null)
})
