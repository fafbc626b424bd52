import { fractionsOf } from '../random.ts'
import { playCell } from './nodes-cell.ts'
import type { Fault } from './nodes-faults.ts'
import type { Profile } from './nodes-profiles.ts'
import { stageOf } from './nodes-stage.ts'
import { keyOf, type Cell } from './nodes-table.ts'

/** All faults on one node, one after the other, before one program. */
export async function playNode(profile: Profile, faults: readonly Fault[], seed: number): Promise<Map<string, Cell>> {
  const cells = new Map<string, Cell>()
  const roll = fractionsOf(seed)
  const played = faults.filter((fault) => {
    const not = fault.not?.(profile) ?? null
    if (not !== null) cells.set(keyOf(profile, fault), { not })
    return not === null
  })
  const stage = await stageOf(profile, played.length)
  try {
    for (const fault of played) {
      const { problems, settledMs } = await playCell(stage, fault, roll)
      cells.set(keyOf(profile, fault), problems.length > 0 ? { problems } : { settledMs })
    }
  } finally {
    await stage.close()
  }
  return cells
}
