import type { SponsorBudget } from '../store/sponsor-budget.ts'
import type { Permission } from './permissions.ts'
import type { ApplicationSettings, RegisteredApplication } from './wire.ts'

/** A client of the authorization server, bound to one network. stored.ts contains the defaults of omitted settings. */
export type Application = Partial<Omit<ApplicationSettings, 'permissions' | 'sponsor'>> &
  Pick<ApplicationSettings, 'name' | 'redirectUris' | 'allowedOrigins' | 'logoUri'> &
  Pick<RegisteredApplication, 'clientId' | 'chainId' | 'kind'> & {
    permissions: Permission[]
    /** SHA-256 of each live secret, hexadecimal; there are two during a rotation */
    secretHashes: string[]
    isSuspended: boolean
    /** budget of sponsors for its writes, if its network's gas is `topup` or `sponsor`; null: nothing */
    sponsor: SponsorBudget | null
    /** its own identity providers; only issuers.ts changes them */
    issuers?: readonly TrustedIssuer[]
  }

/** An identity provider that an application brings: its tokens are exchanged for users and tokens here (RFC 8693). */
export type TrustedIssuer = RegisteredApplication['issuers'][number]
