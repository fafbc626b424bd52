import Type, { type Static } from 'typebox'
import { Nullable } from '../http/wire.ts'

/** A change of a pending transaction that an operator requested, as the operator API returns it. */
export const TransactionChange = Type.Object(
  {
    transactionId: Type.String(),
    chainId: Type.Integer(),
    change: Type.Union([Type.Literal('cancel'), Type.Literal('speed-up')]),
    askedAt: Type.String({ format: 'date-time' }),
    doneAt: Nullable(
      Type.String({ format: 'date-time', description: 'Time at which an API server sent the change; null before' }),
    ),
    refusal: Nullable(Type.String({ description: 'Reason why the change was rejected. Repeat the request to retry' })),
  },
  {
    title: 'TransactionChange',
    examples: [
      {
        transactionId: 'tx_6f1d2b7c-0000-4000-8000-000000000000',
        chainId: 11_155_111,
        change: 'cancel',
        askedAt: '2026-01-31T12:00:00.000Z',
        doneAt: null,
        refusal: null,
      },
    ],
  },
)
export type TransactionChange = Static<typeof TransactionChange>
