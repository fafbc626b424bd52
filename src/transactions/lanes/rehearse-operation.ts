import { randomUUID } from 'node:crypto'
import { bigNumber } from '../../abi/bignumber.ts'
import { decodeResult, type Output } from '../../abi/results.ts'
import type { App } from '../../app.ts'
import { highestPrice } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import type { Hex } from '../../ids.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import type { CheckOperationRequest } from '../../signer-wire/wire.ts'
import { toHex } from '../../hex.ts'
import { canPay, carriersOf, inTurn, noCarrier } from '../sponsors/carriers.ts'
import { knownDataGas } from './data-gas.ts'
import { gasContracts } from '../sponsors/delegation.ts'
import type { Intent } from '../intent.ts'
import { namingClocks, networkSeconds } from './network-clock.ts'
import { outerGas } from './operation-gas.ts'
import { wireOperation, wireTransaction } from '../read/answer.ts'
import type { Operation } from '../operation.ts'
import { CannotCarry, explain } from '../sponsors/pack.ts'
import { callOperation } from './prepare-operation.ts'
import { explainLeftOut, explainRefusal } from './refused-operation.ts'
import { LIFE_SECONDS, preparePaid, refuseApart, rehearseBudget, requestOf } from './send-operation.ts'
import type { DryRunAnswer } from '../write-wire.ts'
import type { Clock } from '../../clock.ts'

/**
 * Simulates a write that a sponsor would send, up to, but not including, its number: nothing is stored, signed or sent.
 * `tx` has no data, because data depends on the signature and on concurrent writes.
 * @throws as `sendOperation`
 */
export async function rehearseOperation(app: App, caller: Caller, intents: readonly Intent[]): Promise<DryRunAnswer> {
  const chain = chainOf(app, caller)
  refuseApart(chain, intents)
  const { accountId, clientId, address: from, token } = caller
  const { delegate, calls, gas, fees, authorizationNonce, charged } = await preparePaid(app, chain, from, intents)
  const price = highestPrice(fees)
  const operation: Operation = {
    id: `dry-run-${randomUUID()}`,
    accountId,
    clientId,
    chainId: chain.chainId,
    from,
    delegate,
    space: chain.gasSpace!,
    sequence: 0,
    calls,
    gas,
    authorizationNonce,
    requestHash: null,
    reference: null,
    deadline: networkSeconds(app, chain) + LIFE_SECONDS,
  }
  await rehearseBudget(app, caller, intents, charged)
  const { sequence: _, ...request } = requestOf(operation, { token, approval: null })
  const total = outerGas([operation]) + knownDataGas(chain, operation)
  // Check in the order of a write: first the user's signature, then the sponsor's.
  const { rule, requires, limits } = await app.signer.checkOperation(request).catch((error: unknown) => {
    throw explainRefusal(namingClocks(app, chain, error))
  })
  const payer = await findPayer(app, chain, request, { price, wei: total * price })
  const returned = await callOperation(chain, from, intents, payer)
  const outer = {
    chainId: chain.chainId,
    nonce: 0,
    to: gasContracts(delegate).dispatcher,
    data: '0x' as Hex,
    value: 0n,
  }
  return {
    status: 'SUCCESS',
    explorerUrl: chain.explorer.address(toHex(calls[0]!.to)),
    tx: wireTransaction({ ...outer, from: payer, gas: total, fees }),
    operation: wireOperation(operation),
    ...readReturned(intents.at(-1)!, returned),
    gas: bigNumber(total),
    fee: bigNumber(total * price),
    rule,
    approval: requires === null ? 'not_required' : 'required',
    ...(limits === undefined ? {} : { limits }),
  }
}

/**
 * Returns the first sponsor with enough balance whose transaction the signer would sign, by its current limits.
 * @throws gas_budget_exhausted, sponsor_empty, and the signer errors of `carry`
 */
async function findPayer(
  app: App,
  chain: Chain,
  request: CheckOperationRequest,
  { price, wei }: { price: bigint; wei: bigint },
): Promise<Hex> {
  let told: AppError | null = null
  for (const sponsor of inTurn(await carriersOf(app, chain), request.from)) {
    if (!(await canPay(chain, sponsor, wei))) continue
    const carried = { sponsor: sponsor.address, price: String(price), wei: String(wei) }
    try {
      await app.signer.checkOperation({ ...request, carried })
      return sponsor.address
    } catch (error) {
      const explained = explainUncarried(error, app.clock)
      if (!(explained instanceof CannotCarry)) throw explainRefusal(explained)
      told ??= explained.told
    }
  }
  throw told ?? noCarrier(app, chain)
}

/** Maps a refusal that concerns only the sponsor or the sponsor's transaction: all checks of the user have passed. */
const explainUncarried = (error: unknown, clock: Clock): unknown =>
  error instanceof SignerRefused && error.code === 'operation_refused' ? explainLeftOut(error, clock) : explain(error)

/** Decodes the return data of a call by the caller's ABI; null without an ABI, or if it does not decode. */
export function readReturned({ fn }: Intent, data: Hex): { response: unknown; outputs: Output[] } {
  if (fn === null) return { response: null, outputs: [] }
  try {
    return decodeResult(fn, data)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return { response: null, outputs: [] }
  }
}
