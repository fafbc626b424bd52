import Type, { type Static } from 'typebox'
import { Address, Nullable } from '../http/wire.ts'
import type { Hex } from '../ids.ts'

/** A stopped account on a network, as the operator API returns it. */
export const StoppedLane = Type.Object(
  {
    userId: Type.String(),
    address: Address,
    chainId: Type.Integer(),
    nonce: Type.Integer({ description: 'The nonce that a foreign transaction used' }),
    hash: Nullable(Type.Unsafe<Hex>(Type.String({ description: 'The transaction that used it, if it is known' }))),
    reason: Type.String({ description: '`foreign_nonce`: someone else holds the key of the account' }),
    stoppedAt: Type.String(),
    resumeAskedAt: Nullable(
      Type.String({ description: 'When an operator resumed it; it takes effect within seconds' }),
    ),
  },
  {
    title: 'StoppedAccount',
    examples: [
      {
        userId: 'GITHUB-583231',
        address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
        chainId: 11_155_111,
        nonce: 7,
        hash: `0x${'5e'.repeat(32)}`,
        reason: 'foreign_nonce',
        stoppedAt: '2026-01-31T12:00:00.000Z',
        resumeAskedAt: null,
      },
    ],
  },
)
export type StoppedLane = Static<typeof StoppedLane>
