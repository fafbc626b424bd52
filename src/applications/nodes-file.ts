import { chmod, mkdir, open, readFile, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isHeadUrl } from '../chain/rpc/new-heads.ts'

/** Node addresses by network name. They may hold keys: they appear in no message and in no list. */
export type NodeUrls = Record<string, string[]>

/**
 * Reads NETWORKS_FILE: `{ "<network>": ["<node address>", …] }`. No file is no networks.
 * @throws Error naming every problem, never an address
 */
export async function readNodes(file: string): Promise<NodeUrls> {
  let parsed: unknown
  try {
    parsed = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    // JSON.parse repeats part of its input in its message, and that may be a key.
    throw new Error(error instanceof SyntaxError ? 'NETWORKS_FILE does not hold JSON' : 'NETWORKS_FILE cannot be read')
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw new Error('NETWORKS_FILE must hold lists of node addresses by network name')
  const problems = Object.entries(parsed).flatMap(([name, urls]) =>
    Array.isArray(urls) && areNodeUrls(urls)
      ? []
      : [`NETWORKS_FILE: ${name} must be a list of http or https addresses; ws or wss ones may be beside them`],
  )
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return parsed as NodeUrls
}

/** Writes the file whole, readable by this user only: anyone who reads meanwhile finds the old one or the new one. */
export async function writeNodes(file: string, nodes: NodeUrls): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const part = `${file}.${process.pid}`
  const handle = await open(part, 'wx', 0o600)
  try {
    await handle.writeFile(`${JSON.stringify(nodes, null, 2)}\n`)
    await handle.sync()
    await handle.close()
    await chmod(part, 0o600)
    await rename(part, file)
  } catch (error) {
    await unlink(part).catch(() => {})
    throw error
  }
}

/** True when users other than its owner and group may read the file. */
export async function isOpenToAll(file: string): Promise<boolean> {
  try {
    return ((await stat(file)).mode & 0o004) !== 0
  } catch {
    return false
  }
}

/** http or https, at least one; beside them WebSocket addresses, which tell of new blocks and are asked nothing else. */
export const areNodeUrls = (urls: readonly unknown[]): boolean =>
  urls.every((url) => typeof url === 'string' && /^(http|ws)s?:\/\//.test(url) && URL.canParse(url)) &&
  urls.some((url) => !isHeadUrl(url as string))
