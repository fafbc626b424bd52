import type { SponsorBudget } from '../store/sponsor-budget.ts'
import type { Permission } from './permissions.ts'

/** A client of the authorization server, bound to one network. */
export type Application = {
  clientId: string
  name: string
  chainId: number
  /** public clients (browser, native) keep no secret; confidential ones prove theirs */
  kind: 'public' | 'confidential'
  /** exact addresses; `http://<loopback>/*` means any port and path */
  redirectUris: string[]
  /** where a browser may be sent after signing out, exact, besides redirect addresses and front pages of origins; none unless given */
  postLogoutRedirectUris?: string[]
  permissions: Permission[]
  /** origins whose pages may call with CORS; a loopback origin means any port */
  allowedOrigins: string[]
  /** SHA-256 of each live secret, hexadecimal; two of them while one is being replaced */
  secretHashes: string[]
  logoUri: string | null
  /** false: confidential, and a nonce may replace PKCE; true unless given */
  needsPkce?: boolean
  /** true: its access tokens are bound to a key, always (RFC 9449); false unless given */
  needsDpop?: boolean
  /** the operator's own: the consent page names it so; a command alone says so. false unless given */
  isFirstParty?: boolean
  isSuspended: boolean
  /** what sponsors may send people for its writes, where its network's gas is `topup`; null: nothing */
  sponsor: SponsorBudget | null
  /** identity providers of its own; changed by issuers.ts alone */
  issuers?: readonly TrustedIssuer[]
}

/** An identity provider that an application brings: its tokens become users and tokens here (RFC 8693). */
export type TrustedIssuer = {
  /** `APP_…`: the first part of its people's user ids, forever */
  provider: string
  /** exactly what its tokens say in `iss` */
  issuer: string
  /** what they must say in `aud`: they were made for this application, not for someone else's */
  audience: string
  /** where its keys are; null: found by discovery */
  jwksUri: string | null
  algorithms: string[]
  /** claim that holds the immutable id of a person */
  subjectClaim: string
  /** claims to take the display name from, the first that is there */
  usernameClaims: string[]
  pictureClaim: string
  /** how long ago a token may have been issued, seconds */
  maxAgeSeconds: number
  /** one token may be exchanged more than once */
  isReusable: boolean
  /** it may be in the operator's own network */
  allowsPrivate: boolean
}
