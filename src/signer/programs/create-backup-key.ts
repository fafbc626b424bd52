import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { makeIdentity } from '../../backup/age.ts'

/**
 * Runs `chatelaine signer create-backup-key FILE`: creates the key that decrypts backups, in the form of `age-keygen`. It never
 * replaces a file.
 */
function main(file: string): void {
  const { identity, recipient } = makeIdentity()
  const fd = openSync(file, 'wx', 0o600)
  try {
    writeSync(fd, `# public key: ${recipient}\n${identity}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  process.stdout.write(`${recipient}\n`)
}

try {
  main(process.argv[2]!)
} catch (error) {
  const { code } = error as NodeJS.ErrnoException
  process.stderr.write(code === 'EEXIST' ? 'The file already exists. It was not changed.\n' : `The file cannot be created (${code}).\n`) // prettier-ignore
  process.exitCode = 1
}
