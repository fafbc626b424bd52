/** The state of a limit; amounts in decimal digits of the smallest unit, absent if the limit is shared with other users. */
export type LimitLeft = {
  rule: string
  /** such as `native.periodAmount` */
  limit: string
  amount?: string
  used?: string
  left?: string
  /** when the oldest use stops counting, ISO 8601; null if nothing is used */
  resetsAt: string | null
}
