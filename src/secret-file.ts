import { access, constants } from 'node:fs/promises'

/**
 * Who besides this process's user may read a file that is a secret.
 * @returns null when nobody may; a phrase for people otherwise
 *
 * A file of root's may be open to a group: that is how systemd and orchestrators hand a secret to a service.
 */
export function whoElseReads({ mode, uid }: { mode: number; uid: number }, self = process.getuid?.()): string | null {
  // Where files have no owners (Windows) there is nothing to look at.
  if (self === undefined) return null
  if ((mode & 0o007) !== 0) return 'every user of this machine'
  if (uid !== self && uid !== 0) return 'another user, who owns it'
  if ((mode & 0o020) !== 0 || (uid === self && (mode & 0o040) !== 0)) return 'a group'
  return null
}

/** Whether this process could read a file or look into a folder. */
export const isInReach = (path: string): Promise<boolean> =>
  access(path, constants.R_OK).then(
    () => true,
    () => false,
  )
