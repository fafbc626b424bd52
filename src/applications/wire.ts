import type { DelegateName, Hex } from '../ids.ts'
import Type, { type Static } from 'typebox'
import type { GasChoice, Verification } from '../chain/network.ts'
import { exactly, Nullable } from '../http/wire.ts'
import type { ExplorerTemplates, Quota as StoredQuota } from '../store/column-values.ts'

/** Shapes of applications and networks for their operator, in the operator API and in commands. */

export const issuer = {
  issuer: Type.String({ maxLength: 2_000, description: 'The tokens’ `iss` claim, exactly' }),
  audience: Type.String({ maxLength: 300, description: 'The `aud` claim they must have' }),
  jwksUri: Nullable(Type.String({ maxLength: 2_000, description: 'JWKS URL; null: found by discovery' })),
  algorithms: Type.Array(Type.String(), { maxItems: 20, description: 'Default RS256 and ES256' }),
  subjectClaim: Type.String({ maxLength: 300, description: 'Claim with the immutable id of a person, default sub' }),
  usernameClaims: Type.Array(Type.String({ maxLength: 300 }), {
    maxItems: 10,
    description: 'Claims to take the display name from, the first that is there',
  }),
  pictureClaim: Type.String({ maxLength: 300 }),
  maxAgeSeconds: Type.Integer({ description: 'How long ago a token may have been issued, 60 to 86400, default 3600' }),
  isReusable: Type.Boolean({ description: 'One token may be exchanged more than once; default false' }),
  allowsPrivate: Type.Boolean({ description: 'The issuer may be in your own network; default false' }),
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
      '`writes`: requests that send a transaction; `reads`: all others with an access token, each read of a batch. Not counted: the status of writes, repeats of answered writes, cancelling and speeding up, and what a rate limit refused',
  }),
  limit: Type.Integer({ description: '1 to 1,000,000,000,000' }),
  per: Type.Union([Type.Literal('hour'), Type.Literal('day'), Type.Literal('month')], { description: 'Of UTC' }),
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
    description: 'Addresses whose writes it pays for, stored in lower case; null: any',
  }),
)
/** Budget of sponsors for writes of an application, if its network's gas is `topup` or `sponsor`. */
const Budget = Type.Object(
  {
    perUser: wei('Wei to one person in 24 hours, over all of them'),
    perApplication: wei('Wei to all its people together in 24 hours'),
    contracts,
  },
  { title: 'SponsorBudget', additionalProperties: false },
)
export type WrittenBudget = Static<typeof Budget>
/** Changes of a budget. An omitted field remains as it is; a new budget needs both amounts. */
export const BudgetChanges = Type.Object(
  {
    perUser: Type.Optional(wei('Wei to one person in 24 hours; with `perApplication` where there is no budget yet')),
    perApplication: Type.Optional(wei('Wei to all its people together in 24 hours; with `perUser` as well')),
    contracts: Type.Optional(contracts),
  },
  { title: 'SponsorBudgetChanges', additionalProperties: false },
)
export type BudgetChanges = Omit<Static<typeof BudgetChanges>, 'contracts'> & {
  contracts?: readonly string[] | null
}
/** An identity provider that an application brings (RFC 8693). */
const Issuer = Type.Object(
  { provider: Type.String({ description: 'First part of user ids, permanently: `APP_…`' }), ...issuer },
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
    description: 'Name shown to people when they are asked to allow the application',
  }),
  redirectUris: Type.Array(Uri, { maxItems: 50, description: 'Exact; on loopback any port' }),
  postLogoutRedirectUris: Type.Array(Uri, {
    maxItems: 50,
    description:
      'Default none. Where a browser may be sent after signing out, exact; `redirectUris` and the front pages of `allowedOrigins` are allowed without it',
  }),
  permissions: Type.Array(Type.String({ maxLength: 200 }), {
    maxItems: 20,
    description: 'Default `wallet:read`',
    examples: [['wallet:read', 'contracts:read']],
  }),
  allowedOrigins: Type.Array(Uri, { maxItems: 50, description: 'Default none. Origins whose pages may call the API' }),
  logoUri: Nullable(Uri),
  needsPkce: Type.Boolean({
    description: 'Default true. false is for confidential applications whose library knows no PKCE: they send a nonce',
  }),
  needsDpop: Type.Boolean({
    description:
      'Default false: a token is bound to a key where the application sends a proof. true: every access token is (RFC 9449)',
  }),
  quotas: Type.Array(Quota, {
    maxItems: 6,
    description: 'Default none: as many requests as the rate limits allow. One of each kind and time',
  }),
  weight: Type.Integer({
    description: 'Default 1, up to 100: its part against those of other applications when not all can be served',
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
        'true: it is the operator’s own, and the consent page says so. Only a command sets it; another redirect origin takes it away',
    }),
    sponsor: Nullable(Budget),
    liveSecrets: Type.Integer({ description: 'How many secrets are valid: 0, 1 or, while one is being replaced, 2' }),
    issuers: Type.Array(Issuer, { description: 'Identity providers of its own, whose tokens it exchanges' }),
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
    network: Type.String({ maxLength: 200, description: 'Name of a network of this installation; permanent' }),
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
        used: Type.Integer({ description: 'Including what servers have leased: at most a hundredth of it for each' }),
        startsAt: Type.String({ format: 'date-time' }),
        endsAt: Type.String({ format: 'date-time' }),
      }),
    ),
    /** amount that sponsors spent on its writes; null: it has no budget */
    sponsored: Nullable(
      Type.Object({
        perApplication: Type.String({ description: 'wei of a rolling day, decimal digits' }),
        used: Type.String({
          description: 'Of that, counted by the hour: with fees, and the highest fee of what is on its way',
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
      Type.String({ description: '`hash`, `bloom` or `count`; null: as the setting BLOCK_VERIFICATION says' }),
    ),
  ),
  /** highest maxFeePerGas (or gasPrice) ever signed */
  feeCapGwei: Nullable(Type.Integer({ description: 'null: as the setting FEE_CAP_GWEI says' })),
  gas: Type.Unsafe<GasChoice>(
    Type.String({
      description:
        'Who pays for gas: `self`, people do; `topup`, a sponsor sends them what their write needs; `sponsor`, one sends what they sign',
    }),
  ),
  gasSpace: Nullable(
    Type.Unsafe<Hex>(Type.String({ description: 'With `sponsor`: the address that says which sponsors may send' })),
  ),
  delegate: Type.Unsafe<DelegateName>(
    Type.String({ description: 'With `sponsor`: what code accounts delegate to, `chatelaine` or `calibur`' }),
  ),
  topUpContracts: Type.Array(Type.Unsafe<Hex>(Type.String({ maxLength: 42 })), {
    maxItems: 1_000,
    description:
      'With `sponsor`: addresses, in lower case, to which accounts send their writes themselves, with what a sponsor sends them for the gas',
  }),
  sponsorPerDay: Nullable(
    wei('Wei that its sponsors may spend in 24 hours for all applications; null: as much as those may'),
  ),
  sponsorLow: Nullable(
    wei('Wei below which the balance of a sponsor counts as low; null: what a hundred top-ups cost now'),
  ),
  backfillFrom: Nullable(
    Type.Integer({
      description:
        'First block whose transfers are looked up by itself for accounts that were here before; null: as the setting BACKFILL_FROM_BLOCK says',
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
    sponsorSpent: wei(
      'Wei that its sponsors spent in the rolling day, counted by the hour, as the usage of an application',
    ),
    sponsors: Type.Integer({
      description: 'How many sponsors it has; with `topup` and none, only people with funds can write',
    }),
    owedDelegations: Nullable(
      Type.Integer({
        description:
          'Where the gas is not `sponsor` any more: accounts that signed a delegation which no block has, at most. Their next write needs a sponsor, its space and a budget. Null: the role of the database was given its rights before (`chatelaine database roles`)',
      }),
    ),
    readFrom: Nullable(
      Type.String({
        description:
          'What the results of its blocks are read from: `block receipts`, `logs`, or `receipts`, one by one, where its nodes have no more; null before it was followed',
      }),
    ),
    native: Nullable(
      Type.Object(
        {
          fromBlock: Type.Integer({
            description: 'Every value, fee, withdrawal and reward from this block on is there',
          }),
          internalFromBlock: Nullable(
            Type.Integer({
              description: 'The same of internal transfers; null: neither logs nor its nodes tell of them',
            }),
          ),
          toBlock: Type.Integer(),
        },
        { description: 'Native currency in the history; null: none is looked at (NATIVE_HISTORY)' },
      ),
    ),
    backfill: Nullable(
      Type.Object(
        {
          accounts: Type.Integer({ description: 'How many accounts are given their past at once' }),
          fromBlock: Type.Integer(),
          nextBlock: Type.Integer({ description: 'Blocks below it are done' }),
          toBlock: Type.Integer({ description: 'The last one; the accounts have everything above it' }),
          blockedBy: Nullable(
            Type.String({
              description:
                'What the nodes refused it with, that the log says what did, or what it waits for; it is tried again',
            }),
          ),
          updatedAt: Type.String({ format: 'date-time', description: 'When it last became other' }),
        },
        { description: 'The group of accounts whose past transfers are looked up now; null: none' },
      ),
    ),
    backfillProgress: Nullable(
      Type.Object(
        {
          waiting: Type.Integer({ description: 'Accounts without their past, those of the present group among them' }),
          covered: Type.Integer({ description: 'Accounts that have it, or need none' }),
          countedAt: Type.String({ format: 'date-time', description: 'When all were counted last' }),
          blocksPerSecond: Nullable(Type.Number({ description: 'Of the present group, or of the one before it' })),
          doneAt: Nullable(
            Type.String({
              format: 'date-time',
              description: 'When none would wait any more, at this rate; null: unknown, or nothing happens now',
            }),
          ),
          waitsFor: Nullable(Type.String({ description: 'Why nothing happens, where accounts wait' })),
        },
        { description: 'How far all accounts are, without counting them for it; null: no process has counted yet' },
      ),
    ),
    applications: Type.Integer({ description: 'How many applications are bound to it' }),
    isServed: Type.Boolean({ description: 'This process is connected to it' }),
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
