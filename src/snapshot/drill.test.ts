import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { attestingSigner } from '../../test/attesting.ts'
import { addressOf } from '../../test/rehearsal.ts'
import { inside, snapshotStage } from '../../test/snapshot-stage.ts'
import { readIdentities } from '../backup/age.ts'
import type { UserId } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import type { CopySession } from '../store/copy.ts'
import { drillBackup } from './drill.ts'

test('a drill finds a false address, a write without its account and keys that are not there, and leaves nothing', async (t) => {
  const stage = snapshotStage(t)
  const source = await stage.migrated()
  const signer = attestingSigner(addressOf)
  const key = await signer.identity()
  const drill = async (verifier?: string) => {
    const file = await stage.backup(source)
    const found = await drillBackup({
      file,
      identities: readIdentities(stage.keys.identity),
      within: stage.folder,
      verifier,
    })
    assert.deepEqual(readdirSync(stage.folder).filter((name) => name.startsWith('chatelaine-drill-')), []) // prettier-ignore
    return { ...found, false: found.false.toSorted() }
  }
  const add = ({ query }: CopySession, userId: UserId, attestation: Buffer | null) =>
    query('insert into accounts (account_id, user_id, address, attestation) values ($1, $2, $3, $4)', [randomUUID(), userId, fromHex(addressOf(userId)), attestation]) // prettier-ignore
  await inside(source, async (session) => {
    for (const user of ['X-1', 'X-2', 'X-3'] as UserId[]) await add(session, user, fromHex(signer.attestation(user, addressOf(user)))) // prettier-ignore
    await add(session, 'X-late', null)
    await session.query(`insert into signing_log_head (only_row, origin, size, at, note, key) values (1, $1, 3, now(), 'note', $2)`, [key.split('+')[0], key]) // prettier-ignore
  })
  const well = await drill()
  assert.deepEqual([well.accounts, well.attested, well.notAttested, well.false, well.dangling, well.withoutKey], [4, 3, 1, [], [], 4]) // prettier-ignore
  assert.deepEqual([well.manifest.head?.size, well.manifest.head?.origin], [3, key.split('+')[0]])

  // Somebody who can write to the database says another address, signs it by an identity of their own, and puts that beside the head.
  const thief = attestingSigner(addressOf)
  await inside(source, async ({ query }) => {
    const address = addressOf('X-other')!
    await query(`update accounts set address = $1, attestation = $2 where user_id = 'X-2'`, [fromHex(address), fromHex(thief.attestation('X-2', address))]) // prettier-ignore
    await query('update signing_log_head set key = $1', [await thief.identity()])
    await query(
      `insert into identities (provider, subject, account_id, username) values ('X', 'nobody', $1, 'nobody')`,
      [randomUUID()],
    )
  })
  const ill = await drill(key)
  assert.deepEqual([ill.false, ill.attested, ill.dangling], [['X-2'], 2, [{ place: 'identities.account_id', rows: 1 }]])
})
