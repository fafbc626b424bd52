import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guarded } from '../../test/row-keys.ts'
import { macOf } from '../store/row-mac.ts'
import { authenticRecord, recordContent, type GuardedColumns } from './record-macs.ts'

test('a record counts only with every column that the authorization server wrote', () => {
  const app = guarded()
  const row = {
    kind: 'RefreshToken',
    idHash: 'ab'.repeat(32),
    payload: { accountId: 'DEV-amy', jti: 'j', kind: 'RefreshToken', exp: 2_000_000_000 } as Record<string, unknown>,
    columns: { grantId: 'g', uid: 'u', userId: 'DEV-amy', clientId: 'shop', consumedAt: null } as Record<'grantId' | 'uid' | 'userId' | 'clientId' | 'consumedAt', string | null>, // prettier-ignore
  }
  const { grantId, uid, userId, clientId } = row.columns
  const content = recordContent(
    { kind: row.kind, id_hash: row.idHash, grant_id: grantId, uid, user_id: userId, client_id: clientId, payload: row.payload }, // prettier-ignore
    null,
  )
  const mac = macOf(app.rowKeys, content)
  const read = ({ kind, idHash, payload, columns }: typeof row) =>
    authenticRecord(app, { kind, idHash }, { payload, guarded: [...Object.values(columns), mac] as GuardedColumns })
  assert.equal(read(row)?.user_id, 'DEV-amy')
  const changes: Record<string, Partial<typeof row>> = {
    kind: { kind: 'AuthorizationCode' },
    idHash: { idHash: 'cd'.repeat(32) },
    payload: { payload: { ...row.payload, jti: 'other' } },
    'time of use': { columns: { ...row.columns, consumedAt: '2026-01-01T00:00:00.000000Z' } },
  }
  for (const column of ['grantId', 'uid', 'userId', 'clientId'] as const)
    for (const value of ['other', null])
      changes[`${column} ${value}`] = { columns: { ...row.columns, [column]: value } }
  for (const [what, change] of Object.entries(changes)) assert.equal(read({ ...row, ...change }), null, what)
})
