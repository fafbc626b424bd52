import { hashMessage, hashTypedData } from 'viem/utils'
import { signerOf } from '../keys/curve.ts'
import { readMessageRow, type MessageText } from '../ledger/message-ledger.ts'
import type { LedgerRow } from '../ledger/record.ts'
import type { Hex } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'

type TypedDataText = Parameters<typeof hashTypedData>[0] & { domain: { chainId?: string | number } }

/** Returns what is wrong with the record of a message, else null. It computes the digest by another library than the one that signed. */
export function messageFault(row: LedgerRow): string | null {
  const { kind, content, signature } = readMessageRow(row)
  const digest = digestOf({ kind, content })
  if (digest !== toHex(row.hash!)) return 'its hash is another'
  const v = signature[64]!
  if (v !== 27 && v !== 28) return 'its signature has another form'
  const point = { r: signature.subarray(0, 32), s: signature.subarray(32, 64), recovery: (v - 27) as 0 | 1 }
  if (!signerOf(fromHex(digest), point).equals(Buffer.from(row.address))) return 'another account signed it'
  const { chainId } = kind === 'typedData' ? (JSON.parse(content) as TypedDataText).domain : {}
  return chainId === undefined || Number(chainId) === row.chain_id ? null : 'its bytes are of another chain'
}

function digestOf({ kind, content }: MessageText): Hex {
  if (kind === 'typedData') return hashTypedData(JSON.parse(content) as TypedDataText)
  return hashMessage(kind === 'text' ? content : { raw: content as Hex })
}
