import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { AddressProver } from '../http/proven-address.ts'
import { parseUserId } from '../ids.ts'
import { pregenerate } from './pregenerate.ts'

export type ImportedAccounts = {
  imported: number
  /** number of accounts that were in the database and already marked as imported */
  present: number
  /** `row`: the user, or the line if it names no user */
  refused: { row: string; reason: string }[]
}

/**
 * Imports the accounts of a manifest of `chatelaine signer import-keys`. Each gets its rows, for the key that the
 * signer has, and is marked as imported, because its key may also be used elsewhere. If the signer lacks a key, its
 * account is rejected and nothing is created. After a crash, run it again.
 */
export async function importAccounts(
  app: AddressProver & Pick<App, 'clock'>,
  lines: AsyncIterable<string>,
): Promise<ImportedAccounts> {
  const { db, clock } = app
  const done: ImportedAccounts = { imported: 0, present: 0, refused: [] }
  let [at, read, said] = [0, 0, -1]
  for await (const text of lines) {
    at += 1
    if (text.trim() === '') continue
    const line = parse(text)
    if (typeof line.end?.keys === 'number') said = line.end.keys
    else {
      read += 1
      await takeOne(line)
    }
  }
  if (said !== read)
    done.refused.push({ row: 'the manifest', reason: 'the file is incomplete: its last line is missing' })
  return done

  async function takeOne({ userId, address }: ManifestLine): Promise<void> {
    const identity = typeof userId === 'string' ? parseUserId(userId) : null
    if (identity === null || typeof address !== 'string')
      return void done.refused.push({ row: `line ${at}`, reason: 'the line has no userId and address' })
    const refuse = (reason: string): void => void done.refused.push({ row: userId!, reason })
    try {
      // If the key was not imported, `createAccount` would make another key. `import-keys` would then reject the
      // imported key permanently.
      const [there] = (await app.signer.attest({ userIds: [userId!] })).attested
      if (there === undefined) return refuse('the signer has no account for this user: run import-keys first')
      if (there.address.toLowerCase() !== address.toLowerCase()) return refuse(OTHER)
      const { provider, subject: providerUserId } = identity
      const made = await pregenerate(app, { provider, providerUserId })
      // The database may have linked this identity to another account.
      if (made.address.toLowerCase() !== address.toLowerCase()) return refuse(OTHER)
      const { numUpdatedRows } = await db
        .updateTable('accounts')
        .set({ imported_at: new Date(clock.wall()) })
        .where('user_id', '=', made.userId)
        .where('imported_at', 'is', null)
        .executeTakeFirst()
      done[numUpdatedRows > 0n ? 'imported' : 'present'] += 1
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'invalid_request') throw error
      refuse(error.message)
    }
  }
}

const OTHER = 'the account of this user has another address'

type ManifestLine = { userId?: string; address?: string; end?: { keys?: number } }

function parse(text: string): ManifestLine {
  try {
    return (JSON.parse(text) ?? {}) as ManifestLine
  } catch {
    return {}
  }
}
