import type { DelegateName, Hex } from '../ids.ts'
import Type, { type Static } from 'typebox'
import type { GasChoice, Verification } from '../chain/network.ts'
import { exactly, Nullable } from '../http/wire.ts'
import type { ExplorerTemplates, Quota as StoredQuota } from '../store/column-values.ts'

/** Shapes of applications and networks for their operator, in the operator API and in commands. */

export const issuer = {
  issuer: Type.String({ maxLength: 2_000, description: 'Exact `iss` claim of the tokens' }),
  audience: Type.String({ maxLength: 300, description: 'Required `aud` claim of the tokens' }),
  jwksUri: Nullable(Type.String({ maxLength: 2_000, description: 'JWKS URL; null for discovery' })),
  algorithms: Type.Array(Type.String(), { maxItems: 20, description: 'Default RS256 and ES256' }),
  subjectClaim: Type.String({ maxLength: 300, description: 'Claim with the immutable id of the user, default sub' }),
  usernameClaims: Type.Array(Type.String({ maxLength: 300 }), {
    maxItems: 10,
    description: 'Claims with the display name; the first present one is used',
  }),
  pictureClaim: Type.String({ maxLength: 300 }),
  maxAgeSeconds: Type.Integer({
    description: 'Maximum age of a token since it was issued, seconds, 60 to 86400, default 3600',
  }),
  isReusable: Type.Boolean({ description: 'true if one token may be exchanged more than once; default false' }),
  allowsPrivate: Type.Boolean({ description: 'true if the issuer may be in a private network; default false' }),
}

export const ISSUER = {
  issuer: 'https://login.example.com/',
  audience: 'shop',
  jwksUri: null,
  algorithms: ['RS256', 'ES256'],
  subjectClaim: 'sub',
  usernameClaims: ['preferred_username', 'name'],
  pictureClaim: 'picture',
  maxAgeSeconds: 3_600,
  isReusable: false,
  allowsPrivate: false,
}
const quota = {
  counts: Type.Union([Type.Literal('reads'), Type.Literal('writes')], {
    description:
      '`writes`: requests that send a transaction or sign a message. `reads`: all other requests with an access token, and each read of a batch. Not counted: the status of writes, repeated writes, cancellations, speed-ups, and rate-limited requests',
  }),
  limit: Type.Integer({ description: '1 to 1,000,000,000,000' }),
  per: Type.Union([Type.Literal('hour'), Type.Literal('day'), Type.Literal('month')], { description: 'Period in UTC' }),
}
/** A limit on the requests of an application. */
const Quota = exactly<StoredQuota>()(
  Type.Object(quota, {
    title: 'Quota',
    additionalProperties: false,
    examples: [{ counts: 'writes', limit: 100_000, per: 'day' }],
  }),
)
/** An amount as decimal digits: numbers in JSON are not exact. */
const wei = (description: string) => Type.String({ maxLength: 78, description, examples: ['1000000000000000000'] })
const contracts = Nullable(
  Type.Array(Type.String({ maxLength: 42 }), {
    maxItems: 1_000,
    description: 'Contracts that the budget pays for, stored in lower case; null for any address',
  }),
)
/** Budget of sponsors for writes of an application, if its network's gas is `topup` or `sponsor`. */
const Budget = Type.Object(
  {
    perUser: wei('Budget per user in 24 hours over all contracts, wei'),
    perApplication: wei('Budget of all users of the application in 24 hours, wei'),
    contracts,
  },
  { title: 'SponsorBudget', additionalProperties: false },
)
export type WrittenBudget = Static<typeof Budget>
/** Changes of a budget. An omitted field remains as it is; a new budget needs both amounts. */
export const BudgetChanges = Type.Object(
  {
    perUser: Type.Optional(
      wei('Budget per user in 24 hours, wei; requires `perApplication` if there is no budget yet'),
    ),
    perApplication: Type.Optional(
      wei('Budget of all users of the application in 24 hours, wei; requires `perUser` if there is no budget yet'),
    ),
    contracts: Type.Optional(contracts),
  },
  { title: 'SponsorBudgetChanges', additionalProperties: false },
)
export type BudgetChanges = Omit<Static<typeof BudgetChanges>, 'contracts'> & {
  contracts?: readonly string[] | null
}
/** An identity provider that an application brings (RFC 8693). */
const Issuer = Type.Object(
  { provider: Type.String({ description: 'Permanent prefix of user ids: `APP_…`' }), ...issuer },
  { title: 'Issuer' },
)

const Uri = Type.String({ maxLength: 2_000 })
/**
 * Settings of an application, which can also be changed later. The column of each is in stored.ts, its option in
 * cli/app.ts.
 */
const settings = {
  name: Type.String({
    maxLength: 200,
    description: 'Name on the consent page',
  }),
  redirectUris: Type.Array(Uri, { maxItems: 50, description: 'Redirect URI, exact; on loopback, the port is ignored' }),
  postLogoutRedirectUris: Type.Array(Uri, {
    maxItems: 50,
    description:
      'Default none. URIs that a browser may open after signing out, exact. `redirectUris` and the front pages of `allowedOrigins` are always allowed',
  }),
  permissions: Type.Array(Type.String({ maxLength: 200 }), {
    maxItems: 20,
    description: 'Default `wallet:read`',
    examples: [['wallet:read', 'contracts:read']],
  }),
  allowedOrigins: Type.Array(Uri, { maxItems: 50, description: 'Default none. Origins whose pages may call the API' }),
  logoUri: Nullable(Uri),
  needsPkce: Type.Boolean({
    description:
      'Default true. false is for confidential applications whose library does not support PKCE; they must send a nonce',
  }),
  needsDpop: Type.Boolean({
    description:
      'true: every access token must be bound to a key (DPoP, RFC 9449). Default false: a token is bound if the application sends a proof',
  }),
  quotas: Type.Array(Quota, {
    maxItems: 6,
    description: 'Default none: only the rate limits apply. At most one quota per kind and period',
  }),
  weight: Type.Integer({
    description: 'Share of capacity under overload, 1 to 100, default 1',
  }),
}
const { name, redirectUris, ...optional } = settings

const SHOP = {
  clientId: 'shop',
  name: 'Shop',
  network: 'sepolia',
  chainId: 11_155_111,
  kind: 'confidential',
  redirectUris: ['https://shop.example.com/callback'],
  postLogoutRedirectUris: ['https://shop.example.com/'],
  permissions: ['wallet:read', 'contracts:write'],
  allowedOrigins: [],
  logoUri: null,
  needsPkce: true,
  needsDpop: false,
  isFirstParty: false,
  quotas: [{ counts: 'writes', limit: 100_000, per: 'day' }],
  weight: 1,
  sponsor: null,
  liveSecrets: 1,
  issuers: [{ provider: 'APP_SHOP', ...ISSUER }],
  createdAt: '2026-01-31T12:00:00.000Z',
  suspendedAt: null,
}

/** An application as its operator sees it: of its secrets, only how many are live. */
export const Application = Type.Object(
  {
    clientId: Type.String(),
    name,
    /** null if the network was removed from this installation */
    network: Nullable(Type.String()),
    chainId: Type.Integer(),
    kind: Type.Union([Type.Literal('public'), Type.Literal('confidential')]),
    redirectUris,
    ...optional,
    isFirstParty: Type.Boolean({
      description:
        'true if the application is the operator’s own; the consent page then has no warning. Only a command can set this. Another redirect origin resets it',
    }),
    sponsor: Nullable(Budget),
    liveSecrets: Type.Integer({ description: 'Number of valid secrets: 0, 1, or 2 during a rotation' }),
    issuers: Type.Array(Issuer, { description: 'Identity providers of the application, whose tokens it exchanges' }),
    createdAt: Type.String(),
    suspendedAt: Nullable(Type.String()),
  },
  { title: 'Application', examples: [SHOP] },
)
export type RegisteredApplication = Static<typeof Application>

const changeable = { ...settings, sponsor: Nullable(BudgetChanges) }
export const NewApplication = Type.Object(
  {
    name,
    network: Type.String({ maxLength: 200, description: 'Name of a network of this installation; cannot be changed' }),
    redirectUris,
    clientId: Type.Optional(Type.String({ maxLength: 200, description: 'Derived from the name if omitted' })),
    kind: Type.Optional(
      Type.Union([Type.Literal('public'), Type.Literal('confidential')], { description: 'Default public' }),
    ),
    ...Type.Partial(Type.Object(optional)).properties,
    sponsor: Type.Optional(changeable.sponsor),
  },
  {
    title: 'NewApplication',
    additionalProperties: false,
    examples: [{ name: 'Shop', network: 'sepolia', redirectUris: SHOP.redirectUris, kind: 'confidential' }],
  },
)
export const ApplicationChanges = Type.Partial(Type.Object(changeable), {
  title: 'ApplicationChanges',
  additionalProperties: false,
  minProperties: 1,
  examples: [{ permissions: ['wallet:read'] }],
})
/** The settings of an application; only a command may set `isFirstParty`. */
export type ApplicationSettings = Pick<RegisteredApplication, keyof typeof settings | 'isFirstParty'> & {
  sponsor: BudgetChanges | null
}

/** How much an application has used of its quotas. */
export const ApplicationUsage = Type.Object(
  {
    quotas: Type.Array(
      Type.Object({
        ...quota,
        used: Type.Integer({
          description:
            'Used requests, including requests that servers have reserved: at most 1 % of the limit per server',
        }),
        startsAt: Type.String({ format: 'date-time' }),
        endsAt: Type.String({ format: 'date-time' }),
      }),
    ),
    /** amount that sponsors spent on its writes; null: it has no budget */
    sponsored: Nullable(
      Type.Object({
        perApplication: Type.String({ description: 'Budget of a rolling day in wei, decimal digits' }),
        used: Type.String({
          description:
            'Used amount in wei, counted by the hour: with fees, and with the maximum fee of pending transactions',
        }),
      }),
    ),
  },
  {
    title: 'ApplicationUsage',
    examples: [
      {
        quotas: [
          {
            counts: 'writes',
            limit: 100_000,
            per: 'day',
            used: 41_000,
            startsAt: '2026-01-31T00:00:00.000Z',
            endsAt: '2026-02-01T00:00:00.000Z',
          },
        ],
        sponsored: { perApplication: '5000000000000000000', used: '120000000000000000' },
      },
    ],
  },
)
export type ApplicationUsage = Static<typeof ApplicationUsage>

/**
 * Facts of a network besides its name and chain id. Columns and limits are in network-facts.ts, options in
 * cli/network-options.ts.
 */
const facts = {
  symbol: Type.String(),
  coin: Type.String(),
  /** null: this service shows pages of its own */
  explorer: Nullable(
    exactly<ExplorerTemplates>()(Type.Object({ tx: Type.String(), address: Type.String(), block: Type.String() })),
  ),
  finality: Type.Union([Type.Literal('finalized'), Type.Integer()]),
  blockVerification: Nullable(
    Type.Unsafe<Verification>(
      Type.String({ description: '`hash`, `bloom` or `count`; null for the setting BLOCK_VERIFICATION' }),
    ),
  ),
  /** highest maxFeePerGas (or gasPrice) ever signed */
  feeCapGwei: Nullable(Type.Integer({ description: 'Maximum fee per gas; null for the setting FEE_CAP_GWEI' })),
  gas: Type.Unsafe<GasChoice>(
    Type.String({
      description:
        'Payer of gas. `self`: users. `topup`: a sponsor sends users the gas that they need. `sponsor`: a sponsor submits signed operations',
    }),
  ),
  gasSpace: Nullable(
    Type.Unsafe<Hex>(
      Type.String({ description: 'With `sponsor`: space address, whose key decides which sponsors may send' }),
    ),
  ),
  delegate: Type.Unsafe<DelegateName>(
    Type.String({ description: 'With `sponsor`: code that accounts delegate to, `chatelaine` or `calibur`' }),
  ),
  topUpContracts: Type.Array(Type.Unsafe<Hex>(Type.String({ maxLength: 42 })), {
    maxItems: 1_000,
    description: 'With `sponsor`: contracts, in lower case, that accounts call themselves after a top-up',
  }),
  sponsorPerDay: Nullable(
    wei(
      'Maximum that its sponsors spend in 24 hours for all applications, wei; null for no limit beyond the application budgets',
    ),
  ),
  sponsorLow: Nullable(
    wei('Balance below which a sponsor is low, wei; null for the current cost of a hundred top-ups'),
  ),
  pagesPerUser: Nullable(
    wei(
      'Maximum that its sponsors spend in 24 hours on transfers of one user from the account pages, wei; null for nothing. Set both',
    ),
  ),
  pagesPerDay: Nullable(
    wei(
      'Maximum that its sponsors spend in 24 hours on transfers of all users from the account pages, wei; null for nothing',
    ),
  ),
  backfillFrom: Nullable(
    Type.Integer({
      description: 'First block of the backfill; null for the setting BACKFILL_FROM_BLOCK',
    }),
  ),
}
const { gasSpace: _, delegate: __, ...changeableFacts } = facts

/** A network as its operator sees it: the facts that users and programs need, without its nodes. */
export const ListedNetwork = Type.Object(
  {
    /** lower case, permanent */
    name: Type.String(),
    chainId: Type.Integer(),
    ...facts,
    sponsorSpent: wei('Amount that its sponsors spent in the rolling day, wei, counted by the hour'),
    sponsors: Type.Integer({
      description: 'Number of sponsors. With `topup` and no sponsor, only users with funds can write',
    }),
    owedDelegations: Nullable(
      Type.Integer({
        description:
          'After a change from gas mode `sponsor`: maximum number of accounts with a signed delegation that is in no block. Their next write needs a sponsor, its space and a budget. null if the database role lacks a right (`chatelaine database roles`)',
      }),
    ),
    readFrom: Nullable(
      Type.String({
        description:
          'Source of block results: `block receipts`, `logs`, or `receipts` (one by one, if the nodes support nothing else); null before the network was followed',
      }),
    ),
    native: Nullable(
      Type.Object(
        {
          fromBlock: Type.Integer({
            description: 'First block whose values, fees, withdrawals and rewards are all indexed',
          }),
          internalFromBlock: Nullable(
            Type.Integer({
              description: 'First block with internal transfers; null if neither logs nor node traces report them',
            }),
          ),
          toBlock: Type.Integer(),
        },
        { description: 'Native currency in the history; null if it is not indexed (NATIVE_HISTORY)' },
      ),
    ),
    backfill: Nullable(
      Type.Object(
        {
          accounts: Type.Integer({ description: 'Number of accounts in the group' }),
          fromBlock: Type.Integer(),
          nextBlock: Type.Integer({ description: 'Next block; all lower blocks are indexed' }),
          toBlock: Type.Integer({ description: 'Last block of the backfill; higher blocks are indexed already' }),
          blockedBy: Nullable(
            Type.String({
              description: 'Reason for the wait. The backfill retries',
            }),
          ),
          updatedAt: Type.String({ format: 'date-time', description: 'Time of the last change' }),
        },
        { description: 'Group of accounts whose past transfers are being indexed; null if there is none' },
      ),
    ),
    backfillProgress: Nullable(
      Type.Object(
        {
          waiting: Type.Integer({
            description: 'Accounts whose past transfers are not indexed yet, including the current group',
          }),
          covered: Type.Integer({ description: 'Accounts whose past transfers are indexed, or that need no backfill' }),
          countedAt: Type.String({ format: 'date-time', description: 'Time of the last count' }),
          blocksPerSecond: Nullable(Type.Number({ description: 'Rate of the current group, or of the previous one' })),
          doneAt: Nullable(
            Type.String({
              format: 'date-time',
              description: 'Estimated time of completion at this rate; null if unknown or paused',
            }),
          ),
          waitsFor: Nullable(Type.String({ description: 'Reason why the backfill is paused while accounts wait' })),
        },
        { description: 'Progress over all accounts, as last counted; null before the first count' },
      ),
    ),
    applications: Type.Integer({ description: 'Number of applications that are bound to the network' }),
    isServed: Type.Boolean({ description: 'true if this process is connected to the network' }),
  },
  {
    title: 'Network',
    examples: [
      {
        name: 'sepolia',
        chainId: 11_155_111,
        symbol: 'ETH',
        coin: 'Ether',
        explorer: {
          tx: 'https://sepolia.etherscan.io/tx/{hash}',
          address: 'https://sepolia.etherscan.io/address/{address}',
          block: 'https://sepolia.etherscan.io/block/{number}',
        },
        finality: 'finalized',
        blockVerification: null,
        feeCapGwei: null,
        gas: 'self',
        gasSpace: null,
        delegate: 'chatelaine',
        topUpContracts: [],
        sponsorPerDay: null,
        sponsorLow: null,
        pagesPerUser: null,
        pagesPerDay: null,
        backfillFrom: null,
        sponsorSpent: '0',
        sponsors: 0,
        owedDelegations: 0,
        readFrom: 'block receipts',
        native: { fromBlock: 7_900_001, internalFromBlock: 7_900_001, toBlock: 7_912_345 },
        backfill: {
          accounts: 1_000,
          fromBlock: 0,
          nextBlock: 4_120_000,
          toBlock: 7_900_000,
          blockedBy: null,
          updatedAt: '2026-01-31T12:00:00.000Z',
        },
        backfillProgress: {
          waiting: 41_200,
          covered: 8_800,
          countedAt: '2026-01-31T11:50:00.000Z',
          blocksPerSecond: 9_800.5,
          doneAt: '2026-01-31T21:20:00.000Z',
          waitsFor: null,
        },
        applications: 1,
        isServed: true,
      },
    ],
  },
)
export type ListedNetwork = Static<typeof ListedNetwork>

export type StoredFacts = Pick<ListedNetwork, keyof typeof facts>

/** The facts that can be changed while a server runs. An omitted field remains as it is. */
export const NetworkChanges = Type.Partial(Type.Object(changeableFacts), {
  title: 'NetworkChanges',
  additionalProperties: false,
  minProperties: 1,
  examples: [{ gas: 'topup' }],
})
export type NetworkChanges = { [F in keyof typeof changeableFacts]?: StoredFacts[F] | undefined }
