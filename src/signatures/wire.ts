import Type, { type Static } from 'typebox'
import { PAGED, sends } from '../http/openapi-headers.ts'
import {
  answers,
  either,
  GivenReference,
  Limit,
  Reference,
  NoQuery,
  Nullable,
  NeedsApproval,
  RuleLimit,
  shownAs,
} from '../http/wire.ts'
import type { Hex } from '../ids.ts'
import type { MessageClass, Summary } from '../messages/classify.ts'
import type { Message } from '../messages/message.ts'

const HASH = '0x8f0c7e1e2f1b8c559d3a0d1c5f4c2b7a8f0c7e1e2f1b8c559d3a0d1c5f4c2b7a'
const SIGNATURE = `0x${'5e'.repeat(64)}1b`
const LOGIN = `shop.example wants you to sign in with your Ethereum account:
0x70997970C51812dc3A010C7d01b50e0d17dc79C8

Sign in to the shop.

URI: https://shop.example
Version: 1
Chain ID: 11155111
Nonce: 8f0c7e1e2f1b8c55
Issued At: 2026-01-31T12:00:00.000Z`
const PERMIT = {
  types: {
    Permit: [
      { name: 'owner', type: 'address' },
      { name: 'spender', type: 'address' },
      { name: 'value', type: 'uint256' },
      { name: 'nonce', type: 'uint256' },
      { name: 'deadline', type: 'uint256' },
    ],
  },
  primaryType: 'Permit',
  domain: {
    name: 'USDC',
    version: '2',
    chainId: 11_155_111,
    verifyingContract: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
  },
  message: {
    owner: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
    spender: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
    value: '1500000',
    nonce: '0',
    deadline: '1769860800',
  },
}

const Text = Type.String({
  description: 'Text of the message, at most 32,768 bytes of UTF-8, in a body of at most 64 KiB',
  examples: [LOGIN],
})
const HexText = Type.String({
  description: 'Bytes of the message as 0x-hex. The body has at most 64 KiB, so about 32,700 bytes',
})
const TypedData = Type.Unsafe<object | string>({
  anyOf: [Type.Object({}), Type.String()],
  description: 'EIP-712 typed data as an object, or as JSON text; at most 32,768 bytes, in a body of at most 64 KiB',
  examples: [PERMIT],
  ...shownAs({ type: 'object', additionalProperties: true, examples: [PERMIT] }),
})
const DryRun = Type.Optional(
  Type.Boolean({ description: 'Check the request and report the result. Nothing is signed or stored' }),
)

export const MessageRequest = Type.Object(
  { message: Type.Optional(Text), hex: Type.Optional(HexText), reference: Reference, dryRun: DryRun },
  {
    title: 'SignMessageRequest',
    description: 'Exactly one of `message` and `hex`',
    additionalProperties: false,
    examples: [{ message: LOGIN }],
  },
)

export const TypedDataRequest = Type.Object(
  { typedData: TypedData, reference: Reference, dryRun: DryRun },
  { title: 'SignTypedDataRequest', additionalProperties: false, examples: [{ typedData: PERMIT }] },
)

export const VerifyRequest = Type.Object(
  {
    address: Type.String({ maxLength: 100, description: 'Address of the account that may have signed' }),
    message: Type.Optional(Text),
    hex: Type.Optional(HexText),
    typedData: Type.Optional(TypedData),
    signature: Type.Unsafe<Hex>(
      Type.String({ pattern: '^0x([0-9a-fA-F]{2})*$', maxLength: 32_768, description: 'Signature as 0x-hex' }),
    ),
  },
  {
    title: 'VerifySignatureRequest',
    description: 'Exactly one of `message`, `hex` and `typedData`',
    additionalProperties: false,
    examples: [{ address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8', message: LOGIN, signature: SIGNATURE }],
  },
)

const CLASSES = ['login', 'text', 'payment', 'allowance', 'order', 'vote', 'power', 'other', 'opaque'] as const satisfies MessageClass[] // prettier-ignore
const Class = Type.Unsafe<MessageClass>(
  Type.String({ enum: [...CLASSES], description: 'Class of the message, by the effect of its signature' }),
)
const Digest = Type.Unsafe<Hex>(
  Type.String({ pattern: '^0x[0-9a-f]{64}$', description: 'Signed digest, by EIP-191 or EIP-712', examples: [HASH] }),
)
const Id = Type.String({ examples: ['sig_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a'] })
const Signature = Type.Unsafe<Hex>(
  Type.String({ pattern: '^0x[0-9a-f]{130}$', description: 'r, s and v (27 or 28), 65 bytes', examples: [SIGNATURE] }),
)
const Rule = Type.String({ description: 'Rule of the signer that decided', examples: ['message-login'] })
const CreatedAt = Type.String({ description: 'Time of the first request, ISO 8601', examples: ['2026-01-31T12:00:00.000Z'] }) // prettier-ignore

const SignAnswer = Type.Object(
  {
    id: Id,
    signature: Signature,
    hash: Digest,
    class: Class,
    rule: Rule,
    createdAt: CreatedAt,
    reference: GivenReference,
  },
  { title: 'SignedMessage' },
)
export type SignAnswer = Static<typeof SignAnswer>

/** Facts for display. The reader chooses texts by code and language, so there are none. */
const SummarySchema = Type.Unsafe<Summary>(
  Type.Object(
    {
      sentence: Type.String({ enum: ['login', 'text', 'pay', 'allow', 'allow-all', 'revoke', 'order', 'vote', 'power', 'other', 'opaque'], description: 'Effect in one word' }), // prettier-ignore
      moves: Type.Array(
        Type.Object({
          kind: Type.String({ enum: ['pays', 'allows'], description: '`pays`: leaves the account. `allows`: may be taken from the account' }), // prettier-ignore
          token: Nullable(Type.String({ description: 'Token contract; null: native currency, or unknown' })),
          amount: Type.String({ description: 'In the smallest unit, or `unlimited`. `all`: everything that the contract at `token` holds for the account, now and later' }), // prettier-ignore
          item: Nullable(
            Type.String({
              description: 'Token id of a collectible; null for fungible tokens, or for all collectibles',
            }),
          ),
          to: Type.String({ description: 'Recipient of a payment, or spender of an allowance' }),
          until: Nullable(Type.Integer({ description: 'End of the allowance, seconds since 1970; null: no end' })),
        }),
      ),
      domain: Nullable(Type.String({ description: 'Host of a sign-in; null for other messages' })),
      warnings: Type.Array(
        Type.String({
          description:
            '`unlimited`: no maximum amount. `long`: can be used for more than a day. `unknown`: the effect is unknown. `power`: others can act for the account. `no-chain`: no network is named. `recipient`: another address receives the proceeds of the order. Values may be added',
        }),
      ),
    },
    {
      title: 'MessageSummary',
      description: 'Effect of the signature, as facts. A text for users is on the approval page',
      examples: [
        {
          sentence: 'allow',
          moves: [
            {
              kind: 'allows',
              token: PERMIT.domain.verifyingContract,
              amount: '1500000',
              item: null,
              to: PERMIT.message.spender,
              until: 1_769_860_800,
            },
          ],
          domain: null,
          warnings: [],
        },
      ],
    },
  ),
)

const SignDryRunAnswer = Type.Object(
  {
    hash: Digest,
    class: Class,
    rule: Rule,
    approval: NeedsApproval,
    summary: SummarySchema,
    limits: Type.Optional(Type.Array(RuleLimit)),
  },
  { title: 'SignMessageDryRun' },
)
export type SignDryRunAnswer = Static<typeof SignDryRunAnswer>

const OwnSignature = Type.Object(
  {
    id: Id,
    signature: Signature,
    hash: Digest,
    class: Class,
    rule: Rule,
    kind: Type.Unsafe<Message['kind']>(Type.String({ enum: ['text', 'bytes', 'typedData'] })),
    content: Type.String({ description: 'Signed content: text, 0x-hex, or typed data as JSON text', examples: [LOGIN] }), // prettier-ignore
    summary: SummarySchema,
    createdAt: CreatedAt,
    reference: GivenReference,
  },
  { title: 'OwnSignature' },
)
export type OwnSignature = Static<typeof OwnSignature>

const Verified = Type.Object(
  {
    valid: Type.Boolean(),
    method: Type.Unsafe<'eoa' | 'erc1271' | 'erc6492' | null>(
      Nullable(
        Type.String({
          enum: ['eoa', 'erc1271', 'erc6492'],
          description:
            'Why the signature is valid. `eoa`: the account’s key made it. `erc1271`: the contract at the address accepts it. `erc6492`: the contract at the address accepts it after the call that the signature contains, such as its deployment. null: the signature is invalid',
        }),
      ),
    ),
    hash: Digest,
  },
  { title: 'VerifiedSignature', examples: [{ valid: true, method: 'eoa', hash: HASH }] },
)
export type Verified = Static<typeof Verified>

export const IdParam = Type.Object({ id: Type.String({ maxLength: 64, examples: ['sig_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a'] }) }) // prettier-ignore
export const ListQuery = Type.Object(
  {
    limit: Type.Optional(Limit(50)),
    cursor: Type.Optional(Type.String({ maxLength: 512, description: '`X-Next-Cursor` of the previous page' })),
  },
  { additionalProperties: false },
)

/** The description of the header differs from a write's: a key of a signature never becomes free again. */
const KeyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      description:
        '1 to 255 printable ASCII characters, of this user at this application on this route. A key stands for one message forever: a retry returns the same signature. The user can be asked for approval only if the request has a key. `X-Idempotency-Key` is equivalent.',
    }),
  ),
})

const shared = { tags: ['Signatures'] }
const signing = {
  ...shared,
  ...sends('Idempotent-Replayed'),
  headers: KeyHeaders,
  querystring: NoQuery,
  ...answers(either(SignAnswer, SignDryRunAnswer), 409, 413, 415, 422, 502),
}

export const message = {
  ...signing,
  operationId: 'signMessage',
  summary: 'Sign a text with the account of the user',
  description:
    'Signs as `personal_sign` does (EIP-191). A sign-in (ERC-4361) to a registered origin of the application is signed at once. A sign-in with `Resources` and any other readable text need the user’s approval: `approval_required` has the page. Sign-ins to other hosts are rejected, as are 32-byte digests and unreadable bytes unless the operator’s policy allows them. Nothing is sent to the network.',
  body: MessageRequest,
}

export const typedData = {
  ...signing,
  operationId: 'signTypedData',
  summary: 'Sign typed data with the account of the user',
  description:
    'Signs as `eth_signTypedData_v4` does (EIP-712). Payments, permits and orders also need `contracts:write`, and count toward the limits of the signer like a transaction. Orders, votes, unknown types, unlimited permits, and payments and permits that can be used for more than a day need the user’s approval. Data that lets others control the account is rejected, unless the operator allows its type.',
  body: TypedDataRequest,
}

export const verify = {
  ...shared,
  operationId: 'verifySignature',
  summary: 'Check a signature of any account',
  description:
    'Checks the key of the account, then the contract at the address (ERC-1271) or the contract that the signature would deploy (ERC-6492). Contracts are called on the network of the application.',
  querystring: NoQuery,
  body: VerifyRequest,
  ...answers(Verified, 413, 415, 422, 502, 504),
}

export const list = {
  ...shared,
  ...sends(...PAGED),
  operationId: 'listMessageSignatures',
  summary: 'List the messages that the user signed for this application',
  description: 'Newest first. Messages for other applications are not listed.',
  querystring: ListQuery,
  ...answers(Type.Array(OwnSignature)),
}

export const one = {
  ...shared,
  operationId: 'readMessageSignature',
  summary: 'Read one signature of the user for this application',
  description: 'Returns 404 for signatures for other applications, and for requests that were not signed.',
  params: IdParam,
  querystring: NoQuery,
  ...answers(OwnSignature, 404),
}
