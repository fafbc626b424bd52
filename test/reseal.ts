import assert from 'node:assert/strict'
import type { App } from '../src/app.ts'
import { authenticateRows, listUnauthentic } from '../src/oauth/authenticate-rows.ts'

/** Makes what a test has changed in the database what the authorization server wrote: a row that is older, not a thief's. */
export async function reseal({ db, sealKeys }: Pick<App, 'db' | 'sealKeys'>): Promise<void> {
  if (sealKeys.macs === null) return
  const { digest } = await listUnauthentic({ db, sealKeys })
  assert.notEqual(await authenticateRows({ db, sealKeys }, { listed: digest, withSignIns: true }), null)
}
