import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from '../../src/ids.ts'
import { inParallel } from './transactions-answers.ts'
import { doesNothing, readBack, type Write } from './transactions-client.ts'
import { slotOf, type Check, type Tell } from './transactions-evidence.ts'
import { checkOf, highestOffered, untilFollowed, WINDOW_MS, type Verdict } from './transactions-oracle.ts'
import { effectsOf, isGivenUp, packedOf, readOnChain, type OnChain, type Settled } from './sponsor-chain.ts'
import { errorOf } from './sponsor-events.ts'
import { judgeReplays } from './sponsor-replays.ts'
import { gatherSponsored, judgeKeptKeys, judgeSponsoredRows } from './sponsor-rows.ts'
import { judgePurses } from './sponsor-purses.ts'
import { GAS, type Sponsors } from './sponsor-world.ts'
import { judgeTransfers } from './transactions-money.ts'
import type { Account, ChaosWorld } from './transactions-world.ts'

/** milliseconds to settle for each write that is still open */
const WINDOW_PER_WRITE_MS = 100

export type SponsoredVerdict = Verdict & {
  /** writes that failed for good, as the chain shows: by the dispatcher's word, or since their time is over */
  failed: number
  /** of these, those whose delegation a reorganisation took away */
  undelegated: number
  /** operations that were in more than one transaction */
  packedAgain: number
}

/**
 * The judge of `transactions-oracle.ts` for what a sponsor sends: by the events of the dispatcher and by what contracts and accounts hold
 * on the canonical chain, never by what rows say. When everything settled, the service's rows and answers are compared with that; at last
 * everything that was ever packed is sent once more, by the sponsor itself and then after its time, and must not do anything.
 */
export const judgeSponsored =
  (sponsors: Sponsors) =>
  async (
    world: ChaosWorld,
    writes: Write[],
    {
      accounts = world.accounts,
      windowMs = WINDOW_MS,
      log = () => {},
    }: { accounts?: Account[]; windowMs?: number; log?: (line: string) => void } = {},
  ): Promise<SponsoredVerdict> => {
    const startedAt = performance.now()
    const backlog = writes.filter(({ hash }) => hash === null).length + world.node.pool.size()
    const endsAt = startedAt + windowMs + backlog * WINDOW_PER_WRITE_MS
    const from = Number(await world.node.anvil.rpc<Hex>('eth_blockNumber'))
    let seen = await look(world, writes, sponsors)
    while (seen.problems.length > 0 && !has(seen.problems, 'doubled') && performance.now() < endsAt) {
      await pause(500)
      seen = await look(world, writes, sponsors)
      log(`${seen.problems.length} open`)
    }
    const settledMs = Math.round(performance.now() - startedAt)
    const problems = new Set(seen.problems)
    const tell: Tell = (check, text) => void problems.add(`${check}: ${text}`)
    await judgeKeptKeys(world, writes, tell)
    await world.node.mine()
    const evidence = await world.node.still(async () => {
      await untilFollowed(world, accounts[0]!, tell)
      const found = await gatherSponsored(world, writes, { people: accounts, sponsors })
      judgeEffects(world, writes, found.said, tell)
      judgePacking(world, sponsors, tell)
      await judgeSponsoredRows(found, tell)
      judgeTransfers(found, tell)
      await judgePurses(found, tell)
      await judgeReplays(found, tell)
      return found
    })
    const all = [...problems]
    const countOf = (check: Check) => all.filter((problem) => checkOf(problem) === check).length
    const last = Math.max(from, ...[...evidence.said.settled.values()].flat().map(({ tx }) => tx.block.number))
    return {
      ...{
        writes: writes.length,
        mined: seen.done,
        failed: seen.failed,
        undelegated: seen.undelegated,
        cancels: seen.cancels,
      },
      packedAgain: [...packedOf(world, sponsors).values()].filter((some) => new Set(some.map(({ from: of, nonce }) => slotOf(of, nonce))).size > 1).length, // prettier-ignore
      ...{ rows: evidence.operations.length + evidence.rows.length, transfers: evidence.transfers.length },
      attempts: [...evidence.attempts.values()].reduce((sum, some) => sum + some.length, 0),
      ...{ lost: countOf('lost'), doubled: countOf('doubled'), wrong: countOf('wrong'), gaps: countOf('gaps') },
      ...{ unanswered: countOf('unanswered'), settledMs, settledBlocks: last - from, problems: all },
    }
  }

const has = (problems: string[], check: Check): boolean => problems.some((problem) => checkOf(problem) === check)

type Look = { done: number; failed: number; undelegated: number; cancels: number; problems: string[] }

/** What must settle: what is done on the chain, what the node was offered, and what clients were told. */
async function look(world: ChaosWorld, writes: Write[], sponsors: Sponsors): Promise<Look> {
  const said = await readOnChain(world, sponsors)
  const packed = packedOf(world, sponsors)
  const seen: Look = { done: 0, failed: 0, undelegated: 0, cancels: 0, problems: [] }
  const tell: Tell = (check, text) => void seen.problems.push(`${check}: ${text}`)
  judgeEffects(world, writes, said, tell)
  judgeNonces(world, sponsors, said, tell)
  await inParallel(writes, 8, async (write) => {
    const name = `${write.account.name} ${write.marker}`
    for (const problem of write.problems) tell('unanswered', `${name} ${problem}`)
    // Whatever is killed beside it: a server that lives has an answer.
    for (const failure of new Set(write.failures)) tell('answers', `${name}: ${failure}`)
    if (write.hash === null) {
      if (!write.isAbandoned && write.problems.length === 0) tell('unanswered', `${name} after ${write.tries} tries`)
      return
    }
    const { id, operation } = write.answer!
    if (operation === undefined) return tell('answers', `${name} was told no operation`)
    const told = await readBack(world.servers[Number(write.marker % BigInt(world.servers.length))]!, write, id)
    const [settled] = said.settled.get(operation.id) ?? []
    const state = told?.body.state ?? told?.body.code ?? 'nothing'
    const expected = expectedOf(write, settled, isGivenUp(said, packed.get(operation.id)))
    if (settled !== undefined && ![null, write.account.address].includes(settled.account))
      tell('wrong', `${name} was told ${operation.id}, which is used for ${settled.account}`)
    if (expected === null)
      return tell('lost', `${name} was told ${operation.id}, the chain says ${sayOf(settled)}, the service ${state}`)
    if (!expected.includes(state)) tell('wrong', `${name} is ${state}, the chain says ${sayOf(settled)}`)
    if (settled?.event.kind === 'Done') seen.done++
    else if (state === 'CANCELLED' || state === 'SUBMITTED') seen.cancels++
    else seen.failed++
    if (settled !== undefined && isUndelegated(settled)) seen.undelegated++
  })
  return seen
}

const sayOf = (settled: Settled | undefined): string =>
  settled === undefined ? 'nothing' : `${settled.event.kind} ${'reason' in settled.event ? errorOf(settled.event.reason) : ''} in ${settled.tx.hash}` // prettier-ignore

const isUndelegated = ({ event }: Settled): boolean => event.kind === 'Failed' && errorOf(event.reason) === 'NotDelegated' // prettier-ignore

/**
 * What a told write may be, by what the dispatcher said of its id; null: it is lost. Without a word of the dispatcher it has to have failed
 * or been cancelled for good, which `sponsor-rows.ts` wants a proof for; what was cancelled and is carried no more waits for its last second.
 */
function expectedOf(write: Write, settled: Settled | undefined, isCarriedNoMore: boolean): string[] | null {
  if (settled === undefined)
    return write.isCancelAsked ? ['CANCELLED', 'FAILED', ...(isCarriedNoMore ? ['SUBMITTED'] : [])] : ['FAILED']
  const { event } = settled
  if (event.kind !== 'Failed') {
    if (event.kind === 'Done') return ['MINED', 'FINALIZED']
    return write.isCancelAsked ? ['CANCELLED'] : null
  }
  const error = errorOf(event.reason)
  if (error === 'CallFailed') return write.mayFail ? ['REVERTED'] : null
  // Its time was over when it came into a block; or what its account delegated by was lost, and came behind it.
  if (error === 'Expired') return settled.tx.block.timestamp > write.answer!.operation!.deadline ? ['FAILED'] : null
  return error === 'NotDelegated' ? ['FAILED'] : null
}

/** Each effect is one that was asked for, once, and there exactly where the dispatcher says that its operation was done. */
function judgeEffects(world: ChaosWorld, writes: Write[], { effects, settled }: OnChain, tell: Tell): void {
  const known = new Set<string>()
  for (const write of writes) {
    const own = effectsOf(write)
    for (const one of own) known.add(one)
    const times = own.map((one) => effects.get(one) ?? 0)
    const name = `${write.account.name} ${write.marker}`
    if (times.some((many) => many > 1)) tell('doubled', `${name} is done ${Math.max(...times)} times`)
    if (new Set(times).size > 1) tell('doubled', `${name} is done in part: ${times.join(', ')}`)
    const id = write.answer?.operation?.id
    if (id === undefined) continue
    const [first] = settled.get(id) ?? []
    const isDone = first?.event.kind === 'Done'
    if (isDone && times[0] === 0) tell('lost', `${name}: the dispatcher says that it is done, and nothing was`)
    if (!isDone && times[0]! > 0) tell('doubled', `${name} is done, and the dispatcher says ${sayOf(first)} of its id`)
  }
  for (const one of effects.keys()) if (!known.has(one)) tell('doubled', `${one} is done and nobody asked for it`)
  for (const [id, some] of settled) if (some.length > 1) tell('doubled', `${id} was settled ${some.length} times`)
}

/** No nonce of a sponsor that the node ever saw is missing, or had two effects; sponsors send nothing else, and people nothing at all. */
function judgeNonces(
  { node, accounts, foreign }: ChaosWorld,
  sponsors: Sponsors,
  { outers, chain }: OnChain,
  tell: Tell,
): void {
  const own = new Set(sponsors.accounts.map(({ address }) => address))
  const offered = [...node.pool.offered.values()].filter(({ from }) => own.has(from))
  const mined = new Map(outers.map((tx) => [slotOf(tx.from, tx.nonce), tx]))
  for (const [from, highest] of highestOffered(offered))
    for (let nonce = 0; nonce <= highest; nonce++)
      if (!mined.has(slotOf(from, nonce))) tell('gaps', `nonce ${nonce} of ${from} is not mined`)
  const sending = offered.filter((one) => !doesNothing(one.from, one))
  for (const [slot, some] of Map.groupBy(sending, ({ from, nonce }) => slotOf(from, nonce)))
    if (new Set(some.map(({ data }) => data)).size > 1) tell('gaps', `${slot} was given to several transactions`)
  for (const tx of outers) {
    const isDispatch = tx.to === GAS.dispatcher && tx.value === 0n
    if (!isDispatch && !doesNothing(tx.from, tx) && !foreign.has(tx.hash))
      tell('doubled', `${tx.hash} of a sponsor is neither a dispatch nor a cancel`)
  }
  const people = new Set(accounts.map(({ address }) => address))
  for (const { from, hash } of chain.transactions) if (people.has(from)) tell('doubled', `${hash} is sent by a person`)
}

/** An id stands for one operation, whoever packs it and however often; and none is packed when its time is over. */
function judgePacking(world: ChaosWorld, sponsors: Sponsors, tell: Tell): void {
  for (const [id, some] of packedOf(world, sponsors)) {
    if (new Set(some.map(({ bytes }) => bytes)).size > 1) tell('doubled', `${id} stands for several operations`)
    for (const { at, deadline, hash } of some)
      if (Math.floor(at / 1_000) > deadline)
        tell('price', `${id} was packed in ${hash}, ${Math.floor(at / 1_000) - deadline} s after its last second`)
  }
}
