import assert from 'node:assert/strict'
import { copyFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { rehash } from '../../../test/signing-log-store.ts'
import { ALICE, ask, BOB, refusal, world, type Place, type Running } from '../../../test/kit/signer.ts'
import { verifyStore, verifyStoreWith } from '../programs/verify.ts'
import type { Hex } from '../../signer-wire/wire.ts'

describe('a store that is not what it was', () => {
  const store = (place: Place, file: string) => join(place.env.SIGNER_DIR!, file)

  async function refusesEverything(signer: Running, reason: RegExp, address: Hex) {
    const damaged = (error: unknown) => refusal('ledger_damaged')(error) && reason.test((error as Error).message)
    await assert.rejects(signer.sign(ask(address)), damaged)
    await assert.rejects(signer.createAccount({ userId: ALICE }), damaged)
    await assert.rejects(signer.recall({ intentId: 'tx_0' }), damaged)
    await assert.rejects(signer.health(), damaged)
    assert.match(signer.stderr(), /ledger_damaged/)
  }

  test('a cut write-ahead log is noticed', async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    for (let nonce = 0; nonce < 3; nonce++) await signer.sign(ask(address, { nonce, accessToken }))
    await signer.end('SIGKILL')
    const log = store(place, 'signer.sqlite-wal')
    truncateSync(log, statSync(log).size - 5_000)
    await refusesEverything(await again(), /rolled back/, address)
  })

  test('an older copy put back is noticed, also when it only lacks an account', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    copyFileSync(store(place, 'signer.sqlite'), join(place.folder, 'old'))
    const later = await again()
    await later.createAccount({ userId: BOB })
    await later.end('SIGTERM')
    copyFileSync(join(place.folder, 'old'), store(place, 'signer.sqlite'))
    await refusesEverything(await again(), /1 of 2 records are missing/, address)
    assert.match(verifyStore(place.env.SIGNER_DIR!).problems.join(), /rolled back/)
  })

  test('a store that is gone is noticed', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    rmSync(store(place, 'signer.sqlite'))
    await refusesEverything(await again(), /rolled back/, address)
  })

  test('a file that is no database is noticed', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    writeFileSync(store(place, 'signer.sqlite'), 'x'.repeat(8_192))
    await refusesEverything(await again(), /cannot be read/, address)
  })

  test('an altered record is noticed', async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    for (let nonce = 0; nonce < 3; nonce++) await signer.sign(ask(address, { nonce, accessToken }))
    await signer.end('SIGTERM')
    const db = new DatabaseSync(store(place, 'signer.sqlite'))
    db.exec(`UPDATE ledger SET token_id = NULL, client_id = 'x' WHERE nonce = 0`)
    db.close()
    await refusesEverything(await again(), /altered/, address)
    assert.notDeepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
  })

  test('a ledger hashed anew without its MACs is refused, and verify names each of its records', async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    for (let nonce = 0; nonce < 3; nonce++) await signer.sign(ask(address, { nonce, accessToken }))
    await signer.end('SIGTERM')
    const folder = place.env.SIGNER_DIR!
    const db = new DatabaseSync(store(place, 'signer.sqlite'))
    db.exec(
      `UPDATE ledger SET client_id = 'another' WHERE nonce = 1; PRAGMA ignore_check_constraints = ON; UPDATE ledger SET mac = x''`,
    )
    rehash(db)
    db.close()
    await refusesEverything(await again(), /not written by this signer/, address)
    const { problems } = await verifyStoreWith(folder, {
      kek: { provider: 'file', file: place.env.SIGNER_KEK_FILE! },
      kekNext: undefined,
    })
    assert.equal(problems.filter((problem) => problem.endsWith('was not written by this signer.')).length, 4)
  })

  test('a whole row under another user’s name does not open, and verify names it', async (t) => {
    const { place, signer, address, again } = await world(t)
    await signer.end('SIGTERM')
    const db = new DatabaseSync(store(place, 'signer.sqlite'))
    db.exec(`UPDATE accounts SET user_id = '${BOB}'`)
    db.close()
    const accessToken = await place.token(BOB)
    await assert.rejects((await again()).sign(ask(address, { accessToken })), refusal('key_damaged'))
    assert.match(verifyStore(place.env.SIGNER_DIR!).problems.join(), /missing in the ledger or differ from it: 1/)
  })

  test('a user whose key is gone gets no second account', async (t) => {
    const { place, signer, again } = await world(t)
    await signer.end('SIGTERM')
    const db = new DatabaseSync(store(place, 'signer.sqlite'))
    db.exec('DELETE FROM accounts')
    db.close()
    const revived = await again()
    await assert.rejects(revived.createAccount({ userId: ALICE }), refusal('key_damaged'))
    await revived.createAccount({ userId: BOB })
    assert.match(verifyStore(place.env.SIGNER_DIR!).problems.join(), /keys are missing: 1/)
  })
})
