import { chmod, mkdir, open, readFile, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isHeadUrl } from '../chain/rpc/new-heads.ts'

/** Node URLs by network name. They may contain keys, so they are in no message and in no list. */
export type NodeUrls = Record<string, string[]>

/**
 * Reads NETWORKS_FILE: `{ "<network>": ["<node address>", …] }`. Without a file there are no networks.
 * @throws Error  naming every problem, never a URL
 */
export async function readNodes(file: string): Promise<NodeUrls> {
  let parsed: unknown
  try {
    parsed = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    // The message of JSON.parse may repeat a part of a key.
    throw new Error(error instanceof SyntaxError ? 'NETWORKS_FILE does not hold JSON' : 'NETWORKS_FILE cannot be read')
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw new Error('NETWORKS_FILE must contain a list of node URLs for each network name')
  const problems = Object.entries(parsed).flatMap(([name, urls]) =>
    Array.isArray(urls) && areNodeUrls(urls)
      ? []
      : [`NETWORKS_FILE: ${name} must be a list with an http or https URL; ws or wss URLs may be added`],
  )
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return parsed as NodeUrls
}

/** Replaces the file in one step, readable by this OS user only: concurrent readers find the old or the new one. */
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

/** Returns whether users other than its owner and group may read the file. */
export async function isOpenToAll(file: string): Promise<boolean> {
  try {
    return ((await stat(file)).mode & 0o004) !== 0
  } catch {
    return false
  }
}

/**
 * Returns whether these are node URLs: at least one http or https, and WebSocket URLs, which only announce new blocks.
 */
export const areNodeUrls = (urls: readonly unknown[]): boolean =>
  urls.every((url) => typeof url === 'string' && /^(http|ws)s?:\/\//.test(url) && URL.canParse(url)) &&
  urls.some((url) => !isHeadUrl(url as string))
