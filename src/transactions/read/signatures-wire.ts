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
    head: Type.String({ description: 'The signed head (C2SP checkpoint) that the path leads to' }),
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
  function: Nullable(Type.String({ description: 'Its name, where the application gave an ABI' })),
}

const Signature = Type.Object(
  {
    record: Type.Integer({ description: 'Number of its record in the signer’s log' }),
    signedAt: Type.String(),
    network: Nullable(Type.String({ description: 'null where this installation serves the network no more' })),
    chainId: Type.Integer(),
    kind: Type.Unsafe<'send' | 'replace' | 'cancel' | 'operation' | 'authorization' | 'message'>(
      Type.String({ enum: ['send', 'replace', 'cancel', 'operation', 'authorization', 'message'], description: 'First signature of a nonce, the same at a higher fee, or nothing but the nonce; an operation that a sponsor sends; that the account runs the code at `to` (EIP-7702), for which it uses its nonce; a message or typed data. `hash` of the last three is what was signed, of no transaction' }), // prettier-ignore
    ),
    ...call,
    to: Nullable(Address),
    message: Type.Optional(
      Type.Object(
        {
          kind: Type.Unsafe<'text' | 'bytes' | 'typedData'>(Type.String({ enum: ['text', 'bytes', 'typedData'] })),
          class: Type.String({ description: 'What a signature of it can do, as in `POST /v1/signatures/message`' }), // prettier-ignore
          content: Nullable(
            Type.String({ description: 'The text, 0x-hex of bytes, or JSON text of typed data; null if another application requested it' }), // prettier-ignore
          ),
        },
        { description: 'Of a message' },
      ),
    ),
    calls: Type.Optional(
      Type.Array(Type.Object(call), {
        description:
          'Of an operation all of its calls: they are done in this order or not at all. The first is above, too',
      }),
    ),
    nonce: Nullable(Type.Integer({ description: 'null of an operation or a message, which have none' })),
    hash: Hash,
    transactionId: Nullable(
      Type.String({ description: 'Of this application, where the database has it; null of others' }),
    ),
    clientId: Nullable(
      Type.String({ description: 'This application, where its token was shown; null for others and none' }),
    ),
    evidenceHash: Nullable(digest('SHA-256 of the record’s `evidence`')),
    proof: Proof,
  },
  { title: 'Signature', examples: [EXAMPLE] },
)
export type WireSignature = Static<typeof Signature>

export const SignaturesQuery = Type.Object(
  { cursor: Type.Optional(Type.String({ maxLength: 512 })) },
  { additionalProperties: false },
)

export const signatures = {
  tags: ['Transactions'],
  operationId: 'listSignatures',
  ...sends(...PAGED),
  summary: 'Everything that was signed for you, newest first',
  description:
    'From the signer’s own log, on the network of this application and for every application, at most 20 a page: a signature that this service’s database does not know is here, too. `proof` shows that the log holds the record under a head that is published (`/.well-known/chatelaine-signing-log`); `chatelaine verify-log --proof` checks it.',
  querystring: SignaturesQuery,
  ...answers(Type.Array(Signature)),
}
