// tier: all, because each planted mistake runs a test file in a process of its own
import { mutantsOf, ONE_OF, type SourceMutant } from '../../../test/source-mutants.ts'

/** Changes of this code that would help an attacker to get a message signed. */
const MUTANTS: SourceMutant[] = [
  ['a message needs no permission of its own', 'verbs/sign-message.ts', 'scope: MESSAGE_SCOPE', "scope: 'contracts:write'", 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['what moves tokens needs no permission to write', 'verbs/sign-message.ts', '  if (classified.moves) assertScope(token, WRITE_SCOPE)\n', '', 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['a message is signed for another user’s token', 'verbs/sign-message.ts', 'userId: account?.userId ?? null, scope', 'userId: null, scope', 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['a network that is not listed has messages', 'rules/message-rules.ts', 'chains?.has(chainId) === false', 'chains?.has(chainId) === null', 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['what nothing allows is allowed', 'rules/message-rules.ts', "needs !== 'never'", "needs !== 'token'", 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['an operation of another account is a message', 'rules/message-rules.ts', 'own.equals(separator)', 'own.equals(from)', 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['a dispatcher is a contract like any', 'rules/message-rules.ts', ' || OWN_CODE.some((code) => code.equals(verifyingContract))', '', 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['a request names a digest', 'verbs/message-request.ts', "'requestHash', ...CONTENTS", "'requestHash', 'hash', ...CONTENTS", 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['of two contents one is signed', 'verbs/message-request.ts', ' || others.length > 0', '', 'rules/approval', 'nothing but a message'], // prettier-ignore
  ['hosts of any form are hosts', 'tokens/tokens.ts', 'Array.isArray(domains) && ', '', 'rules/approval', 'nothing but a message'], // prettier-ignore

  ['an approval is of any user', 'rules/approval.ts', 'approval.userId === userId &&', '', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['an approval is for any application', 'rules/approval.ts', 'claims.client_id === clientId &&', '', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['an approval is for any network', 'rules/approval.ts', 'claims.chain_id === chainId &&', '', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['an approval is for any intent', 'rules/approval.ts', 'claims.intent === intentId &&', '', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['an approval is of any content', 'rules/approval.ts', 'claims.digest === approvalDigest({ chainId, from: toHex(from), content: content() }) &&', '', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['an approval is valid for an hour', 'rules/approval.ts', 'MAX_LIFE_SECONDS = 60', 'MAX_LIFE_SECONDS = 3_600', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['an approval of next year', 'rules/approval.ts', ' || exp - at / 1_000 > MAX_LIFE_SECONDS + CLOCK_TOLERANCE_SECONDS', '', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['any token of the authorization server is an approval', 'rules/approval.ts', 'typ: APPROVAL_TOKEN_TYPE,', "typ: 'at+jwt',", 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['an approval is for any audience', 'rules/approval.ts', ', audience: EXPORT_AUDIENCE', '', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['a demand that is not met is forgotten', 'rules/approval.ts', 'return { requires, besides: { requires } }', 'return { requires: null, besides: { requires } }', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['a signature needs no approval that is demanded', 'verbs/pipeline.ts', 'if (draft.requires !== null) throw', "if (draft.requires === '') throw", 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['the record names no approval', 'verbs/pipeline.ts', 'authority.evidence(record.rule, besides)', 'authority.evidence(record.rule, { class: besides?.class, domain: besides?.domain })', 'rules/approval', 'an approval is of one'], // prettier-ignore
  ['an operation needs no approval', 'verbs/sign-operation.ts', 'settleApproval(verdict.requires, wanted', 'settleApproval(null, wanted', 'rules/approval', 'the same calls need'], // prettier-ignore
  ['a transaction needs no approval', 'verbs/sign.ts', 'settleApproval(limited.requires, wanted', 'settleApproval(null, wanted', 'rules/approval', 'the same calls need'], // prettier-ignore

  ['an intent has several messages', 'verbs/sign-message.ts', ' || !held.digest.equals(wanted.digest)', '', 'verbs/messages', 'one message forever'], // prettier-ignore
  ['an intent of a transaction is a message’s, too', 'verbs/sign-message.ts', 'if (isOther) throw', 'if (isOther && at < 0) throw', 'verbs/messages', 'one message forever'], // prettier-ignore
  ['a rule that allows everything lifts every need', 'policy/evaluate.ts', 'match.class !== null || match.types !== null', 'true', 'verbs/messages', 'names nothing'], // prettier-ignore
  ['one call that is named names the others', 'policy/evaluate-calls.ts', 'isNamed &&= answer.isNamed', 'isNamed ||= answer.isNamed', 'policy/effect'], // prettier-ignore
  ['a message is no MESSAGE', 'policy/effect.ts', "classes: [...effect.classes, ...classes]", 'classes: effect.classes', 'verbs/messages', 'a deny is never lifted'], // prettier-ignore
  ['what a sign-in grants is not named', 'policy/effect.ts', '[own, extra, ', '[own, ', 'verbs/messages', 'lists the classes'], // prettier-ignore
  ['an order is not named', 'policy/effect.ts', "order: 'ORDER'", 'order: null', 'verbs/messages', 'lists the classes'], // prettier-ignore
  ['the verifying contract is not looked at', 'policy/effect.ts', '...effect.to, ...verifier', '...effect.to', 'policy/effect'], // prettier-ignore
  ['what is unknown at a token moves nothing', 'policy/effect.ts', '(verifier[0] ?? null)', 'null', 'verbs/messages', 'one meter'], // prettier-ignore
  ['a rule about hosts matches everything', 'policy/evaluate.ts', '    fits(match.domains, effect.domains) &&\n', '', 'verbs/messages', 'a type or a host'], // prettier-ignore
  ['a rule about types matches everything', 'policy/evaluate.ts', '    fits(match.types, effect.types) &&\n', '', 'verbs/messages', 'a type or a host'], // prettier-ignore
  ['an allow matches what has nothing to match', 'policy/evaluate.ts', 'found.length > 0 && found.every', 'found.every', 'verbs/messages', 'a type or a host'], // prettier-ignore
  ['a restore leaves the room that lost messages used', 'rules/meters.ts', 'signsOperations ? lostAt.get(ANY_SPONSOR) : undefined, readLostMessages(db)', 'signsOperations ? lostAt.get(ANY_SPONSOR) : undefined, undefined', 'verbs/messages', 'one meter'], // prettier-ignore
  ['a policy that is tried overlooks messages', 'programs/replay.ts', "'operation', 'message') ORDER", "'operation') ORDER", 'verbs/messages', 'one meter'], // prettier-ignore
]

mutantsOf('mutants of messages and approvals', MUTANTS, 'signer', ONE_OF)
