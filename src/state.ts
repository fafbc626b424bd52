import assert from 'node:assert/strict'

/**
 * What a process remembers beside what it stores, held by the object that it is about: an App, a network. Opened and gone with
 * it, so that two of them share nothing, and what is remembered can be listed.
 */
export type State = {
  /** by number of their slot */
  readonly values: unknown[]
  /** names of what was begun to be remembered */
  list(): string[]
  /** Forgets everything: the owner is closed. */
  clear(): void
}

export type Slot<Owner, Value> = {
  readonly name: string
  /** what this owner remembers there, begun at the first look */
  of(owner: Owner): Value
}

const names: string[] = []

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
 * A place in the state of each owner for what one slice remembers there. For slices that stand above the owner, which cannot
 * have a field for them; what belongs to the owner's own unit is a field of it. Looking there costs a read of an array.
 * @param name  what is remembered, for people; no other slot has it
 * @param open  where it begins; how far it grows is its own affair
 */
export function slot<Owner extends { state: State }, Value extends object>(
  name: string,
  open: (owner: Owner) => Value,
): Slot<Owner, Value> {
  assert(!names.includes(name), `two slots are named ${name}`)
  const index = names.push(name) - 1
  return { name, of: (owner) => (owner.state.values[index] ??= open(owner)) as Value }
}
