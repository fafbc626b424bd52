/**
 * A memory that callers can change, and not grow: of more than `most` entries the one that was set longest ago leaves.
 * Setting an entry again makes it the newest; reading does not.
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
