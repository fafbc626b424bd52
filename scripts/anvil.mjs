/**
 * Which anvil, the program behind the embedded chain, belongs to the platform at hand. It is no dependency in
 * package.json: npm's lock would have to name every platform's, also those that a registry does not have. Plain
 * JavaScript without dependencies, like the launcher.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** @returns its package, where it is to lie, its checksum where one is known; without a `name` nobody packages one */
export function anvilOf(root) {
  const folder = join(root, 'runtime', 'anvil')
  const text = readFileSync(join(folder, 'anvil.json'), 'utf8')
  const { version, platforms } = JSON.parse(text)
  const platform = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`
  const lock = createHash('sha256').update(text).digest('hex')
  const stamp = { lock, platform: `${process.platform}-${process.arch}`, kind: 'everything' }
  if (platforms[platform] === undefined) return { folder, platform, version, stamp }
  const name = `@foundry-rs/anvil-${platform}`
  const file = process.platform === 'win32' ? 'anvil.exe' : 'anvil'
  const binary = join(folder, 'node_modules', name, 'bin', file)
  return { folder, platform, version, stamp, name, binary, integrity: platforms[platform] }
}

/** Whether this command runs and is an anvil; of that version when one is given. */
export function isAnvil(command, version = '') {
  const { status, stdout } = spawnSync(command, ['--version'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return status === 0 && /^anvil /.test(stdout) && stdout.split('\n')[0].includes(version)
}

/** npm compares what it fetched with what the registry says; this compares both with what we know. @returns what is wrong */
export function checkPin({ folder, name, integrity }) {
  const { packages } = JSON.parse(readFileSync(join(folder, 'node_modules', '.package-lock.json'), 'utf8'))
  const found = packages[`node_modules/${name}`]?.integrity
  return integrity !== undefined && found === integrity
    ? undefined
    : `${name} is not the one that this version was tried with`
}

/** One sentence for a person, with the line in which npm says why. */
export function sayNoAnvil({ name, version }, output) {
  const line = output.split('\n').find((one) => !/^npm error (code|errno)/.test(one)) ?? ''
  const why = line.replace(/^npm error (\d+ )?/, '').trim()
  return (
    `The embedded chain could not be fetched (${name} ${version}: ${why}). Put anvil (https://getfoundry.sh) on ` +
    'PATH, or set RPC_URL to an EVM node. Nothing was started.'
  )
}
