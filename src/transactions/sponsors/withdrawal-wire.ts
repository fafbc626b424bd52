import Type, { type Static } from 'typebox'
import { Address, Nullable } from '../../http/wire.ts'
import type { Hex } from '../../ids.ts'

/** A withdrawal from a sponsor, as the operator API returns it. */
export const Withdrawal = Type.Object(
  {
    id: Type.String({ description: 'Made of the grant, and what the signer’s record says of it' }),
    sponsor: Type.String(),
    network: Nullable(Type.String({ description: 'null: the network was removed' })),
    chainId: Type.Integer(),
    to: Address,
    amount: Nullable(Type.String({ description: 'Wei that was asked for; null: all that is there' })),
    askedAt: Type.String({ format: 'date-time' }),
    state: Type.String({
      description:
        '`ASKED` until a server of the API has sent it, `REFUSED` where it was not, else the state of its transaction',
    }),
    refusal: Nullable(Type.String({ description: 'Why it was not sent. The same request again tries it again' })),
    transactionId: Nullable(Type.String()),
    hash: Nullable(Type.Unsafe<Hex>(Type.String())),
    wei: Nullable(Type.String({ description: 'What it sends, without the fee' })),
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
    to: Type.String({ maxLength: 42, description: 'Address that gets it: the one that was granted' }),
    amount: Type.Optional(
      Nullable(Type.String({ maxLength: 78, description: 'Wei, decimal digits; null or omitted: all that is there' })),
    ),
    grant: Type.String({ maxLength: 100, description: 'What `chatelaine signer grant-withdrawal` printed' }),
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
