/** What a good token says: who, through which application, what is allowed, on which chain, until when (seconds). */
export type TokenCaller = {
  userId: string
  clientId: string
  scopes: string[]
  chainId: number | null
  /** the token's `jti`, else its SHA-256: for the ledger, never the token itself */
  tokenId: string
  /** SHA-256 of the token, base64url, and its `jti` where it has one: the evidence that it was shown */
  tokenHash: string
  jti: string | null
  expiresAt: number
  /** as they would be in a list of what is revoked */
  marks: { grant: string; application: string; user: string }
}
