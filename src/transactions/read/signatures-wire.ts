import Type, { type Static } from 'typebox'
import { PAGED, sends } from '../../http/openapi-headers.ts'
import { Address, answers, BigNumber, Hash, Nullable } from '../../http/wire.ts'
import type { Hex } from '../../ids.ts'

const digest = (description: string) => Type.String({ pattern: '^[0-9a-f]{64}$', description })

const Proof = Type.Object(
  {
    record: Type.Integer({ description: 'Number of the record in the signer’s log, from 1' }),
    leaf: digest('Hash of the record'),
    path: Type.Array(Type.String(), {
      description: 'RFC 9162 §2.1.3.1: from the leaf to the root of `head`, bottom up',
    }),
    head: Type.String({ description: 'Signed head (C2SP checkpoint) at the end of the path' }),
  },
  { title: 'SignatureProof' },
)

const EXAMPLE = {
  record: 2,
  signedAt: '2026-01-31T12:00:00.000Z',
  network: 'sepolia',
  chainId: 11_155_111,
  kind: 'send',
  to: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
  value: { type: 'BigNumber', hex: '0x00' },
  selector: '0xa9059cbb',
  function: 'transfer',
  nonce: 7,
  hash: `0x${'5e'.repeat(32)}`,
  transactionId: 'tx_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a',
  clientId: 'shop',
  evidenceHash: 'ab'.repeat(32),
  proof: {
    record: 2,
    leaf: 'f9bc0db8c4dfa9a640cbefba3d5caf51b1310878a8c1c464f134fcb152a6c3ac',
    path: ['22'.repeat(32)],
    head: 'chatelaine-signing-log/34750f98bd59fcfc\n2\n…',
  },
}

const call = {
  to: Address,
  value: BigNumber,
  selector: Nullable(Type.Unsafe<Hex>(Type.String({ description: 'First 4 bytes of the call; null for a payment' }))),
  function: Nullable(Type.String({ description: 'Name of the function, if the application provided an ABI' })),
}

const Signature = Type.Object(
  {
    record: Type.Integer({ description: 'Number of the record in the signer’s log' }),
    signedAt: Type.String(),
    network: Nullable(Type.String({ description: 'null if this installation no longer serves the network' })),
    chainId: Type.Integer(),
    kind: Type.Unsafe<'send' | 'replace' | 'cancel' | 'operation' | 'authorization' | 'message'>(
      Type.String({ enum: ['send', 'replace', 'cancel', 'operation', 'authorization', 'message'], description: 'First signature of a nonce, a fee bump, a cancellation, an operation, a delegation to the code at `to` (EIP-7702), or a message. A sponsor submits an operation. A delegation uses a nonce. For the last three kinds, `hash` is the signed hash, not the hash of a transaction' }), // prettier-ignore
    ),
    ...call,
    to: Nullable(Address),
    message: Type.Optional(
      Type.Object(
        {
          kind: Type.Unsafe<'text' | 'bytes' | 'typedData'>(Type.String({ enum: ['text', 'bytes', 'typedData'] })),
          class: Type.String({ description: 'Class of the message, as in `POST /v1/signatures/message`' }), // prettier-ignore
          content: Nullable(
            Type.String({ description: 'The text, 0x-hex of bytes, or JSON text of typed data; null if another application requested it' }), // prettier-ignore
          ),
        },
        { description: 'Only for `kind` `message`' },
      ),
    ),
    calls: Type.Optional(
      Type.Array(Type.Object(call), {
        description:
          'All calls of an operation. They run in this order, all or none. The first call is also in the fields above',
      }),
    ),
    nonce: Nullable(Type.Integer({ description: 'null for an operation or a message' })),
    hash: Hash,
    transactionId: Nullable(
      Type.String({
        description: 'Id of the transaction, if this application sent it and the database has it; otherwise null',
      }),
    ),
    clientId: Nullable(
      Type.String({ description: 'Client id of this application, if the signature used its token; otherwise null' }),
    ),
    evidenceHash: Nullable(digest('SHA-256 of the record’s `evidence`')),
    proof: Proof,
  },
  { title: 'Signature', examples: [EXAMPLE] },
)
export type WireSignature = Static<typeof Signature>

export const SignaturesQuery = Type.Object(
  { cursor: Type.Optional(Type.String({ maxLength: 512, description: '`X-Next-Cursor` of the previous page' })) },
  { additionalProperties: false },
)

export const signatures = {
  tags: ['Transactions'],
  operationId: 'listSignatures',
  ...sends(...PAGED),
  summary: 'List all signatures of the account, newest first',
  description:
    'Reads the signer’s own log, for the network of this application and for all applications, at most 20 entries per page. The list includes signatures that this service’s database does not have. `proof` proves that the log contains the record under a published head (`/.well-known/chatelaine-signing-log`). Verify it with `chatelaine verify-log --proof`.',
  querystring: SignaturesQuery,
  ...answers(Type.Array(Signature)),
}
