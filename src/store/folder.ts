import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Creates a folder that only its owner can open, with missing parents.
 * @param setting  setting of the path, for the message
 * @throws Error naming setting and reason
 */
export async function makeFolder(path: string, setting: string): Promise<void> {
  try {
    await makeWithParents(path)
  } catch (error) {
    const { code = 'it failed' } = error as NodeJS.ErrnoException
    throw new Error(`${setting} ${path} cannot be created: ${code}`, { cause: error })
  }
}

/**
 * Creates the missing folders one by one. Node's `recursive` option loops forever if the file system reports ENOENT for
 * a folder whose parent exists, as /proc does.
 */
async function makeWithParents(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const parent = dirname(path)
    if (code !== 'ENOENT' || parent === path) throw error
    await makeWithParents(parent)
    await mkdir(path, { mode: 0o700 }).catch((again: NodeJS.ErrnoException) => {
      if (again.code !== 'EEXIST') throw again
    })
  }
}
