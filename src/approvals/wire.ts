import Type, { type Static } from 'typebox'
import { answers, NoQuery, Nullable } from '../http/wire.ts'

/** `expired`: nobody decided in time. `used`: approved, and the signature or write exists. */
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
          '`waiting`: the user has not decided. `approved`: repeat the request with the same idempotency key, within a minute. `denied`: final for this key. `expired`: nobody decided in time; a repeat asks again. `used`: approved, and the signature or write exists',
      }),
    ),
    url: Type.String({ description: 'Page on which the user decides' }),
    rule: Type.String({ description: 'The signer’s rule that asks for the approval' }),
    createdAt: Type.String({ description: 'ISO 8601' }),
    expiresAt: Type.String({ description: 'ISO 8601: until then the user can decide' }),
    decidedAt: Nullable(Type.String({ description: 'ISO 8601' })),
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
  summary: 'Whether the user has approved a request',
  description:
    'For requests that were answered with `approval_required`. Only the application that asked sees it. Poll it while the user is on the page, at most once a second.',
  params: IdParam,
  querystring: NoQuery,
  ...answers(Approval, 404),
}
