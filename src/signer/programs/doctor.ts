import { lstat, stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ConfigError } from '../../config.ts'
import { exitCodeOf, textOf, type Diagnosis } from '../../findings.ts'
import { connectSigner } from '../../signer-wire/client.ts'
import { VERSION } from '../../version.ts'
import { readKekFile } from '../kek/file.ts'
import { StartError } from '../refusal.ts'
import { readSettings, type SignerConfig } from '../settings.ts'

/**
 * `chatelaine doctor` with the settings of the signer: checks its settings, files, disk and socket. It opens no store and
 * writes nothing. Exit code 0: no problems, 1: warnings, 2: errors.
 */
const GIGABYTE = 1_073_741_824
const TIMEOUT_MS = 5_000

const error = (code: string, problem: string, action: string): Diagnosis => ({
  code,
  severity: 'error',
  problem,
  action,
})
const warning = (code: string, problem: string, action: string): Diagnosis => ({
  ...error(code, problem, action),
  severity: 'warning',
})

async function diagnose(): Promise<Diagnosis[]> {
  let settings: SignerConfig
  try {
    settings = readSettings(process.env, { isDevelopment: false })
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause
    return cause.problems.map((problem) =>
      error('settings_rejected', `${problem}.`, 'Correct the setting: docs/reference/configuration.md.'),
    )
  }
  const found = await Promise.all([checkKek(settings), checkFolder(settings), checkSocket(settings), checkKeys(settings)]) // prettier-ignore
  return found.flat()
}

async function checkKek({ kek, folder }: SignerConfig): Promise<Diagnosis[]> {
  // The key service of another provider is asked by the running signer, which reports its fault.
  if (kek.provider !== 'file') return []
  const findings: Diagnosis[] = []
  try {
    readKekFile(kek.file)
  } catch (cause) {
    if (!(cause instanceof StartError)) throw cause
    findings.push(error('kek_unusable', cause.message, 'Correct SIGNER_KEK_FILE and its mode: docs/operate/signer-keys.md.')) // prettier-ignore
  }
  if (dirname(kek.file) === dirname(folder))
    findings.push(
      warning(
        'kek_beside_store',
        'The master key (KEK) is in the folder that contains SIGNER_DIR, so that one copy takes both.',
        'Move the master key to another folder or a key service: docs/operate/signer-keys.md.',
      ),
    )
  return findings
}

async function checkFolder({ folder }: SignerConfig): Promise<Diagnosis[]> {
  const found = await stat(folder).catch(() => null)
  if (found === null)
    return [warning('store_missing', 'SIGNER_DIR does not exist.', 'Mount its disk, or start the signer for the first time.')] // prettier-ignore
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  const left = `The file system of SIGNER_DIR has ${Math.floor(free / 1_048_576)} MiB free.`
  return [
    ...((found.mode & 0o077) === 0
      ? []
      : [error('store_open', 'Other users can open SIGNER_DIR.', 'Run chmod 700 on SIGNER_DIR.')]),
    ...(free >= GIGABYTE ? [] : [(free < GIGABYTE / 8 ? error : warning)(free < GIGABYTE / 8 ? 'disk_full' : 'disk_low', left, 'Free space, or enlarge the file system.')]), // prettier-ignore
  ]
}

/** Keys are offered by a file that any user may read, and trusted by `signer trust-key`. */
async function checkKeys({ jwksFile }: SignerConfig): Promise<Diagnosis[]> {
  if (jwksFile === undefined || (await stat(jwksFile).catch(() => null)) !== null) return []
  return [warning('token_keys_missing', 'SIGNER_JWKS_FILE names no file that this user can read.', 'Create the keys with `chatelaine auth-keys create`.')] // prettier-ignore
}

async function checkSocket({ socket, socketMode }: SignerConfig): Promise<Diagnosis[]> {
  const found = await lstat(socket).catch(() => null)
  const down = error('signer_unavailable', 'No signer responds at SIGNER_SOCKET.', 'Start the signer, and read its log if it ends.') // prettier-ignore
  if (found === null) return [down]
  const mode = found.mode & 0o777
  const findings =
    mode === socketMode
      ? []
      : [error('signer_socket_open', `The mode of SIGNER_SOCKET is ${mode.toString(8)}, not SIGNER_SOCKET_MODE.`, 'Restart the signer.')] // prettier-ignore
  const signer = connectSigner({ path: socket, timeoutMs: TIMEOUT_MS })
  try {
    const { version, masterKey, policy } = await signer.health()
    if (version !== VERSION)
      findings.push(error('signer_version_differs', `The running signer is version ${version ?? 'unknown'}, and ${VERSION} is installed.`, 'Restart the signer.')) // prettier-ignore
    if (masterKey.fault !== null)
      findings.push(error('master_key_unusable', `The master key (KEK) cannot be used: ${masterKey.fault}`, 'Make it available again before the signer restarts: docs/operate/signer-keys.md.')) // prettier-ignore
    if (policy !== null && policy.problem !== null)
      findings.push(warning('policy_not_in_force', `The content of SIGNER_POLICY_FILE is not in force: ${policy.problem}`, 'Correct the policy: docs/operate/policy.md#put-a-policy-in-force.')) // prettier-ignore
    return findings
  } catch (cause) {
    if ((cause as { code?: unknown }).code === 'signer_unavailable') return [...findings, down]
    return [...findings, error('signer_refuses', `The signer rejects every request: ${(cause as Error).message}`, 'Follow docs/operate/runbooks/signer-restore.md.')] // prettier-ignore
  } finally {
    signer.close()
  }
}

const findings = await diagnose().catch((cause: unknown) => [
  error('unexpected', `The checks failed: ${cause instanceof Error ? cause.name : 'unknown error'}.`, 'Report this fault.'), // prettier-ignore
])
console.log(process.argv.includes('--json') ? JSON.stringify(findings, null, 2) : textOf(findings))
process.exitCode = exitCodeOf(findings)
