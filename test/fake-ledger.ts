import { createHash } from 'node:crypto'
import { serializeTransaction } from 'viem'
import type { Hex, UserId } from '../src/ids.ts'
import type { Signer } from '../src/signer-wire/client.ts'
import type { Recalled } from '../src/signer-wire/wire.ts'

type Held = Recalled & { to: Hex; value: bigint; data: Hex }

/**
 * The ledger of a signer in memory, behind its two verbs.
 * @param page  signatures or attempts per answer
 */
/** Of nobody: what is read out of these bytes is what they do, not who signed them. */
const SIGNATURE = { r: `0x${'11'.repeat(32)}`, s: `0x${'22'.repeat(32)}`, yParity: 1, v: 27n } as const

export function fakeLedger(signer: Partial<Signer>, page = 500) {
  const held: Recalled[] = []
  const asked: { recall: object[]; since: number[] } = { recall: [], since: [] }
  let name = 'first'
  const recordAt = (seq: number): string =>
    seq === 0 ? '0'.repeat(64) : createHash('sha256').update(`${name} ${seq}`).digest('hex')
  signer.recall = async (request) => {
    asked.recall.push(request)
    const all = held
      .filter((one) =>
        'intentId' in request
          ? one.intentId === request.intentId
          : one.chainId === request.chainId && one.from === request.from && one.nonce === request.nonce,
      ) // prettier-ignore
      .filter(({ seq }) => seq < (request.before ?? Infinity))
      .toReversed()
    return { attempts: all.slice(0, page), hasMore: all.length > page }
  }
  signer.recallSince = async ({ after }) => {
    asked.since.push(after)
    const signatures = held.filter(({ seq }) => seq > after).slice(0, page)
    const seq = signatures.at(-1)?.seq ?? Math.min(after, held.length)
    const record = after > held.length ? null : recordAt(after)
    return {
      record,
      through: { seq, record: recordAt(seq) },
      isEnd: seq >= held.length,
      signatures,
      operations: [],
      authorizations: [],
    }
  }
  return {
    held,
    /** what it was asked */
    asked,
    recordAt,
    /** another ledger stands in its place, with the same signatures */
    replace: () => {
      name = 'second'
    },
    sign({ userId, address }: { userId: UserId; address: Hex }, given: Partial<Held> & { nonce: number }): Recalled {
      const { to = `0x${'b2'.repeat(20)}`, value = 0n, data = '0x', ...more } = given
      const seq = held.length + 1
      const [max, tip] = [1_000 + seq, 10 + seq]
      const isLegacy = more.gasPrice !== undefined
      const { nonce, chainId = 31_337 } = more
      const raw = isLegacy
        ? serializeTransaction({ type: 'legacy', chainId, nonce, to, value, data, gas: 21_000n, gasPrice: 7n }, SIGNATURE)
        : serializeTransaction({ type: 'eip1559', chainId, nonce, to, value, data, gas: 21_000n, maxFeePerGas: BigInt(max), maxPriorityFeePerGas: BigInt(tip) }, SIGNATURE) // prettier-ignore
      const one: Recalled = {
        ...{ raw, hash: `0x${createHash('sha256').update(`${seq}`).digest('hex')}`, kind: 'send', stored: true },
        ...{ rule: 'none', seq, signedAt: 1_700_000_000_000 + seq * 1_000, userId, clientId: 'demo' },
        ...{ requestHash: null, intentId: `tx_${String(seq).padStart(36, '0')}`, chainId, from: address, gas: '21000' },
        ...(isLegacy ? {} : { maxFeePerGas: String(max), maxPriorityFeePerGas: String(tip) }),
        ...more,
      }
      held.push(one)
      return one
    },
  }
}
