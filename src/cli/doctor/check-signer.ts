import { stat } from 'node:fs/promises'
import { AppError } from '../../errors.ts'
import type { Diagnosis } from '../../findings.ts'
import { signerFaults } from '../../http/health.ts'
import { publicKeys, readPrivateKeys, readPublicKeys } from '../../oauth/keys.ts'
import { keyFilesOf } from '../../open-auth.ts'
import { isOwn } from '../../secret-file.ts'
import { connectSigner, SignerRefused } from '../../signer-wire/client.ts'
import { VERSION } from '../../version.ts'
import type { Examined } from './patient.ts'
import { finding } from './faults.ts'

const TIMEOUT_MS = 5_000

/**
 * Checks the signer at its socket.
 * @returns  `chains`: chain ids that it signs for; null: all, or unknown
 */
export async function checkSigner({
  config,
  part,
  uid,
}: Examined): Promise<{ findings: Diagnosis[]; chains: number[] | null }> {
  const setting = part === 'auth' ? 'SIGNER_AUTH_SOCKET' : 'SIGNER_SOCKET'
  const path = config[setting]
  // Development starts its own signer.
  if (path === undefined) return { findings: [], chains: null }
  const findings: Diagnosis[] = []
  const mode = await stat(path).then(
    (one) => one.mode,
    () => 0,
  )
  if ((mode & 0o007) !== 0) findings.push(finding('signer_socket_open', `every user of this machine can use ${setting}`)) // prettier-ignore
  if (config.NODE_ENV === 'production' && (await isOwn(path, uid)))
    findings.push(finding('signer_not_separated', 'this program and the signer run as the same user'))
  const signer = connectSigner({ path, timeoutMs: TIMEOUT_MS })
  try {
    const answer = await signer.health()
    if (config.SIGNER_KEY !== undefined && config.SIGNER_KEY !== answer.identity)
      findings.push(finding('signer_key_differs', 'the key of the signer is not SIGNER_KEY'))
    if (answer.version !== VERSION)
      findings.push(finding('signer_version_differs', `the signer is version ${answer.version ?? 'unknown'}, and this program is ${VERSION}`)) // prettier-ignore
    const tokenKeys = await tokenKeysOf(config, part)
    for (const { code, detail } of signerFaults(answer, { tokenKeys, accessTokenSeconds: config.ACCESS_TOKEN_SECONDS }))
      findings.push(finding(code, detail))
    const { masterKey, policy, chains } = answer
    if (masterKey.fault !== null)
      findings.push(finding('master_key_unusable', `the master key (KEK) cannot be used: ${masterKey.fault}`))
    if (policy !== null && policy.problem !== null)
      findings.push(finding('policy_not_in_force', `the content of SIGNER_POLICY_FILE is not in force: ${policy.problem}`)) // prettier-ignore
    return { findings, chains }
  } catch (error) {
    const isRefusal = error instanceof SignerRefused || (error instanceof AppError && error.code !== 'signer_unavailable') // prettier-ignore
    findings.push(
      isRefusal
        ? finding('signer_refuses', `the signer rejects every request: ${error.message}`)
        : finding('signer_unavailable', `no signer responds at ${setting}`),
    )
    return { findings, chains: null }
  } finally {
    signer.close()
  }
}

/** Reads the public keys; `checkFiles` reports if that fails. */
async function tokenKeysOf(config: Examined['config'], part: Examined['part']) {
  const { keysFile, jwksFile } = keyFilesOf(config)
  const isAuth = config.AUTH_SOCKET === undefined || part === 'auth'
  return (isAuth ? readPrivateKeys(keysFile).then(publicKeys) : readPublicKeys(jwksFile)).catch(() => ({ keys: [] }))
}
