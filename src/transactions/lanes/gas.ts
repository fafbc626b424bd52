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
 * Payer of gas. A network has one strategy; contracts that the operator named may have another. The engine binds,
 * stores, broadcasts and follows. A strategy determines the cost of a write, its payer, and the transaction that sends it.
 */
export type GasStrategy = {
  name: GasChoice
  /**
   * Simulates the intent, determines its terms, and checks that the payer can pay.
   * @throws no_contract, execution_reverted, insufficient_funds, fee_cap_reached, chain_unavailable, chain_timeout
   */
  prepare: (asked: Preparing) => Promise<PreparedWrite>
  /**
   * Sends an account the missing funds for its open writes, after a reorganisation or a fee bump, plus the cost of
   * `more`.
   * @throws the errors of sending a write
   */
  relieve: (
    asked: Omit<Preparing, 'intent' | 'sending' | 'rehearsing'> & Pick<TopUpTools, 'send' | 'to'> & { more: Terms },
  ) => Promise<void>
  /** Returns the wei that an attempt reserves of the account's budget. */
  reserve: (intent: Pick<Intent, 'value'>, attempt: Omit<Attempt, 'raw' | 'hash'>) => bigint
  /**
   * Signs the first bytes of a bound intent with the user's token.
   * @throws the errors of the signer
   */
  sign: (app: App, bound: Bound, shown: SigningEvidence) => Promise<Signed>
  /**
   * Returns the rule that would allow the first signature of an intent, and whether an approval is missing.
   * @throws the errors of the signer
   */
  check: (app: App, asked: Unbound, shown: SigningEvidence) => Promise<Checked>
  /**
   * Signs a fee bump or a cancellation.
   * @throws the errors of the signer
   */
  replace: (app: App, bound: Bound, replacement: Replacement) => Promise<Signed>
  classify: (error: unknown) => SendRefusal
}

/** Evidence for the signer: the user's token, and the user's approval if there is one. */
export type SigningEvidence = { token: string; approval: string | null }

/** The user who writes, and the intent. */
type Preparing = {
  app: App
  chain: Chain
  caller: Caller
  intent: Intent
  /** absent in a dry run, which sends nothing */
  sending?: Pick<TopUpTools, 'send' | 'check' | 'refuseIfSent'>
  /** checks by the signer in a dry run; absent if the signer is not asked */
  rehearsing?: Pick<TopUpRehearsal, 'check' | 'checkTransfer'>
}

/** An intent that has no row yet. */
type Unbound = Omit<Bound, 'accountId' | 'requestHash' | 'reference'>

/** `accessToken` is present if the user requested the replacement; a fee bump needs none. */
type Replacement = { kind: 'replace' | 'cancel'; gas: bigint; fees: Fees; accessToken?: string; usesUp?: UsedUp }

/** The user's account pays. */
const self: GasStrategy = {
  name: 'self',
  prepare: ({ chain, caller: { address }, intent }) =>
    prepareFromAccount(chain, address, intent, faucetOf(chain, address)),
  relieve: async () => {},
  reserve: reservedFor,
  sign: (app, bound, shown) =>
    isOuter(bound)
      ? signOuter(app, bound, { ...bound, kind: 'send' })
      : app.signer.sign({
          ...effectOf(bound),
          ...offerOf(bound),
          kind: 'send',
          ...evidenceOf(shown),
          ...(bound.requestHash === null ? {} : { requestHash: `0x${Buffer.from(bound.requestHash).toString('hex')}` }),
        }),
  check: (app, asked, shown) =>
    app.signer.check({ ...effectOf(asked), ...offerOf(asked), kind: 'send', ...evidenceOf(shown) }),
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

/** Returns whether a transaction is a sponsor's that includes operations. Its cancellation includes none. */
const isOuter = ({ authorizations }: Pick<Bound, 'authorizations'>): boolean =>
  authorizations !== undefined && authorizations !== null

function signOuter(app: App, bound: Bound, { gas, fees, kind }: Terms & { kind: 'send' | 'replace' }): Promise<Signed> {
  // Such networks have EIP-1559 fees, which is checked before they are served.
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

/** Returns the faucet of the built-in development chain, which gives funds once per write. */
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

/** The user's account pays, after a sponsor has sent it the missing gas funds. */
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

/**
 * For transactions that accounts send themselves: those of sponsors, and users' writes bound before the network's gas
 * mode was `sponsor`. Sponsors send users' operations by send-operation.ts.
 */
const sponsor: GasStrategy = { ...self, name: 'sponsor' }

const strategies: Record<GasChoice, GasStrategy> = { self, topup, sponsor }

/** Returns the network's strategy, for decisions that do not depend on who pays for one write. */
export const gasStrategy = ({ gas }: Pick<Chain, 'gas'>): GasStrategy => strategies[gas]
/**
 * Returns the strategy of a write.
 * @param to  called address, in lower case
 */
export const strategyFor = (chain: Pick<Chain, 'gas' | 'topUpContracts'>, to: Hex): GasStrategy =>
  strategies[gasChoiceOf(chain, to)]

/** Converts the evidence to the fields of a request to the signer. */
export const evidenceOf = ({
  token,
  approval,
}: SigningEvidence): Pick<SignRequest, 'approval'> & { accessToken: string } => ({
  accessToken: token,
  ...(approval === null ? {} : { approval }),
})

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
