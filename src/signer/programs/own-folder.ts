import { existsSync, statSync } from 'node:fs'
import { StartError } from '../refusal.ts'

/**
 * Checks that the command runs as the signer's OS user. The signer could not read files of another user: it would use the old keys,
 * or not start.
 * @throws StartError
 */
export function assertOwn(folder: string, kekFile: string | undefined): void {
  const uid = process.getuid?.()
  const [path] = [folder, kekFile].filter((one) => one !== undefined && existsSync(one))
  if (uid === undefined || path === undefined) return
  const owner = statSync(path).uid
  // The master key may belong to root and be readable by a group.
  if (owner === uid || (path === kekFile && owner === 0)) return
  throw new StartError('SIGNER_DIR belongs to another user. Run this as the signer’s user.')
}
