import { readFileSync } from 'node:fs'
import type { Hex } from '../ids.ts'

let code: Hex | null = null

/**
 * Returns init code that checks a signature of a contract that is not deployed yet (contracts/SignatureValidator.sol). The caller
 * appends the arguments: signer, digest, signature. Used as the data of a call without a recipient, it deploys nothing and returns
 * one byte: 1 if the signature is valid.
 */
export const validatorCode = (): Hex => (code ??= readCode())

function readCode(): Hex {
  const file = new URL('../../contracts/out/SignatureValidator.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { bytecode: Hex }).bytecode
}
