import { createHash, timingSafeEqual } from 'node:crypto'
import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { newSecret } from '../ids.ts'

/** Knows the tokens that open the operator API, by their hashes. */
export type OperatorDoor = { isOperator(token: string): boolean }

const MAX_TOKEN_CHARACTERS = 512

/**
 * Reads OPERATOR_TOKEN_FILE. In development there is one more token, in DATA_DIR/operator-token: made at the first
 * start, readable by this user only, so that commands of the same user reach a running server.
 * @returns null when there is no token at all: then there is no operator API
 * @throws Error when the file cannot be used; never with what stands in it
 */
export async function openOperatorDoor(
  config: Pick<Config, 'NODE_ENV' | 'DATA_DIR' | 'OPERATOR_TOKEN_FILE'>,
): Promise<OperatorDoor | null> {
  const hashes = config.OPERATOR_TOKEN_FILE === undefined ? [] : await readHashes(config.OPERATOR_TOKEN_FILE)
  if (config.NODE_ENV !== 'production') hashes.push(hashOf(await ownToken(config.DATA_DIR)))
  return hashes.length === 0 ? null : doorOf(hashes)
}

/** Compares with every hash, in a time that tells nothing about them. */
export const doorOf = (hashes: readonly Buffer[]): OperatorDoor => ({
  isOperator: (token) => {
    if (token.length > MAX_TOKEN_CHARACTERS) return false
    const given = hashOf(token)
    return hashes.map((hash) => timingSafeEqual(given, hash)).includes(true)
  },
})

/** A new token and its line for OPERATOR_TOKEN_FILE. */
export function newOperatorToken(): { token: string; hash: string } {
  // The prefix lets scanners of source code find one that was committed by mistake.
  const token = `cho_${newSecret()}`
  return { token, hash: hashOf(token).toString('hex') }
}

/** Where a development server keeps the token for commands. */
export const ownTokenFile = (dataDir: string): string => join(dataDir, 'operator-token')

async function readHashes(file: string): Promise<Buffer[]> {
  const text = await readFile(file, 'utf8').catch(() => {
    throw new Error('OPERATOR_TOKEN_FILE cannot be read')
  })
  const lines = text.split('\n').map((line) => line.replace(/#.*/, '').trim())
  const hashes = lines.filter((line) => line !== '')
  if (hashes.length === 0) throw new Error('OPERATOR_TOKEN_FILE holds no hash')
  if (!hashes.every((line) => /^[0-9a-f]{64}$/i.test(line)))
    throw new Error(
      'OPERATOR_TOKEN_FILE must hold SHA-256 hashes of tokens, 64 hexadecimal digits a line, not the tokens',
    )
  return hashes.map((line) => Buffer.from(line, 'hex'))
}

async function ownToken(dataDir: string): Promise<string> {
  const path = ownTokenFile(dataDir)
  try {
    const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
    try {
      const { token } = newOperatorToken()
      await file.writeFile(`${token}\n`)
      return token
    } finally {
      await file.close()
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    const token = (await readFile(path, 'utf8')).trim()
    // An empty file, left by a crash between the two steps above, must not make the empty token the right one.
    if (token.length < 32) throw new Error(`${path} holds no token: remove it and start again`)
    return token
  }
}

const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest()
