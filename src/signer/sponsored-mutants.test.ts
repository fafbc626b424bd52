// tier: all, because each planted mistake runs a test file in a process of its own
import { mutantsOf, type SourceMutant } from '../../test/source-mutants.ts'

/** What an attacker of people or of sponsors would like this code to be. */
const MUTANTS: SourceMutant[] = [
  ['an operation is signed for another person’s token', 'sign-operation.ts', 'authorise(token, { chainId, userId: account?.userId ?? null })', 'authorise(token, { chainId, userId: null })', 'operations', 'own live token'], // prettier-ignore
  ['a token of another network is enough', 'sign-operation.ts', 'authorise(token, { chainId, userId', 'authorise(token, { chainId: token.chainId!, userId', 'operations', 'own live token'], // prettier-ignore
  ['calls after the first are not looked at by the built-in rules', 'sign-operation.ts', 'decide({ ...call, chainId, from', 'decide({ ...call, chainId: 1, from', 'operations', 'own live token'], // prettier-ignore
  ['there is a network of all', 'operation-request.ts', "chainId: readInteger('chainId', fields.chainId, 1),\n      account", "chainId: readInteger('chainId', fields.chainId, 0),\n      account", 'operations', 'not exactly one'], // prettier-ignore
  ['an intent has several operations', 'sign-operation.ts', 'held.chainId !== chainId || !held.digest.equals(digest)', 'held.chainId !== chainId', 'operations', 'an intent has one'], // prettier-ignore
  ['an intent of a transaction is an operation’s, too', 'sign-operation.ts', 'if (isTransaction) throw', 'if (isTransaction && at < 0) throw', 'operations', 'an intent has one'], // prettier-ignore
  ['an intent of an operation is a transaction’s, too', 'ledger.ts', 'chain_id = ? AND nonce IS ?)', 'chain_id = ? AND nonce = ?)', 'operations', 'an intent has one'], // prettier-ignore
  ['an id has several operations', 'sign-operation.ts', 'operations.ofId(ask.operation.chainId, idOf(ask)) !== null', 'ask.operation.gasLimit === 0', 'operations', 'an intent has one'], // prettier-ignore
  ['a deadline is as far away as one likes', 'sign-operation.ts', 'deadline > seconds + limits.maxDeadlineSeconds', 'deadline > seconds * 2', 'operations', 'a deadline lies'], // prettier-ignore
  ['a deadline that is over is none', 'sign-operation.ts', 'deadline <= seconds ||', 'deadline < 0 ||', 'operations', 'a deadline lies'], // prettier-ignore
  ['an authorization takes the nonce of a transaction', 'sign-operation.ts', 'if (facts.attempts.length > 0) throw', 'if (facts.attempts.length > 99) throw', 'operations', 'an authorization or a transaction'], // prettier-ignore
  ['a transaction takes the nonce of an authorization', 'judge.ts', 'if (facts.isDelegation) throw', 'if (facts.isDelegation && attempts.length > 0) throw', 'operations', 'an authorization or a transaction'], // prettier-ignore
  ['an authorization is for any nonce', 'sign-operation.ts', '  assertReachable(nonce, facts)\n', '', 'operations', 'an authorization or a transaction'], // prettier-ignore
  ['code of another address is authorized', 'sign-operation.ts', 'const { delegate: address } = GAS_PAIRS[', 'const { dispatcher: address } = GAS_PAIRS[', 'operations', 'to the delegate alone'], // prettier-ignore
  ['an account calls itself', 'policy.ts', 'to !== null && to.equals(from) && data.length > 0', 'to === null && data.length > 0', 'calibur', 'calls nothing in itself'], // prettier-ignore
  ['an address of zeros is the account for Calibur', 'sign-operation.ts', 'calls.some(({ to }) => to.equals(NOBODY))', 'calls.length === 0', 'calibur', 'calls nothing in itself'], // prettier-ignore
  ['Calibur is signed for though nobody said so', 'sign-operation.ts', "if (!signsCalibur) return { allowed: false, rule: 'delegate-not-listed' }", '', 'calibur', 'unless its operator said so'], // prettier-ignore
  ['an operation goes to any dispatcher', 'sign-outer.ts', '!held.dispatcher.equals(to) || ', '', 'calibur', 'to the dispatcher it was signed for'], // prettier-ignore
  ['a suspended application has operations signed', 'pipeline.ts', 'assertNotSuspended(freezes, token.clientId)', '', 'operations', 'who or what is frozen'], // prettier-ignore
  ['an operation is charged to nobody', 'pipeline.ts', 'meters.charge(at, charges)', 'void charges', 'operation-policy', 'judged as a write of its own'], // prettier-ignore
  ['calls do not see what those before them use', 'policy/evaluate-calls.ts', 'found.used + (charges.get(meter)?.amount ?? 0n)', 'found.used', 'operation-policy', 'judged as a write of its own'], // prettier-ignore
  ['only the last call is charged', 'policy/evaluate-calls.ts', 'amount: before + charge.amount', 'amount: charge.amount', 'operation-policy', 'judged as a write of its own'], // prettier-ignore
  ['one call that is allowed carries the others', 'policy/evaluate-calls.ts', 'if (!answer.allowed) return answer', 'if (!answer.allowed) { if (rules.size === 0) return answer; continue }', 'operation-policy', 'judged as a write of its own'], // prettier-ignore
  ['a policy that is tried overlooks operations', 'replay.ts', "'cancel', 'operation') ORDER", "'cancel') ORDER", 'operation-policy', 'a policy that is tried'], // prettier-ignore

  ['a foreign operation is packed', 'sign-outer.ts', '|| !held.packed.equals(packed)', '', 'outers', 'byte for byte'],
  ['an operation of another space is packed', 'sign-outer.ts', 'space.copy(id)', 'Buffer.alloc(20, 0x5b).copy(id)', 'outers', 'byte for byte'], // prettier-ignore
  ['an operation of another network is packed', 'operation-ledger.ts', 'WHERE chain_id = ? AND effect = ? AND kind', 'WHERE chain_id > ?1 - 2000000 AND effect = ?2 AND kind', 'outers', 'byte for byte'], // prettier-ignore
  ['a person’s account sends operations', 'sign-outer.ts', 'if (!isSponsor(account.userId)) throw', 'if (!isSponsor(account.userId) && chainId < 0) throw', 'outers', 'byte for byte'], // prettier-ignore
  ['calldata may have something behind it', '../gas/packed-operation.ts', 'data.length !== places', 'data.length < places', 'outers', 'byte for byte'], // prettier-ignore
  ['any function of the dispatcher is called', '../gas/packed-operation.ts', '|| !data.subarray(0, start).equals(DISPATCH)', '', 'outers', 'byte for byte'], // prettier-ignore
  ['an operation is packed twice', 'operation-request.ts', '.size < operations.length)', '.size < 1)', 'outers', 'byte for byte'], // prettier-ignore
  ['an authorization of anyone is carried', 'operation-request.ts', 'if (!accounts.delete(account.toString', 'if (accounts.size === 0 && !accounts.delete(account.toString', 'outers', 'byte for byte'], // prettier-ignore
  ['authorizations are no part of what a transaction does', 'transaction.ts', 'if (authorizations.length === 0) return call', 'if (authorizations.length >= 0) return call', 'outers', 'has one effect'], // prettier-ignore
  ['the other verb raises what carries operations', 'sign.ts', "if (kind === 'replace' && isOuter(attempts[0]!)) pass", "if (kind === 'cancel' && isOuter(attempts[0]!)) pass", 'outers', 'has one effect'], // prettier-ignore
  ['a raise counts as what was agreed to', 'record.ts', "(rule === OUTER && kind === 'send')", 'rule === OUTER', 'outers', 'a raise costs at most'], // prettier-ignore
  ['a raise costs what it likes', 'sign.ts', 'if (refused !== null) pass(refused)', '', 'outers', 'a raise costs at most'], // prettier-ignore
  ['raises of an hour have no end', 'sign.ts', 'if (!unattended.hasRoom(chainId, unattendedWei)) pass', 'if (unattendedWei < 0n) pass', 'outers', 'a raise costs at most'], // prettier-ignore
  ['a frozen person’s operation is packed', 'sign-outer.ts', 'freezes.assertMoves({ chainId, userId: held.userId })', '', 'outers', 'who is frozen now'], // prettier-ignore
  ['a suspended application’s operation is packed', 'sign-outer.ts', 'assertNotSuspended(freezes, held.clientId)', '', 'outers', 'who is frozen now'], // prettier-ignore
  [
    'no deadline check before a packing',
    'sign-outer.ts',
    '  assertInTime(order, at)\n',
    '',
    'outers',
    'who is frozen now',
  ],
  ['a person’s token uses up ids of others', 'cancel-outer.ts', 'held?.userId !== token!.userId', 'held === null', 'cancel-outers', 'nothing else is such a cancel'], // prettier-ignore
  ['ids are used up at no token', 'cancel-outer.ts', "attempts.some(({ kind }) => kind === 'cancel')", 'attempts.length > 0', 'cancel-outers', 'nothing else is such a cancel'], // prettier-ignore
  ['a frozen person’s token uses ids up', 'pipeline.ts', 'freezes.assertMoves({ chainId, userId: token.userId })', '', 'cancel-outers', 'while the cancel waits'], // prettier-ignore
  ['a person’s token agrees to what a sponsor pays', 'sign.ts', 'isAgreed: isOneAgreed }', 'isAgreed: isOneAgreed || authority.token !== null }', 'cancel-outers', 'who is frozen uses nothing up'], // prettier-ignore
  ['the fee of a cancel is agreed to for the next', 'pipeline.ts', 'authority.caller ?? {', 'authority.caller ?? authority.token ?? {', 'cancel-outers', 'who is frozen uses nothing up'], // prettier-ignore
  ['cancels of a sponsor’s nonces cost no hour anything', 'pipeline.ts', 'unattended.charge(chainId, unattendedWei)', 'void unattendedWei', 'cancel-outers', 'cost together'], // prettier-ignore
  ['a nonce has several cancels', 'judge.ts', 'if (isCancel && cancel !== undefined && !cancel.effect', 'if (isCancel && cancel === null && !cancel!.effect', 'cancel-outers', 'a nonce has one cancel'], // prettier-ignore
  ['any transaction of nothing is a cancel', 'judge.ts', "ask.kind === 'cancel' && ask.isOfOuter !== true &&", "ask.kind === 'cancel' && ask.isOfOuter === true &&", 'judge', 'a cancel outbids'], // prettier-ignore
  ['an account that was frozen while its request waited signs', 'pipeline.ts', 'freezes.assertMoves({ chainId, userId: account.userId })\n  if (authority', 'if (authority', 'freezes', 'while a request waited'], // prettier-ignore
  ['nothing that needs no token waits for the first list', 'pipeline.ts', 'if (authority.waitsForList) assertUnattended()', '', 'gas-limits', 'waits for the first list'], // prettier-ignore

  [
    'operations cost a sponsor nothing',
    'pipeline.ts',
    'meters.charge(at, charges)',
    'void charges',
    'gas-limits',
    'to the wei',
  ],
  ['a raise is charged to nobody', 'gas-limits.ts', 'wei: dearerBy(terms, attempts),', 'wei: attempts.length === 0 ? dearerBy(terms, attempts) : 0n,', 'gas-limits', 'to the wei'], // prettier-ignore
  ['a raise is charged too much', 'gas-limits.ts', 'terms.max > dearestPrice ? terms.max - dearestPrice : 0n', 'terms.max > dearestPrice ? terms.max - dearestPrice + 1n : 0n', 'gas-limits', 'to the wei'], // prettier-ignore
  ['an operation is charged to its person once, however often it is packed', 'gas-limits.ts', 'gas * price,', 'people.size === 1 ? 0n : gas * price,', 'gas-limits', 'to the wei'], // prettier-ignore
  ['people share what one may have paid', 'gas-limits.ts', '`user ${userId}`, `chain', '`user`, `chain', 'gas-limits', 'to the wei'], // prettier-ignore
  ['a day of operations is an hour', 'gas-limits.ts', 'DAY_SECONDS = 86_400', 'DAY_SECONDS = 3_600', 'gas-limits', 'with room for three'], // prettier-ignore
  ['one limit of 0 is enough to be on', 'gas-limits.ts', 'gasPerUserWei === 0n || ', 'gasPerUserWei === 0n && ', 'gas-limits', 'in production'], // prettier-ignore
  ['sponsors pay in production before anybody said so', 'settings.ts', 'GAS_PER_USER_WEI ?? (isDevelopment ? 10n ** 18n : 0n)', 'GAS_PER_USER_WEI ?? 10n ** 18n', 'gas-limits', 'in development'], // prettier-ignore
  ['a restore leaves people’s room for what operations spent', 'meters.ts', 'later(lostAt.get(account), lostOfAll)', 'lostAt.get(account)', 'gas-limits', 'after a restore'], // prettier-ignore
  ['after a restore lost ids are signed again', 'sign-operation.ts', 'ask.operation.sequence < operations.sequenceFloor', 'ask.operation.sequence < 0n', 'gas-limits', 'restore'], // prettier-ignore
  ['after a restore nothing waits for what is under way', 'sign-operation.ts', 'if (at < pausedUntil)', 'if (at < 0)', 'gas-limits', 'restore'], // prettier-ignore
  ['what waits after a restore waits half as long', 'operation-ledger.ts', 'at + MAX_DEADLINE_SECONDS * 1_000', 'at + MAX_DEADLINE_SECONDS * 500', 'gas-limits', 'an hour after the last'], // prettier-ignore
  ['a loss in schedules is one transaction more', 'policy/evaluate.ts', 'used + charged > amount', 'used > amount', 'sponsored-schedules'], // prettier-ignore
]

mutantsOf('mutants of sponsored operations', MUTANTS)
