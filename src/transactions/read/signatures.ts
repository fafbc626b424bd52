import { checksumAddress } from '../../digits.ts'
import { bigNumber } from '../../abi/bignumber.ts'
import { parseAbi } from '../../abi/parse.ts'
import type { App } from '../../app.ts'
import type { Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import { foreignCursor, readPageCursor, writeCursor } from '../../http/cursor.ts'
import type { Hex } from '../../ids.ts'
import { decodeRlp, type Decoded } from '../../rlp.ts'
import type { ListedMessage, ListedSignature } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'
import type { Db } from '../../store/db.ts'
import type { WireSignature } from './signatures-wire.ts'

/** A signature from the signer's ledger, with additional fields from the database. */
export type SignatureOfAccount = {
  /** number of its record in the signer's log */
  seq: number
  signedAt: Date
  kind: ListedSignature['kind']
  chainId: number
  /** null for operations and messages, which have no nonce */
  nonce: number | null
  hash: Hex
  /**
   * calls in order: one of a transaction; none of an authorization or a message; one or more of an operation, which are
   * executed together
   */
  calls: ListedCall[]
  /** account code that an authorization delegates to */
  delegate: Hex | null
  /** content and class of a message */
  message: ListedMessage | null
  /** id of the transaction, if the database has it */
  transactionId: string | null
  /** application of the token; null without a token */
  clientId: string | null
  evidenceHash: string | null
  proof: WireSignature['proof']
}

type ListedCall = {
  to: Hex
  value: bigint
  /** first 4 bytes of the call; null for a plain payment */
  selector: Hex | null
  /** name of the function, if the application gave an ABI */
  called: string | null
}

/**
 * Returns all signatures of a user's account, newest first. Reads the signer's log, which includes signatures that this
 * server's database has lost.
 * @param chainId  one network; default: all networks
 * @throws invalid_cursor, overloaded, signer_unavailable
 */
export async function listSignatures(
  { db, signer }: Pick<App, 'db' | 'signer'>,
  { userId }: { userId: string },
  { cursor, chainId }: { cursor?: string | undefined; chainId?: number },
): Promise<{ entries: SignatureOfAccount[]; nextCursor: string | null }> {
  const before = cursor === undefined ? undefined : placeOf(cursor)
  const { signatures, hasMore, head } = await signer.signatures({
    userId,
    ...(before === undefined ? {} : { before }),
    ...(chainId === undefined ? {} : { chainId }),
  })
  const known = await knownOf(db, userId, signatures)
  const last = signatures.at(-1)
  return {
    entries: signatures.map((one) => toSignature(one, known.get(one.intentId), head)),
    nextCursor: hasMore && last !== undefined ? writeCursor(['signatures', last.seq]) : null,
  }
}

function placeOf(cursor: string): number {
  const [list, seq] = readPageCursor(cursor, ['string', 'number']) as [string, number]
  if (list !== 'signatures' || seq < 1) throw foreignCursor()
  return seq
}

type KnownIntent = { abi: string }

/** Returns the database's additional fields by transaction id. Uses the primary key. */
async function knownOf(db: Db, userId: string, signatures: ListedSignature[]): Promise<Map<string, KnownIntent>> {
  if (signatures.length === 0) return new Map()
  const ids = [...new Set(signatures.map(({ intentId }) => intentId))]
  const rows = await db
    .selectFrom('transactions as sent')
    .innerJoin('accounts as account', 'account.account_id', 'sent.account_id')
    .select(['sent.id', 'sent.abi'])
    .where('sent.id', 'in', ids)
    .where('account.user_id', '=', userId)
    .execute()
  return new Map(rows.map(({ id, abi }) => [id, { abi }]))
}

function toSignature(one: ListedSignature, known: KnownIntent | undefined, head: string): SignatureOfAccount {
  const { seq, signedAt, kind, chainId, nonce, hash, intentId, clientId, evidenceHash, record, proof } = one
  const calls = callsOf(one)
  // An application's ABI has one function, so calls of a batch have no name.
  const name = known === undefined || calls.length > 1 ? null : nameOf(known.abi)
  return {
    seq,
    signedAt: new Date(signedAt),
    kind,
    chainId,
    nonce,
    hash,
    clientId,
    evidenceHash,
    calls: calls.map(({ to, value, data }) => ({
      to: toHex(to),
      value,
      selector: data.length < 4 ? null : toHex(data.subarray(0, 4)),
      called: data.length < 4 ? null : name,
    })),
    delegate: one.delegate ?? null,
    message: one.message ?? null,
    transactionId: known === undefined ? null : intentId,
    proof: { record: seq, leaf: record, path: proof, head },
  }
}

function callsOf({ kind, raw, calls = [] }: ListedSignature): { to: Buffer; value: bigint; data: Buffer }[] {
  if (kind === 'authorization' || kind === 'message') return []
  if (kind === 'operation')
    return calls.map(({ to, value, data }) => ({ to: fromHex(to), value: BigInt(value), data: fromHex(data) }))
  const { to, value, data } = readSigned(fromHex(raw))
  return [{ to, value: value.length === 0 ? 0n : BigInt(toHex(value)), data }]
}

/** Returns recipient, value and data of a signed transaction, EIP-1559 or legacy. */
function readSigned(raw: Buffer): { to: Buffer; value: Buffer; data: Buffer } {
  const isTyped = raw[0] === 2
  const fields = decodeRlp(isTyped ? raw.subarray(1) : raw) as Decoded[]
  const [to, value, data] = fields.slice(isTyped ? 5 : 3) as [Buffer, Buffer, Buffer]
  return { to, value, data }
}

function nameOf(abi: string): string | null {
  try {
    return abi === '' ? null : parseAbi(abi).function.name
  } catch {
    // The ABI was valid when the transaction was sent, perhaps for an older version of this program.
    return null
  }
}

/**
 * Returns a page for the API, on the application's network only: an application does not learn which other networks a
 * user uses.
 * @throws chain_unavailable
 */
export async function readSignatures(
  app: App,
  caller: Caller,
  page: { cursor?: string | undefined },
): Promise<{ signatures: WireSignature[]; nextCursor: string | null }> {
  const { chainId } = chainOf(app, caller)
  const { entries, nextCursor } = await listSignatures(app, caller, { ...page, chainId })
  return { signatures: entries.map((one) => toWire(app, caller, one)), nextCursor }
}

const toWireCall = ({ to, value, selector, called }: ListedCall) => ({
  to: checksumAddress(to),
  value: bigNumber(value),
  selector,
  function: called,
})

/** Omits the content of a message that another application requested. */
const toWireMessage = ({ kind, content, class: name }: ListedMessage, isOwn: boolean) => ({
  kind,
  class: name,
  content: isOwn ? content : null,
})

function toWire({ chains }: App, caller: Caller, one: SignatureOfAccount): WireSignature {
  const { seq, signedAt, kind, chainId, nonce, hash, calls, delegate, message, transactionId, clientId } = one
  const { to, value, selector, called } = calls[0] ?? { to: delegate, value: 0n, selector: null, called: null }
  const isOwn = clientId === caller.clientId
  return {
    record: seq,
    signedAt: signedAt.toISOString(),
    kind,
    chainId,
    nonce,
    hash,
    network: chains.get(chainId)?.name ?? null,
    to: to === null ? null : checksumAddress(to),
    value: bigNumber(value),
    selector,
    function: called,
    ...(message === null ? {} : { message: toWireMessage(message, isOwn) }),
    ...(kind === 'operation' ? { calls: calls.map(toWireCall) } : {}),
    transactionId: isOwn ? transactionId : null,
    clientId: isOwn ? clientId : null,
    evidenceHash: one.evidenceHash,
    proof: one.proof,
  }
}
