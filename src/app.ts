import type { JSONWebKeySet } from 'jose'
import type { Chain } from './chain/network.ts'
import type { Config } from './config.ts'
import type { Signer } from './signer/client.ts'
import type { State } from './state.ts'
import type { RootDb } from './store/db.ts'
import type { Telemetry } from './telemetry.ts'

/** Everything the program has open, passed by hand. `main.ts` makes it, tests make their own. */
export type App = {
  config: Config
  /** what clients see in front of every path, e.g. http://localhost:4000 */
  origin: string
  db: RootDb
  chains: Map<number, Chain>
  signer: Signer
  telemetry: Telemetry
  /** what slices remember in this process */
  state: State
  /** public keys that access tokens are verified with; issuer is origin/oauth, audience origin/v1 */
  tokenKeys: JSONWebKeySet
  /** milliseconds since 1970 */
  now: () => number
  /** milliseconds that requests have waited for a connection to the database lately; without it: nobody waits */
  poolWaitMs?: () => number
}

/** OAuth issuer and API audience of this installation. */
export const issuerOf = (origin: string): string => `${origin}/oauth`
export const audienceOf = (origin: string): string => `${origin}/v1`
