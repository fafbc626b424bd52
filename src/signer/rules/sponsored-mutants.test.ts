// tier: all, because each planted mistake runs a test file in a process of its own
import { mutantsOf, ONE_OF, type SourceMutant } from '../../../test/source-mutants.ts'

/** Changes of this code that would help an attacker of users or sponsors. */
const MUTANTS: SourceMutant[] = [
  ['an operation is signed for another person’s token', 'verbs/sign-operation.ts', 'authorise(token, { chainId, userId: account?.userId ?? null })', 'authorise(token, { chainId, userId: null })', 'verbs/operations', 'own live token'], // prettier-ignore
  ['a token of another network is enough', 'verbs/sign-operation.ts', 'authorise(token, { chainId, userId', 'authorise(token, { chainId: token.chainId!, userId', 'verbs/operations', 'own live token'], // prettier-ignore
  ['calls after the first are not looked at by the built-in rules', 'verbs/sign-operation.ts', 'decide({ ...call, chainId, from', 'decide({ ...call, chainId: 1, from', 'verbs/operations', 'own live token'], // prettier-ignore
  ['there is a network of all', 'verbs/operation-request.ts', "chainId: readInteger('chainId', fields.chainId, 1),\n      account", "chainId: readInteger('chainId', fields.chainId, 0),\n      account", 'verbs/operations', 'not exactly one'], // prettier-ignore
  ['an intent has several operations', 'verbs/sign-operation.ts', 'held.chainId !== chainId || !held.digest.equals(digest)', 'held.chainId !== chainId', 'verbs/operations', 'an intent has one'], // prettier-ignore
  ['an intent of a transaction is an operation’s, too', 'verbs/sign-operation.ts', 'if (isOther) throw', 'if (isOther && at < 0) throw', 'verbs/operations', 'an intent has one'], // prettier-ignore
  ['an intent of an operation is a transaction’s, too', 'ledger/ledger.ts', 'chain_id = ? AND nonce IS ?)', 'chain_id = ? AND nonce = ?)', 'verbs/operations', 'an intent has one'], // prettier-ignore
  ['an id has several operations', 'verbs/sign-operation.ts', 'operations.ofId(ask.operation.chainId, idOf(ask)) !== null', 'ask.operation.gasLimit === 0', 'verbs/operations', 'an intent has one'], // prettier-ignore
  ['a deadline is as far away as one likes', 'verbs/sign-operation.ts', 'deadline > seconds + limits.maxDeadlineSeconds', 'deadline > seconds * 2', 'verbs/operations', 'a deadline lies'], // prettier-ignore
  ['a deadline that is over is none', 'verbs/sign-operation.ts', 'deadline <= seconds ||', 'deadline < 0 ||', 'verbs/operations', 'a deadline lies'], // prettier-ignore
  ['an authorization takes the nonce of a transaction', 'verbs/sign-operation.ts', 'if (facts.attempts.length > 0) throw', 'if (facts.attempts.length > 99) throw', 'verbs/operations', 'an authorization or a transaction'], // prettier-ignore
  ['a transaction takes the nonce of an authorization', 'rules/judge.ts', 'if (facts.isDelegation) throw', 'if (facts.isDelegation && attempts.length > 0) throw', 'verbs/operations', 'an authorization or a transaction'], // prettier-ignore
  ['an authorization is for any nonce', 'verbs/sign-operation.ts', '  assertReachable(nonce, facts)\n', '', 'verbs/operations', 'an authorization or a transaction'], // prettier-ignore
  ['code of another address is authorized', 'verbs/sign-operation.ts', 'const { delegate: address } = GAS_PAIRS[', 'const { dispatcher: address } = GAS_PAIRS[', 'verbs/operations', 'to the delegate alone'], // prettier-ignore
  ['an account calls itself', 'rules/policy.ts', 'to !== null && to.equals(from) && data.length > 0', 'to === null && data.length > 0', 'verbs/calibur', 'calls nothing in itself'], // prettier-ignore
  ['an address of zeros is the account for Calibur', 'verbs/sign-operation.ts', 'calls.some(({ to }) => to.equals(NOBODY))', 'calls.length === 0', 'verbs/calibur', 'calls nothing in itself'], // prettier-ignore
  ['Calibur is signed for though nobody said so', 'verbs/sign-operation.ts', "if (!signsCalibur) return { allowed: false, rule: 'delegate-not-listed' }", '', 'verbs/calibur', 'unless its operator said so'], // prettier-ignore
  ['an operation goes to any dispatcher', 'verbs/sign-outer.ts', '!held.dispatcher.equals(to) || ', '', 'verbs/calibur', 'to the dispatcher it was signed for'], // prettier-ignore
  ['a suspended application has operations signed', 'verbs/pipeline.ts', 'assertNotSuspended(freezes, token.clientId)', '', 'verbs/operations', 'who or what is frozen'], // prettier-ignore
  ['an operation is charged to nobody', 'verbs/pipeline.ts', 'meters.charge(at, charges)', 'void charges', 'rules/operation-policy', 'judged as a write of its own'], // prettier-ignore
  ['calls do not see what those before them use', 'policy/evaluate-calls.ts', 'found.used + (charge?.amount ?? 0n)', 'found.used', 'rules/operation-policy', 'judged as a write of its own'], // prettier-ignore
  ['only the last call is charged', 'policy/evaluate-calls.ts', 'amount: before + charge.amount', 'amount: charge.amount', 'rules/operation-policy', 'judged as a write of its own'], // prettier-ignore
  ['one call that is allowed carries the others', 'policy/evaluate-calls.ts', 'if (!answer.allowed) return answer', 'if (!answer.allowed) { if (rules.size === 0) return answer; continue }', 'rules/operation-policy', 'judged as a write of its own'], // prettier-ignore
  ['a policy that is tried overlooks operations', 'programs/replay.ts', "'cancel', 'operation', 'message') ORDER", "'cancel', 'message') ORDER", 'rules/operation-policy', 'a policy that is tried'], // prettier-ignore

  [
    'a foreign operation is packed',
    'verbs/sign-outer.ts',
    '|| !held.packed.equals(packed)',
    '',
    'verbs/outers',
    'byte for byte',
  ],
  ['an operation of another space is packed', 'verbs/sign-outer.ts', 'space.copy(id)', 'Buffer.alloc(20, 0x5b).copy(id)', 'verbs/outers', 'byte for byte'], // prettier-ignore
  ['an operation of another network is packed', 'ledger/operation-ledger.ts', 'WHERE chain_id = ? AND effect = ? AND kind', 'WHERE chain_id > ?1 - 2000000 AND effect = ?2 AND kind', 'verbs/outers', 'byte for byte'], // prettier-ignore
  ['a person’s account sends operations', 'verbs/sign-outer.ts', 'if (!isSponsor(account.userId)) throw', 'if (!isSponsor(account.userId) && chainId < 0) throw', 'verbs/outers', 'byte for byte'], // prettier-ignore
  ['calldata may have something behind it', '../gas/packed-operation.ts', 'data.length !== places', 'data.length < places', 'verbs/outers', 'byte for byte'], // prettier-ignore
  ['any function of the dispatcher is called', '../gas/packed-operation.ts', '|| !data.subarray(0, start).equals(DISPATCH)', '', 'verbs/outers', 'byte for byte'], // prettier-ignore
  ['an operation is packed twice', 'verbs/operation-request.ts', '.size < operations.length)', '.size < 1)', 'verbs/outers', 'byte for byte'], // prettier-ignore
  ['an authorization of anyone is carried', 'verbs/operation-request.ts', 'if (!accounts.delete(account.toString', 'if (accounts.size === 0 && !accounts.delete(account.toString', 'verbs/outers', 'byte for byte'], // prettier-ignore
  ['authorizations are no part of what a transaction does', 'transaction.ts', 'if (authorizations.length === 0) return call', 'if (authorizations.length >= 0) return call', 'verbs/outers', 'has one effect'], // prettier-ignore
  ['the other verb raises what carries operations', 'verbs/sign.ts', "if (kind === 'replace' && isOuter(attempts[0]!)) pass", "if (kind === 'cancel' && isOuter(attempts[0]!)) pass", 'verbs/outers', 'has one effect'], // prettier-ignore
  ['a raise counts as what was agreed to', 'ledger/record.ts', "(rule === OUTER && kind === 'send')", 'rule === OUTER', 'verbs/outers', 'a raise costs at most'], // prettier-ignore
  ['a raise costs what it likes', 'verbs/sign.ts', 'if (refused !== null) pass(refused)', '', 'verbs/outers', 'a raise costs at most'], // prettier-ignore
  ['raises of an hour have no end', 'verbs/sign.ts', 'if (!unattended.hasRoom(chainId, unattendedWei)) pass', 'if (unattendedWei < 0n) pass', 'verbs/outers', 'a raise costs at most'], // prettier-ignore
  ['a frozen person’s operation is packed', 'verbs/sign-outer.ts', 'freezes.assertMoves({ chainId, userId: held.userId })', '', 'verbs/outers', 'who is frozen now'], // prettier-ignore
  ['a suspended application’s operation is packed', 'verbs/sign-outer.ts', 'assertNotSuspended(freezes, held.clientId)', '', 'verbs/outers', 'who is frozen now'], // prettier-ignore
  [
    'no deadline check before a packing',
    'verbs/sign-outer.ts',
    '  assertInTime(order, at)\n',
    '',
    'verbs/outers',
    'who is frozen now',
  ],
  ['a person’s token uses up ids of others', 'verbs/cancel-outer.ts', 'held?.userId !== token!.userId', 'held === null', 'verbs/cancel-outers', 'nothing else is such a cancel'], // prettier-ignore
  ['ids are used up at no token', 'verbs/cancel-outer.ts', "attempts.some(({ kind }) => kind === 'cancel')", 'attempts.length > 0', 'verbs/cancel-outers', 'nothing else is such a cancel'], // prettier-ignore
  ['a frozen person’s token uses ids up', 'verbs/pipeline.ts', 'freezes.assertMoves({ chainId, userId: token.userId })', '', 'verbs/cancel-outers', 'while the cancel waits'], // prettier-ignore
  ['a person’s token agrees to what a sponsor pays', 'verbs/sign.ts', 'isAgreed: isOneAgreed }', 'isAgreed: isOneAgreed || authority.token !== null }', 'verbs/cancel-outers', 'who is frozen uses nothing up'], // prettier-ignore
  ['the fee of a cancel is agreed to for the next', 'verbs/pipeline.ts', 'authority.caller ?? {', 'authority.caller ?? authority.token ?? {', 'verbs/cancel-outers', 'who is frozen uses nothing up'], // prettier-ignore
  ['cancels of a sponsor’s nonces cost no hour anything', 'verbs/pipeline.ts', 'unattended.charge(chainId, unattendedWei)', 'void unattendedWei', 'verbs/cancel-outers', 'cost together'], // prettier-ignore
  ['a nonce has several cancels', 'rules/judge.ts', 'if (isCancel && cancel !== undefined && !cancel.effect', 'if (isCancel && cancel === null && !cancel!.effect', 'verbs/cancel-outers', 'a nonce has one cancel'], // prettier-ignore
  ['any transaction of nothing is a cancel', 'rules/judge.ts', "ask.kind === 'cancel' && ask.isOfOuter !== true &&", "ask.kind === 'cancel' && ask.isOfOuter === true &&", 'rules/judge', 'a cancel outbids'], // prettier-ignore
  ['an account that was frozen while its request waited signs', 'verbs/pipeline.ts', 'freezes.assertMoves({ chainId, userId: account.userId })\n  if (authority', 'if (authority', 'tokens/freezes', 'while a request waited'], // prettier-ignore
  ['nothing that needs no token waits for the first list', 'verbs/pipeline.ts', 'if (authority.waitsForList) assertUnattended()', '', 'rules/gas-limits', 'waits for the first list'], // prettier-ignore

  [
    'operations cost a sponsor nothing',
    'verbs/pipeline.ts',
    'meters.charge(at, charges)',
    'void charges',
    'rules/gas-limits',
    'to the wei',
  ],
  ['a raise is charged to nobody', 'rules/gas-limits.ts', 'wei: dearerBy(terms, attempts),', 'wei: attempts.length === 0 ? dearerBy(terms, attempts) : 0n,', 'rules/gas-limits', 'to the wei'], // prettier-ignore
  ['a raise is charged too much', 'rules/gas-limits.ts', 'terms.max > dearestPrice ? terms.max - dearestPrice : 0n', 'terms.max > dearestPrice ? terms.max - dearestPrice + 1n : 0n', 'rules/gas-limits', 'to the wei'], // prettier-ignore
  ['an operation is charged to its person once, however often it is packed', 'rules/gas-limits.ts', 'gas * price,', 'people.size === 1 ? 0n : gas * price,', 'rules/gas-limits', 'to the wei'], // prettier-ignore
  ['people share what one may have paid', 'rules/gas-limits.ts', '`user ${userId}`, `chain', '`user`, `chain', 'rules/gas-limits', 'to the wei'], // prettier-ignore
  ['a day of operations is an hour', 'rules/gas-limits.ts', 'DAY_SECONDS = 86_400', 'DAY_SECONDS = 3_600', 'rules/gas-limits', 'with room for three'], // prettier-ignore
  ['one limit of 0 is enough to be on', 'rules/gas-limits.ts', 'gasPerUserWei === 0n || ', 'gasPerUserWei === 0n && ', 'rules/gas-limits', 'in production'], // prettier-ignore
  ['sponsors pay in production before anybody said so', 'settings.ts', 'GAS_PER_USER_WEI ?? (isDevelopment ? 10n ** 18n : 0n)', 'GAS_PER_USER_WEI ?? 10n ** 18n', 'rules/gas-limits', 'in development'], // prettier-ignore
  ['a restore leaves people’s room for what operations spent', 'rules/meters.ts', 'later(lostAt.get(account), lostOfAll)', 'lostAt.get(account)', 'rules/gas-limits', 'after a restore'], // prettier-ignore
  ['after a restore lost ids are signed again', 'verbs/sign-operation.ts', 'ask.operation.sequence < operations.sequenceFloor', 'ask.operation.sequence < 0n', 'rules/gas-limits', 'restore'], // prettier-ignore
  ['after a restore nothing waits for what is under way', 'verbs/sign-operation.ts', 'if (at < pausedUntil)', 'if (at < 0)', 'rules/gas-limits', 'restore'], // prettier-ignore
  ['what waits after a restore waits half as long', 'ledger/operation-ledger.ts', 'at + MAX_DEADLINE_SECONDS * 1_000', 'at + MAX_DEADLINE_SECONDS * 500', 'rules/gas-limits', 'an hour after the last'], // prettier-ignore
  ['a loss in schedules is one transaction more', 'policy/evaluate.ts', 'used + charged > amount', 'used > amount', 'rules/sponsored-schedules'], // prettier-ignore
]

mutantsOf('mutants of sponsored operations', MUTANTS, 'signer', ONE_OF)
