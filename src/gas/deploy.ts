/**
 * gas: contracts for sponsored gas, and the encoding of calls to them.
 * Owns: the contracts' addresses and code, their deployment, and whether a network supports them; the encoding of operations,
 *   authorizations and transactions of type 4.
 * Does not own: sponsor keys, which operations are sent and their outcome (`transactions/`).
 */

import { randomBytes } from 'node:crypto'
import type { DelegateName, Hex } from '../ids.ts'
import { quantityOf } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { openCurve } from '../secp256k1.ts'
import { authorizationDigest, type SignedAuthorization } from './authorization.ts'
import { DEPLOYER, DEPLOYER_CODE, readGasContracts, type GasContracts } from './contracts.ts'
import { executeData, operationDigest, type GasOperation, type AccountSignature } from './operation.ts'
import { assembleTransaction, transactionDigest, type SponsorTransaction } from './transaction.ts'
import { fromHex, toHex } from '../hex.ts'

/** Sends one request to the nodes of a network. @throws if they report an error or do not respond */
export type AskChain = <T>(method: string, params: unknown[]) => Promise<T>

/** Why a network cannot have the contracts or does not have them; shown to the operator. */
export class DeployRefusal extends Error {}

export type Deployment = {
  dispatcher: Hex
  delegate: Hex
  /** hashes of the sent transactions; none if both contracts existed */
  sent: Hex[]
}

type Deploying = {
  chainId: number
  /** the private key of the account that pays, whose address is the space */
  key: Buffer
  /** the delegate; default: this project's own */
  name?: DelegateName
  /** addresses that may send operations of the space */
  sponsors: readonly Hex[]
  ask: AskChain
  /** waits between two checks whether a transaction is mined */
  pause: () => Promise<unknown>
}

const MAX_LOOKS = 600
/**
 * Init code with PUSH0, MCOPY and TLOAD, to test whether a network supports Cancun, for which the contracts are
 * compiled. It deploys empty code.
 */
const CANCUN_PROBE = '0x5f5f5f5e5f5c5f5ff3'
/**
 * The transaction that deploys the deterministic deployer at the same address on every network: nobody has the private key of its
 * sender. Source: github.com/Arachnid/deterministic-deployment-proxy
 */
const DEPLOYER_SENDER = '0x3fab184622dc19b6109349b94811493bf2a45362'
const DEPLOYER_TRANSACTION =
  '0xf8a58085174876e800830186a08080b853604580600e600039806000f350fe7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf31ba02222222222222222222222222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222'
/** wei: 100,000 gas at 100 gwei, the cost of DEPLOYER_TRANSACTION */
const DEPLOYER_COSTS = 10n ** 16n

/**
 * Deploys dispatcher and delegate on a network if they are missing, and allows sponsors of the key's space. Compares
 * all of their code, byte for byte, and simulates an operation of a random key without sending it.
 * @throws DeployRefusal
 */
export async function deployGas(deploying: Deploying): Promise<Deployment> {
  const { ask, key, sponsors } = deploying
  const contracts = readGasContracts(deploying.name ?? 'chatelaine')
  const { dispatcher, delegate } = contracts
  await assertFork(ask)
  await assertDelegation(deploying, contracts)
  await awaitPending(deploying)
  const send = openSender(deploying)
  if (!(await isThere(ask, contracts))) {
    await placeDeployer(ask, send)
    await send.transaction({ to: DEPLOYER, value: 0n, data: contracts.deployment })
    if (!(await isThere(ask, contracts)))
      throw new DeployRefusal('The contracts were sent and are not there: the deployment was reverted.')
  }
  await rehearseDelegation(deploying, contracts)
  for (const sponsor of sponsors)
    if (!(await isSponsor(ask, { dispatcher, space: addressOf(key), sponsor })))
      await send.transaction({ to: dispatcher, value: 0n, data: setSponsorData(sponsor) })
  return { dispatcher, delegate, sent: send.sent }
}

/** Computes the address of a key, which is its space: the ids of its operations begin with it. */
export const addressOf = (key: Buffer): Hex => toHex(keccak(openCurve().publicKeyOf(key).subarray(1)).subarray(12))

async function assertFork(ask: AskChain): Promise<void> {
  await ask('eth_call', [{ data: CANCUN_PROBE }, 'latest']).catch((cause: unknown) => {
    throw new DeployRefusal(
      `The network does not run code compiled for Cancun (PUSH0, MCOPY, transient storage): ${textOf(cause)}`,
      { cause },
    )
  })
}

/**
 * Checks that the network supports EIP-7702. A node that ignores authorizations estimates the same gas with and without
 * one.
 */
async function assertDelegation({ ask, chainId }: Deploying, { delegate }: GasContracts): Promise<void> {
  const someone = randomBytes(32)
  const authorization = authorize(someone, { chainId, delegate })
  const call = { from: addressOf(someone), to: addressOf(someone) }
  const estimate = (more: object) => ask<Hex>('eth_estimateGas', [{ ...call, ...more }])
  const [plain, delegated] = await Promise.all([
    estimate({}),
    estimate({ authorizationList: [asNodesTakeIt(authorization)] }).catch((cause: unknown) => {
      throw new DeployRefusal(`The network has no transactions of type 4 (EIP-7702): ${textOf(cause)}`, { cause })
    }),
  ])
  if (BigInt(delegated) <= BigInt(plain))
    throw new DeployRefusal(
      'The network has no transactions of type 4 (EIP-7702): an authorization costs nothing there.',
    )
}

/**
 * Waits until the transactions of an earlier run are mined. Otherwise a new transaction would reuse a nonce of that run.
 * @throws DeployRefusal
 */
async function awaitPending({ ask, key, pause }: Deploying): Promise<void> {
  const from = addressOf(key)
  for (let look = 0; look < MAX_LOOKS; look++) {
    const [mined, known] = await Promise.all(
      ['latest', 'pending'].map((tag) => ask<Hex>('eth_getTransactionCount', [from, tag])),
    )
    if (BigInt(known!) <= BigInt(mined!)) return
    await pause()
  }
  throw new DeployRefusal(`A transaction of ${from} is not mined yet: run this again later.`)
}

/**
 * Returns whether both contracts are on the network. @throws DeployRefusal  if other code is at one of the addresses
 */
async function isThere(ask: AskChain, contracts: GasContracts): Promise<boolean> {
  const { dispatcher, delegate, dispatcherCode, delegateCode } = contracts
  const [atDispatcher, atDelegate] = await Promise.all([codeAt(ask, dispatcher), codeAt(ask, delegate)])
  // Only its makers can deploy this delegate at this address, which depends on its code, so its code needs no
  // comparison.
  if (delegateCode === null && atDelegate === '0x')
    throw new DeployRefusal(`Calibur is not on this network, at ${delegate}: its makers put it there, not we.`)
  if (atDispatcher === '0x' && (delegateCode === null || atDelegate === '0x')) return false
  if (atDispatcher !== dispatcherCode || (delegateCode !== null && atDelegate !== delegateCode))
    throw new DeployRefusal(`There is other code at ${dispatcher} or ${delegate} than the committed one.`)
  return true
}

async function placeDeployer(ask: AskChain, send: TransactionSender): Promise<void> {
  const there = await codeAt(ask, DEPLOYER)
  if (there === DEPLOYER_CODE) return
  if (there !== '0x')
    throw new DeployRefusal(`There is other code at ${DEPLOYER} than that of the deterministic deployer.`)
  const held = BigInt(await ask<Hex>('eth_getBalance', [DEPLOYER_SENDER, 'latest']))
  if (held < DEPLOYER_COSTS) await send.transaction({ to: DEPLOYER_SENDER, value: DEPLOYER_COSTS - held, data: '0x' })
  await send.raw(fromHex(DEPLOYER_TRANSACTION)).catch((cause: unknown) => {
    throw new DeployRefusal(
      'The network lacks the deterministic deployer and refuses the transaction that puts it there (it is older than ' +
        `EIP-155): ${textOf(cause)} Other addresses than those of all networks are not used.`,
      { cause },
    )
  })
}

/**
 * Simulates one operation of a random key, called as the dispatcher would call it. The simulation reverts unless
 * signature, network and delegation work on this network. The operation only calls the key's own account without data.
 * @throws DeployRefusal
 */
export async function rehearseDelegation(
  { ask, chainId }: Pick<Deploying, 'ask' | 'chainId'>,
  { dispatcher, delegate }: GasContracts,
): Promise<void> {
  const someone = randomBytes(32)
  const account = fromHex(addressOf(someone))
  const { timestamp } = await ask<{ timestamp: Hex }>('eth_getBlockByNumber', ['latest', false])
  const operation: GasOperation = {
    chainId,
    account,
    dispatcher: fromHex(dispatcher),
    space: account,
    sequence: 0n,
    calls: [{ to: account, value: 0n, data: Buffer.alloc(0) }],
    gasLimit: 100_000,
    deadline: Number(timestamp) + 3_600,
  }
  const data = executeData(operation, signWith(operationDigest(operation), someone))
  const authorizationList = [asNodesTakeIt(authorize(someone, { chainId, delegate }))]
  const call = { from: dispatcher, to: toHex(account), data: toHex(data), authorizationList }
  const tampered = { ...call, data: toHex(Buffer.concat([data.subarray(0, 35), Buffer.of(1), data.subarray(36)])) }
  await ask('eth_call', [call, 'latest']).catch((cause: unknown) => {
    throw new DeployRefusal(`The contracts are there, and an operation is refused: ${textOf(cause)}`, { cause })
  })
  // A node that ignores the authorizations of a call sees no code at the account, and every call succeeds.
  const isBelieved = await ask('eth_call', [tampered, 'latest']).then(
    () => true,
    () => false,
  )
  if (isBelieved)
    throw new DeployRefusal('The contracts are there, and do not run: an operation that nobody signed succeeds.')
}

async function isSponsor(
  ask: AskChain,
  { dispatcher, space, sponsor }: { dispatcher: Hex; space: Hex; sponsor: Hex },
): Promise<boolean> {
  const data = `${selectorOf('isSponsor(address,address)')}${padded(space)}${padded(sponsor)}`
  return BigInt(await ask<Hex>('eth_call', [{ to: dispatcher, data }, 'latest'])) === 1n
}

const setSponsorData = (sponsor: Hex): Hex =>
  `${selectorOf('setSponsor(address,bool)')}${padded(sponsor)}${'1'.padStart(64, '0')}`

type TransactionSender = {
  /** signs, sends and waits until it is mined */
  transaction(call: { to: Hex; value: bigint; data: Hex }): Promise<void>
  raw(bytes: Buffer): Promise<void>
  sent: Hex[]
}

function openSender({ ask, chainId, key, pause }: Deploying): TransactionSender {
  const from = addressOf(key)
  const sent: Hex[] = []

  async function raw(bytes: Buffer): Promise<void> {
    const hash = toHex(keccak(bytes))
    sent.push(hash)
    await ask('eth_sendRawTransaction', [toHex(bytes)])
    for (let look = 0; look < MAX_LOOKS; look++) {
      const receipt = await ask<{ status: Hex } | null>('eth_getTransactionReceipt', [hash])
      if (receipt !== null && receipt.status !== '0x1') throw new DeployRefusal(`The transaction ${hash} was reverted.`)
      if (receipt !== null) return
      await pause()
    }
    throw new DeployRefusal(`The transaction ${hash} is not mined yet: run this again later.`)
  }

  async function transaction({ to, value, data }: { to: Hex; value: bigint; data: Hex }): Promise<void> {
    const call = { from, to, value: quantityOf(value), data }
    const [nonce, gas, block, tip] = await Promise.all([
      ask<Hex>('eth_getTransactionCount', [from, 'latest']),
      ask<Hex>('eth_estimateGas', [call]),
      ask<{ baseFeePerGas: Hex }>('eth_getBlockByNumber', ['latest', false]),
      ask<Hex>('eth_maxPriorityFeePerGas', []),
    ])
    const maxPriorityFeePerGas = BigInt(tip)
    const unsigned: SponsorTransaction = {
      chainId,
      nonce: Number(nonce),
      gas: (BigInt(gas) * 6n) / 5n,
      to: fromHex(to),
      value,
      data: fromHex(data),
      maxPriorityFeePerGas,
      maxFeePerGas: 2n * BigInt(block.baseFeePerGas) + maxPriorityFeePerGas,
      authorizations: [],
    }
    await raw(assembleTransaction(unsigned, signWith(transactionDigest(unsigned), key)).raw)
  }

  return { transaction, raw, sent }
}

/**
 * Signs an authorization by a random key of this run. With a key that others have, anyone could use up the nonce that
 * the authorization needs.
 */
function authorize(key: Buffer, { chainId, delegate }: { chainId: number; delegate: Hex }): SignedAuthorization {
  const authorization = { chainId, address: fromHex(delegate), nonce: 0 }
  return { ...authorization, ...signWith(authorizationDigest(authorization), key) }
}

function asNodesTakeIt({ chainId, address, nonce, r, s, recovery }: SignedAuthorization): object {
  const [rNumber, sNumber] = [r, s].map((bytes) => quantityOf(BigInt(toHex(Buffer.from(bytes)))))
  const numbers = { chainId: quantityOf(chainId), nonce: quantityOf(nonce), yParity: quantityOf(recovery) }
  return { ...numbers, address: toHex(address), r: rNumber, s: sNumber }
}

function signWith(digest: Buffer, key: Buffer): AccountSignature {
  const { signature, recovery } = openCurve().sign(digest, key)
  return { r: signature.slice(0, 32), s: signature.slice(32), recovery: recovery as 0 | 1 }
}

const codeAt = (ask: AskChain, address: Hex): Promise<Hex> => ask('eth_getCode', [address, 'latest'])
const textOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))
const selectorOf = (signature: string): Hex => toHex(keccak(Buffer.from(signature)).subarray(0, 4))
const padded = (address: Hex): string => address.slice(2).toLowerCase().padStart(64, '0')
