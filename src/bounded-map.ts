/**
 * A map of at most `most` entries, for memory that callers can fill. When it is full, a new entry evicts the one that
 * was set longest ago. Setting an entry again makes it the newest; reading does not.
 */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #most: number

  /** @param most  entries, at least one */
  constructor(most: number) {
    super()
    this.#most = most
  }

  override set(key: K, value: V): this {
    super.delete(key)
    super.set(key, value)
    if (this.size > this.#most) super.delete(this.keys().next().value!)
    return this
  }
}
