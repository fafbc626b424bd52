// tier: all, because it restores whole installations
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { attestingSigner } from '../../test/attesting.ts'
import { command } from '../../test/kit/command.ts'
import { addressOf } from '../../test/rehearsal.ts'
import { inside, snapshotStage } from '../../test/snapshot-stage.ts'
import type { UserId } from '../ids.ts'
import { fromHex } from '../hex.ts'
import type { CopySession } from '../store/copy.ts'
import { inspect, isWhole, type SnapshotFindings } from './drill.ts'

const USERS = ['X-1', 'X-2', 'X-3'] as UserId[]
const WHOLE = /^This backup restores everything that it lists\.$/m
const NOT_WHOLE = /^This backup does NOT restore everything that an installation needs\.$/m

/**
 * Creates an installation of three users: attested, with a copy of each key, and an operation that a sponsor included.
 */
async function installation(t: TestContext) {
  const stage = snapshotStage(t)
  const source = await stage.migrated()
  const signer = attestingSigner(addressOf)
  const key = await signer.identity()
  const identity = join(stage.folder, 'identity')
  writeFileSync(identity, stage.keys.identity, { mode: 0o600 })
  const change = (...statements: string[]) =>
    inside(source, async ({ query }) => {
      for (const statement of statements) await query(statement)
    })
  const addAccount = ({ query }: CopySession, userId: UserId, attestation: Buffer | null) =>
    query('insert into accounts (account_id, user_id, address, attestation) values ($1, $2, $3, $4)', [randomUUID(), userId, fromHex(addressOf(userId)), attestation]) // prettier-ignore
  const addKey = ({ query }: CopySession, userId: UserId) =>
    query(`insert into wrapped_keys values ($1, $2, 1, '\\x01', '\\x', '\\x', '\\x')`, [userId, fromHex(addressOf(userId))]) // prettier-ignore
  await inside(source, async (session) => {
    await session.query(`insert into wrapped_data_keys values ('\\x01', 1, 'file', '\\x01', now())`)
    for (const user of USERS) {
      await addAccount(session, user, fromHex(signer.attestation(user, addressOf(user))))
      await addKey(session, user)
    }
    await session.query(`insert into signing_log_head (only_row, origin, size, at, note, key) values (1, $1, 3, now(), 'note', $2)`, [key.split('+')[0], key]) // prettier-ignore
    await session.query(`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, gas_limit, max_fee, abi, state, transitions)
      select 'tx_1', account_id, 'demo', 1, address, 0, address, '\\x', '\\x', 1, '\\x', '', 'SUBMITTED', '[]' from accounts where user_id = 'X-1'`)
    for (const [id, sequence, outer] of [
      ['op_1', 1, 'tx_1'],
      ['op_2', 2, null],
    ])
      await session.query(`insert into operations (id, account_id, client_id, chain_id, sender, space, sequence, calls, gas_limit, deadline, abi, state, outer_id, charged, hour)
        select $1, account_id, 'demo', 1, address, '\\x', $2, '\\x', 1, 1, '', 'SUBMITTED', $3, 0, now() from accounts where user_id = 'X-2'`, [id, sequence, outer]) // prettier-ignore
    await session.query(`insert into carried values ('op_1', 'tx_1')`)
  })
  /** Inspects the installation without a backup file. */
  const found = async (verifier?: string) => {
    const all = await inside(source, (session) => inspect(session, verifier))
    return { ...all, false: all.false.toSorted() }
  }
  async function drill(verifier?: string) {
    const file = await stage.backup(source)
    const { code, out, err } = await command(verifier === undefined ? {} : { SIGNER_KEY: verifier }, ['drill', file, '--identity', identity, '--in', stage.folder]) // prettier-ignore
    assert.equal(err, '')
    assert.deepEqual(readdirSync(stage.folder).filter((name) => name.startsWith('chatelaine-drill-')), []) // prettier-ignore
    return { code, out }
  }
  return { key, source, change, addAccount, addKey, found, drill }
}

/** Findings of three users with all their data. */
const NOTHING_MISSES = { accounts: 3, attested: 3, false: [], notAttested: 0, withoutKey: [], dangling: [] }

test('a drill ends with 0 where all is there', async (t) => {
  const { key, found, drill } = await installation(t)
  assert.deepEqual(await found(), NOTHING_MISSES)
  const { code, out } = await drill(key)
  assert.match(out, WHOLE)
  assert.match(out, /^The signer attests 3 of 3 addresses; 0 are not attested, 0 are false\.$/m)
  assert.doesNotMatch(out, /copy of/)
  assert.equal(code, 0)
})

test('a drill ends with 1, and says what is wrong: a key without a copy, a false address, and rows that refer to nothing', async (t) => {
  const { key, source, change, drill } = await installation(t)
  await change(`delete from wrapped_keys where user_id = 'X-3'`)
  // An attacker with write access to the database changes an address, signs it with another identity, and stores that
  // identity with the head.
  const thief = attestingSigner(addressOf)
  const address = addressOf('X-other')
  await inside(source, async ({ query }) => {
    await query(`update accounts set address = $1, attestation = $2 where user_id = 'X-2'`, [fromHex(address), fromHex(thief.attestation('X-2', address))]) // prettier-ignore
    await query(`update wrapped_keys set address = $1 where user_id = 'X-2'`, [fromHex(address)])
    await query('update signing_log_head set key = $1', [await thief.identity()])
  })
  await change(
    `insert into identities (provider, subject, account_id, username) values ('X', 'nobody', '${randomUUID()}', 'nobody')`,
    `update operations set outer_id = 'tx_none' where id = 'op_1'`,
    `insert into carried values ('op_none', 'tx_1'), ('op_2', 'tx_none'), ('op_1', 'tx_gone')`,
  )
  const { code, out } = await drill(key)
  assert.match(out, /^not the signer’s address {2}X-2\nno copy of the key {2}X-3\n/)
  assert.match(
    out,
    /^The signer attests 2 of 3 addresses; 0 are not attested, 1 are false\.\n1 accounts have no copy of their key in this backup\. /m,
  )
  const places = ['identities.account_id: 1', 'operations.outer_id: 1', 'carried.operation_id: 1', 'carried.transaction_id: 2'] // prettier-ignore
  assert.match(out, new RegExp(`^${places.map((place) => `${place} rows refer to nothing\n`).join('')}Backup`, 'm'))
  assert.match(out, NOT_WHOLE)
  assert.doesNotMatch(out, /everything that it lists/)
  assert.equal(code, 1, out)
})

test('each of these alone is found, and an installation with it is not whole', async (t) => {
  const { key, source, change, addKey, found } = await installation(t)
  async function finds(what: Partial<SnapshotFindings>, verifier?: string): Promise<void> {
    const all = await found(verifier)
    assert.deepEqual(all, { ...NOTHING_MISSES, ...what })
    assert.equal(isWhole(all, verifier), false)
  }
  await change(`delete from wrapped_keys where user_id = 'X-3'`)
  await finds({ withoutKey: ['X-3'] })
  // A key of an address other than the user's does not recover their funds.
  await inside(source, (session) => addKey(session, 'X-3' as UserId))
  await change(`update wrapped_keys set address = '\\x01' where user_id = 'X-1'`)
  await finds({ withoutKey: ['X-1'] })
  await change(`update wrapped_keys w set address = a.address from accounts a where a.user_id = w.user_id`)

  await change(`insert into carried values ('op_none', 'tx_1')`)
  await finds({ dangling: [{ place: 'carried.operation_id', rows: 1 }] })
  await change(`delete from carried where operation_id = 'op_none'`)

  // The key that the operator gave counts, even if an attacker has stored another with the head.
  const thief = attestingSigner(addressOf)
  await inside(source, async ({ query }) => query('update signing_log_head set key = $1', [await thief.identity()]))
  await finds({ attested: 0, false: USERS })
  assert.deepEqual(await found(key), NOTHING_MISSES)
})

test('an address that the signer never signed is nobody’s to vouch for: who asks by SIGNER_KEY is told no', async (t) => {
  const { key, source, addAccount, addKey, found, drill } = await installation(t)
  await inside(source, async (session) => {
    await addAccount(session, 'X-late' as UserId, null)
    await addKey(session, 'X-late' as UserId)
  })
  const late = await drill()
  assert.match(late.out, /^This backup restores everything that it lists; the signer does not attest 1 of its addresses\.$/m) // prettier-ignore
  assert.equal(late.code, 0)
  for (const verifier of [undefined, key]) {
    const all = await found(verifier)
    assert.deepEqual(all, { ...NOTHING_MISSES, accounts: 4, notAttested: 1 })
    assert.equal(isWhole(all, verifier), verifier === undefined)
  }
})
