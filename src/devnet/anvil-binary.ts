import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'

/** Thrown if the embedded chain cannot start; the message is for the terminal. */
export class ChainStartError extends Error {
  readonly reason: 'no_anvil' | 'port_taken' | 'refused'
  constructor(reason: 'no_anvil' | 'port_taken' | 'refused', message: string) {
    super(message)
    this.name = 'ChainStartError'
    this.reason = reason
  }
}

/**
 * Returns the anvil binary: the one that the launcher fetched for this platform (`runtime/anvil`), else the one on
 * PATH. A binary that does not start, such as one for another C library, is skipped. The result is cached.
 * @throws ChainStartError
 */
export const findAnvil = (): string => (found ??= searchAnvil())
let found: string | undefined

function searchAnvil(): string {
  const platform = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`
  const fetched = fetchedBinary(platform)
  if (fetched !== null && starts(fetched)) return fetched
  if (starts('anvil')) return 'anvil'
  const which = fetched === null ? `There is no embedded chain for ${platform}` : 'The embedded chain does not run here'
  throw new ChainStartError(
    'no_anvil',
    `${which}: set RPC_URL to an EVM node, or put anvil (https://getfoundry.sh) on PATH.`,
  )
}

function fetchedBinary(platform: string): string | null {
  const file = process.platform === 'win32' ? 'anvil.exe' : 'anvil'
  const folder = new URL('../../runtime/anvil/package.json', import.meta.url)
  try {
    const path = createRequire(folder).resolve(`@foundry-rs/anvil-${platform}/bin/${file}`)
    return existsSync(path) ? path : null
  } catch {
    // Not fetched, or not available for this platform.
    return null
  }
}

const starts = (command: string): boolean => spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0
