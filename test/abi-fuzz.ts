/**
 * How long the generated tests run. Plain: `short` cases from one seed, the same every time, a few seconds in all.
 * `FUZZ_RUNS=100000 node --test 'src/abi/*.test.ts'`: that many cases from a new seed, about a minute.
 */
export function fuzz(short: number): { numRuns: number; seed?: number } {
  const long = process.env.FUZZ_RUNS
  return long === undefined ? { numRuns: short, seed: 20_240_501 } : { numRuns: Number(long) }
}
