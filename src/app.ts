import type { JSONWebKeySet } from 'jose'
import type { Chain } from './chain/network.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import type { Hex, UserId } from './ids.ts'
import type { Signer } from './signer-wire/client.ts'
import type { State } from './state.ts'
import type { RootDb } from './store/db.ts'
import type { SealKeys } from './store/seal.ts'
import type { SecretKeys } from './store/secret-keys.ts'
import type { Telemetry } from './telemetry.ts'

/** Everything that a program has open, passed as an argument. `main.ts` makes one; tests make their own. */
export type App = {
  config: Config
  /** origin of the API, e.g. http://localhost:4000 */
  origin: string
  /**
   * origin of the authorization server: issuer, pages, operator API. Its host differs from that of `origin` if it is a
   * separate program
   */
  authOrigin: string
  db: RootDb
  chains: Map<number, Chain>
  /** names of the served networks, for pages; the same map as `chains` if this process serves networks */
  networks: ReadonlyMap<number, { name: string }>
  signer: Signer
  /** connection to a separate authorization server; null: this process is the authorization server */
  auth: AuthLink | null
  telemetry: Telemetry
  /** state that slices keep in the memory of this process */
  state: State
  /** public keys that access tokens are verified with; see `issuerOf` and `audienceOf` */
  tokenKeys: JSONWebKeySet
  /** keys of the seals by which the authorization server recognizes rows that it wrote */
  sealKeys: SealKeys
  /** tokens that the operator listed, by chain id and lower-case address: `11155111:0x…`; absent: none */
  knownTokens?: ReadonlyMap<string, { symbol: string; name: string; picture?: PictureSource }>
  clock: Clock
  /** why the database rejected writes recently; null: it did not; absent: nobody measures it */
  writesRefused?: () => string | null
  /** longest recent wait for a database connection, milliseconds; absent: nobody measures it */
  poolWaitMs?: () => number
}

/** The address of a listed token's picture. `allowsPrivate`: its host may be in the operator's private network. */
export type PictureSource = { url: string; allowsPrivate: boolean }

/** Requests of the API program to a separate authorization server. Each throws auth_unavailable. */
export type AuthLink = {
  /**
   * creates or returns the account of an identity, also before its first sign-in; restores rows that only the signer
   * still has
   */
  makeAccount: (of: {
    provider: string
    providerUserId: string
  }) => Promise<{ userId: UserId; address: Hex; isNew: boolean }>
  /** pattern of the user ids of a provider; null: the pattern is unknown; undefined: there is no such provider */
  subjectForm: (provider: string) => Promise<RegExp | null | undefined>
  /** publishes a new list of revoked tokens to the signer now */
  publishRevocations: () => Promise<void>
  /** keys that encrypt the secrets of webhooks: derived ones, which open nothing else */
  webhookKeys: () => Promise<SecretKeys>
  isThere: () => Promise<boolean>
}

/** Returns the OAuth issuer of this installation, which is always at the origin of the authorization server. */
export const issuerOf = ({ authOrigin }: Pick<App, 'authOrigin'>): string => `${authOrigin}/oauth`
/** Returns the audience of access tokens: the API. */
export const audienceOf = (origin: string): string => `${origin}/v1`
