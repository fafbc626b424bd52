import assert from 'node:assert/strict'
import type { App } from '../src/app.ts'
import { authenticateRows, listUnauthentic } from '../src/oauth/authenticate-rows.ts'

/** Makes what a test has changed in the database what the authorization server wrote: a row that is older, not a thief's. */
export async function rewriteMacs({ db, rowKeys }: Pick<App, 'db' | 'rowKeys'>): Promise<void> {
  if (rowKeys === null) return
  const { digest } = await listUnauthentic({ db, rowKeys })
  assert.notEqual(await authenticateRows({ db, rowKeys }, { listed: digest, withSignIns: true }), null)
}
