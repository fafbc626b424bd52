import type { PolicyDocument } from './document.ts'
import { evaluate, type LimitRoom, type MeterCharge, type PolicyQuestion, type PolicyRefusal, type ReadMeter } from './evaluate.ts' // prettier-ignore

/** `rules`: those that allow the calls, each once. */
type AllowedCalls = { allowed: true; rules: string[]; charges: MeterCharge[]; room: LimitRoom[] }

/**
 * The decision about calls that are done together or not at all: each as a write of its own, to which what those before it use of the
 * limits counts as used. One that is refused refuses all. Charges nothing.
 * @param questions  of one person, application and network
 */
export function evaluateCalls(
  policy: PolicyDocument,
  questions: readonly PolicyQuestion[],
  read: ReadMeter,
): AllowedCalls | PolicyRefusal {
  const charges = new Map<string, MeterCharge>()
  const room = new Map<string, LimitRoom>()
  const rules = new Set<string>()
  const readAfter: ReadMeter = (meter, period) => {
    const found = read(meter, period)
    return { ...found, used: found.used + (charges.get(meter)?.amount ?? 0n) }
  }
  for (const question of questions) {
    const answer = evaluate(policy, question, readAfter)
    if (!answer.allowed) return answer
    rules.add(answer.rule!)
    for (const charge of answer.charges) {
      const before = charges.get(charge.meter)?.amount ?? 0n
      charges.set(charge.meter, { ...charge, amount: before + charge.amount })
    }
    // As they are before all of it.
    for (const each of answer.room) {
      const key = JSON.stringify([each.rule, each.limit])
      if (!room.has(key)) room.set(key, each)
    }
  }
  return { allowed: true, rules: [...rules], charges: [...charges.values()], room: [...room.values()] }
}
