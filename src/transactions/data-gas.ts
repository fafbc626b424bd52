import type { Chain } from '../chain/network.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { slot } from '../state.ts'
import { toHex } from '../store/bytes.ts'
import { readGas } from './limits.ts'
import { OTHER, SOMEONE } from './nobody.ts'
import { BYTE, bytesOf } from './operation-gas.ts'
import type { Operation } from './operation.ts'

/** milliseconds for which what a network takes for data is believed; longer it is used while it is asked again */
const BELIEVED_MS = 60_000
/** bytes of a transaction around an operation: signature, authorization, the dispatcher's own */
const AROUND = 400
const BYTES = 512
/** What Ethereum takes for a transaction. gas units */
const TRANSACTION = 21_000n
/** Bytes that nothing makes shorter. */
const DATA: Hex = toHex(
  Buffer.concat(Array.from({ length: BYTES / 32 }, (_, index) => keccak(Buffer.from(`data ${index}`)))),
)

const known = slot('gas that a network takes for data', (_chain: Chain) => ({
  perByte: null as bigint | null,
  asked: null as Promise<bigint> | null,
  at: Number.NEGATIVE_INFINITY,
}))

/**
 * Gas units that a network takes for an operation's bytes beyond what Ethereum does: roll-ups of Arbitrum's kind bill the layer below as gas.
 * Asked once a minute, and waited for only the first time.
 * @throws RpcUnavailable
 */
export async function dataGas(chain: Chain, operation: Pick<Operation, 'calls'>): Promise<bigint> {
  const state = known.of(chain)
  if (state.asked === null && chain.clock.ticks() - state.at > BELIEVED_MS) {
    state.asked = ask(chain)
      .then((perByte) => {
        Object.assign(state, { perByte, at: chain.clock.ticks() })
        return perByte
      })
      .finally(() => {
        state.asked = null
      })
    state.asked.catch(() => {})
  }
  const perByte = state.perByte ?? (await state.asked!)
  return perByte * bytesFor(operation)
}

/** The same as far as it is known. */
export const knownDataGas = (chain: Chain, operation: Pick<Operation, 'calls'>): bigint =>
  (known.of(chain).perByte ?? 0n) * bytesFor(operation)

const bytesFor = (operation: Pick<Operation, 'calls'>): bigint => BigInt(bytesOf(operation) + AROUND)

async function ask(chain: Chain): Promise<bigint> {
  const { rpc } = chain
  try {
    const taken = readGas(await rpc.call('eth_estimateGas', [{ from: OTHER, to: SOMEONE, data: DATA }, 'latest']))
    const more = taken - TRANSACTION - BYTE * BigInt(BYTES)
    return more <= 0n ? 0n : (more + BigInt(BYTES) - 1n) / BigInt(BYTES)
  } catch (error) {
    // It answers, and will not say, now or ever: each transaction is asked for before it is sent.
    if (error instanceof RpcError) return known.of(chain).perByte ?? 0n
    throw error
  }
}
