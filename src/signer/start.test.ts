import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { ask, makePlace, startSigner, world } from '../../test/kit/signer.ts'
import { verifyStore } from './programs/verify.ts'

describe('starting and ending', () => {
  test('another master key, none, a short one or one open to all: the signer does not start', async (t) => {
    const { place, signer } = await world(t)
    await signer.end('SIGTERM')
    const kek = place.env.SIGNER_KEK_FILE!
    const right = readFileSync(kek)
    const put = (bytes: Buffer, mode: number) => {
      rmSync(kek, { force: true })
      writeFileSync(kek, bytes, { mode })
    }
    put(Buffer.alloc(32, 7), 0o600)
    await assert.rejects(startSigner(place), /does not open this store/)
    put(right.subarray(1), 0o600)
    await assert.rejects(startSigner(place), /exactly 32 bytes/)
    put(Buffer.concat([right, Buffer.of(10)]), 0o600)
    await assert.rejects(startSigner(place), /exactly 32 bytes/)
    put(right, 0o604)
    await assert.rejects(startSigner(place), /readable by every user/)
    put(right, 0o640)
    await assert.rejects(startSigner(place), /readable by a group/)
    rmSync(kek)
    await assert.rejects(startSigner(place), /cannot be opened/)
    put(right, 0o600)
    const restored = await startSigner(place)
    assert.equal((await restored.health()).accounts, 1)
    await restored.end('SIGTERM')
  })

  test('SIGTERM leaves nothing signed and unanswered, and a store that opens again', async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    const nonces = Array.from({ length: 400 }, (_, nonce) => nonce)
    const underWay = nonces.map((nonce) => signer.sign(ask(address, { nonce, accessToken })))
    const settled = Promise.allSettled(underWay)
    await underWay[0]
    process.kill(signer.pid, 'SIGTERM')
    const answered = (await settled).filter(({ status }) => status === 'fulfilled').length
    assert.equal(await signer.ended, 0)
    assert.equal((await (await again()).health()).ledgerEntries, 1 + answered)
    assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
  })

  test('with --with-parent it ends when its standard input does', async (t) => {
    const place = await makePlace()
    t.after(() => place.clear())
    const signer = await startSigner(place, { flags: ['--development', '--with-parent'] })
    signer.stdin.end()
    assert.equal(await signer.ended, 0)
  })

  test('a program that listens at the socket’s path is left alone, also when its queue is full', async (t) => {
    const place = await makePlace()
    const path = place.env.SIGNER_SOCKET!
    const listening = `require('net').createServer().listen({ path: process.argv[1], backlog: 1 }, () => console.log(1))`
    const other = spawn(process.execPath, ['-e', listening, path], { stdio: ['ignore', 'pipe', 'inherit'] })
    const callers: Socket[] = []
    t.after(() => {
      for (const caller of callers) caller.destroy()
      other.kill('SIGKILL')
      place.clear()
    })
    await once(other.stdout, 'data')
    await assert.rejects(startSigner(place), /Another program is listening/)
    other.kill('SIGSTOP')
    for (let isFull = false; !isFull;) {
      const caller = connect(path)
      callers.push(caller)
      isFull = await once(caller, 'connect').then(
        () => false,
        () => true,
      )
    }
    await assert.rejects(startSigner(place), /Another program is listening/)
    assert.ok(existsSync(path))
  })

  test('a file at the socket’s path that is no socket is left alone', async (t) => {
    const place = await makePlace()
    t.after(() => place.clear())
    writeFileSync(place.env.SIGNER_SOCKET!, 'mine')
    await assert.rejects(startSigner(place), /is not a socket/)
    assert.equal(readFileSync(place.env.SIGNER_SOCKET!, 'utf8'), 'mine')
  })
})
