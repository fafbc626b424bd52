import { createHash } from 'node:crypto'
import type { Selectable } from 'kysely'
import { askApproval, askedApproval } from '../approvals/ask.ts'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { notingDenial } from '../events/denials.ts'
import { fromHex, toHex } from '../hex.ts'
import { holds, type Caller } from '../http/bearer.ts'
import { keyReused } from '../http/idempotency-key.ts'
import { newSignatureId, signatureIdOf, type Hex, type KeyScope } from '../ids.ts'
import { classify, type Classified } from '../messages/classify.ts'
import { digestOf, messageText } from '../messages/message.ts'
import { factsOf, SignerRefused } from '../signer-wire/client.ts'
import type { MessageContent, SignMessageRequest } from '../signer-wire/wire.ts'
import type { Db } from '../store/db.ts'
import type { Database } from '../store/rows.ts'
import { orRefuse, refusal, withPointer, type Content } from './content.ts'
import type { SignAnswer, SignDryRunAnswer } from './wire.ts'

/** A message to sign for a caller. `reference`: the caller's own text. `askedFrom`: IP address of the request. */
export type SigningOrder = Content & {
  idempotency: { route: string; key: string } | null
  reference: string | null
  askedFrom: string | null
}

/**
 * Signs a message with the caller's account. The signer's ledger binds an idempotency key to one message forever: a repeat gets the
 * same bytes, even if this process died before it stored them. The row of a request is stored together with its signature or its
 * question, so a rejected request leaves no row.
 * @throws invalid_message, invalid_typed_data, insufficient_scope, idempotency_key_reused, approval_required,
 *     approval_denied, rate_limited, policy_denied and the signer's other refusals
 */
export const signMessage = (
  app: App,
  caller: Caller,
  order: SigningOrder,
): Promise<{ answer: SignAnswer; isReplay: boolean }> =>
  notingDenial(app, caller, { request: 'signature', reference: order.reference }, () => signOnce(app, caller, order))

async function signOnce(
  app: App,
  caller: Caller,
  order: SigningOrder,
): Promise<{ answer: SignAnswer; isReplay: boolean }> {
  const id = idOf(caller, order)
  const form = formOf(order)
  const asked: KeyedOrder = { ...order, id, form, requestHash: hashOf(form, order.reference) }
  const hasKey = asked.idempotency !== null
  const known = hasKey ? await findRow(app.db, id) : null
  if (known !== null) assertSame(known, asked)
  if (known !== null && known.signature !== null) return { answer: toAnswer(known), isReplay: true }
  const row = known ?? newRow(app, caller, asked)
  try {
    const approval = hasKey ? ((await askedApproval(app, id))?.token ?? null) : null
    const request = {
      ...requestOf(caller, asked),
      ...(hasKey ? { requestHash: toHex(asked.requestHash) } : {}),
      ...(approval === null ? {} : { approval }),
    }
    const { signature, class: name, rule, hash } = await app.signer.signMessage(request)
    const signed = { signature: fromHex(signature), hash: fromHex(hash), class: name, rule, signed_at: new Date(app.clock.wall()) } // prettier-ignore
    const { created_at, ...columns } = { ...toColumns(row), ...signed }
    // The ledger decides which message belongs to the key. An unsigned row does not.
    const stored = await app.db
      .insertInto('signatures')
      .values({ created_at, ...columns })
      .onConflict((on) =>
        on
          .column('id')
          .doUpdateSet(columns)
          .where((eb) =>
            eb.or([eb('signatures.signature', 'is', null), eb('signatures.request_hash', '=', row.request_hash)]),
          ),
      )
      .returningAll()
      .executeTakeFirst()
    // A concurrent request with this key and another reference has stored the signature.
    if (stored === undefined) throw keyReused()
    messageSigned(app, { id, class: name })
    return { answer: toAnswer(stored), isReplay: false }
  } catch (error) {
    throw await explain(app, caller, { ...asked, row }, error)
  }
}

/**
 * Returns what `signMessage` would do. Stores, counts and signs nothing.
 * @throws as `signMessage`, but not approval_required
 */
export async function rehearseSignature(app: App, caller: Caller, content: Content): Promise<SignDryRunAnswer> {
  const { summary } = classifyFor(app, caller, content)
  const request = requestOf(caller, { form: formOf(content), id: newSignatureId() })
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

/** Returns whether an idempotency key belongs to a stored signature. A key never becomes free again. */
export async function isSigned(db: Db, scope: KeyScope): Promise<boolean> {
  const found = await db
    .selectFrom('signatures')
    .select('id')
    .where('id', '=', signatureIdOf(scope))
    .where('signature', 'is not', null)
    .executeTakeFirst()
  return found !== undefined
}

/** The canonical form of a message. The same typed data as an object or as text is the same request. */
type MessageForm = ReturnType<typeof messageText>
type KeyedOrder = SigningOrder & { id: string; form: MessageForm; requestHash: Buffer }

const formOf = ({ message }: Content): MessageForm => messageText(message)

const hashOf = ({ kind, content }: MessageForm, reference: string | null): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([kind, content, reference]))
    .digest()

type StoredSignature = Selectable<Database['signatures']>

const findRow = async (db: Db, id: string): Promise<StoredSignature | null> =>
  (await db.selectFrom('signatures').selectAll().where('id', '=', id).executeTakeFirst()) ?? null

const toColumns = (row: StoredSignature) => ({ ...row, summary: JSON.stringify(row.summary) })

/**
 * Creates the row of a new request, without a signature.
 * @throws invalid_message, invalid_typed_data, insufficient_scope
 */
function newRow(app: App, caller: Caller, asked: KeyedOrder): StoredSignature {
  const { id, idempotency, reference, message, form, field, requestHash } = asked
  const classified = classifyFor(app, caller, asked)
  if (classified.needs === 'never')
    throw refusal(field, {
      code: message.kind === 'typedData' ? 'invalid_typed_data' : 'invalid_message',
      pointer: '',
      problem: classified.problem ?? 'it may never be signed',
    })
  const { accountId, clientId, chainId } = caller
  return {
    id,
    account_id: accountId,
    client_id: clientId,
    chain_id: chainId,
    request_hash: idempotency === null ? null : requestHash,
    reference,
    ...form,
    hash: digestOf(message),
    class: classified.class,
    summary: classified.summary,
    rule: null,
    signature: null,
    created_at: new Date(app.clock.wall()),
    signed_at: null,
  }
}

/** @throws idempotency_key_reused  if the key belongs to another request */
function assertSame({ request_hash: known }: StoredSignature, { requestHash }: KeyedOrder): void {
  if (known === null || !requestHash.equals(known)) throw keyReused()
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
  { id: intentId, form }: Pick<KeyedOrder, 'id' | 'form'>,
): SignMessageRequest {
  return { intentId, accessToken, chainId, from, ...contentOf(form) }
}

function contentOf({ kind, content }: MessageForm): MessageContent {
  if (kind === 'typedData') return { typedData: content }
  return kind === 'text' ? { text: content } : { hex: content as Hex }
}

/** Creates the error for a request that the signer refused. If only the approval is missing, it first asks the user. */
async function explain(
  app: App,
  caller: Caller,
  asked: KeyedOrder & { row: StoredSignature },
  error: unknown,
): Promise<unknown> {
  const { field, idempotency } = asked
  // The ledger has another message for this key, and the database has lost it.
  if (error instanceof SignerRefused && error.code === 'intent_conflict') return keyReused()
  if (!(error instanceof AppError) || error.code !== 'approval_required') return withPointer(field, error)
  if (idempotency === null)
    return new AppError(
      'approval_required',
      'The user must approve this message. Nothing was signed, and the user was not asked. Send the request with an idempotency key.',
      { cause: error },
    )
  const { link, isNew } = await ask(app, caller, asked, factsOf(error).rule ?? '')
  return new AppError(
    'approval_required',
    'The user must approve this message. Nothing was signed. Open `approval.url` for the user, then repeat the request with the same idempotency key.',
    { approval: link, asksAnew: isNew, cause: error },
  )
}

/**
 * Stores a request together with its question to the user.
 * @throws idempotency_key_reused, approval_denied, rate_limited
 */
const ask = (
  { db: root, clock, authOrigin }: App,
  caller: Caller,
  asked: KeyedOrder & { row: StoredSignature },
  rule: string,
): ReturnType<typeof askApproval> =>
  root.transaction().execute(async (db) => {
    const { row, form, askedFrom } = asked
    await db.insertInto('signatures').values(toColumns(row)).onConflict((on) => on.doNothing()).execute() // prettier-ignore
    // A concurrent request with the same key may have stored another message.
    assertSame((await findRow(db, row.id))!, asked)
    const question = { caller, intentId: row.id, content: { message: form }, requestHash: null, rule, askedFrom }
    return askApproval({ db, clock, authOrigin }, question)
  })

function messageSigned({ telemetry }: App, { id, class: name }: Pick<SignAnswer, 'id' | 'class'>): void {
  telemetry.log.info('message_signed', { id, class: name })
  telemetry.messages.inc({ class: name })
}

const toAnswer = ({
  id,
  signature,
  hash,
  class: name,
  rule,
  created_at: at,
  reference,
}: StoredSignature): SignAnswer => ({
  id,
  signature: toHex(signature!),
  hash: toHex(hash),
  class: name,
  rule: rule!,
  createdAt: at.toISOString(),
  reference,
})
