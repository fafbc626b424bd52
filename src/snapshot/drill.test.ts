import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { attestingSigner } from '../../test/attesting.ts'
import { command } from '../../test/command.ts'
import { addressOf } from '../../test/rehearsal.ts'
import { inside, snapshotStage } from '../../test/snapshot-stage.ts'
import type { UserId } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import type { CopySession } from '../store/copy.ts'

const USERS = ['X-1', 'X-2', 'X-3'] as UserId[]
const WHOLE = /^This backup brings back everything that it names\.$/m
const NOT_WHOLE = /^This backup does NOT bring back everything that an installation needs\.$/m

/** An installation of three people, as a server leaves it: attested, with a copy of each key, and a write for a sponsor that was carried. */
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
    await session.query(`insert into wrapped_data_keys values ('\\x01', 1, 'file', '\\x01', now(), 0)`)
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
  async function drill(verifier?: string) {
    const file = await stage.backup(source)
    const { code, out, err } = await command(verifier === undefined ? {} : { SIGNER_KEY: verifier }, ['drill', file, '--identity', identity, '--in', stage.folder]) // prettier-ignore
    assert.equal(err, '')
    assert.deepEqual(readdirSync(stage.folder).filter((name) => name.startsWith('chatelaine-drill-')), []) // prettier-ignore
    return { code, out }
  }
  async function failing(pattern: RegExp, verifier?: string): Promise<void> {
    const { code, out } = await drill(verifier)
    assert.match(out, pattern)
    assert.match(out, NOT_WHOLE)
    assert.doesNotMatch(out, /everything that it names/)
    assert.equal(code, 1, out)
  }
  return { key, source, change, addAccount, addKey, drill, failing }
}

test('a drill ends with 0 where all is there, and with 1 where the only copy of a key is not', async (t) => {
  const { key, source, change, addAccount, addKey, drill, failing } = await installation(t)
  for (const verifier of [undefined, key]) {
    const { code, out } = await drill(verifier)
    assert.match(out, WHOLE)
    assert.match(out, /^3 of 3 addresses are attested by the signer; 0 are not, 0 are false\.$/m)
    assert.doesNotMatch(out, /copy of/)
    assert.equal(code, 0)
  }
  await change(`delete from wrapped_keys where user_id = 'X-3'`)
  await failing(/^no copy of its key {2}X-3\n[^]*^1 accounts have no copy of their key here: /m)
  // The key of another address than the person was told opens nothing of theirs.
  await inside(source, (session) => addKey(session, 'X-3' as UserId))
  await change(`update wrapped_keys set address = '\\x01' where user_id = 'X-1'`)
  await failing(/^no copy of its key {2}X-1\n[^]*^1 accounts have no copy/m)
  await change(`update wrapped_keys w set address = a.address from accounts a where a.user_id = w.user_id`)

  // An address that the signer never signed: whose it is nothing says, and who asks by SIGNER_KEY is told no.
  await inside(source, async (session) => {
    await addAccount(session, 'X-late' as UserId, null)
    await addKey(session, 'X-late' as UserId)
  })
  const late = await drill()
  assert.match(late.out, /^This backup brings back everything that it names; nothing says that 1 of its addresses are the signer’s\.$/m) // prettier-ignore
  assert.equal(late.code, 0)
  await failing(/^3 of 4 addresses are attested by the signer; 1 are not, 0 are false\.$/m, key)
})

test('a drill ends with 1 where an address is false, of which the key is said to be here', async (t) => {
  const { key, source, failing } = await installation(t)
  // Somebody who can write to the database says another address, signs it by an identity of their own, and puts that beside the head.
  const thief = attestingSigner(addressOf)
  const address = addressOf('X-other')
  await inside(source, async ({ query }) => {
    await query(`update accounts set address = $1, attestation = $2 where user_id = 'X-2'`, [fromHex(address), fromHex(thief.attestation('X-2', address))]) // prettier-ignore
    await query(`update wrapped_keys set address = $1 where user_id = 'X-2'`, [fromHex(address)])
    await query('update signing_log_head set key = $1', [await thief.identity()])
  })
  await failing(/^not the signer’s address {2}X-2\n[^]*^2 of 3 addresses are attested by the signer; 0 are not, 1 are false\.$/m, key) // prettier-ignore
})

test('a drill ends with 1 where an identity, or what was signed for a sponsor, is without what it needs', async (t) => {
  const { key, change, failing } = await installation(t)
  await change(
    `insert into identities (provider, subject, account_id, username) values ('X', 'nobody', '${randomUUID()}', 'nobody')`,
    `update operations set outer_id = 'tx_none' where id = 'op_1'`,
    `insert into carried values ('op_none', 'tx_1'), ('op_2', 'tx_none'), ('op_1', 'tx_gone')`,
  )
  const places = ['identities.account_id: 1', 'operations.outer_id: 1', 'carried.operation_id: 1', 'carried.transaction_id: 2'] // prettier-ignore
  await failing(new RegExp(`^${places.map((place) => `${place} rows refer to nothing\n`).join('')}Backup`), key)
})
