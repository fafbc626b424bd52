import { readFileSync } from 'node:fs'
import type { Hex } from '../ids.ts'

let code: Hex | null = null

/**
 * Returns the init code that checks a signature of a contract which is not deployed yet (contracts/SignatureValidator.sol).
 * Its arguments follow: signer, digest, signature. It deploys nothing: as the data of a call without a recipient, it
 * returns one byte, 1 if the signature is valid.
 */
export const validatorCode = (): Hex => (code ??= readCode())

function readCode(): Hex {
  const file = new URL('../../contracts/out/SignatureValidator.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { bytecode: Hex }).bytecode
}
