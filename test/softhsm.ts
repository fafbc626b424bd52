import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A token made of files, for tests: SoftHSM protects nothing. */
const modulePath =
  process.env.SOFTHSM ??
  ['/usr/lib/softhsm/libsofthsm2.so', '/usr/local/lib/softhsm/libsofthsm2.so'].find((path) => existsSync(path))

async function whatIsMissing(): Promise<string | false> {
  if (modulePath === undefined) return 'there is no SoftHSM: install softhsm2, or set SOFTHSM to its module'
  const isBuilt = await import('pkcs11js').then(
    () => true,
    () => false,
  )
  return isBuilt ? false : 'pkcs11js is not built: npm rebuild pkcs11js --ignore-scripts=false'
}

// On a machine without it the rest of the suite must still run; a check before landing must not pass without it.
export const skip = await whatIsMissing()
if (skip !== false && process.env.CI === 'true') throw new Error(skip)

export const PIN = '73310492'

/** Tokens in a folder of their own; this process and those that get `env` see them. */
export function softHsm(t: { after: (end: () => void) => void }) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-hsm-'))
  const [tokens, away, conf] = [join(folder, 'tokens'), join(folder, 'away'), join(folder, 'softhsm2.conf')]
  mkdirSync(tokens)
  writeFileSync(conf, `directories.tokendir = ${tokens}\nobjectstore.backend = file\nlog.level = ERROR\n`)
  const env = { SOFTHSM2_CONF: conf }
  Object.assign(process.env, env)
  t.after(() => {
    delete process.env.SOFTHSM2_CONF
    rmSync(folder, { recursive: true, force: true })
  })
  const pinFile = join(folder, 'pin')
  writeFileSync(pinFile, `${PIN}\n`, { mode: 0o600 })
  const run = (file: string, ...args: string[]) =>
    execFileSync(file, args, { env: { ...process.env, ...env }, stdio: 'pipe' })
  return {
    ...{ folder, env, pinFile },
    uri: (token: string, object = 'kek') => `pkcs11:token=${token};object=${object}?module-path=${modulePath}`,
    /** with a key that cannot leave it; `bits` and `may leave` are for keys that are refused */
    makeToken(label: string, keys: { label: string; bits?: number; mayLeave?: boolean }[] = [{ label: 'kek' }]) {
      run('softhsm2-util', '--init-token', '--free', '--label', label, '--so-pin', '00000000', '--pin', PIN)
      for (const { label: key, bits = 256, mayLeave = false } of keys)
        run(process.execPath, join(import.meta.dirname, 'softhsm-key.mjs'), modulePath!, label, PIN, key, String(bits), String(mayLeave)) // prettier-ignore
    },
    /** every token is taken out */
    takeOut: () => renameSync(tokens, away),
    putIn: () => renameSync(away, tokens),
  }
}
