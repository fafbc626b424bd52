import { anyServer, change, nextAmount, type Want, type Write } from './transactions-client.ts'
import type { Account, ChaosWorld } from './transactions-world.ts'

/** What the next write of a client is, by chance: most write calldata, some send coins along, some move a token. */
export function wantOf({ accounts, roll }: ChaosWorld, { address }: Account): Want {
  const kind = roll()
  if (kind < 0.1) return { kind: 'pay', wei: nextAmount() }
  if (kind >= 0.2) return { kind: 'echo' }
  const others = accounts.filter((other) => other.address !== address)
  // Now and then to oneself: that is one row of the history, not two.
  const to = roll() < 0.1 ? address : others[Math.floor(roll() * others.length)]!.address
  return { kind: 'move', amount: nextAmount(), to }
}

/** Some clients change their mind about what they were told: a cancel or a higher fee, racing with its block. */
export async function meddle(world: ChaosWorld, write: Write, answers: Record<string, number>): Promise<void> {
  const mind = world.roll()
  if (write.hash === null || mind > 0.09) return
  const how = mind < 0.04 ? 'cancel' : 'speed-up'
  const told = await change(anyServer(world), write, how)
  const answer = `${how} ${told?.status === 200 ? 'taken' : (told?.body.code ?? 'no answer')}`
  answers[answer] = (answers[answer] ?? 0) + 1
}
