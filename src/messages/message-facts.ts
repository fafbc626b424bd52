/** What a message is judged against. */
export type MessageFacts = {
  /** of the account that signs */
  address: Buffer
  chainId: number
  /** milliseconds since 1970 */
  at: number
  /** hosts, with their port if it is not the usual one, of the application's registered origins */
  domains: readonly string[]
}
