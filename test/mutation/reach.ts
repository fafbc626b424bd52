import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { tryFile, type Bench } from './trial.ts'

/** A piece of a file and whether it ran; as V8 counts, the innermost piece around a place decides. */
type Piece = { start: number; end: number; ran: boolean }

/** What one test file runs without any mutant: how long, and which pieces of which files, process by process. */
export type Reach = {
  test: string
  ms: number
  ran: Record<string, Piece[][]>
}

/**
 * Programs that tests kill: V8 writes at the end of a process, and theirs never comes. In the copy they write what they
 * have loaded when they begin, and from time to time. What is appended moves nothing that stands before it.
 */
const KILLED = ['src/signer/main.ts']
const WRITES_AS_IT_GOES = `
import { takeCoverage } from 'node:v8'
if (process.env.NODE_V8_COVERAGE !== undefined) {
  takeCoverage()
  setInterval(takeCoverage, 1_000).unref()
}
`

export function writeAsTheyGo({ folder }: Bench): void {
  for (const file of KILLED) appendFileSync(join(folder, file), WRITES_AS_IT_GOES)
}

/** Runs a test file with V8's coverage, which also the processes write that it starts. @throws Error when it fails */
export async function reachOf(bench: Bench, test: string, files: readonly string[]): Promise<Reach> {
  const folder = mkdtempSync(join(tmpdir(), 'reach-'))
  try {
    const { outcome, ms, failure } = await tryFile(bench, test, {
      timeoutMs: 300_000,
      env: { NODE_V8_COVERAGE: folder },
    })
    if (outcome !== 'passed') throw new Error(`${test} ${outcome} without any mutant: ${failure}`)
    const names = new Map(files.map((file) => [pathToFileURL(join(bench.folder, file)).href, file]))
    const killed = KILLED.map((file) => pathToFileURL(join(bench.folder, file)).href)
    const ran: Reach['ran'] = {}
    for (const name of readdirSync(folder)) {
      const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as { result: Covered[] }
      // Of what tests kill the last steps are not known: whatever it had loaded it may have run.
      const isKilled = result.some(({ url }) => killed.includes(url))
      for (const { url, functions } of result) {
        const file = names.get(url)
        if (file === undefined) continue
        ;(ran[file] ??= []).push(isKilled ? [EVERYTHING] : functions.flatMap(({ ranges }) => ranges.map(pieceOf)))
      }
    }
    return { test, ms, ran }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const EVERYTHING: Piece = { start: 0, end: Number.MAX_SAFE_INTEGER, ran: true }

type Covered = { url: string; functions: { ranges: Range[] }[] }
type Range = { startOffset: number; endOffset: number; count: number }

const pieceOf = ({ startOffset, endOffset, count }: Range): Piece => ({
  start: startOffset,
  end: endOffset,
  ran: count > 0,
})

/** True when some process of the test file ran the place, or may have. */
export function reaches(
  { ran }: Reach,
  { file, start: itself, ranAt: start = itself }: { file: string; start: number; ranAt?: number },
): boolean {
  return (ran[file] ?? []).some((pieces) => {
    const around = pieces.filter((piece) => piece.start <= start && start < piece.end)
    const innermost = around.toSorted((a, b) => a.end - a.start - (b.end - b.start))[0]
    return innermost?.ran === true
  })
}
