import { access, constants, stat } from 'node:fs/promises'

/**
 * Determines who, besides this process's user, may read a secret file. A file of root may be readable by a group:
 * systemd and orchestrators hand secrets to services that way.
 * @returns null if nobody; otherwise a phrase for messages
 */
export function whoElseReads({ mode, uid }: { mode: number; uid: number }, self = process.getuid?.()): string | null {
  // Windows files have no owner to compare.
  if (self === undefined) return null
  if ((mode & 0o007) !== 0) return 'every user of this machine'
  if (uid !== self && uid !== 0) return 'another user, who owns it'
  if ((mode & 0o020) !== 0 || (uid === self && (mode & 0o040) !== 0)) return 'a group'
  return null
}

/** Returns whether this process can read a file or list a folder. */
export const isInReach = (path: string): Promise<boolean> =>
  access(path, constants.R_OK).then(
    () => true,
    () => false,
  )

/** Returns whether a file belongs to this process's user; false if there is no file. */
export const isOwn = (path: string, self = process.getuid?.()): Promise<boolean> =>
  stat(path).then(
    ({ uid }) => uid === self,
    () => false,
  )
