/** The claims of a valid token: user, application, scopes, chain, expiry (seconds since 1970). */
export type TokenCaller = {
  userId: string
  clientId: string
  scopes: string[]
  chainId: number | null
  /** hosts of the application's registered origins, with the port if they have one */
  domains: readonly string[]
  /** the token's `jti`, else its SHA-256: recorded in the ledger instead of the token */
  tokenId: string
  /** SHA-256 of the token, base64url, and its `jti` if it has one: evidence that it was shown */
  tokenHash: string
  jti: string | null
  expiresAt: number
  /** the entries that would revoke it in a list of revocations */
  marks: { grant: string; application: string; user: string }
}
