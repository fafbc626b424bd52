import assert from 'node:assert/strict'
import type { App } from '../src/app.ts'
import { interruptSteps, type Step } from '../src/transactions/crash-points.ts'
import { age, keep } from './lost-tail.ts'
import { until } from './kit/until.ts'
import type { Replica, Writing } from './writing.ts'

/**
 * As a process that is killed at a step, once: what it was at ends there.
 * @param time  1: the first time that it comes to the step
 */
export async function diesAt(app: App, step: Step, work: () => Promise<unknown>, time = 1): Promise<void> {
  let left = time
  interruptSteps(app, (reached) => {
    if (reached === step && --left === 0) throw new Error('killed')
  })
  await assert.rejects(work(), /killed/)
  assert.ok(left <= 0)
  interruptSteps(app, null)
}

/**
 * Blocks come while it works, and what was stored and never sent is the keeper's to send, once it is old.
 * @param passes  seconds that pass with each block; 0 where nobody died, and nobody is to take over what another is at
 */
export async function whileMining<T>(
  world: Writing & { mine(): Promise<unknown> },
  work: Promise<T>,
  passes = 20,
): Promise<T> {
  let isOver = false
  const ended = work.finally(() => {
    isOver = true
  })
  ended.catch(() => {})
  while (!isOver) {
    await new Promise((resolve) => setTimeout(resolve, 40))
    await world.mine()
    if (passes === 0) continue
    await age(world.first.app, passes)
    await keep(world)
  }
  return ended
}

/** Of all that is sent from now on only the first transaction reaches the node, as often as it comes. */
export function loseAllButFirst(replica: Pick<Replica, 'misbehave'>): void {
  const sent: string[] = []
  replica.misbehave(async (method, params, next) => {
    if (method === 'eth_sendRawTransaction') {
      if (sent.length > 0 && sent[0] !== params[0]) throw new Error('the node is away')
      sent.push(params[0] as string)
    }
    return next()
  })
}

/**
 * Two transactions that carry one operation, of which no node has any.
 * @param between  after the first was lost, before the second is packed
 * @returns their ids
 */
export async function packAgain(
  world: Writing,
  id: string,
  between: () => Promise<unknown> = async () => {},
): Promise<[string, string]> {
  const outerOf = async () =>
    (await world.db.selectFrom('operations').select('outer_id').where('id', '=', id).executeTakeFirstOrThrow()).outer_id
  const first = (await outerOf())!
  await world.rpc('anvil_dropAllTransactions')
  await between()
  // The first counts as cancelled for as long as it takes to pack the second.
  const set = (is_cancel: boolean) => world.db.updateTable('transactions').set({ is_cancel }).where('id', '=', first).execute() // prettier-ignore
  await set(true)
  world.first.misbehave((method, _params, next) =>
    method === 'eth_sendRawTransaction' ? Promise.reject(new Error('the node is away')) : next(),
  )
  await until('it is packed again', async () => {
    await keep(world)
    return (await outerOf()) !== first
  })
  await set(false)
  world.first.misbehave(null)
  return [first, (await outerOf())!]
}
