import { randomUUID } from 'node:crypto'
import { bigNumber } from '../../abi/bignumber.ts'
import type { App } from '../../app.ts'
import { readBytes } from '../../chain/rpc/answers.ts'
import { highestPrice } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import type { Hex } from '../../ids.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import type { Checked } from '../../signer-wire/wire.ts'
import { notSigned } from './bind.ts'
import { fromHex } from '../../hex.ts'
import { wireTransaction } from '../read/answer.ts'
import { countAt } from '../settle/nonce-count.ts'
import { gasStrategy, strategyFor } from './gas.ts'
import type { Intent, Terms } from '../intent.ts'
import { isCarried } from './own-nonces.ts'
import { callOf, revertOf } from './prepare.ts'
import { preparePaid } from './send-operation.ts'
import { isTaken } from './sign.ts'
import { readReturned, rehearseOperation } from './rehearse-operation.ts'
import type { DryRunAnswer } from '../write-wire.ts'

/**
 * Performs a write up to, but not including, its nonce. Nothing is stored, signed or sent.
 * @throws no_contract, execution_reverted, insufficient_funds, fee_cap_reached, gas_budget_exhausted, sponsor_empty,
 *   chain_unavailable, chain_timeout, signer_unavailable, policy_denied and the signer's other refusals
 */
export async function dryRun(app: App, caller: Caller, intent: Intent): Promise<DryRunAnswer> {
  const chain = chainOf(app, caller)
  if (await isCarried(app, chain, caller.address, intent.to)) return rehearseOperation(app, caller, [intent])
  const from = caller.address
  const { terms } = await strategyFor(chain, intent.to).prepare({
    app,
    chain,
    caller,
    intent,
    rehearsing: {
      check: (of) => checkWrite(app, chain, caller, { intent, terms: asBound(intent, of) }),
      checkTransfer: (sponsor, transfer) => checkWrite(app, chain, sponsor, transfer),
    },
  })
  const [returned, { nonce, rule, requires, limits }] = await Promise.all([
    call(chain, from, intent),
    checkWrite(app, chain, caller, { intent, terms }),
  ])
  const { to, value, data } = intent
  return {
    status: 'SUCCESS',
    explorerUrl: chain.explorer.address(to),
    tx: wireTransaction({ chainId: chain.chainId, from, nonce, to, value, data, ...terms }),
    ...readReturned(intent, returned),
    gas: bigNumber(terms.gas),
    fee: bigNumber(terms.gas * highestPrice(terms.fees)),
    rule,
    approval: requires === null ? 'not_required' : 'required',
    ...(limits === undefined ? {} : { limits }),
  }
}

/**
 * Simulates a write on the chain only, without asking the signer.
 * @throws as `dryRun`
 */
export async function simulate(app: App, caller: Caller, intent: Intent): Promise<void> {
  const chain = chainOf(app, caller)
  if (await isCarried(app, chain, caller.address, intent.to)) await preparePaid(app, chain, caller.address, [intent])
  else await strategyFor(chain, intent.to).prepare({ app, chain, caller, intent })
}

async function call({ rpc }: Chain, from: Hex, intent: Intent): Promise<Hex> {
  try {
    return readBytes(await rpc.call('eth_call', [callOf(from, intent), 'latest']), 'result of a call')
  } catch (error) {
    throw revertOf(error, intent) ?? mapChainError(error)
  }
}

/** Returns the terms with the caller's gas limit instead of the estimate. Sponsors may pay for only a part of it. */
export const asBound = ({ gas }: Intent, terms: Terms): Terms => (gas === undefined ? terms : { ...terms, gas })

/** nonces that a write skips at most because the ledger has records for them that the database has lost */
const MAX_LOST_NONCES = 64

/**
 * Returns the nonce that the signer would accept, the rule that allows the write, and the rule that requires the user's
 * approval. The signer's other refusals are thrown as for a write.
 * @param own  the id that the write will be bound with, and its approval; absent: a dry run. A dry run is checked for
 *   the account's lowest unsigned nonce, which the signer signs next, because concurrent writes may wait for it.
 */
export async function checkWrite(
  app: App,
  chain: Chain,
  { address: from, token }: Caller,
  { intent, terms, own }: { intent: Intent; terms: Terms; own?: { id: string; approval: string | null } },
): Promise<{ nonce: number } & Pick<Checked, 'rule' | 'requires' | 'limits'>> {
  const next = await nextNonce(app, chain, from, own === undefined ? ['VACANT'] : ['VACANT', 'BOUND'])
  const { to, value, data } = intent
  const { id, approval } = own ?? { id: `dry-run-${randomUUID()}`, approval: null }
  const asked = { id, chainId: chain.chainId, from, to, value, data, ...terms }
  for (let nonce = next; nonce < next + MAX_LOST_NONCES; nonce++) {
    try {
      const { rule, requires, limits } = await gasStrategy(chain).check(app, { ...asked, nonce }, { token, approval })
      return { nonce, rule, requires, limits }
    } catch (error) {
      // Another nonce does not help an intent that was already signed: the caller finds its record.
      const isSigned = own !== undefined && error instanceof SignerRefused && error.code === 'intent_conflict'
      if (isSigned || !isTaken(error)) throw explainRefusal(error)
    }
  }
  throw new AppError(
    'database_unavailable',
    'The database is behind the signer’s ledger for this account. Nothing was sent. Retry.',
    {
      retryAfter: 30,
    },
  )
}

const explainRefusal = (error: unknown): unknown =>
  error instanceof SignerRefused && error.code === 'nonce_gap' ? notSigned(error) : error

/** Returns the lowest nonce in one of these states, or the next nonce, if no other write takes it. */
async function nextNonce({ db }: App, chain: Chain, from: Hex, states: ('VACANT' | 'BOUND')[]): Promise<number> {
  const mine = () =>
    db
      .selectFrom('transactions')
      .select('nonce')
      .where('chain_id', '=', chain.chainId)
      .where('sender', '=', fromHex(from))
      .limit(1)
  const unsigned = await mine().where('state', 'in', states).orderBy('nonce').executeTakeFirst()
  if (unsigned !== undefined) return unsigned.nonce
  const last = await mine().orderBy('nonce', 'desc').executeTakeFirst()
  if (last !== undefined) return last.nonce + 1
  try {
    return await countAt(chain, from, 'latest')
  } catch (error) {
    throw mapChainError(error)
  }
}
