import { readFileSync } from 'node:fs'
import type { DelegateName, Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { encodeRlp } from '../rlp.ts'
import { GAS_PAIRS } from './addresses.ts'
import { padded } from './words.ts'
import { fromHex, toHex } from '../hex.ts'

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

/** A dispatcher and what accounts delegate to for it, on a network (docs/gas-contracts.md): addresses in lower case, and their code. */
export type GasContracts = {
  name: DelegateName
  dispatcher: Hex
  delegate: Hex
  dispatcherCode: Hex
  /** null: of another, who puts it on networks; we have none of it */
  delegateCode: Hex | null
  /** what the deployer is sent */
  deployment: Hex
}

type OwnGasContracts = GasContracts & { delegateCode: Hex }

/** The same on every network: nothing goes into an address but the code. */
export function readGasContracts(name?: 'chatelaine'): OwnGasContracts
export function readGasContracts(name: DelegateName): GasContracts
export function readGasContracts(name: DelegateName = 'chatelaine'): GasContracts {
  return name === 'chatelaine' ? readOwn() : readCalibur()
}

function readOwn(): OwnGasContracts {
  const [dispatcher, delegate] = [artefact('Dispatcher'), artefact('Delegate')]
  const { at, deployment } = deploymentOf(dispatcher)
  // The dispatcher makes the delegate while it is made itself, by CREATE, with the first nonce that a contract has.
  const delegateAt = keccak(encodeRlp([at, 1])).subarray(12)
  return {
    name: 'chatelaine',
    dispatcher: toHex(at),
    delegate: toHex(delegateAt),
    deployment,
    dispatcherCode: fill(dispatcher, [padded(delegateAt), keccak(designatorOf(delegateAt))]),
    delegateCode: fill(delegate, [padded(at)]),
  }
}

function readCalibur(): GasContracts {
  const dispatcher = artefact('CaliburDispatcher')
  const { delegate } = GAS_PAIRS.calibur
  const { at, deployment } = deploymentOf(dispatcher)
  return {
    name: 'calibur',
    dispatcher: toHex(at),
    delegate: toHex(delegate),
    deployment,
    delegateCode: null,
    dispatcherCode: dispatcher.deployedBytecode,
  }
}

function deploymentOf({ bytecode }: CompiledContract): { at: Buffer; deployment: Hex } {
  const initCode = fromHex(bytecode)
  const at = keccak(Buffer.concat([Buffer.of(0xff), fromHex(DEPLOYER), SALT, keccak(initCode)])).subarray(12)
  return { at, deployment: toHex(Buffer.concat([SALT, initCode])) }
}

/** The code of an account that delegated to an address. Source: EIP-7702 */
const designatorOf = (delegate: Buffer): Buffer => Buffer.concat([Buffer.from('ef0100', 'hex'), delegate])

/** Compiled code has zeros where the values of immutables go. */
function fill({ deployedBytecode, immutables }: CompiledContract, values: Buffer[]): Hex {
  const code = fromHex(deployedBytecode)
  immutables.forEach((places, index) => places.forEach((place) => values[index]!.copy(code, place)))
  return toHex(code)
}

function artefact(name: string): CompiledContract {
  return JSON.parse(readFileSync(new URL(`../../contracts/out/${name}.json`, import.meta.url), 'utf8'))
}
