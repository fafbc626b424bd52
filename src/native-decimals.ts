const MAX_DECIMALS = 36

/**
 * Reads the setting NATIVE_DECIMALS.
 * @param text  `CHAIN_ID:DECIMALS`, separated by commas or spaces; undefined: not set
 * @returns     decimals of native currencies that do not have 18, by chain id; null for any other text
 */
export function readNativeDecimals(text: string | undefined): ReadonlyMap<number, number> | null {
  const byChain = new Map<number, number>()
  if (text === undefined) return byChain
  for (const entry of text.split(/[\s,]+/).filter((one) => one !== '')) {
    const [, id, digits] = /^([1-9]\d{0,15}):(0|[1-9]\d?)$/.exec(entry) ?? []
    const [chainId, decimals] = [Number(id), Number(digits)]
    // Two entries for one network contradict each other.
    if (!Number.isSafeInteger(chainId) || decimals > MAX_DECIMALS || byChain.has(chainId)) return null
    byChain.set(chainId, decimals)
  }
  return byChain.size === 0 ? null : byChain
}
