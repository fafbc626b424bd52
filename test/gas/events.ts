import type { Hex } from '../../src/ids.ts'
import { keccak } from '../../src/keccak.ts'

export type Log = { address: Hex; topics: Hex[]; data: Hex }

/** What the dispatcher says became of an operation. `id` is 32 bytes, `account` 20, `reason` as it was returned. */
export type Outcome = { kind: 'Done' | 'Failed' | 'Skipped' | 'Cancelled'; id: Hex; account: Hex | null; reason: Hex }

const kinds = new Map<string, Outcome['kind']>(
  (
    [
      ['Done(uint256,address)', 'Done'],
      ['Failed(uint256,address,bytes)', 'Failed'],
      ['Skipped(uint256,address)', 'Skipped'],
      ['Cancelled(uint256)', 'Cancelled'],
    ] as const
  ).map(([text, kind]) => [`0x${keccak(Buffer.from(text)).toString('hex')}`, kind]),
)

/** Those of one dispatcher, in their order; what others say in the same words counts for nothing. */
export function readOutcomes(logs: readonly Log[], dispatcher: Hex): Outcome[] {
  return logs.flatMap(({ address, topics, data }) => {
    const kind = address.toLowerCase() === dispatcher ? kinds.get(topics[0]!) : undefined
    if (kind === undefined) return []
    const account: Hex | null = topics[2] === undefined ? null : `0x${topics[2].slice(26)}`
    return [{ kind, id: topics[1]!, account, reason: kind === 'Failed' ? reasonIn(data) : '0x' }]
  })
}

function reasonIn(data: Hex): Hex {
  const bytes = Buffer.from(data.slice(2), 'hex')
  const length = Number(BigInt(`0x${bytes.subarray(32, 64).toString('hex')}`))
  return `0x${bytes.subarray(64, 64 + length).toString('hex')}`
}
