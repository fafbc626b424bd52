import { setTimeout as pause } from 'node:timers/promises'
import { judgeSponsored, type SponsoredVerdict } from './sponsor-judge.ts'
import { loseTails } from './sponsor-tail.ts'
import { isChangedMind, wantOfPerson, withSponsors } from './sponsor-world.ts'
import { anyServer, change } from './transactions-client.ts'
import { describe } from './transactions-report.ts'
import { run, type RunOptions, type RunReport } from './transactions-run.ts'

/** Points that every replica dies at during the storm: of an operation, of what carries it, and of what blocks say. */
export const STORM_POINTS = [
  'before-bind-operation',
  'in-bind-operation',
  'after-bind-operation',
  'after-sign-operation',
  'before-pack',
  'after-bind-outer',
  'after-sign-outer',
  'in-store-outer',
  'after-store-outer',
  'after-broadcast',
  'before-answer-operation',
  'before-replace',
  'after-replace-sign',
  'after-replace-store',
  'after-replace-broadcast',
  'in-block',
  'in-retract',
  'after-follow',
]

/** milliseconds for a block to come, or a raise, to what a client has waited for */
const MIND_MS = 40

export type SponsoredReport = RunReport & { verdict: SponsoredVerdict; lostTails: number }

export type SponsoredRunOptions = RunOptions & {
  /** the newest seconds of the database are lost again and again; PostgreSQL only */
  losesTails?: boolean
}

/** The storm of `transactions-run.ts` where a sponsor sends what people sign: the same faults, and a judge of its own. */
export async function runSponsored(options: SponsoredRunOptions): Promise<SponsoredReport> {
  const { sponsors, prepare } = withSponsors()
  let lostTails = 0
  const report = await run({
    ...options,
    prepare,
    ...(options.losesTails === true
      ? { fault: async (world, signal) => void (lostTails = await loseTails(world, signal)) }
      : {}),
    want: wantOfPerson,
    judge: judgeSponsored(sponsors),
    meddle: async (world, write, answers) => {
      if (write.hash === null || !isChangedMind(world)) return
      await pause(world.roll() * MIND_MS)
      const told = await change(anyServer(world), write, 'cancel')
      const answer = `cancel ${told?.status === 200 ? 'taken' : (told?.body.code ?? 'no answer')}`
      answers[answer] = (answers[answer] ?? 0) + 1
    },
  })
  return { ...report, lostTails } as SponsoredReport
}

/** One run in a few lines, for people. */
export const describeSponsored = (report: SponsoredReport): string => {
  const { failed, undelegated, packedAgain } = report.verdict
  return `${describe(report)}\n  failed for good ${failed}, of these without delegation ${undelegated}; packed again ${packedAgain}; tails lost ${report.lostTails}`
}
