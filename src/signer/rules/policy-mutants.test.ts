// tier: all, because each planted mistake runs a test file in a process of its own
import { mutantsOf, ONE_OF, type SourceMutant } from '../../../test/source-mutants.ts'

/** Changes of this code that would help an attacker: each in one place, with the test file that must fail. */
const MUTANTS: SourceMutant[] = [
  ['an allow outweighs a deny', 'policy/evaluate.ts', 'if (denied !== undefined) return', 'if (denied !== undefined && !applying.some(({ effect }) => effect === "allow")) return', 'policy/evaluate'], // prettier-ignore
  ['a limit lets one unit more pass', 'policy/evaluate.ts', 'used + charged > amount', 'used + charged > amount + 1n', 'policy/evaluate'], // prettier-ignore
  ['without an allow everything passes', 'policy/evaluate.ts', `return { allowed: false, rule: 'no-allow', reason: 'no rule allows it' }`, `return { allowed: true, rule: 'no-allow', ...limited }`, 'policy/evaluate'], // prettier-ignore
  ['unreadable calldata passes a limit of its token', 'policy/evaluate.ts', `? 'unreadable' : null`, '? null : null', 'policy/evaluate'], // prettier-ignore
  ['a function of a named token that nobody counts passes its limit', 'policy/evaluate.ts', `=== true ? null : 'unknown'`, `=== true ? null : null`, 'policy/evaluate'], // prettier-ignore
  ['a function that is listed at a token passes at every one', 'policy/evaluate.ts', `limit.functions?.has(selector) === true`, `limit.functions !== null`, 'policy/evaluate'], // prettier-ignore
  ['unreadable calldata is of no class', 'policy/evaluate.ts', 'isAll || effect.recipients !== null ? effect.classes : null', 'effect.classes', 'policy/evaluate'], // prettier-ignore
  ['unreadable calldata is of a class that is allowed', 'policy/evaluate.ts', 'isAll || effect.recipients !== null ? effect.classes : null', 'effect.recipients !== null ? effect.classes : isAll ? [] : null', 'policy/evaluate'], // prettier-ignore
  ['a missing argument escapes a restriction', 'policy/evaluate.ts', 'word === null || (word & spare) !== 0n ? !isAll', 'word === null ? false : (word & spare) !== 0n ? !isAll', 'policy/evaluate'], // prettier-ignore
  ['bits beyond its type take an argument out of a restriction', 'policy/evaluate.ts', ' || (word & spare) !== 0n ?', ' ?', 'policy/evaluate'], // prettier-ignore
  ['what has bits beyond its type is allowed', 'policy/evaluate.ts', '? !isAll : oneOf', '? true : oneOf', 'policy/evaluate'], // prettier-ignore
  ['what a contract cuts off is on the left of bytes too', 'policy/document.ts', '(UINT256 - 1n) >> BigInt(8 * Number(bytes))', 'UINT256 - (1n << BigInt(8 * Number(bytes)))', 'policy/evaluate'], // prettier-ignore
  ['what is allowed carries along what is not', 'policy/evaluate.ts', 'const isAll = rule.effect === \'allow\'', 'const isAll = false', 'policy/evaluate'], // prettier-ignore
  ['an unapproved small payment makes a recipient known', 'policy/evaluate.ts', "if (rule.effect !== 'require' || !isAbove(rule.above, question)) continue", "if (rule.effect !== 'require') continue", 'policy/evaluate'], // prettier-ignore
  ['a recipient of one user is known for all', 'policy/evaluate.ts', '`user ${userId}`, ', '', 'policy/evaluate'], // prettier-ignore
  ['a recipient on one network is known on all', 'policy/evaluate.ts', "`chain ${effect.chainId}`, recipient", 'recipient', 'policy/evaluate'], // prettier-ignore
  ['unreadable recipients are known', 'policy/evaluate.ts', ' && question.effect.recipients !== null) continue', ') continue', 'policy/evaluate'], // prettier-ignore
  ['what was allowed by a rule is known to all', 'policy/evaluate.ts', "JSON.stringify([name, 'recipient',", "JSON.stringify(['', 'recipient',", 'policy/evaluate'], // prettier-ignore
  ['sixty buckets are a whole period', 'policy/window.ts', 'each >= bucket - BUCKETS', 'each > bucket - BUCKETS', 'policy/window'], // prettier-ignore
  ['a clock that is set back frees', 'policy/window.ts', 'const bucket = Math.max(current, window.newest)', 'const bucket = current', 'policy/window'], // prettier-ignore
  ['missing words are zeros', 'policy/signature.ts', 'data.length < start + WORD ? null', 'data.length < start ? null', 'policy/calldata'], // prettier-ignore
  ['bits above an address are cut off', 'policy/signature.ts', `return word >> 160n === 0n`, `return word >= 0n`, 'policy/calldata'], // prettier-ignore
  ['an approval without end is an approval', '../messages/unlimited.ts', 'amount >= MIN_UNLIMITED || amount === UNLIMITED_96', 'amount > 2n ** 256n', 'policy/calldata'], // prettier-ignore
  ['an operator sends tokens of somebody else only', 'policy/calldata.ts', `digits(account) === from.toString('hex')`, 'false', 'policy/calldata'], // prettier-ignore
  ['a manager of all tokens revokes', 'policy/calldata.ts', 'isOn === 0n ? revoke(manager!) : approveAll(call, manager!)', 'revoke(manager!)', 'policy/calldata'], // prettier-ignore
  ['one key counts as often as it signed', 'policy/jws.ts', 'signers: [...signers]', 'signers: signatures.map(() => "")', 'policy/accept'], // prettier-ignore
  ['an older policy is taken', 'policy/accept.ts', 'if (version < now) throw', 'if (version < 0) throw', 'policy/accept'], // prettier-ignore
  ['one key lifts a freeze', 'policy/accept.ts', 'isWithin(a.users, b.users) &&', '', 'policy/accept'],
  ['the second of two names counts', '../unique-json.ts', 'if (known!.has(name)) return', 'if (known!.size < 0) return', 'policy/document'], // prettier-ignore
  [
    'a charge is forgotten',
    'verbs/pipeline.ts',
    'meters.charge(at, charges)',
    'void charges',
    'rules/limits',
    'of a hundred calls',
  ],
  [
    'a charge is not in the record',
    'verbs/pipeline.ts',
    'spent: spentToText(charges)',
    'spent: null',
    'rules/limits',
    'verify recounts',
  ],
  [
    'a policy is not kept',
    'rules/policy-in-force.ts',
    'put.run(offer.text)',
    '',
    'rules/limits',
    'the file is looked at',
  ],
  [
    'a top-up goes to anyone',
    'rules/top-up.ts',
    '!to.equals(address)',
    'to.length === 0',
    'rules/top-up',
    'nothing but funds',
  ],
  ['a top-up is a call', 'rules/top-up.ts', 'data.length > 0', 'data.length < 0', 'rules/top-up', 'nothing but funds'],
  ['a token raises and cancels what a sponsor sent', 'rules/top-up.ts', `kind === 'send' && isSponsor`, 'kind.length > 0 && isSponsor', 'rules/top-up', 'nothing but funds'], // prettier-ignore
  ['every account is a sponsor’s', 'tokens/sponsor.ts', '/^SPONSOR-[A-Z0-9_]{1,32}$/', '/./', 'rules/top-up', 'nothing but funds'], // prettier-ignore
  ['a sponsor has any name', 'tokens/sponsor.ts', '/^SPONSOR-[A-Z0-9_]{1,32}$/', '/^SPONSOR-/', 'rules/top-up', 'nothing but funds'], // prettier-ignore
  [
    'somebody signs in as a sponsor',
    'tokens/tokens.ts',
    '  assertPerson(sub)\n',
    '',
    'rules/top-up',
    'a token for a sponsor',
  ],
  [
    'a sponsor takes their key',
    'export/export-tokens.ts',
    '  assertPerson(sub)\n',
    '',
    'rules/top-up',
    'a token for a sponsor',
  ],
  ['a frozen person is topped up', 'verbs/pipeline.ts', 'freezes.assertMoves({ chainId, userId: token.userId })', '', 'rules/top-up', 'a frozen sponsor'], // prettier-ignore
  ['a suspended application tops up', 'verbs/pipeline.ts', 'assertNotSuspended(freezes, token.clientId)', 'if (token.userId === account.userId) assertNotSuspended(freezes, token.clientId)', 'rules/top-up', 'a frozen sponsor'], // prettier-ignore
  ['the address is what a row says', 'verbs/sign.ts', 'keys.use(account, () => account.address)', 'account.address', 'rules/top-up', 'written over it'], // prettier-ignore
  ['a policy is asked about top-ups', 'rules/authority.ts', 'askLimits: (inside, { ask: { tx }, account, at })', 'asksNobody: (inside, { ask: { tx }, account, at })', 'rules/top-up', 'has a sponsor send'], // prettier-ignore
  ['fees of a top-up do not count', 'rules/top-up.ts', 'tx.value + tx.gas * feePair(tx.fees).max', 'tx.value', 'rules/top-up', 'to the wei'], // prettier-ignore
  ['what a top-up sends does not count', 'rules/top-up.ts', 'tx.value + tx.gas * feePair(tx.fees).max', 'tx.gas * feePair(tx.fees).max', 'rules/top-up', 'to the wei'], // prettier-ignore
  ['a top-up is charged to nobody', 'rules/top-up.ts', 'meters.dated(held.map(({ charge }) => charge))', '[]', 'rules/top-up', 'to the wei'], // prettier-ignore
  ['people share what one may get', 'rules/top-up.ts', 'userId: person, chainId', 'userId: sponsor, chainId', 'rules/top-up', 'shared by all people'], // prettier-ignore
  ['each person has a limit of the sponsor’s', 'rules/top-up.ts', 'userId: sponsor, chainId', 'userId: person, chainId', 'rules/top-up', 'shared by all people'], // prettier-ignore
  ['networks share a limit of top-ups', 'rules/top-up.ts', '`chain ${chainId}`', '`chain`', 'rules/top-up', 'shared by all people'], // prettier-ignore
  ['what others were given is told', 'rules/top-up.ts', 'topUpPerSponsorWei,\n    false', 'topUpPerSponsorWei,\n    true', 'rules/top-up', 'shared by all people'], // prettier-ignore
  [
    'a day of top-ups is an hour',
    'rules/top-up.ts',
    'DAY_SECONDS = 86_400',
    'DAY_SECONDS = 3_600',
    'rules/top-up',
    'a day rolls',
  ],
  [
    'a day of top-ups is two',
    'rules/top-up.ts',
    'DAY_SECONDS = 86_400',
    'DAY_SECONDS = 172_800',
    'rules/top-up',
    'a day rolls',
  ],
  ['one limit of 0 is enough to be on', 'rules/top-up.ts', 'topUpPerUserWei === 0n || ', 'topUpPerUserWei === 0n && ', 'rules/top-up', 'limit at 0'], // prettier-ignore
  ['a restore that lost a sponsor’s nonces leaves people their room', 'rules/meters.ts', 'lose(ANY_SPONSOR, at)', 'void at', 'rules/top-up-starts', 'after a restore'], // prettier-ignore
  ['a restore is of one sponsor’s people only', 'rules/top-up.ts', 'meters.at(at, ANY_SPONSOR)', `meters.at(at, tx.from.toString('hex'))`, 'rules/top-up-starts', 'after a restore'], // prettier-ignore
  ['top-ups are on in production', 'settings.ts', 'TOPUP_PER_USER_WEI ?? (isDevelopment ? 10n ** 18n : 0n)', 'TOPUP_PER_USER_WEI ?? 10n ** 18n', 'rules/top-up-starts', 'in production'], // prettier-ignore
  ['sponsors give without end in production', 'settings.ts', 'TOPUP_PER_SPONSOR_WEI ?? (isDevelopment ? 10n ** 21n : 0n)', 'TOPUP_PER_SPONSOR_WEI ?? 10n ** 21n', 'rules/top-up-starts', 'in production'], // prettier-ignore
  ['a policy that is tried is asked about top-ups', 'programs/replay.ts', ' || isSponsor(row.user_id)', '', 'rules/top-up', 'a policy that is tried'], // prettier-ignore
]

mutantsOf('mutants of the policy and of top-ups', MUTANTS, 'signer', ONE_OF)
