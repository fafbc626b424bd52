/** The facts that decide about a message. */
export type MessageFacts = {
  /** address of the signing account */
  address: Buffer
  chainId: number
  /** milliseconds since 1970 */
  at: number
  /** hosts of the application's registered origins, with the port if it is not the default */
  domains: readonly string[]
}
