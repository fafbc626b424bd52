import assert from 'node:assert/strict'
import { classifySendError, type SendRefusal } from '../../chain/rpc/errors.ts'
import type { Fees } from '../../chain/fees.ts'
import { gasChoiceOf, type Chain, type GasChoice } from '../../chain/network.ts'
import type { App } from '../../app.ts'
import type { Caller } from '../../http/bearer.ts'
import type { Hex } from '../../ids.ts'
import type { Checked, Signed, SignRequest } from '../../signer-wire/wire.ts'
import { reservedFor, type Fund } from './funds.ts'
import type { Attempt, Bound, Intent, Terms } from '../intent.ts'
import { rehearsedFund, topUpFund, type TopUpRehearsal, type TopUpTools } from '../sponsors/top-up.ts'
import type { UsedUp } from './cancel-gas.ts'
import { delegateOf } from '../sponsors/delegation.ts'
import { budgetNow, prepareFromAccount, type PreparedWrite } from './prepare.ts'

/**
 * Who pays for gas, one strategy per network, and another for contracts that its operator named. The engine binds, stores, broadcasts and follows; a strategy says what
 * a write costs and to whom, and which bytes carry it.
 */
export type GasStrategy = {
  name: GasChoice
  /**
   * Simulates the intent and finds its terms, and that the payer can pay.
   * @throws no_contract, execution_reverted, insufficient_funds, fee_cap_reached, chain_unavailable, chain_timeout
   */
  prepare: (asked: Preparing) => Promise<PreparedWrite>
  /**
   * Gives an account what its open writes lack by now, a reorganisation or a raise may have taken it, and what one of them costs `more`.
   * @throws what sending a write throws
   */
  relieve: (
    asked: Omit<Preparing, 'intent' | 'sending' | 'rehearsing'> & Pick<TopUpTools, 'send' | 'to'> & { more: Terms },
  ) => Promise<void>
  /** What an attempt reserves of the account's budget, wei. */
  reserve: (intent: Pick<Intent, 'value'>, attempt: Omit<Attempt, 'raw' | 'hash'>) => bigint
  /** The first bytes of a bound intent; the user's token goes along. @throws what the signer throws */
  sign: (app: App, bound: Bound, accessToken: string) => Promise<Signed>
  /** What the first bytes of an intent would be refused for, or the rule that lets them pass. @throws what the signer throws */
  check: (app: App, asked: Unbound, accessToken: string) => Promise<Checked>
  /** The same effect at higher fees, or a cancel. @throws what the signer throws */
  replace: (app: App, bound: Bound, replacement: Replacement) => Promise<Signed>
  classify: (error: unknown) => SendRefusal
}

/** Whose write it is, and what it is to do. */
type Preparing = {
  app: App
  chain: Chain
  caller: Caller
  intent: Intent
  /** absent in a rehearsal, which sends nothing */
  sending?: Pick<TopUpTools, 'send' | 'check' | 'refuseIfSent'>
  /** in a rehearsal: what the signer says; absent where it is not asked */
  rehearsing?: Pick<TopUpRehearsal, 'check' | 'checkTransfer'>
}

/** An intent as it would be bound. */
type Unbound = Omit<Bound, 'accountId' | 'requestHash'>

/** `accessToken` when the user asked for it; raising a fee needs none. */
type Replacement = { kind: 'replace' | 'cancel'; gas: bigint; fees: Fees; accessToken?: string; usesUp?: UsedUp }

/** The user's account pays. */
const self: GasStrategy = {
  name: 'self',
  prepare: ({ chain, caller: { address }, intent }) =>
    prepareFromAccount(chain, address, intent, faucetOf(chain, address)),
  relieve: async () => {},
  reserve: reservedFor,
  sign: (app, bound, accessToken) =>
    isOuter(bound)
      ? signOuter(app, bound, { ...bound, kind: 'send' })
      : app.signer.sign({
          ...effectOf(bound),
          ...offerOf(bound),
          kind: 'send',
          accessToken,
          ...(bound.requestHash === null ? {} : { requestHash: `0x${Buffer.from(bound.requestHash).toString('hex')}` }),
        }),
  check: (app, asked, accessToken) =>
    app.signer.check({ ...effectOf(asked), ...offerOf(asked), kind: 'send', accessToken }),
  replace: (app, bound, { kind, accessToken, usesUp, ...offer }) => {
    if (kind === 'cancel' && usesUp !== undefined) return cancelOuter(app, bound, { ...offer, accessToken, usesUp })
    if (kind === 'replace' && isOuter(bound)) return signOuter(app, bound, { ...offer, kind })
    const effect =
      kind === 'cancel' ? { ...effectOf(bound), to: bound.from, value: '0', data: '0x' as Hex } : effectOf(bound)
    return app.signer.sign({
      ...effect,
      ...offerOf(offer),
      kind,
      ...(accessToken === undefined ? {} : { accessToken }),
    })
  },
  classify: classifySendError,
}

/** Of a transaction of a sponsor that carries operations. A cancel of it carries none. */
const isOuter = ({ authorizations }: Pick<Bound, 'authorizations'>): boolean =>
  authorizations !== undefined && authorizations !== null

function signOuter(app: App, bound: Bound, { gas, fees, kind }: Terms & { kind: 'send' | 'replace' }): Promise<Signed> {
  // The networks where sponsors carry operations have fees of EIP-1559: it is looked at before one is served.
  assert(fees.type === 'eip1559', 'a transaction that carries operations has fees of EIP-1559')
  const { id: intentId, chainId, from, nonce, to, data } = bound
  const delegate = delegateOf(to)
  return app.signer.signOuter({
    intentId,
    chainId,
    from,
    nonce,
    data,
    kind,
    gas: String(gas),
    authorizations: [...bound.authorizations!],
    maxFeePerGas: String(fees.maxFeePerGas),
    maxPriorityFeePerGas: String(fees.maxPriorityFeePerGas),
    ...(delegate === null || delegate === 'chatelaine' ? {} : { delegate }),
  })
}

function cancelOuter(
  app: App,
  bound: Bound,
  { gas, fees, accessToken, usesUp }: Omit<Replacement, 'kind' | 'accessToken'> & { accessToken: string | undefined; usesUp: UsedUp }, // prettier-ignore
): Promise<Signed> {
  assert(fees.type === 'eip1559', 'a cancel of what carries operations has fees of EIP-1559')
  const { id: intentId, chainId, from, nonce } = bound
  return app.signer.cancelOuter({
    intentId,
    chainId,
    from,
    nonce,
    gas: String(gas),
    authorizations: [...bound.authorizations!],
    maxFeePerGas: String(fees.maxFeePerGas),
    maxPriorityFeePerGas: String(fees.maxPriorityFeePerGas),
    sequences: usesUp.map(String),
    ...(accessToken === undefined ? {} : { accessToken }),
  })
}

const transferFrom =
  (chain: Chain): TopUpTools['prepare'] =>
  (from, transfer) =>
    prepareFromAccount(chain, from, transfer, faucetOf(chain, from))

/** What our own development chain gives to anyone who is short, once for a write. */
function faucetOf(chain: Chain, address: Hex): Fund | null {
  const { faucet } = chain
  if (faucet === null) return null
  let isGiven = false
  return async () => {
    if (isGiven) return null
    isGiven = true
    await faucet(address)
    return budgetNow(chain, address)
  }
}

const UNASKED: NonNullable<Preparing['rehearsing']> = { check: async () => {}, checkTransfer: async () => {} }

/** The user's account pays, and a sponsor sends it what it lacks for gas first. */
const topup: GasStrategy = {
  ...self,
  name: 'topup',
  prepare: ({ app, chain, caller, intent, sending, rehearsing = UNASKED }) => {
    const tools = { app, chain, caller, to: intent.to, prepare: transferFrom(chain) }
    const fund =
      sending === undefined ? rehearsedFund({ ...tools, ...rehearsing }) : topUpFund({ ...tools, ...sending })
    return prepareFromAccount(chain, caller.address, intent, fund)
  },
  relieve: async ({ app, chain, caller, send, more, to }) => {
    const fund = topUpFund({
      app,
      chain,
      caller,
      send,
      to,
      check: async () => {},
      refuseIfSent: async () => {},
      prepare: transferFrom(chain),
    })
    await fund({ value: 0n, terms: more })
  },
}

/** What people sign is carried by sponsors (send-operation.ts). This is for what accounts send themselves: sponsors, and people before. */
const sponsor: GasStrategy = { ...self, name: 'sponsor' }

const strategies: Record<GasChoice, GasStrategy> = { self, topup, sponsor }

/** Every network's strategy: for what does not depend on who pays for one write. */
export const gasStrategy = ({ gas }: Pick<Chain, 'gas'>): GasStrategy => strategies[gas]
/** The strategy of a write. @param to  what it calls, in lower case */
export const strategyFor = (chain: Pick<Chain, 'gas' | 'topUpContracts'>, to: Hex): GasStrategy =>
  strategies[gasChoiceOf(chain, to)]

function effectOf({ id, chainId, from, nonce, to, value, data }: Unbound) {
  return { intentId: id, chainId, from, nonce, to, value: value.toString(), data }
}

function offerOf({
  gas,
  fees,
}: Terms): Pick<SignRequest, 'gas' | 'maxFeePerGas' | 'maxPriorityFeePerGas' | 'gasPrice'> {
  if (fees.type === 'legacy') return { gas: gas.toString(), gasPrice: fees.gasPrice.toString() }
  return {
    gas: gas.toString(),
    maxFeePerGas: fees.maxFeePerGas.toString(),
    maxPriorityFeePerGas: fees.maxPriorityFeePerGas.toString(),
  }
}
