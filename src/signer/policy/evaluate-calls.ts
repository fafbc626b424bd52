import type { PolicyDocument } from './document.ts'
import { evaluate, type LimitRoom, type MeterCharge, type PolicyQuestion, type PolicyRefusal, type ReadMeter } from './evaluate.ts' // prettier-ignore

/**
 * - `rules`: the rules that allow the calls, each once.
 * - `isNamed`: these rules name the classes or the type of every call.
 * - `requires`: the first rule that demands the user's approval; null if none does.
 */
export type AllowedCalls = {
  allowed: true
  rules: string[]
  isNamed: boolean
  requires: string | null
  charges: MeterCharge[]
  room: LimitRoom[]
}

/**
 * Evaluates calls that are executed together or not at all. Each is evaluated as a write of its own, after the earlier calls have
 * used their part of the limits. If one is rejected, all are. It charges nothing.
 * @param questions  of one user, application and network
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
    const charge = charges.get(meter)
    return {
      ...found,
      used: found.used + (charge?.amount ?? 0n),
      exists: found.exists === true || charge !== undefined,
    }
  }
  let [isNamed, requires] = [true, null as string | null]
  for (const question of questions) {
    const answer = evaluate(policy, question, readAfter)
    if (!answer.allowed) return answer
    rules.add(answer.rule!)
    isNamed &&= answer.isNamed
    requires ??= answer.requires
    for (const charge of answer.charges) {
      const before = charges.get(charge.meter)?.amount ?? 0n
      charges.set(charge.meter, { ...charge, amount: before + charge.amount })
    }
    // Reports the limits as they are before the first call.
    for (const each of answer.room) {
      const key = JSON.stringify([each.rule, each.limit])
      if (!room.has(key)) room.set(key, each)
    }
  }
  return {
    allowed: true,
    rules: [...rules],
    isNamed,
    requires,
    charges: [...charges.values()],
    room: [...room.values()],
  }
}
