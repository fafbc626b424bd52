import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guarded } from '../../test/seal-keys.ts'
import { sealOf } from '../store/seal.ts'
import { authenticRecord } from './record-macs.ts'

test('a record counts only with every column that the authorization server wrote', () => {
  const app = guarded()
  const row = {
    kind: 'RefreshToken',
    idHash: 'ab'.repeat(32),
    payload: { accountId: 'DEV-amy', jti: 'j', kind: 'RefreshToken', exp: 2_000_000_000 } as Record<string, unknown>,
    columns: { grant_id: 'g', uid: 'u', user_id: 'DEV-amy', client_id: 'shop', consumed_at: null as string | null },
  }
  const { kind, idHash, payload, columns } = row
  const seal = sealOf(app.sealKeys, 'oauth_records', { kind, id_hash: idHash, payload, ...columns })
  const read = (one: typeof row) => authenticRecord(app, one, { ...one, guarded: { ...one.columns, seal } })
  assert.equal(read(row)?.user_id, 'DEV-amy')
  const changes: Record<string, Partial<typeof row>> = {
    kind: { kind: 'AuthorizationCode' },
    idHash: { idHash: 'cd'.repeat(32) },
    payload: { payload: { ...row.payload, jti: 'other' } },
    'time of use': { columns: { ...row.columns, consumed_at: '2026-01-01T00:00:00.000000Z' } },
  }
  for (const column of ['grant_id', 'uid', 'user_id', 'client_id'] as const)
    for (const value of ['other', null])
      changes[`${column} ${value}`] = { columns: { ...row.columns, [column]: value } }
  for (const [what, change] of Object.entries(changes)) assert.equal(read({ ...row, ...change }), null, what)
})
