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

/** Database and signer are lost together and come back from one backup, with writes since of which neither knows. */
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

/** What every byte that was ever sent says: sender and nonce, and what is done under it. */
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

  // The backup: both sides, at one time, beside what runs.
  const { identity, recipient } = makeIdentity()
  const [identityFile, file] = [join(place.folder, 'identity'), join(place.folder, 'backups', 'b.age')]
  writeFileSync(identityFile, identity, { mode: 0o600 })
  mkdirSync(join(place.folder, 'backups'))
  await program('backup', '--to', file, '--recipient', recipient)
  const back = await remember(world)
  const then = await fetchHeader(first.chain.rpc, 'latest')

  // Since then: writes that are mined, of an account that had none too, and one that waits in the node's pool.
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
    // The servers were started again, too: they know no head.
    Object.assign(signer, { ...restarted, end: signer.end })
    await world.followed()
    await keep(world)
    await world.mine()

    // Each says what it needs: an account that is stopped is listed, with what used its nonce, and one command resumes it.
    const ends = new Map<string, string>()
    for (const writer of [settled, busy, fresh, waiting]) ends.set(writer.name, await continueWith(writer))
    assert.equal(ends.get(settled.name), 'continues')
    // Which of the two it is for an account without a row the follower's pace decides: either way it continues.
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

/** A new write, after the account was resumed where it is stopped; mined. */
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
