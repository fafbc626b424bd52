import assert from 'node:assert/strict'

/**
 * State that a process keeps in memory for one owner: an App, or a network. It ends with its owner, so that two owners
 * share nothing, and what is held can be listed.
 */
export type State = {
  /** by the number of their slot */
  readonly values: unknown[]
  /** names of the slots that have a value */
  list(): string[]
  /** Drops all values, when the owner is closed. */
  clear(): void
}

export type Slot<Owner, Value> = {
  readonly name: string
  /** returns the value of this owner, created at the first call */
  of(owner: Owner): Value
}

const names: string[] = []

/** Creates the state of one owner, without any value. */
export function openState(): State {
  const values: unknown[] = []
  return {
    values,
    list: () => names.filter((_, index) => values[index] !== undefined),
    clear: () => {
      values.length = 0
    },
  }
}

/**
 * Declares a slot: one value of a slice in the state of each owner. It is for slices that depend on the owner's module;
 * what belongs to that module is a field of the owner. Reading it costs one array access.
 * @param name  describes the value; unique among slots
 * @param open  creates the value; the slice must bound its growth
 */
export function slot<Owner extends { state: State }, Value extends object>(
  name: string,
  open: (owner: Owner) => Value,
): Slot<Owner, Value> {
  assert(!names.includes(name), `two slots are named ${name}`)
  const index = names.push(name) - 1
  return { name, of: (owner) => (owner.state.values[index] ??= open(owner)) as Value }
}
