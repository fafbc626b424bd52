import type { SponsorBudget } from '../store/sponsor-budget.ts'
import type { Permission } from './permissions.ts'
import type { ApplicationSettings, RegisteredApplication } from './wire.ts'

/** A client of the authorization server, bound to one network. Of its settings those that are omitted are as stored.ts says. */
export type Application = Partial<Omit<ApplicationSettings, 'permissions' | 'sponsor'>> &
  Pick<ApplicationSettings, 'name' | 'redirectUris' | 'allowedOrigins' | 'logoUri'> &
  Pick<RegisteredApplication, 'clientId' | 'chainId' | 'kind'> & {
    permissions: Permission[]
    /** SHA-256 of each live secret, hexadecimal; two of them while one is being replaced */
    secretHashes: string[]
    isSuspended: boolean
    /** what sponsors may send people for its writes, where its network's gas is `topup`; null: nothing */
    sponsor: SponsorBudget | null
    /** identity providers of its own; changed by issuers.ts alone */
    issuers?: readonly TrustedIssuer[]
  }

/** An identity provider that an application brings: its tokens become users and tokens here (RFC 8693). */
export type TrustedIssuer = RegisteredApplication['issuers'][number]
