import { writeFileSync } from 'node:fs'
import { openPen } from './pen.ts'
import { real } from './real.ts'
import { scams } from './scams.ts'
import type { SpamCase } from './story.ts'

/** All cases, the same in every run: a half to tune by and a half to judge by, each with words of its own. */
export function makeCases(): SpamCase[] {
  return (['tune', 'judge'] as const).flatMap((half, index) => {
    const pen = openPen(75 + index)
    const drafts = [
      ...scams(pen, half).map((one) => ({ ...one, isSpam: true })),
      ...real(pen, half).map((one) => ({ ...one, isSpam: false })),
    ]
    return drafts.map((one, place): SpamCase => {
      const { tokens = [], writes = [], before = [], network = 'ethereum', pattern, isSpam, why, judged, ...more } = one
      return { id: index * drafts.length + place + 1, half, pattern, isSpam, why, network, ...more, tokens, writes, before, judged }
    })
  })
}

export const CASES_FILE = new URL('cases.json', import.meta.url)

/** One case a line, so that a change of one is seen. */
export const casesText = (cases: SpamCase[]): string => `[\n${cases.map((one) => JSON.stringify(one)).join(',\n')}\n]\n`

// `node test/spam/make-cases.ts` writes the file.
if (import.meta.main) writeFileSync(CASES_FILE, casesText(makeCases()))
