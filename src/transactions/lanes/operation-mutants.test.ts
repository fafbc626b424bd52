// tier: all, because each planted mistake runs a test file in a process of its own
import { strict as assert } from 'node:assert'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { mutantsOf, type SourceMutant } from '../../../test/source-mutants.ts'

/** Changes of the code that would do a write twice, lose one, or spend more than allowed. */
const MUTANTS: SourceMutant[] = [
  ['the status of a transaction is believed in place of its events', 'settle/settle-operations.ts', 'state: stateOf(event),', "state: 'MINED' as const,", 'lanes/operations', 'stale authorization'], // prettier-ignore
  ['no deadline check before another packing', 'sponsors/pack.ts', 'operation.deadline >= soon', 'operation.deadline >= 0 * soon', 'sponsors/operation-packing', 'clock of this server'], // prettier-ignore
  ['another packing without asking whether the id is used', 'sponsors/tend-operations.ts', 'if (await isUsedAt(chain, operation, head)) return\n  const', 'const', 'sponsors/operation-packing', 'the dispatcher is asked'], // prettier-ignore
  ['whether an id is used is asked at no block', 'sponsors/tend-operations.ts', '[call, { blockHash: hash }]', "[call, hash === null ? hash : 'latest']", 'sponsors/operation-packing', 'the dispatcher is asked'], // prettier-ignore
  ['what was settled is submitted again by what is stored later', 'rows.ts', "link: { BOUND: 'SUBMITTED', SUBMITTED: 'SUBMITTED' }", "link: { BOUND: 'SUBMITTED', SUBMITTED: 'SUBMITTED', MINED: 'SUBMITTED', FINALIZED: 'SUBMITTED', REVERTED: 'SUBMITTED', CANCELLED: 'SUBMITTED', FAILED: 'SUBMITTED' }", 'sponsors/operation-packing', 'takes nothing back'], // prettier-ignore
  ['the values of a batch are no part of its request', '../contracts/write-batch.ts', "args ?? [], value ?? '0']", "args ?? [], value === undefined ? '0' : '0']", 'sponsors/operation-packing', 'a batch under a key'], // prettier-ignore
  ['a cancel takes the nonce of what carries other people’s operations', 'lanes/change.ts', 'if (others !== undefined || outer', 'if (outer', 'sponsors/operation-packing', 'leaves alone'], // prettier-ignore
  ['a budget is looked at once it is spent', 'sponsors/budget-counts.ts', 'if (exhausted !== null) return exhausted', 'if (exhausted !== null && charged < 0n) return exhausted', 'lanes/operations', 'budgets are reserved'], // prettier-ignore
  ['what an operation may cost is reserved for nobody', 'sponsors/gas-budget.ts', 'select client_id, whose, ${chainId}::int8, hour, sum(wei) from', 'select client_id, whose, ${chainId}::int8, hour, sum(0 * wei) from', 'lanes/operations', 'a person with 0 coins'], // prettier-ignore
  ['what those before it in a group reserve does not count', 'sponsors/budget-counts.ts', 'last.wei += wei', 'last.wei += 0n * wei', 'lanes/operation-group', 'refused for itself'], // prettier-ignore
  ['the budget of a network is not looked at', 'sponsors/budget-counts.ts', 'perNetwork === null ? null : exhaustedBy', 'perNetwork !== 0n ? null : exhaustedBy', 'lanes/operation-group', 'budget of a network'], // prettier-ignore
  ['what operations may cost is not counted on their network', 'sponsors/gas-budget.ts', 'select ${chainId}::int8, hour, sum(wei) from', 'select ${chainId}::int8, hour, sum(0 * wei) from', 'lanes/operation-group', 'as many statements'], // prettier-ignore
  ['who has no row is told that it was bound', 'lanes/bind-operation.ts', 'if (missing.length > 0 && members.length > 1) throw new NotAllWritten()', 'if (members.length > 1) return results', 'lanes/operation-group', 'a number that another has'], // prettier-ignore
  ['one of a group that dies keeps its row', 'lanes/bind-operation.ts', "await reach(app, 'in-bind-operation')", "await reach(app, 'in-bind-operation').catch(() => {})", 'lanes/operation-group', 'dies in its commit'], // prettier-ignore
  ['a network that takes more gas is not asked again', 'lanes/outer-gas.ts', 'belief.until = 0', 'belief.until = chain.clock.ticks() + BELIEVED_MS', 'lanes/outer-gas', 'takes more'], // prettier-ignore
  ['what failed in a transaction is not run before the next', 'lanes/outer-gas.ts', 'delegating.length === 0 && !isRepacked', 'delegating.length === 0 || !isRepacked', 'lanes/outer-gas', 'run with that gas'], // prettier-ignore
  ['a sponsor with code carries operations', 'sponsors/carriers.ts', 'return !hasCode && isAllowed', 'return isAllowed', 'lanes/operations', 'two sponsors carry|a sponsor that delegated'], // prettier-ignore
  ['an operation whose time is over has failed without a look at its id', 'sponsors/tend-operations.ts', 'if (await isUsedAt(chain, toOperation(row), head)) return', '', 'sponsors/operation-packing', 'past it it has failed'], // prettier-ignore
  ['an id under which something is signed is given back', 'sponsors/tend-operations.ts', 'row.outer_id === null && !isSigned', 'row.outer_id === null', 'lanes/signed-key', 'writes anew'], // prettier-ignore
  ['what was over is in the way of what was signed', 'recovery/reconcile-operation.ts', "eb('state', '=', 'FAILED')", "eb('state', '=', 'VACANT')", 'lanes/signed-key', 'nobody’s way'], // prettier-ignore
  ['the dispatcher is asked about a number that nothing has', 'sponsors/tend-operations.ts', 'if (sequence < 0) return false', '', 'lanes/signed-key', 'nobody takes up'], // prettier-ignore
  ['what the signer leaves out is a failure of ours', 'sponsors/pack.ts', 'error: explainLeftOut(refused, app.clock)', 'error: refused ?? explainLeftOut(refused, app.clock)', 'lanes/signer-limits', 'until when'], // prettier-ignore
  ['a cancel leaves the id to who sends it later', 'lanes/change.ts', '{ accessToken, usesUp: [row.sequence] }', '{}', 'lanes/operation-cancel', 'uses the id up'], // prettier-ignore
  ['a cancel takes delegations along', 'lanes/replace.ts', '(delegates ? [] : undefined)', 'undefined', 'lanes/operation-cancel', 'the signer raises no more'], // prettier-ignore
  ['a delegation of another sponsor is relied on before it is final', 'sponsors/pack.ts', 'if (accounts.length === 0) return []', 'if (accounts.length >= 0) return []', 'lanes/operation-reorg', 'of another sponsor'], // prettier-ignore
  ['blocks that are gone take nothing back', 'settle/states.ts', 'is_final in (false, true) and block_number >= ${fromNumber}::bigint`', 'is_final in (false, true) and block_number > ${fromNumber + 9}::bigint`', 'lanes/operation-reorg', 'a block that is gone'], // prettier-ignore
  ['what was done for another account counts as done', 'settle/settle-operations.ts', 'said.account <> operations.sender', 'said.account = \'\'::bytea', 'lanes/operation-faults', 'used up for another account'], // prettier-ignore
  ['a delegation is believed until a restart', 'settle/settle-operations.ts', "if (state === 'FAILED') forgetDelegated(app, chainId, toHex(sender))", '', 'lanes/operation-faults', 'not delegated any more'], // prettier-ignore
  ['a delegation in what was reverted is relied on', 'sponsors/pack.ts', ".where('t.state', '=', 'SUBMITTED')", '', 'lanes/operation-order', 'was reverted whole is not'], // prettier-ignore
  ['an operation has failed at a block that the follower has not', 'sponsors/tend-operations.ts', 'if ((await storedBlockHash(db, chainId, head.number)) !== head.hash) return', '', 'sponsors/operation-packing', 'past it it has failed'], // prettier-ignore
  ['what waits behind a stuck nonce is left there', 'sponsors/tend-operations.ts', 'w.nonce <= t.nonce', 'w.nonce = t.nonce', 'lanes/operation-faults', 'behind a nonce'], // prettier-ignore
  ['a cancel that comes too late is one', 'lanes/change.ts', "usesUp: [row.sequence] }))\n  if (sent === 'nonce_too_low') throw", "usesUp: [row.sequence] }))\n  if (sent === 'nonce_too_low' && outer.is_final) throw", 'lanes/operation-cancel', 'not seen yet'], // prettier-ignore
  ['what another request took up is unbound', 'lanes/bind-operation.ts', ".where('claims', '=', 1)", '', 'lanes/operation-group', 'took up'], // prettier-ignore
  ['what is restored keeps the space that it was bound for', 'recovery/reconcile-operation.ts', 'signed = { delegate: code, space: of, sequence', 'signed = { delegate: code, sequence', 'recovery/reconcile-operation', 'another space'], // prettier-ignore
  ['who owes a delegation pays, and waits for good', 'lanes/own-nonces.ts', 'if (next === null || !signed.some(({ nonce }) => nonce! >= next)) return false', 'if (next === null || !signed.some(({ nonce }) => nonce! >= next && nonce! < 0)) return false', 'lanes/gas-switch', 'nothing carried'], // prettier-ignore
  ['a named contract is carried all the same', 'lanes/own-nonces.ts', "if (chain.gas === 'sponsor') return gasChoiceOf(chain, to) === 'sponsor'", "if (chain.gas === 'sponsor') return to !== '0x'", 'sponsors/top-up-contracts', 'a person with nothing'], // prettier-ignore
  ['an account pays before it has delegated', 'sponsors/bring-delegation.ts', "if (chain.gas !== 'sponsor') return", "if (chain.gas !== 'self') return", 'sponsors/top-up-contracts', 'behind a first write'], // prettier-ignore
  ['what nothing carries is waited for', 'sponsors/bring-delegation.ts', 'return row !== undefined', 'return row === undefined || row !== undefined', 'sponsors/top-up-contracts', 'that nothing carries'], // prettier-ignore
  ['a batch with a named contract is carried', 'lanes/send-operation.ts', 'if (index < 0) return', 'if (index < 9) return', 'sponsors/top-up-contracts', 'several calls'], // prettier-ignore
  ['what a sponsor sent and the database lost is paid by its person again', 'recovery/reconcile-operation.ts', "  return 'operation'\n", '  return null\n', 'sponsors/top-up-contracts', 'database has lost'], // prettier-ignore
  ['what an account sent and the database lost is a sponsor’s to send', 'lanes/send-operation.ts', "if (signed === 'transaction') return LOST", '', 'sponsors/top-up-contracts', 'database has lost'], // prettier-ignore
  ['the nonce of an authorization is someone else’s', 'lanes/own-nonces.ts', 'if (authorization === undefined) return false', 'if (authorization === undefined || nonce >= 0) return false', 'lanes/gas-switch', 'pays again'], // prettier-ignore
  ['a first operation does not look at own writes', 'lanes/own-nonces.ts', 'if (own === undefined) return', 'if (own?.state !== null) return', 'lanes/gas-switch', 'not mined yet'], // prettier-ignore
  ['what is above an authorization is in its way', 'lanes/own-nonces.ts', 'if (authorization === undefined)\n', 'if (authorization === undefined || next > 0)\n', 'sponsors/top-up-contracts', 'reorganisation undid'], // prettier-ignore
  ['an authorization above the next nonce is nobody’s', 'lanes/own-nonces.ts', 'nonce! >= next', 'nonce! === next', 'sponsors/top-up-contracts', 'before its earlier write'], // prettier-ignore
  ['a write is bound before its user has approved it', 'lanes/approve.ts', 'if (requires !== null) throw await unapproved(app, write, requires)', '', 'lanes/approvals', 'nothing bound or signed'], // prettier-ignore
  ['a top-up is paid before its write is approved', 'lanes/send.ts', 'return checkApproval(app, toApprove(id, terms))', 'return checkWrite(app, chain, caller, { intent, terms: asBound(intent, terms) })', 'lanes/approvals', 'nothing bound or signed'], // prettier-ignore
  ['what was asked about for approval is another write', 'lanes/approve.ts', 'if (!isSame) throw keyReused()', '', 'lanes/approvals', 'nothing bound or signed'], // prettier-ignore
  ['the terms of what was asked about are others', 'lanes/approve.ts', 'asked.requestHash?.equals(key!.requestHash) === true && ', '', 'lanes/approvals', 'nothing bound or signed'], // prettier-ignore
  ['what was not approved is sent once no rule asks', 'lanes/approve.ts', ': shownFor(app, write)', ': null', 'lanes/approvals', 'a denial is final'], // prettier-ignore
  ['what has lost its approval is bound for good', 'lanes/send.ts', 'if (!mayVacate) throw inFlight()\n    return LOST', 'throw error', 'lanes/approvals', 'a moment ago|asked again'], // prettier-ignore
]

/**
 * Each mutant takes about 10 s, so the suite tries three. OPERATION_MUTANTS=all tries every one; any other value
 * selects by name.
 */
const IN_THE_SUITE = ['no deadline check', 'the status of a transaction', 'submitted again']
const { OPERATION_MUTANTS: wanted } = process.env
const isTried = (what: string): boolean =>
  wanted === 'all' || (wanted === undefined ? IN_THE_SUITE : [wanted]).some((part) => what.includes(part))

test('each mistake fits the sources as they are', () => {
  for (const [what, file, from] of MUTANTS)
    assert.equal(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8').split(from).length, 2, what)
})

mutantsOf(
  'mutants of operations',
  MUTANTS.filter(([what]) => isTried(what)),
  'transactions',
)
