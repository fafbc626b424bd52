import { checksumAddress } from '../../abi/address.ts'
import { bigNumber } from '../../abi/bignumber.ts'
import { parseAbi } from '../../abi/parse.ts'
import type { App } from '../../app.ts'
import type { Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import { foreignCursor, readPageCursor, writeCursor } from '../../http/cursor.ts'
import type { Hex } from '../../ids.ts'
import { decodeRlp, type Decoded } from '../../rlp.ts'
import type { ListedSignature } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'
import type { Db } from '../../store/db.ts'
import type { WireSignature } from './signatures-wire.ts'

/** One signature as its bytes and the signer's ledger say it, and what the database knows beside. */
export type SignatureOfAccount = {
  /** number of its record in the signer's log */
  seq: number
  signedAt: Date
  kind: ListedSignature['kind']
  chainId: number
  /** null of an operation, which has none */
  nonce: number | null
  hash: Hex
  /** what it does, in this order: one call of a transaction, none of an authorization, several of an operation that are done together */
  calls: ListedCall[]
  /** the code that it authorizes */
  delegate: Hex | null
  /** id of the transaction, where the database has it */
  transactionId: string | null
  /** whose token was shown; null where none was */
  clientId: string | null
  evidenceHash: string | null
  proof: WireSignature['proof']
}

type ListedCall = {
  to: Hex
  value: bigint
  /** first 4 bytes of the call; null for a mere payment */
  selector: Hex | null
  /** name of the function, where an application said it when it was sent */
  called: string | null
}

/**
 * Everything that was signed with someone's account, newest first: from the signer's log, so that what this server's database does not
 * know is there, too.
 * @param chainId  one network's; without it, every network's
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

/** By id of the transaction; over the primary key. */
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
  // An application says one function for what it asks, so of several calls none has a name.
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
    transactionId: known === undefined ? null : intentId,
    proof: { record: seq, leaf: record, path: proof, head },
  }
}

function callsOf({ kind, raw, calls = [] }: ListedSignature): { to: Buffer; value: bigint; data: Buffer }[] {
  if (kind === 'authorization') return []
  if (kind === 'operation')
    return calls.map(({ to, value, data }) => ({ to: fromHex(to), value: BigInt(value), data: fromHex(data) }))
  const { to, value, data } = readSigned(fromHex(raw))
  return [{ to, value: value.length === 0 ? 0n : BigInt(toHex(value)), data }]
}

/** Recipient, value and data of signed bytes: of EIP-1559, or of the form from before transactions had types. */
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
    // It was read when the transaction was sent, by a program that may have been older.
    return null
  }
}

/**
 * A page as the API has it, of the network of the application: what else someone uses is nothing that an application is told.
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

function toWire({ chains }: App, caller: Caller, one: SignatureOfAccount): WireSignature {
  const { seq, signedAt, kind, chainId, nonce, hash, calls, delegate, transactionId, clientId } = one
  const { to, value, selector, called } = calls[0] ?? { to: delegate!, value: 0n, selector: null, called: null }
  const isOwn = clientId === caller.clientId
  return {
    record: seq,
    signedAt: signedAt.toISOString(),
    kind,
    chainId,
    nonce,
    hash,
    network: chains.get(chainId)?.name ?? null,
    to: checksumAddress(to),
    value: bigNumber(value),
    selector,
    function: called,
    ...(kind === 'operation' ? { calls: calls.map(toWireCall) } : {}),
    transactionId: isOwn ? transactionId : null,
    clientId: isOwn ? clientId : null,
    evidenceHash: one.evidenceHash,
    proof: one.proof,
  }
}
