import Type, { type Static } from 'typebox'
import { answers, NoQuery, Nullable } from '../http/wire.ts'

/** `expired`: the user did not decide in time. `used`: approved, and the signature or write exists. */
export type ApprovalState = 'waiting' | 'approved' | 'denied' | 'expired' | 'used'

export const IdParam = Type.Object({
  id: Type.String({ maxLength: 64, description: '`approval.id` of `approval_required`', examples: ['apr_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a'] }), // prettier-ignore
})

const Approval = Type.Object(
  {
    id: Type.String(),
    state: Type.Unsafe<ApprovalState>(
      Type.String({
        enum: ['waiting', 'approved', 'denied', 'expired', 'used'],
        description:
          '`waiting`: the user has not decided. `approved`: repeat the request with the same idempotency key, within a minute. `denied`: final for this key. `expired`: the user did not decide in time; a repeat asks again. `used`: approved, and the signature or write exists',
      }),
    ),
    url: Type.String({ description: 'Page on which the user decides' }),
    rule: Type.String({ description: 'Rule of the signer that requires the approval' }),
    createdAt: Type.String({ description: 'Time of the request, ISO 8601' }),
    expiresAt: Type.String({ description: 'Time until which the user can decide, ISO 8601' }),
    decidedAt: Nullable(Type.String({ description: 'Time of the decision, ISO 8601; null: not decided' })),
  },
  {
    title: 'Approval',
    examples: [
      {
        id: 'apr_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a',
        state: 'waiting',
        url: 'https://wallet.example/account/approvals/apr_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a',
        rule: 'message-approval',
        createdAt: '2026-01-31T12:00:00.000Z',
        expiresAt: '2026-01-31T12:30:00.000Z',
        decidedAt: null,
      },
    ],
  },
)
export type WireApproval = Static<typeof Approval>

export const one = {
  tags: ['Signatures'],
  operationId: 'readApproval',
  summary: 'Read the state of an approval',
  description:
    'Returns whether the user has approved a request that got `approval_required`. Only the application that sent the request can read it. Poll at most once a second while the user is on the page.',
  params: IdParam,
  querystring: NoQuery,
  ...answers(Approval, 404),
}
