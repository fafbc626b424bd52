import { openPen } from './pen.ts'
import { real } from './real.ts'
import { scams } from './scams.ts'
import type { SpamCase } from './story.ts'

/** All cases, the same in every run. */
export function makeCases(): SpamCase[] {
  const cases: Omit<SpamCase, 'id'>[] = (['tune', 'seen', 'judge'] as const).flatMap((volume, index) => {
    const pen = openPen(75 + index)
    const drafts = [
      ...scams(pen, volume).map((one) => ({ ...one, isSpam: true })),
      ...real(pen, volume).map((one) => ({ ...one, isSpam: false })),
    ]
    const half = volume === 'judge' ? 'judge' : 'tune'
    return drafts.map((one) => {
      const { tokens = [], writes = [], before = [], network = 'ethereum', pattern, isSpam, why, judged, ...more } = one
      return { half, pattern, isSpam, why, network, ...more, tokens, writes, before, judged }
    })
  })
  return cases.map((one, index) => ({ id: index + 1, ...one }))
}
