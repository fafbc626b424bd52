import { readFileSync } from 'node:fs'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { encodeRlp } from '../rlp.ts'

/**
 * The deterministic deployer of public networks (github.com/Arachnid/deterministic-deployment-proxy): an address depends on
 * the code alone, not on who deploys it.
 */
export const DEPLOYER = '0x4e59b44847b379578588920ca78fbf26c0b4956c'
export const DEPLOYER_CODE =
  '0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3'
const SALT = Buffer.alloc(32)

/** `immutables`: where the values of each are in the code, in the order of their declaration */
type CompiledContract = { bytecode: Hex; deployedBytecode: Hex; immutables: number[][] }

/** The two contracts of docs/gas-contracts.md on a network: addresses in lower case, and all of their code. */
export type GasContracts = {
  dispatcher: Hex
  delegate: Hex
  dispatcherCode: Hex
  delegateCode: Hex
  /** what the deployer is sent */
  deployment: Hex
}

/** The same on every network: nothing goes into an address but the code. */
export function readGasContracts(): GasContracts {
  const [dispatcher, delegate] = [artefact('Dispatcher'), artefact('Delegate')]
  const initCode = bytesOf(dispatcher.bytecode)
  const at = keccak(Buffer.concat([Buffer.of(0xff), bytesOf(DEPLOYER), SALT, keccak(initCode)])).subarray(12)
  // The dispatcher makes the delegate while it is made itself, by CREATE, with the first nonce that a contract has.
  const delegateAt = keccak(encodeRlp([at, 1])).subarray(12)
  return {
    dispatcher: hexOf(at),
    delegate: hexOf(delegateAt),
    dispatcherCode: fill(dispatcher, [padded(delegateAt), keccak(designatorOf(delegateAt))]),
    delegateCode: fill(delegate, [padded(at)]),
    deployment: hexOf(Buffer.concat([SALT, initCode])),
  }
}

/** The code of an account that delegated to an address. Source: EIP-7702 */
const designatorOf = (delegate: Buffer): Buffer => Buffer.concat([Buffer.from('ef0100', 'hex'), delegate])

/** Compiled code has zeros where the values of immutables go. */
function fill({ deployedBytecode, immutables }: CompiledContract, values: Buffer[]): Hex {
  const code = bytesOf(deployedBytecode)
  immutables.forEach((places, index) => places.forEach((place) => values[index]!.copy(code, place)))
  return hexOf(code)
}

function artefact(name: string): CompiledContract {
  return JSON.parse(readFileSync(new URL(`../../contracts/out/${name}.json`, import.meta.url), 'utf8'))
}

const bytesOf = (hex: string): Buffer => Buffer.from(hex.slice(2), 'hex')
const hexOf = (bytes: Buffer): Hex => `0x${bytes.toString('hex')}`
const padded = (address: Buffer): Buffer => Buffer.concat([Buffer.alloc(12), address])
