import { readFileSync } from 'node:fs'
import type { DelegateName, Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { encodeRlp } from '../rlp.ts'
import { GAS_PAIRS } from './addresses.ts'
import { padded } from './words.ts'
import { fromHex, toHex } from '../hex.ts'

/**
 * The deterministic deployer of public networks (github.com/Arachnid/deterministic-deployment-proxy). It makes an
 * address depend only on the code, not on the account that deploys.
 */
export const DEPLOYER = '0x4e59b44847b379578588920ca78fbf26c0b4956c'
export const DEPLOYER_CODE =
  '0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3'
const SALT = Buffer.alloc(32)

/** A compiled contract. `immutables`: positions of each immutable's values in the code, in the order of declaration. */
type CompiledContract = { bytecode: Hex; deployedBytecode: Hex; immutables: number[][] }

/** A dispatcher and its delegate on a network (docs/reference/gas-contracts.md): addresses in lower case, and their code. */
export type GasContracts = {
  name: DelegateName
  dispatcher: Hex
  delegate: Hex
  dispatcherCode: Hex
  /** null: a third party deploys it, and this project does not have its code */
  delegateCode: Hex | null
  /** the calldata for the deployer */
  deployment: Hex
}

type OwnGasContracts = GasContracts & { delegateCode: Hex }

/**
 * Computes the addresses and code of a delegate's contracts. They are the same on every network, because an address
 * depends only on the code.
 */
export function readGasContracts(name?: 'chatelaine'): OwnGasContracts
export function readGasContracts(name: DelegateName): GasContracts
export function readGasContracts(name: DelegateName = 'chatelaine'): GasContracts {
  return name === 'chatelaine' ? readOwn() : readCalibur()
}

function readOwn(): OwnGasContracts {
  const [dispatcher, delegate] = [artefact('Dispatcher'), artefact('Delegate')]
  const { at, deployment } = deploymentOf(dispatcher)
  // The dispatcher's constructor creates the delegate by CREATE, with a contract's first nonce.
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

/** Returns the code of an account that delegated to an address. Source: EIP-7702 */
const designatorOf = (delegate: Buffer): Buffer => Buffer.concat([Buffer.from('ef0100', 'hex'), delegate])

/** Writes the values of immutables into compiled code, which has zeros in their places. */
function fill({ deployedBytecode, immutables }: CompiledContract, values: Buffer[]): Hex {
  const code = fromHex(deployedBytecode)
  immutables.forEach((places, index) => places.forEach((place) => values[index]!.copy(code, place)))
  return toHex(code)
}

function artefact(name: string): CompiledContract {
  return JSON.parse(readFileSync(new URL(`../../contracts/out/${name}.json`, import.meta.url), 'utf8'))
}
