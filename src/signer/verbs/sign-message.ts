import { toHex } from '../../hex.ts'
import { classify, type Classified } from '../../messages/classify.ts'
import { digestOf, messageText } from '../../messages/message.ts'
import { assertScope, authorise, authorities, WRITE_SCOPE } from '../rules/authority.ts'
import { settleApproval, type Approval } from '../rules/approval.ts'
import { askPolicyOfMessage, NO_POLICY } from '../rules/limits.ts'
import { assertListed, assertSignable, builtInRule } from '../rules/message-rules.ts'
import { messageBytes, type HeldMessage } from '../ledger/message-ledger.ts'
import type { TokenCaller } from '../tokens/caller.ts'
import type { Signature } from '../keys/curve.ts'
import { readMessageRequest, withRefusals, type MessageOrder } from './message-request.ts'
import {
  admit,
  draftNow,
  signInTurn,
  toChecked,
  type SigningJob,
  type SignatureDraft,
  type Inside,
} from './pipeline.ts'
import { Refusal } from '../refusal.ts'
import type { CheckedMessage, SignedMessage } from '../../signer-wire/wire.ts'

const MESSAGE_SCOPE = 'messages:sign'

/**
 * Handles the verb `signMessage`: checks freezes, token, ledger, class, built-in rules, policy and approval, in this order. Then it
 * computes the message's digest and signs it; requests contain no digest. An intent has one message forever. A repeat returns the
 * recorded signature. It is charged once, and needs no second approval.
 * Errors: bad_request, invalid_message, invalid_typed_data, account_frozen, application_suspended, unknown_account, invalid_token,
 * insufficient_scope, forbidden_user, revocations_stale, intent_conflict, policy_denied, approval_required, key_damaged.
 */
export async function signMessage(inside: Inside, request: unknown): Promise<SignedMessage> {
  return signInTurn(inside, await examine(inside, readMessageRequest(request)))
}

/**
 * Handles the verb `checkMessage`: makes the checks of `signMessage` in the same order. A missing approval is reported,
 * not refused. Nothing is signed, written or counted.
 * Errors: those of `signMessage`, except approval_required.
 */
export async function checkMessage(inside: Inside, request: unknown): Promise<CheckedMessage> {
  const job = await examine(inside, readMessageRequest(request))
  const draft = draftNow(inside, job, inside.now())
  return { ...toChecked(draft), hash: toHex(draft.digest), class: draft.class }
}

type MessageDraft = SignatureDraft<SignedMessage> & { digest: Buffer; class: Classified['class'] }

/** A message to sign, with its token and approval. */
type WantedMessage = {
  ask: MessageOrder
  digest: Buffer
  token: TokenCaller
  /** null if the request has no valid approval token */
  approval: Approval | null
}

/** Checks freezes and token, which do not depend on the ledger. */
async function examine(inside: Inside, ask: MessageOrder): Promise<SigningJob<MessageDraft>> {
  const { chainId, from } = ask
  const { account, authority } = await admit(inside, { chainId, from }, async (account) => {
    const token = await inside.tokens.check(ask.accessToken)
    authorise(token, { chainId, userId: account?.userId ?? null, scope: MESSAGE_SCOPE })
    return authorities.token(token)
  })
  const approval = await inside.approvals.read(ask.approval)
  const wanted = { ask, token: authority.token, approval, digest: digestOf(ask.message) }
  return { account, authority, chainId, order: 0, draft: (at) => draftMessage(inside, wanted, at) }
}

/**
 * Drafts a message: returns the recorded signature if there is one, otherwise checks class, rules, policy and approval.
 */
function draftMessage(inside: Inside, wanted: WantedMessage, at: number): MessageDraft {
  const { intentId, chainId, from } = wanted.ask
  const { message: held, isOther } = inside.ledger.messages.ofIntent(intentId)
  if (isOther) throw new Refusal('intent_conflict', 'This intent was not signed as a message.')
  if (held === null) return draftNew(inside, wanted, at)
  if (held.chainId !== chainId || !held.address.equals(from) || !held.digest.equals(wanted.digest))
    throw new Refusal('intent_conflict', 'This intent was signed as another message.')
  return storedDraft(held)
}

function draftNew(inside: Inside, { ask, digest, token, approval }: WantedMessage, at: number): MessageDraft {
  const { intentId, chainId, from, message, requestHash } = ask
  assertSignable(ask)
  const classified = withRefusals(() => classify(message, { address: from, chainId, at, domains: token.domains }))
  if (classified.moves) assertScope(token, WRITE_SCOPE)
  assertListed(classified, ask, inside.limits)
  const { isNamed, ...verdict } = askPolicyOfMessage(inside, classified, ask, token, at)
  const builtIn = builtInRule(classified, isNamed)
  const requires = verdict.requires ?? builtIn.requires
  const settled = settleApproval(requires, approval, {
    ...{ userId: token.userId, clientId: token.clientId, chainId, from, intentId, at },
    content: () => ({ message: toHex(digest) }),
  })
  const rule = verdict.rule ?? builtIn.rule
  const besides = { class: classified.class, domain: classified.domain, requires, ...settled.besides }
  return {
    ...verdict,
    rule,
    requires: settled.requires,
    besides,
    digest,
    class: classified.class,
    stored: false,
    unattendedWei: 0n,
    make(sign) {
      const signature = flat(sign(digest))
      const raw = messageBytes(messageText(message), signature)
      const signed = { chainId, nonce: null, intentId, effect: digest, hash: digest, gas: null, raw, requestHash }
      const answer = { signature: toHex(signature), hash: toHex(digest), class: classified.class, rule, stored: false }
      return { records: [{ kind: 'message', rule, signed }], answer }
    },
  }
}

const storedDraft = (held: HeldMessage): MessageDraft => ({
  ...NO_POLICY,
  rule: held.rule,
  digest: held.digest,
  class: held.class,
  stored: true,
  unattendedWei: 0n,
  make: () => ({
    records: [],
    answer: {
      signature: toHex(held.signature),
      hash: toHex(held.digest),
      class: held.class,
      rule: held.rule,
      stored: true,
    },
  }),
})

/** Concatenates r, s and v (27 or 28). */
const flat = ({ r, s, recovery }: Signature): Buffer => Buffer.concat([r, s, Buffer.of(27 + recovery)])
