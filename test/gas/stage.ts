import { readFileSync } from 'node:fs'
import { decodeErrorResult, decodeFunctionResult, encodeFunctionData, type Abi } from 'viem'
import { authorizationDigest, type Authorization, type SignedAuthorization } from '../../src/gas/authorization.ts'
import { dispatchData, type SignedOperation } from './dispatch.ts'
import {
  operationDigest,
  type OperationCall,
  type GasOperation,
  type AccountSignature,
} from '../../src/gas/operation.ts'
import { assembleTransaction, transactionDigest, type SponsorTransaction } from '../../src/gas/transaction.ts'
import { readGasContracts } from '../../src/gas/contracts.ts'
import { quantityOf, type DelegateName, type Hex } from '../../src/ids.ts'
import { keccak } from '../../src/keccak.ts'
import { openCurve } from '../../src/secp256k1.ts'
import { until } from '../kit/until.ts'
import type { Evm } from './evm.ts'
import { readOutcomes, type Log, type Outcome } from './events.ts'

export type Account = { key: Buffer; address: Buffer; hex: Hex }
export type Sent = {
  status: Hex
  gasUsed: bigint
  fee: bigint
  logs: Log[]
  outcomes: Outcome[]
  hash: Hex
  size: number
}
export type Wanted = Partial<Omit<GasOperation, 'account' | 'calls'>>
type Receipt = { status: Hex; gasUsed: Hex; effectiveGasPrice: Hex; logs: Log[] }
type Sending = { gas?: number; value?: bigint; authorizations?: SignedAuthorization[] }

export const bytesOf = (hex: string): Buffer => Buffer.from(hex.slice(2), 'hex')
export const hexOf = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
export const ETHER = 10n ** 18n
const MAX_FEE = 10n ** 11n
const LIFE_SECONDS = 600

type Artefact = { abi: Abi; bytecode: Hex; deployedBytecode: Hex }
const artefacts = new Map<string, Artefact>()
export function artefact(name: string): Artefact {
  const path = new URL(`../../contracts/out/${name}.json`, import.meta.url)
  const read = artefacts.get(name) ?? (JSON.parse(readFileSync(path, 'utf8')) as Artefact)
  artefacts.set(name, read)
  return read
}

export function sign(digest: Buffer, key: Buffer): AccountSignature {
  const { signature, recovery } = openCurve().sign(digest, key)
  return { r: signature.slice(0, 32), s: signature.slice(32), recovery: recovery as 0 | 1 }
}

/** 65 bytes, as wallets write it */
export const flat = ({ r, s, recovery }: AccountSignature): Buffer => Buffer.concat([r, s, Buffer.of(27 + recovery)])

export function accountOf(label: string): Account {
  const key = keccak(Buffer.from(`an account of the tests, ${label}`))
  const address = keccak(openCurve().publicKeyOf(key).subarray(1)).subarray(12)
  return { key, address, hex: hexOf(address) }
}

export type Stage = Awaited<ReturnType<typeof openStage>>

/**
 * Dispatcher and delegate on an EVM, with tokens and targets, a space, and two sponsors that it allows.
 * @param dispatcherBytecode  what is deployed as the dispatcher; a mutant is given here
 * @param name  for `calibur` its dispatcher where it is on every network, and a stand-in, or Calibur itself, where Calibur is
 */
export async function openStage({ rpc }: Evm, dispatcherBytecode?: Hex, name: DelegateName = 'chatelaine') {
  const chainId = Number(await rpc<Hex>('eth_chainId'))
  const [rich] = (await rpc<Hex[]>('eth_accounts')) as [Hex]
  const nonces = new Map<string, number>()
  let sequence = 1n << 40n

  const nonceOf = async ({ hex }: Account): Promise<number> =>
    nonces.get(hex) ?? Number(await rpc<Hex>('eth_getTransactionCount', hex, 'latest'))

  async function deploy(bytecode: Hex): Promise<Buffer> {
    const hash = await rpc<Hex>('eth_sendTransaction', { from: rich, data: bytecode, gas: quantityOf(5_000_000) })
    const { contractAddress } = await until('it is mined', () => rpc<{ contractAddress: Hex } | null>('eth_getTransactionReceipt', hash)) // prettier-ignore
    return bytesOf(contractAddress)
  }

  async function give(account: { hex: Hex }, wei: bigint): Promise<void> {
    await rpc('hardhat_setBalance', account.hex, quantityOf(wei))
  }

  /** One transaction of an account's own, mined. */
  async function send(from: Account, to: Uint8Array, data: Uint8Array, sending: Sending = {}): Promise<Sent> {
    const nonce = await nonceOf(from)
    const transaction: SponsorTransaction = {
      ...{ chainId, nonce, maxPriorityFeePerGas: 1n, maxFeePerGas: MAX_FEE, gas: BigInt(sending.gas ?? 8_000_000) },
      ...{ to: Buffer.from(to), value: sending.value ?? 0n, data: Buffer.from(data) },
      authorizations: sending.authorizations ?? [],
    }
    const { raw } = assembleTransaction(transaction, sign(transactionDigest(transaction), from.key))
    nonces.set(from.hex, nonce + 1)
    const hash = hexOf(keccak(raw))
    const problem = await rpc('eth_sendRawTransaction', hexOf(raw)).then(() => null, (error: unknown) => error) // prettier-ignore
    // Hardhat throws where the transaction reverts, and mines it all the same; anvil answers a moment before it is mined.
    const receipt = await until('the transaction is mined', async () => {
      const mined = await rpc<Receipt | null>('eth_getTransactionReceipt', hash)
      if (mined === null && problem !== null) throw problem
      return mined
    })
    const gasUsed = BigInt(receipt.gasUsed)
    return {
      ...{
        status: receipt.status,
        gasUsed,
        fee: gasUsed * BigInt(receipt.effectiveGasPrice),
        logs: receipt.logs,
        hash,
      },
      ...{ outcomes: readOutcomes(receipt.logs, hexOf(dispatcher)), size: data.length },
    }
  }

  /** Code is put at an address, as no transaction could: what accounts sign says which. */
  async function placeCalibur(): Promise<Buffer> {
    const { dispatcher, delegate, dispatcherCode } = readGasContracts('calibur')
    const other = dispatcherBytecode === undefined ? null : hexOf(await deploy(dispatcherBytecode))
    await rpc(
      'hardhat_setCode',
      dispatcher,
      other === null ? dispatcherCode : await rpc<Hex>('eth_getCode', other, 'latest'),
    )
    await rpc('hardhat_setCode', delegate, caliburCode())
    return bytesOf(dispatcher)
  }

  const encode = (contract: string, functionName: string, args: unknown[] = []): Buffer =>
    bytesOf(encodeFunctionData({ abi: artefact(contract).abi, functionName, args }))

  async function read<T = bigint>(to: Uint8Array, contract: string, name: string, args: unknown[] = []): Promise<T> {
    const call = { to: hexOf(to), data: hexOf(encode(contract, name, args)) }
    const data = await rpc<Hex>('eth_call', call, 'latest')
    return decodeFunctionResult({ abi: artefact(contract).abi, functionName: name, data }) as T
  }

  const dispatcher = name === 'calibur' ? await placeCalibur() : await deploy(dispatcherBytecode ?? artefact('Dispatcher').bytecode) // prettier-ignore
  // One after the other: anvil gives the same nonce to sends that arrive together.
  const target = await deploy(artefact('GasTarget').bytecode)
  const token = await deploy(artefact('SampleToken').bytecode)
  const collectible = await deploy(artefact('SampleCollectible').bytecode)
  const items = await deploy(artefact('SampleItems').bytecode)
  const delegate = bytesOf(await read<Hex>(dispatcher, 'Dispatcher', 'delegate'))
  const [admin, sponsor, otherSponsor, stranger] = ['admin', 'sponsor', 'other sponsor', 'stranger'].map(accountOf) as [Account, Account, Account, Account] // prettier-ignore
  for (const one of [admin, sponsor, otherSponsor, stranger]) await give(one, 1_000n * ETHER)
  for (const { hex } of [sponsor, otherSponsor])
    await send(admin, dispatcher, encode('Dispatcher', 'setSponsor', [hex, true]))

  const now = async (): Promise<number> =>
    Number((await rpc<{ timestamp: Hex }>('eth_getBlockByNumber', 'latest', false)).timestamp)

  async function authorize(account: Account, changes: Partial<Authorization> = {}): Promise<SignedAuthorization> {
    const authorization = { chainId, address: delegate, nonce: await nonceOf(account), ...changes }
    return { ...authorization, ...sign(authorizationDigest(authorization), account.key) }
  }

  async function operation(
    account: Account,
    calls: readonly OperationCall[],
    wanted: Wanted = {},
  ): Promise<SignedOperation> {
    const signed: GasOperation = {
      ...{ chainId, account: account.address, dispatcher, space: admin.address, sequence: sequence++, calls },
      ...{ gasLimit: 300_000, deadline: (await now()) + LIFE_SECONDS, ...wanted },
    }
    return { operation: signed, signature: sign(operationDigest(signed), account.key) }
  }

  const stage = {
    ...{
      name,
      rpc,
      chainId,
      dispatcher,
      delegate,
      target,
      token,
      collectible,
      items,
      admin,
      sponsor,
      otherSponsor,
      stranger,
    },
    ...{ give, send, encode, read, now, authorize, operation, deploy },
    balanceOf: async ({ hex }: { hex: Hex }): Promise<bigint> =>
      BigInt(await rpc<Hex>('eth_getBalance', hex, 'latest')),
    /** An account without a coin that delegated. */
    user: async (label: string): Promise<Account> => (await stage.users(label, 1))[0]!,
    users: async (label: string, count: number): Promise<Account[]> => {
      const accounts = Array.from({ length: count }, (_, index) => accountOf(`${label} ${index}`))
      const authorizations = await Promise.all(accounts.map((account) => authorize(account)))
      for (const account of accounts) nonces.set(account.hex, (await nonceOf(account)) + 1)
      await send(sponsor, sponsor.address, Buffer.alloc(0), { authorizations })
      return accounts
    },
    call: (to: Uint8Array, data: Uint8Array, value = 0n): OperationCall => ({
      to: Buffer.from(to),
      value,
      data: Buffer.from(data),
    }),
    /** A call of the target. */
    on: (name: string, args: unknown[] = [], value = 0n): OperationCall => ({
      to: target,
      value,
      data: encode('GasTarget', name, args),
    }),
    transfer: (to: Account, amount: bigint): OperationCall => ({ to: token, value: 0n, data: encode('SampleToken', 'transfer', [to.hex, amount]) }), // prettier-ignore
    mint: (account: Account, amount: bigint): Promise<Sent> => send(stranger, token, encode('SampleToken', 'mint', [account.hex, amount])), // prettier-ignore
    held: (account: Account): Promise<bigint> => read(token, 'SampleToken', 'balanceOf', [account.hex]),
    pings: (): Promise<bigint> => read(target, 'GasTarget', 'count'),
    dispatch: (operations: readonly SignedOperation[], sending: Sending & { from?: Account } = {}): Promise<Sent> =>
      send(sending.from ?? sponsor, dispatcher, dispatchData(operations), sending),
    isUsed: async ({ operation: { space, sequence: number } }: SignedOperation): Promise<boolean> => {
      const id = BigInt(hexOf(space)) * 2n ** 96n + number
      return (((await read(dispatcher, 'Dispatcher', 'used', [id >> 8n])) >> (id & 0xffn)) & 1n) === 1n
    },
    /** Runs something and puts the chain back to where it was. */
    apart: async (work: () => Promise<void>): Promise<void> => {
      const [before, kept] = [await rpc<Hex>('evm_snapshot'), new Map(nonces)]
      try {
        await work()
      } finally {
        await rpc('evm_revert', before)
        nonces.clear()
        for (const [address, nonce] of kept) nonces.set(address, nonce)
      }
    },
  }
  return stage
}

/**
 * What stands at the address of Calibur in tests: our stand-in, or where CALIBUR_CODE names a file, the code in it, hexadecimal digits as
 * `eth_getCode` answers them.
 */
export const caliburCode = (): Hex => {
  const file = process.env.CALIBUR_CODE
  return file === undefined ? artefact('CaliburStandIn').deployedBytecode : (readFileSync(file, 'utf8').trim() as Hex)
}

/** What an outcome says, in words: `Done`, `Failed Expired`, `Failed CallFailed 1 0x…`; Calibur does not say which call. */
export function said({ kind, reason }: Outcome): string {
  if (kind !== 'Failed') return kind
  if (reason === '0x') return 'Failed'
  const abi = [...artefact('Delegate').abi, ...artefact('Dispatcher').abi, ...artefact('CaliburStandIn').abi]
  const { errorName, args } = decodeErrorResult({ abi, data: reason })
  return ['Failed', errorName, ...(args ?? []).map(String)].join(' ')
}
