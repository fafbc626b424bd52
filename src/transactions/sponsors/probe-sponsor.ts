import { checksumAddress, isAddress } from '../../digits.ts'
import { readBytes } from '../../chain/rpc/answers.ts'
import { RpcError, RpcUnavailable, type Rpc } from '../../chain/rpc/rpc.ts'
import type { GasContracts } from '../../gas/contracts.ts'
import { rehearseDelegation, DeployRefusal, type AskChain } from '../../gas/deploy.ts'
import { rehearsalCode } from '../../gas/rehearse.ts'
import type { DelegateName, Hex } from '../../ids.ts'
import { keccak } from '../../keccak.ts'
import { toHex } from '../../hex.ts'
import { contractsOf } from './delegation.ts'
import { readGas } from '../lanes/limits.ts'
import { OTHER, SOMEONE } from '../nobody.ts'

/** Gas units of a transaction that calls a cold address. Source: EIP-2929 */
const WITH_CALL = 21_000n + 2_600n
/** Contract that returns the data fee on an OP Stack roll-up. Source: OP Stack predeploys */
const OP_GAS_ORACLE: Hex = '0x420000000000000000000000000000000000000f'

/**
 * Explains why sponsors cannot send operations on a network. Tries each requirement: contracts, EIP-1559 fees, state
 * overrides of estimates, and delegation. Nothing is sent.
 * @returns null if sponsors can send operations
 * @throws RpcUnavailable
 */
export async function explainSponsoring({
  chainId,
  gasSpace,
  delegate = 'chatelaine',
  rpc,
}: {
  chainId: number
  gasSpace?: Hex | null | undefined
  delegate?: DelegateName | undefined
  rpc: Pick<Rpc, 'call'>
}): Promise<string | null> {
  if (!isAddress(gasSpace))
    return 'it has no gas space, which is the address of the key that `chatelaine network deploy-gas` was given'
  const contracts = contractsOf({ delegate })
  const probe = probeOf(contracts)
  let outage: RpcUnavailable | null = null
  // A simulation treats every error as a refusal by the node, so record an outage here.
  const ask = <T>(method: string, params: unknown[]): Promise<T> =>
    rpc.call<T>(method, params).catch((error: unknown) => {
      if (error instanceof RpcUnavailable) outage = error
      throw error
    })
  try {
    const missing = await explainMissing(ask, contracts)
    if (missing !== null) return missing
    if ((await ask<string>('eth_getCode', [OP_GAS_ORACLE, 'latest'])) !== '0x')
      return 'it bills a fee for data beside gas (OP Stack), which neither the budgets nor the limits of the signer would hold'
    const latest = await ask<{ baseFeePerGas?: string } | null>('eth_getBlockByNumber', ['latest', false])
    if (typeof latest?.baseFeePerGas !== 'string') return 'its blocks have no base fee (EIP-1559)'
    const estimated = await ask('eth_estimateGas', [
      { from: OTHER, to: SOMEONE, data: '0x' },
      'latest',
      { [SOMEONE]: { code: probe } },
    ])
    // If the override's code did not run, the estimate would be that of a transfer, and the result empty.
    if (readGas(estimated) < WITH_CALL) return 'its node does not take state overrides of estimates'
    const ran = await ask('eth_call', [
      { from: OTHER, to: SOMEONE, data: '0x' },
      'latest',
      { [SOMEONE]: { code: probe } },
    ])
    if (readBytes(ran, 'answer of a rehearsal').length !== 66) return 'its node does not take state overrides'
    await rehearseDelegation({ chainId, ask }, contracts)
    if (outage !== null) throw outage
    return null
  } catch (error) {
    if (outage !== null) throw outage
    if (error instanceof DeployRefusal) return error.message
    if (error instanceof RpcError) return `its node refuses a rehearsal: ${error.message}`
    throw error
  }
}

async function explainMissing(
  ask: AskChain,
  { name, dispatcher, delegate, dispatcherCode, delegateCode }: GasContracts,
): Promise<string | null> {
  const [atDispatcher, atDelegate] = await Promise.all([dispatcher, delegate].map((address) => ask('eth_getCode', [address, 'latest']))) // prettier-ignore
  // We have no copy of third-party code. A simulation shows that it works, and its address identifies the audited code.
  if (delegateCode === null && atDelegate === '0x')
    return `Calibur is not there, at ${checksumAddress(delegate)}: it is on networks where its makers put it`
  if (atDispatcher === dispatcherCode && (delegateCode === null || atDelegate === delegateCode)) return null
  const option = name === 'chatelaine' ? '' : ` --delegate ${name}`
  return `the contracts of sponsored gas are not there: put them there with \`chatelaine network deploy-gas${option}\``
}

/** Returns code that asks the dispatcher for its delegate: 32 bytes. */
const probeOf = ({ dispatcher }: GasContracts): Hex =>
  toHex(
    rehearsalCode([
      {
        to: Buffer.from(dispatcher.slice(2), 'hex'),
        value: 0n,
        data: keccak(Buffer.from('delegate()')).subarray(0, 4),
      },
    ]),
  )
