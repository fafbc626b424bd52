import { createHash } from 'node:crypto'
import { askApproval, shownApproval } from '../approvals/ask.ts'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { fromHex, toHex } from '../hex.ts'
import { holds, type Caller } from '../http/bearer.ts'
import { keyReused } from '../http/idempotency-key.ts'
import { newSignatureId, signatureIdOf, type Hex, type KeyScope } from '../ids.ts'
import { classify, type Classified } from '../messages/classify.ts'
import { digestOf, messageText } from '../messages/message.ts'
import { factsOf, SignerRefused } from '../signer-wire/client.ts'
import type { MessageContent, SignMessageRequest } from '../signer-wire/wire.ts'
import type { Db } from '../store/db.ts'
import { orRefuse, refusal, withPointer, type Content } from './content.ts'
import type { SignAnswer, SignDryRunAnswer } from './wire.ts'

/** A message to sign for a caller. `askedFrom`: IP address of the request. */
export type SigningOrder = Content & { idempotency: { route: string; key: string } | null; askedFrom: string | null }

/**
 * Signs a message with the caller's account. Its row is stored before the signer is asked, and a key stands for one
 * signature forever: a repeat gets the same bytes, also from the signer's ledger if this process died in between.
 * @throws invalid_message, invalid_typed_data, insufficient_scope, idempotency_key_reused, approval_required,
 *     approval_denied, policy_denied and the signer's other refusals
 */
export async function signMessage(
  app: App,
  caller: Caller,
  asked: SigningOrder,
): Promise<{ answer: SignAnswer; isReplay: boolean }> {
  const id = idOf(caller, asked)
  const row = await findOrStore(app, caller, { ...asked, id })
  if (row.signature !== null) return { answer: toAnswer({ ...row, ...row.signature }), isReplay: true }
  try {
    const approval =
      asked.idempotency === null ? null : await shownApproval(app, id, { message: messageText(asked.message) })
    const request = { ...requestOf(caller, asked, id), ...(approval === null ? {} : { approval }) }
    const { signature, class: name, rule, hash } = await app.signer.signMessage(request)
    await app.db
      .updateTable('signatures')
      .set({
        signature: fromHex(signature),
        hash: fromHex(hash),
        class: name,
        rule,
        signed_at: new Date(app.clock.wall()),
      }) // prettier-ignore
      .where('id', '=', id)
      .where('signature', 'is', null)
      .execute()
    messageSigned(app, { id, class: name })
    return { answer: { id, signature, hash, class: name, rule, createdAt: row.createdAt }, isReplay: false }
  } catch (error) {
    throw await explain(app, caller, { ...asked, id }, error)
  }
}

/**
 * Returns what `signMessage` would do. Stores, counts and signs nothing.
 * @throws as `signMessage`, but not approval_required
 */
export async function rehearseSignature(app: App, caller: Caller, content: Content): Promise<SignDryRunAnswer> {
  const { summary } = classifyFor(app, caller, content)
  const request = requestOf(caller, { ...content, idempotency: null }, newSignatureId())
  const checked = await app.signer.checkMessage(request).catch((error: unknown) => {
    throw withPointer(content.field, error)
  })
  const { hash, class: name, rule, requires, limits } = checked
  return {
    hash,
    class: name,
    rule,
    approval: requires === null ? 'not_required' : 'required',
    summary,
    ...(limits === undefined ? {} : { limits }),
  }
}

const idOf = ({ accountId, clientId }: Caller, { idempotency }: SigningOrder): string =>
  idempotency === null ? newSignatureId() : signatureIdOf({ accountId, clientId, ...idempotency })

/** Returns whether an idempotency key belongs to a signature that was answered, which it then does forever. */
export async function isSigned(db: Db, scope: KeyScope): Promise<boolean> {
  const found = await findRow(db, signatureIdOf(scope))
  return found !== null && found.signature !== null
}

type StoredRequest = {
  id: string
  requestHash: Uint8Array | null
  hash: Hex
  class: SignAnswer['class']
  createdAt: string
  signature: { signature: Hex; rule: string } | null
}

/**
 * Returns the row of a request, and stores it if there is none.
 * @throws idempotency_key_reused  if the key belongs to another message
 */
async function findOrStore(app: App, caller: Caller, asked: SigningOrder & { id: string }): Promise<StoredRequest> {
  const { id, idempotency, message, field } = asked
  const known = idempotency === null ? null : await findRow(app.db, id)
  if (known !== null) return assertSame(known, asked)
  const classified = classifyFor(app, caller, asked)
  if (classified.needs === 'never')
    throw refusal(field, {
      code: message.kind === 'typedData' ? 'invalid_typed_data' : 'invalid_message',
      pointer: '',
      problem: classified.problem ?? 'it may never be signed',
    })
  const { accountId, clientId, chainId } = caller
  const requestHash = idempotency === null ? null : hashOf(asked)
  const [hash, createdAt] = [digestOf(message), new Date(app.clock.wall())]
  const stored = await app.db
    .insertInto('signatures')
    .values({
      id,
      account_id: accountId,
      client_id: clientId,
      chain_id: chainId,
      request_hash: requestHash,
      ...messageText(message),
      hash,
      class: classified.class,
      summary: JSON.stringify(classified.summary),
      created_at: createdAt,
    })
    .onConflict((on) => on.doNothing())
    .returning('id')
    .executeTakeFirst()
  // A concurrent request with the same key stored the row first.
  if (stored === undefined) return assertSame((await findRow(app.db, id))!, asked)
  const rest = { id, requestHash, hash: toHex(hash), class: classified.class, createdAt: createdAt.toISOString() }
  return { ...rest, signature: null }
}

async function findRow(db: Db, id: string): Promise<StoredRequest | null> {
  const row = await db
    .selectFrom('signatures')
    .select(['request_hash', 'hash', 'class', 'rule', 'signature', 'created_at'])
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) return null
  const { request_hash: requestHash, hash, class: name, rule, signature, created_at: createdAt } = row
  return {
    id,
    requestHash,
    hash: toHex(hash),
    class: name,
    createdAt: createdAt.toISOString(),
    signature: signature === null || rule === null ? null : { signature: toHex(signature), rule },
  }
}

function assertSame(found: StoredRequest, asked: SigningOrder): StoredRequest {
  const isSame = asked.idempotency === null || (found.requestHash !== null && hashOf(asked).equals(found.requestHash))
  if (!isSame) throw keyReused()
  return found
}

/** Hashes the canonical form of a message: the same typed data as an object or as text is the same request. */
function hashOf({ message }: Content): Buffer {
  const { kind, content } = messageText(message)
  return createHash('sha256')
    .update(JSON.stringify([kind, content]))
    .digest()
}

/**
 * Classifies a message with the facts that the signer uses.
 * @throws invalid_message, invalid_typed_data
 * @throws insufficient_scope  if it moves tokens and the application may not
 */
function classifyFor(app: App, caller: Caller, { message, field }: Content): Classified {
  const { address, chainId, domains = [] } = caller
  const facts = { address: fromHex(address), chainId, at: app.clock.wall(), domains }
  const classified = orRefuse(field, () => classify(message, facts))
  if (classified.moves && !holds(app, caller, 'contracts:write'))
    throw new AppError(
      'insufficient_scope',
      'This message can move tokens, so it needs the permission contracts:write. Nothing was signed. Request the permission at sign-in.',
      caller.jkt === undefined ? {} : { challenge: 'DPoP' },
    )
  return classified
}

function requestOf(
  { chainId, address: from, token: accessToken }: Caller,
  asked: Content & Pick<SigningOrder, 'idempotency'>,
  intentId: string,
): SignMessageRequest {
  const requestHash = asked.idempotency === null ? {} : { requestHash: toHex(hashOf(asked)) }
  return { intentId, accessToken, chainId, from, ...contentOf(asked), ...requestHash }
}

function contentOf({ message }: Content): MessageContent {
  const { kind, content } = messageText(message)
  if (kind === 'typedData') return { typedData: content }
  return kind === 'text' ? { text: content } : { hex: content as Hex }
}

/** Returns the error for a request that the signer refused, after asking the user if only their approval is missing. */
async function explain(
  app: App,
  caller: Caller,
  { id: intentId, message, field, idempotency, askedFrom }: SigningOrder & { id: string },
  error: unknown,
): Promise<unknown> {
  // The ledger has another message for this key; the database has lost it.
  if (error instanceof SignerRefused && error.code === 'intent_conflict') return keyReused()
  if (!(error instanceof AppError) || error.code !== 'approval_required') return withPointer(field, error)
  if (idempotency === null)
    return new AppError(
      'approval_required',
      'The user must approve this message. Nothing was signed, and the user was not asked. Send the request with an idempotency key.',
      { cause: error },
    )
  const approval = await askApproval(app, { caller, intentId, content: { message: messageText(message) }, rule: factsOf(error).rule ?? '', askedFrom }) // prettier-ignore
  return new AppError(
    'approval_required',
    'The user must approve this message. Nothing was signed. Open `approval.url` for the user, then repeat the request with the same idempotency key.',
    { approval, cause: error },
  )
}

function messageSigned({ telemetry }: App, { id, class: name }: Pick<SignAnswer, 'id' | 'class'>): void {
  telemetry.log.info('message_signed', { id, class: name })
  telemetry.messages.inc({ class: name })
}

const toAnswer = ({ id, signature, hash, class: name, rule, createdAt }: SignAnswer): SignAnswer => ({
  id,
  signature,
  hash,
  class: name,
  rule,
  createdAt,
})
