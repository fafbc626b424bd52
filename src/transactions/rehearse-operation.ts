import { randomUUID } from 'node:crypto'
import { bigNumber } from '../abi/bignumber.ts'
import type { App } from '../app.ts'
import { highestPrice } from '../chain/fees.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import type { Hex } from '../ids.ts'
import { toHex } from '../store/bytes.ts'
import { wireTransaction } from './answer.ts'
import { gasContracts } from './delegation.ts'
import { readReturned } from './returned.ts'
import type { Intent } from './intent.ts'
import { networkSeconds } from './network-clock.ts'
import { outerGas } from './operation-gas.ts'
import { wireOperation } from './operation-answer.ts'
import type { Operation } from './operation.ts'
import { callOperation } from './prepare-operation.ts'
import { explainRefusal } from './refused-operation.ts'
import { preparePaid, refuseApart, rehearseBudget, requestOf } from './send-operation.ts'
import type { DryRunAnswer } from './write-wire.ts'

const LIFE_SECONDS = 600

/**
 * A write that a sponsor would send, up to, but not including, its number: nothing is stored, signed or sent. `tx` is without the data,
 * which depends on the signature, and on who else writes at that moment.
 * @throws as `sendOperation`
 */
export async function rehearseOperation(app: App, caller: Caller, intents: readonly Intent[]): Promise<DryRunAnswer> {
  const chain = chainOf(app, caller)
  refuseApart(chain, intents)
  const { accountId, clientId, address: from, token } = caller
  const { delegate, calls, gas, fees, authorizationNonce, charged, payer } = await preparePaid(
    app,
    chain,
    from,
    intents,
  )
  const price = highestPrice(fees)
  const operation: Operation = {
    ...{
      id: `dry-run-${randomUUID()}`,
      accountId,
      clientId,
      chainId: chain.chainId,
      from,
      delegate,
      space: chain.gasSpace!,
    },
    ...{ sequence: 0, calls, gas, authorizationNonce, requestHash: null },
    deadline: networkSeconds(app, chain) + LIFE_SECONDS,
  }
  await rehearseBudget(app, caller, intents, charged)
  const { sequence: _, ...request } = requestOf(operation, token)
  const [returned, { rule, limits }] = await Promise.all([
    callOperation(chain, from, intents, payer),
    app.signer.checkOperation(request).catch((error: unknown) => {
      throw explainRefusal(error)
    }),
  ])
  const outer = {
    chainId: chain.chainId,
    nonce: 0,
    to: gasContracts(delegate).dispatcher,
    data: '0x' as Hex,
    value: 0n,
  }
  const total = outerGas([operation])
  return {
    status: 'SUCCESS',
    explorerUrl: chain.explorer.address(toHex(calls[0]!.to)),
    tx: wireTransaction({ ...outer, from: payer, gas: total, fees }),
    operation: wireOperation(operation),
    ...readReturned(intents.at(-1)!, returned),
    ...{ gas: bigNumber(total), fee: bigNumber(total * price), rule },
    ...(limits === undefined ? {} : { limits }),
  }
}
