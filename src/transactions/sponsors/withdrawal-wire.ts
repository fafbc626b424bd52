import Type, { type Static } from 'typebox'
import { Address, Nullable } from '../../http/wire.ts'
import type { Hex } from '../../ids.ts'

/** A withdrawal from a sponsor, as the operator API returns it. */
export const Withdrawal = Type.Object(
  {
    id: Type.String({ description: 'Derived from the grant; also in the signer’s record of the withdrawal' }),
    sponsor: Type.String(),
    network: Nullable(Type.String({ description: 'null if the network was removed' })),
    chainId: Type.Integer(),
    to: Address,
    amount: Nullable(Type.String({ description: 'Requested amount in wei; null for the whole balance' })),
    askedAt: Type.String({ format: 'date-time' }),
    state: Type.String({
      description:
        '`ASKED` until an API server has sent the withdrawal; `REFUSED` if it was rejected; otherwise the state of its transaction',
    }),
    refusal: Nullable(
      Type.String({ description: 'Reason why the withdrawal was not sent. Repeat the request to retry' }),
    ),
    transactionId: Nullable(Type.String()),
    hash: Nullable(Type.Unsafe<Hex>(Type.String())),
    wei: Nullable(Type.String({ description: 'Amount in wei, without the fee' })),
  },
  {
    title: 'Withdrawal',
    examples: [
      {
        id: `withdrawal_${'A'.repeat(43)}`,
        sponsor: 'HOUSE',
        network: 'sepolia',
        chainId: 11_155_111,
        to: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
        amount: null,
        askedAt: '2026-01-31T12:00:00.000Z',
        state: 'MINED',
        refusal: null,
        transactionId: 'tx_6f1d',
        hash: `0x${'5e'.repeat(32)}`,
        wei: '990000000000000000',
      },
    ],
  },
)
export type Withdrawal = Static<typeof Withdrawal>

export const NewWithdrawal = Type.Object(
  {
    network: Type.String({ maxLength: 200 }),
    to: Type.String({ maxLength: 42, description: 'Recipient, as in the grant' }),
    amount: Type.Optional(
      Nullable(
        Type.String({
          maxLength: 78,
          description: 'Amount in wei, decimal digits; null or omitted for the whole balance',
        }),
      ),
    ),
    grant: Type.String({ maxLength: 100, description: 'Grant that `chatelaine signer grant-withdrawal` printed' }),
  },
  {
    title: 'NewWithdrawal',
    additionalProperties: false,
    examples: [
      {
        network: 'sepolia',
        to: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
        amount: null,
        grant: `withdrawal_${'A'.repeat(43)}`,
      },
    ],
  },
)
export type NewWithdrawal = Static<typeof NewWithdrawal>
