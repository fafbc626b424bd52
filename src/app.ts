import type { JSONWebKeySet } from 'jose'
import type { Chain } from './chain/network.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import type { Hex, UserId } from './ids.ts'
import type { Signer } from './signer-wire/client.ts'
import type { State } from './state.ts'
import type { RootDb } from './store/db.ts'
import type { SealKeys } from './store/seal.ts'
import type { Telemetry } from './telemetry.ts'

/** Everything the program has open, passed by hand. `main.ts` makes it, tests make their own. */
export type App = {
  config: Config
  /** origin of the API, e.g. http://localhost:4000 */
  origin: string
  /** origin of the authorization server: issuer, pages, operator API; on another host than `origin` if it is a separate program */
  authOrigin: string
  db: RootDb
  chains: Map<number, Chain>
  /** what pages call the networks that are served; `chains`, where this process serves them */
  networks: ReadonlyMap<number, { name: string }>
  signer: Signer
  /** the program that knows people, where that is another one; null: this one */
  auth: AuthLink | null
  telemetry: Telemetry
  /** what slices remember in this process */
  state: State
  /** public keys that access tokens are verified with; see `issuerOf` and `audienceOf` */
  tokenKeys: JSONWebKeySet
  /** by which the authorization server knows the rows it wrote */
  sealKeys: SealKeys
  /** tokens that the operator knows, by chain id and lower-case address: `11155111:0x…`; absent: none */
  knownTokens?: ReadonlyMap<string, { symbol: string; name: string }>
  clock: Clock
  /** why the database refuses writes lately; null: it does not; without it: nobody looks */
  writesRefused?: () => string | null
  /** milliseconds that requests have waited for a connection to the database lately; without it: nobody waits */
  poolWaitMs?: () => number
}

/** What the program of the API asks that of the authorization server. Each throws auth_unavailable. */
export type AuthLink = {
  /** the account of someone who has not signed in yet, or their own; its rows, where only the signer has it */
  makeAccount: (of: {
    provider: string
    providerUserId: string
  }) => Promise<{ userId: UserId; address: Hex; isNew: boolean }>
  /** what ids of people look like at a provider; null where there is no telling, undefined for one that is not here */
  subjectForm: (provider: string) => Promise<RegExp | null | undefined>
  /** a new list of revoked tokens for the signer, now */
  publishRevocations: () => Promise<void>
  isThere: () => Promise<boolean>
}

/** OAuth issuer of this installation: always at the origin of the authorization server. */
export const issuerOf = ({ authOrigin }: Pick<App, 'authOrigin'>): string => `${authOrigin}/oauth`
/** Audience of access tokens: the API. */
export const audienceOf = (origin: string): string => `${origin}/v1`
