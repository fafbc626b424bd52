import { strict as assert } from 'node:assert'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { keccak256, parseTransaction, recoverTransactionAddress, serializeTransaction } from 'viem'
import { keep, remember } from '../../../test/lost-tail.ts'
import { startSigner } from '../../../test/kit/signer.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { makeIdentity } from '../../backup/age.ts'
import { AppError } from '../../errors.ts'
import { fetchHeader } from '../../follower/fetch.ts'
import { rewindTo } from '../../follower/rewind.ts'
import type { Hex } from '../../ids.ts'
import { followTransactions } from '../settle/follow.ts'
import { askToResume, listStopped } from './resume.ts'

/** Database and signer are lost together and restored from one backup. Writes since the backup are in neither. */
let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

async function program(name: string, ...words: string[]): Promise<string> {
  const child = spawn(process.execPath, [join(import.meta.dirname, `../../signer/programs/${name}.ts`), ...words], {
    env: { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...world.place.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close')
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  const [code] = (await ended) as [number]
  if (code !== 0 && !out.includes('--accept ')) throw new Error(`${name}: ${err}`)
  return out
}

/** Returns, by sender and nonce, the effects of all bytes that were ever sent. */
async function sentEffects(): Promise<Map<string, Set<string>>> {
  const effects = new Map<string, Set<string>>()
  for (const { method, params } of world.first.calls) {
    if (method !== 'eth_sendRawTransaction') continue
    const raw = params[0] as Hex
    const { nonce, to, value, data } = parseTransaction(raw)
    const sender = await recoverTransactionAddress({ serializedTransaction: raw as never })
    const key = `${sender} ${nonce ?? 0}`
    const effect = keccak256(serializeTransaction({ chainId: 1, to: to!, value: value ?? 0n, data: data ?? '0x', gas: 1n, maxFeePerGas: 0n })) // prettier-ignore
    effects.set(key, (effects.get(key) ?? new Set()).add(effect))
  }
  return effects
}

test('both sides are restored from one backup: no nonce is used twice, and every account continues, or is listed and resumed', async () => {
  const { place, signer, first } = world
  const [settled, busy, fresh, waiting] = [await world.writer('settled'), await world.writer('busy'), await world.writer('fresh'), await world.writer('waiting')] // prettier-ignore
  for (const writer of [settled, busy, waiting]) await world.add(first, writer, 1)
  await world.mine()

  // Back up both sides at one time, while the service runs.
  const { identity, recipient } = makeIdentity()
  const [identityFile, file] = [join(place.folder, 'identity'), join(place.folder, 'backups', 'b.age')]
  writeFileSync(identityFile, identity, { mode: 0o600 })
  mkdirSync(join(place.folder, 'backups'))
  await program('backup', '--to', file, '--recipient', recipient)
  const back = await remember(world)
  const then = await fetchHeader(first.chain.rpc, 'latest')

  // After the backup: mined writes, including those of a new account, and one that waits in the node's pool.
  for (let write = 0; write < 3; write++) await world.add(first, busy, 10)
  await world.add(first, fresh, 10)
  await world.mine()
  const pending = await world.add(first, waiting, 10)
  assert.equal(pending.answer.tx.nonce, 1)

  await signer.end('SIGKILL')
  rmSync(place.env.SIGNER_DIR!, { recursive: true })
  await back()
  await world.db
    .transaction()
    .execute((db) => rewindTo(db, first.app, first.chain, { listeners: [followTransactions], to: then! }))
  await program('restore', file, '--identity', identityFile)
  const shown = await program('accept-restore', '--rpc-url', world.nodeUrl)
  const [, confirmation] = /--accept ([0-9a-f]{16})$/m.exec(shown)!
  const accepted = await program('accept-restore', '--rpc-url', world.nodeUrl, '--accept', confirmation!)
  assert.match(
    accepted,
    /Chain 31337: 4 of 4 accounts have transactions, at most 4 in one account\.[^]*Accepted as record/,
  )
  const restarted = await startSigner(place, { more: { LOG_LEVEL: 'silent' } })
  try {
    // Restart the servers as well, so that they have no head of the ledger.
    Object.assign(signer, { ...restarted, end: signer.end })
    await world.followed()
    await keep(world)
    await world.mine()

    // Each account shows what it needs: a stopped one is listed with the transaction that used its nonce, and one
    // command resumes it.
    const ends = new Map<string, string>()
    for (const writer of [settled, busy, fresh, waiting]) ends.set(writer.name, await continueWith(writer))
    assert.equal(ends.get(settled.name), 'continues')
    // The follower's pace decides which of both happens to an account without a row. It continues either way.
    assert.ok(ends.has(fresh.name))
    assert.deepEqual([busy, waiting].map(({ name }) => ends.get(name)), ['resumed', 'resumed']) // prettier-ignore
    for (const [writer, most] of [
      [settled, 101n],
      [busy, 131n],
      [fresh, 110n],
      [waiting, 111n],
    ] as const)
      // prettier-ignore
      assert.equal(await world.countOf(writer), most, writer.name)
    assert.deepEqual(await listStopped(world.db), [])
    for (const [slot, effects] of await sentEffects()) assert.equal(effects.size, 1, `${slot} has one effect`)
  } finally {
    await restarted.end('SIGKILL')
  }
})

/** Resumes the account if it is stopped, and sends a write, which is mined. */
async function continueWith(writer: Writer): Promise<'continues' | 'resumed'> {
  let end: 'continues' | 'resumed' = 'continues'
  for (let round = 0; round < 8; round++) {
    const [lane] = (await listStopped(world.db)).filter(({ userId }) => userId === writer.userId)
    if (lane !== undefined) {
      assert.equal(lane.reason, 'foreign_nonce')
      await askToResume(world.db, writer.userId)
      await keep(world)
      await world.mine()
      end = 'resumed'
      continue
    }
    try {
      await world.add(world.first, writer, 100, 'after')
      for (let block = 0; block < 3; block++) await world.mine()
      return end
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      await keep(world)
      await world.mine()
    }
  }
  throw new Error(`${writer.name} does not continue`)
}
