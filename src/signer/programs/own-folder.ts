import { existsSync, statSync } from 'node:fs'
import { StartError } from '../refusal.ts'

/** Files of another user the signer could not read: it would keep the old keys, or not start. */
export function assertOwn(folder: string, kekFile: string | undefined): void {
  const uid = process.getuid?.()
  const [path] = [folder, kekFile].filter((one) => one !== undefined && existsSync(one))
  if (uid === undefined || path === undefined) return
  const owner = statSync(path).uid
  // The master key may be root's, and readable by a group.
  if (owner === uid || (path === kekFile && owner === 0)) return
  throw new StartError('SIGNER_DIR belongs to another user: run this as the signer’s user.')
}
