/** Numbers from 0 to 1 that a seed decides (mulberry32): the same decisions, as far as timing lets them come in the same order. */
export function fractionsOf(seed: number): () => number {
  const next = mulberry32(seed)
  return () => next() / 4_294_967_296
}

/** Whole numbers below a limit, the same for the same seed. */
export function randomOf(seed: number): (below: number) => number {
  const next = mulberry32(seed)
  return (below) => next() % below
}

function mulberry32(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
}
