import { generateKeyPairSync } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { readArguments } from './arguments.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { jwkThumbprint } from '../../jwk-thumbprint.ts'
import { addSignature, isSigned, openSigned, readPolicyKey } from '../policy/jws.ts'
import { readPolicyVersion, type PolicyVersion } from '../policy/accept.ts'
import { PolicyInvalid } from '../policy/json.ts'
import { describePolicy, findDoubts } from '../policy/words.ts'
import { readPolicyTrust } from '../rules/policy-trust.ts'
import { StartError } from '../refusal.ts'
import { replayLedger } from './replay.ts'

/** Runs `chatelaine policy …`: the commands for policy files. None of them changes the policy in force. */
function main(): void {
  const { values, positionals } = readArguments({
    allowPositionals: true,
    options: { key: { type: 'string', multiple: true, default: [] }, out: { type: 'string' } },
  })
  const [verb, file] = positionals
  if (file === undefined) throw new StartError('Usage: policy check|keygen|replay|sign FILE')
  if (verb === 'check') check(file)
  else if (verb === 'keygen') makeKey(file)
  else if (verb === 'sign') sign(file, values)
  else if (verb === 'replay') replay(file)
  else throw new StartError(`Unknown command: ${verb}.`)
}

/** Describes a policy file and warns of probable mistakes. It needs no settings; with the signer's settings it checks more. */
function check(file: string): void {
  const text = read(file)
  const { SIGNER_DIR: folder, SIGNER_CHAINS: chains } = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  const { document, hash } = open(text)
  print(`version ${document.version}, hash ${hash}`)
  for (const line of describePolicy(document)) print(line)
  for (const line of findDoubts(document, chains === undefined ? null : new Set(chains))) print(`warning: ${line}`)
  if (!isSigned(text)) print('not signed')
  else if (folder === undefined) print('signatures were not checked: SIGNER_DIR is not set')
  else {
    const { keys, threshold } = readPolicyTrust(folder)
    const { signers } = openSigned(text, keys)
    for (const signer of signers) print(`signed by ${signer}`)
    print(`${signers.length} of ${threshold} required signatures`)
  }
}

/** Creates a policy key: FILE is readable by its owner only, FILE.pub is for the signer. */
function makeKey(file: string): void {
  const publicFile = `${file}.pub`
  for (const path of [file, publicFile])
    if (existsSync(path)) throw new StartError(`A file already exists at ${path}. It was not changed.`)
  const key = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const half = readPolicyKey(key)
  writeFileSync(file, `${JSON.stringify(key)}\n`, { mode: 0o600, flag: 'wx' })
  writeFileSync(publicFile, `${JSON.stringify(half)}\n`, { mode: 0o644, flag: 'wx' })
  print(`fingerprint ${jwkThumbprint(half)}`)
  print(`Private key: ${file}\nPublic key, for the signer’s user: ${publicFile}`)
}

/** Adds a signature per key to a document or to a signed file. Without --out it writes to standard output. */
function sign(file: string, { key: keyFiles, out }: { key: string[]; out?: string }): void {
  if (keyFiles.length === 0) throw new StartError('--key is missing: the private key to sign with.')
  const text = read(file)
  // Reject a policy that the signer would not accept before it is signed.
  open(text)
  const signed = keyFiles.reduce((before, keyFile) => addSignature(before, readPrivate(keyFile)), text)
  if (out === undefined) process.stdout.write(signed)
  else writeFileSync(out, signed)
}

/**
 * Shows which of the signer's signatures a draft would have rejected. It reads a copy of the store or the store itself and changes
 * nothing.
 */
function replay(file: string): void {
  const { document } = open(read(file))
  const { SIGNER_DIR: folder } = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: the folder of the store'])
  let refused = 0
  let asked = 0
  for (const { seq, at, userId, clientId, chainId, refusal } of replayLedger(folder, document)) {
    asked += 1
    if (refusal === null) continue
    refused += 1
    const who = `${userId} by ${clientId} on chain ${chainId}`
    print(`record ${seq}, ${new Date(at).toISOString()}, ${who}: ${refusal.rule}: ${refusal.reason}`)
  }
  print(`The policy would have rejected ${refused} of ${asked} signatures with a token.`)
}

function open(text: string): PolicyVersion {
  if (!isSigned(text)) return readPolicyVersion(text)
  return readPolicyVersion(openSigned(text, []).document)
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new StartError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`, error)
  }
}

function readPrivate(file: string): Record<string, unknown> {
  let key: Record<string, unknown> | null = null
  try {
    key = JSON.parse(read(file)) as Record<string, unknown> | null
  } catch (error) {
    if (error instanceof StartError) throw error
    // The message of JSON.parse repeats part of its input.
  }
  if (typeof key?.d !== 'string')
    throw new StartError(`${file} is not a private key. Create one with chatelaine policy keygen.`)
  return key
}

const print = (line: string): void => void process.stdout.write(`${line}\n`)

try {
  main()
} catch (error) {
  const isOurs = error instanceof StartError || error instanceof ConfigError || error instanceof PolicyInvalid
  process.stderr.write(`${isOurs ? error.message : 'The command failed for an unknown reason.'}\n`)
  process.exitCode = 1
}
