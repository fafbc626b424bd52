import { execFile, execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export type Certificate = { key: Buffer; cert: Buffer }

/** Why no certificate can be made here; false when one can, as `skip` of a test takes it. A check before landing must not pass without. */
export const noCertificates: string | false = (() => {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' })
    return false
  } catch (error) {
    if (process.env.CI === 'true') throw error
    return 'needs openssl'
  }
})()

/** A self-signed certificate of this run for the names given, valid for two days. */
export async function makeCertificate(...names: string[]): Promise<Certificate> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-certificate-'))
  try {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    await promisify(execFile)('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-subj', `/CN=${names[0]}`, '-addext', `subjectAltName=${names.map((name) => `DNS:${name}`).join()}`],
      ...['-keyout', key, '-out', cert],
    ])
    return { key: await readFile(key), cert: await readFile(cert) }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
