import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { oncePer } from './group-commit.ts'
import { MAX_SEQUENCE, WORD_IDS } from './operation-gas.ts'

/**
 * Numbers of operations in a network's space. A process leases the numbers that share a word of the dispatcher's
 * bitmap, and assigns them in ascending order. Numbers left when the process ends are never used.
 * A restored database assigns some numbers twice. The signer refuses those, and the rest of their block is skipped.
 */
type Sequences = {
  take: () => Promise<number>
  /** skips the rest of the leased block that this number belongs to */
  skip: (sequence: number) => void
}

export const sequencesOf = oncePer('numbers of operations', (app: App, chain: Chain): Sequences => {
  let [next, end] = [0, 0]
  let leasing: Promise<void> | null = null

  async function lease(): Promise<void> {
    const floor = BigInt((await app.signer.health()).operations.sequenceFloor)
    assert(floor < MAX_SEQUENCE, 'the signer signs only numbers of operations that are none here')
    const first = await leaseBlock(app, chain, Number(floor))
    ;[next, end] = [first, first + WORD_IDS]
  }

  return {
    take: async () => {
      while (next >= end) {
        leasing ??= lease().finally(() => (leasing = null))
        await leasing
      }
      return next++
    },
    skip: (sequence) => {
      if (sequence >= end - WORD_IDS && sequence < end) next = end
    },
  }
})

/**
 * Numbers per millisecond of the clock. A database without numbers for the space starts at its clock, as the signer's
 * floor does. Numbers assigned by another installation in the space, or by a lost database, are far below.
 */
const FIRST_PER_MS = 4_096

/**
 * Leases a block of numbers and returns its first.
 * @param floor  lowest number that the signer still signs
 */
async function leaseBlock({ db, clock }: App, { chainId, gasSpace }: Chain, floor: number): Promise<number> {
  const wordFrom = (sequence: number) => Math.ceil(sequence / WORD_IDS) * WORD_IDS
  const [from, first] = [wordFrom(floor), wordFrom(Math.max(floor, clock.wall() * FIRST_PER_MS))]
  const { rows } = await sql<{ first: number }>`
      insert into operation_sequences (chain_id, space, next) values (${chainId}::bigint, ${fromHex(gasSpace as Hex)}::bytea, ${first + WORD_IDS}::bigint)
      on conflict (chain_id, space) do update set next = greatest(operation_sequences.next, ${from}::bigint) + ${WORD_IDS}::bigint
      returning next - ${WORD_IDS}::bigint as first`.execute(db)
  return Number(rows[0]!.first)
}
