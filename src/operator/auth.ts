import { timingSafeEqual } from 'node:crypto'
import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { newSecret } from '../ids.ts'
import { sha256 } from '../sha256.ts'

/** The holder of a token: the name under which its actions are recorded, and whether it may change anything. */
export type Operator = { name: string; role: 'operator' | 'viewer' }
/** Finds the holder of a token of the operator API, by the token's hash; null for an unknown token. */
export type OperatorDoor = { whose(token: string): Operator | null }
export type OperatorCredential = Operator & { hash: Buffer }

const MAX_TOKEN_CHARACTERS = 512

/**
 * Reads OPERATOR_TOKEN_FILE. In development there is one more token, in DATA_DIR/operator-token. It is made at the
 * first start and readable by this OS user only, so that commands of the same user reach a running server.
 * @returns null if there is no token: then there is no operator API
 * @throws Error  if the file cannot be used; never with its contents
 */
export async function openOperatorDoor(
  config: Pick<Config, 'NODE_ENV' | 'DATA_DIR' | 'OPERATOR_TOKEN_FILE'>,
): Promise<OperatorDoor | null> {
  const known = config.OPERATOR_TOKEN_FILE === undefined ? [] : await readTokens(config.OPERATOR_TOKEN_FILE)
  if (config.NODE_ENV !== 'production')
    known.push({ hash: sha256(await ownToken(config.DATA_DIR)), name: 'this machine', role: 'operator' })
  return known.length === 0 ? null : doorOf(known)
}

/** Opens a door for these tokens. It compares with every hash, in a time that reveals nothing about them. */
export const doorOf = (known: readonly OperatorCredential[]): OperatorDoor => ({
  whose: (token) => {
    if (token.length > MAX_TOKEN_CHARACTERS) return null
    const given = sha256(token)
    const found = known.map(({ hash }) => timingSafeEqual(given, hash)).indexOf(true)
    if (found === -1) return null
    const { name, role } = known[found]!
    return { name, role }
  },
})

/** Makes a new token, and its hash for a line of OPERATOR_TOKEN_FILE. */
export function newOperatorToken(): { token: string; hash: string } {
  // The prefix lets source code scanners find a token that was committed by mistake.
  const token = `cho_${newSecret()}`
  return { token, hash: sha256(token).toString('hex') }
}

/** Returns where a development server stores the token for commands. */
export const ownTokenFile = (dataDir: string): string => join(dataDir, 'operator-token')

async function readTokens(file: string): Promise<OperatorCredential[]> {
  const text = await readFile(file, 'utf8').catch(() => {
    throw new Error('OPERATOR_TOKEN_FILE cannot be read')
  })
  const known = readLines(text)
  if (known.length === 0) throw new Error('OPERATOR_TOKEN_FILE holds no hash')
  return known
}

/**
 * Reads lines of a hash, a name and a role. Without a name, a token is called by the first letters of its hash.
 * @throws Error  for anything else
 */
export function readLines(text: string): OperatorCredential[] {
  const lines = text
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim())
    .filter((line) => line !== '')
  return lines.map((line) => {
    const [hash = '', name = `token ${hash.slice(0, 8).toLowerCase()}`, role = 'operator', ...rest] = line.split(/\s+/)
    if (
      !/^[0-9a-f]{64}$/i.test(hash) ||
      !isOperatorName(name.replace('token ', '')) ||
      !isRole(role) ||
      rest.length > 0
    )
      throw new Error(
        'OPERATOR_TOKEN_FILE must hold lines of a token’s SHA-256 hash (64 hexadecimal digits, not the token), a name and a role (operator, viewer)',
      )
    return { hash: Buffer.from(hash, 'hex'), name, role }
  })
}

/** Returns whether a text can be a name in the file: one word. */
export const isOperatorName = (name: string): boolean => /^[\w.@-]{1,64}$/.test(name)
export const isRole = (role: string): role is Operator['role'] => role === 'operator' || role === 'viewer'

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
    // A crash between the two steps above leaves an empty file, which must not make the empty token valid.
    if (token.length < 32) throw new Error(`${path} holds no token: remove it and start again`)
    return token
  }
}
