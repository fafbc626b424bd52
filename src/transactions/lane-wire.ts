import Type, { type Static } from 'typebox'
import { Address, Nullable } from '../http/wire.ts'
import type { Hex } from '../ids.ts'

/** A stopped account on a network, as the operator API returns it. */
export const StoppedLane = Type.Object(
  {
    userId: Type.String(),
    address: Address,
    chainId: Type.Integer(),
    nonce: Type.Integer({ description: 'Nonce that a foreign transaction used' }),
    hash: Nullable(Type.Unsafe<Hex>(Type.String({ description: 'Hash of the foreign transaction, if known' }))),
    reason: Type.String({
      description:
        '`foreign_nonce`: a transaction that this service did not create used a nonce. The key may be used elsewhere, or the service was restored',
    }),
    stoppedAt: Type.String(),
    resumeAskedAt: Nullable(
      Type.String({
        description: 'Time at which an operator requested to resume the account, which takes effect within seconds',
      }),
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
