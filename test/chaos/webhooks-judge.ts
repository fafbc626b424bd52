/** What docs/build/webhooks.md promises: answers that a crash may repeat, of one webhook. */
export const MAX_REPEATS = 72
/** milliseconds for which a request of a process that was killed may still be on its way to the endpoint */
const UNDERWAY_MS = 500

/** An event as the harness put it into the feed: `seq` is its number, `id` its id on the wire. */
export type Emitted = { hook: number; subject: string; seq: number; id: string }

type Known = Emitted & { place: number; acceptedAt: number | null }

/** Compares what arrives at the endpoint with what is in the feed. A problem names the promise that was broken. */
export function openJudge(now: () => number = () => performance.now()) {
  const events = new Map<number, Known>()
  /** numbers of the events of a subject, in order, and how many of them are accepted without a gap */
  const subjects = new Map<string, { seqs: number[]; accepted: number }>()
  const kills: number[] = []
  /** by webhook and kill */
  const repeatsOf = new Map<string, number>()
  const problems = new Map<string, number>()
  /** events that came again although no process was killed */
  const unexplained: string[] = []
  let [accepted, repeats] = [0, 0]

  const subjectOf = ({ hook, subject }: Pick<Emitted, 'hook' | 'subject'>) => {
    const key = `${hook} ${subject}`
    const known = subjects.get(key) ?? { seqs: [], accepted: 0 }
    subjects.set(key, known)
    return known
  }
  /** One line for each promise and its number of breaches: a wrong program breaks one a thousand times. */
  const note = (problem: string): void => void problems.set(problem, (problems.get(problem) ?? 0) + 1)

  return {
    /** Called before the event is in the database. */
    emitted: (event: Emitted): void => {
      const { seqs } = subjectOf(event)
      events.set(event.seq, { ...event, place: seqs.length, acceptedAt: null })
      seqs.push(event.seq)
    },
    killed: (): void => void kills.push(now()),
    /**
     * A request has arrived, whatever its answer will be.
     * @param isSigned  the signature is good
     * @returns whether the event may be accepted: false, it is none that was emitted
     */
    arrived: ({ hook, subject, seq, id }: Emitted, isSigned: boolean): boolean => {
      if (!isSigned) note('signature: a request is not signed as documented')
      const known = events.get(seq)
      if (known === undefined || known.hook !== hook || known.subject !== subject || known.id !== id) {
        note('invented: a request has an event that is not in the feed')
        return false
      }
      if (known.place > subjectOf(known).accepted) note('order: an event overtakes an earlier one of its subject')
      return true
    },
    /** The endpoint responds with 2xx. */
    accepted: (seq: number): void => {
      const known = events.get(seq)!
      const { acceptedAt } = known
      known.acceptedAt = now()
      if (acceptedAt === null) {
        accepted++
        const subject = subjectOf(known)
        while (
          subject.accepted < subject.seqs.length &&
          events.get(subject.seqs[subject.accepted]!)!.acceptedAt !== null
        )
          subject.accepted++
        return
      }
      repeats++
      // The kill because of which its answer was not stored.
      const kill = kills.findIndex((at) => at + UNDERWAY_MS >= acceptedAt)
      if (kill === -1) return void unexplained.push(known.id)
      const key = `${known.hook} ${kill}`
      const count = (repeatsOf.get(key) ?? 0) + 1
      repeatsOf.set(key, count)
      if (count === MAX_REPEATS + 1) note(`repeats: a kill repeats more than ${MAX_REPEATS} events of a webhook`)
    },
    /** whether a promise is broken already, whatever comes */
    isBroken: (): boolean => problems.size + unexplained.length > 0,
    count: () => ({
      ...{ emitted: events.size, accepted, repeats, kills: kills.length },
      mostRepeats: Math.max(0, ...repeatsOf.values()),
    }),
    /**
     * @param unheard  ids of events of which the service logged an attempt without a response in time
     * @returns what is wrong, when everything should have arrived
     */
    problems: (unheard: ReadonlySet<string> = new Set()): string[] => [
      ...unexplained.filter((id) => !unheard.has(id)).map((id) => `repeats: ${id} comes again although no process was killed`), // prettier-ignore
      ...(accepted < events.size ? [`lost: ${events.size - accepted} of ${events.size} events did not arrive`] : []),
      ...[...problems].map(([problem, times]) => `${problem} (${times} times)`),
    ],
  }
}
