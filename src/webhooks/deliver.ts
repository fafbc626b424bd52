import { isDeepStrictEqual } from 'node:util'
import type { App } from '../app.ts'
import { readEventsAt, readStored, readTypes, type EventFilter, type EventPage } from '../events/read.ts'
import type { WireEvent } from '../events/wire.ts'
import type { DeliveryKind, WebhookEnd } from '../store/column-values.ts'
import { keyIdOf } from '../store/seal.ts'
import { decryptSecret } from '../store/secret-keys.ts'
import { readWebhookKeys } from './keys.ts'
import { PATIENCE_MS, type Answer, type SendEvent } from './post.ts'
import {
  LEASE_MS,
  MAX_RETRIES,
  nothingUnstored,
  readDueRetries,
  readOldestRetry,
  readStoredAfter,
  readWantedTypes,
  readWaiting,
  storeProgress,
  type ClaimedWebhook,
  type RetryChain,
  type WebhookSettings,
} from './progress.ts'
import { runReplay } from './replay.ts'
import { newDeliveryId, sendRequested } from './requested.ts'
import { delayOf, MAX_FAILURES_IN_A_ROW, probeDelayOf } from './schedule.ts'
import type { Slots } from './slots.ts'

const MAX_IN_FLIGHT = 8
/** events after the cursor, and retries, that were answered and are not stored: with those in flight, what a crash repeats */
const MAX_UNSTORED = 64
/** milliseconds after which an answer is stored at the latest, and between two looks for retries that are due */
const STORE_MS = 200
/** events that are read ahead */
const PAGE = 100
/** A delivery must be over before the lease ends, or another process could send the next event of its subject earlier. */
const MIN_LEASE_MS = PATIENCE_MS + 5_000
/** milliseconds above which answers are slow: p95 of the last 20 */
const SLOW_MS = 3_000

export type DeliveryParts = { post: SendEvent; slots: Slots; signal: AbortSignal }

/** An event of the feed in the order of its number, from reading until its answer is stored. */
type Pending = { event: WireEvent; state: 'waiting' | 'in flight' | 'settled' }

/**
 * Delivers the events of one claimed webhook until there are no more, and gives it back. Events of one subject are sent
 * one after another; those of others pass one that waits for a retry. The cursor is where everything before was
 * answered, or is stored as a retry.
 */
export async function deliverWebhook(app: App, claimed: ClaimedWebhook, parts: DeliveryParts): Promise<void> {
  const { db, clock, telemetry } = app
  const { id, client_id: clientId } = claimed
  const { post, slots, signal } = parts
  const whole = { clientId, accountId: null }

  let settings: WebhookSettings = claimed
  let types = filterOf(claimed.types)
  let secrets = await secretsOf(app, claimed)
  let leaseEnds = clock.ticks() + LEASE_MS
  let { failures } = claimed
  let ends: WebhookEnd | null = null
  let probeMs = claimed.probe_ms === 0 ? null : claimed.probe_ms
  let isLost = false
  let isDisabled = claimed.disabled_at !== null
  let isAllowed = true

  let position = claimed.cursor
  const pending: Pending[] = []
  const waiting = await readWaiting(db, id)
  /** events after the cursor that have a row already: they are in `waiting`, or dead */
  const stored = await readStoredAfter(db, id, claimed.cursor)
  const chains = new Set<string>()
  /** subjects of chains that are over, until what they did is stored */
  const finished: string[] = []
  const requested = new Set<string>()
  let isReplaying = false
  let unstored = nothingUnstored()
  let unstoredRetries = 0
  let inFlight = 0
  const durations: number[] = []
  let [storeAt, lookAt, readAt] = [Number.POSITIVE_INFINITY, 0, 0]
  let woken = Promise.withResolvers<void>()

  const isOwn = ({ subject }: WireEvent) => subject === `webhook:${id}`
  const wake = () => woken.resolve()
  signal.addEventListener('abort', wake, { once: true })
  const isOver = () => isLost || isDisabled || !isAllowed || signal.aborted
  /** Whether a webhook stands: nothing is sent until its next probe. */
  const stands = () => probeMs !== null || ends !== null
  const countWaiting = () => [...waiting.values()].reduce((sum, one) => sum + one, 0)
  const countUnstored = () => pending.filter(({ state }) => state === 'settled').length + unstoredRetries
  const mayLease = () => clock.ticks() < leaseEnds - MIN_LEASE_MS
  const maySend = () => !isOver() && !stands() && mayLease() && countUnstored() < MAX_UNSTORED

  if (secrets === null) {
    telemetry.log.error('webhook_secret_unreadable', { webhook: id })
    ends = 'secret'
    await store(true)
    return
  }
  if (claimed.probe_ms === 0 && !isOver()) {
    const isDelivered = await probe()
    // At once: a retry that was delivered must not be found again.
    await store(!isDelivered)
    if (!isDelivered) return
  }
  for (;;) {
    woken = Promise.withResolvers()
    if (maySend() && countWaiting() < MAX_RETRIES) await read()
    sendEvents()
    if (clock.ticks() >= lookAt && !isLost && !signal.aborted) {
      lookAt = clock.ticks() + STORE_MS
      await sendRequestedOnes()
      await sendRetries()
      startReplay()
    }
    const isTime = countUnstored() >= MAX_UNSTORED || clock.ticks() >= storeAt || inFlight === 0
    if (isTime && !isLost && hasUnstored() && (await store(false))) continue
    if (inFlight === 0) break
    const timer = clock.after(STORE_MS, wake)
    await woken.promise
    timer.cancel()
  }
  if (isLost) return
  parkOvertaken()
  await store(true)

  /** Takes a slot for one delivery after another. @returns null  none is free */
  function takeSlot(): (() => void) | null {
    if (inFlight >= MAX_IN_FLIGHT) return null
    const isSlow = durations.filter((ms) => ms > SLOW_MS).length > 1
    const giveBack = slots.take(isSlow)
    if (giveBack === null) return null
    inFlight++
    return () => {
      inFlight--
      giveBack()
      wake()
    }
  }

  async function send(event: WireEvent, isReplay = false): Promise<Answer> {
    const answer = await post({ url: settings.url, secrets: secrets!, event, isReplay, signal })
    durations.push(answer.durationMs)
    if (durations.length > 20) durations.shift()
    storeAt = Math.min(storeAt, clock.ticks() + STORE_MS)
    return answer
  }

  /** Counts an answer for the webhook as a whole. */
  function count(answer: Answer): void {
    telemetry.webhookDeliveries.inc({ result: answer.isOk ? 'delivered' : 'failed' })
    if (answer.isOk) {
      failures = 0
      unstored.delivered++
      return
    }
    failures++
    unstored.lastFailure = answer.error
    if (answer.status === 410) ends = 'gone'
    const asksToWait = answer.retryAfterMs > 0 && (answer.status === 429 || answer.status === 503)
    if (failures >= MAX_FAILURES_IN_A_ROW || asksToWait)
      probeMs = Math.max(probeMs ?? 0, asksToWait && failures < MAX_FAILURES_IN_A_ROW ? probeDelayOf(0, answer.retryAfterMs) : probeDelayOf(failures, answer.retryAfterMs)) // prettier-ignore
  }

  function log(kind: DeliveryKind, event: WireEvent, attempt: number, answer: Answer): void {
    const { status, error, answer: text, durationMs } = answer
    unstored.attempts.push({
      ...{ id: newDeliveryId(), kind, eventId: event.id, seq: event.sequence, type: event.type },
      ...{ attempt, status, error, answer: text, durationMs },
    })
  }

  /** Reads ahead in the feed. */
  async function read(): Promise<void> {
    if (pending.length >= PAGE || clock.ticks() < readAt) return
    const page = await readPage()
    position = page.after
    pending.push(...page.events.map((event): Pending => ({ event, state: isOwn(event) || stored.has(event.sequence) ? 'settled' : 'waiting' }))) // prettier-ignore
    readAt = page.isEnd ? clock.ticks() + STORE_MS / 2 : 0
  }

  /** Reads the next page. If the types were changed before it was read, reads it again: what was left out would never be sent. */
  async function readPage(): Promise<EventPage> {
    for (;;) {
      const page = await readStored(app, whole, { after: position, types, limit: PAGE })
      if (page.isCut) noteDeleted()
      if (page.after === position) return page
      const wanted = await readWantedTypes(db, id)
      if (wanted === null || isDeepStrictEqual(wanted, settings.types)) return page
      settings = { ...settings, types: wanted }
      types = filterOf(wanted)
    }
  }

  /** Notes that events left the feed before they could be sent. */
  function noteDeleted(): void {
    telemetry.log.warn('webhook_events_expired', { webhook: id, clientId })
    unstored.lastFailure = 'events were deleted before they could be sent'
  }

  function sendEvents(): void {
    const busy = new Set<string>()
    for (const one of pending) {
      const { subject } = one.event
      if (one.state === 'settled') continue
      if (one.state === 'waiting' && !busy.has(subject) && !isOver()) {
        if (waiting.has(subject)) {
          park(one, { attempts: 0, dueMs: null })
          continue
        }
        if (maySend()) {
          const giveBack = takeSlot()
          if (giveBack === null) return
          void sendEvent(one).finally(giveBack)
        }
      }
      busy.add(subject)
    }
  }

  async function sendEvent(one: Pending): Promise<void> {
    one.state = 'in flight'
    const answer = await send(one.event)
    // The process ends: the next process sends it again.
    if (signal.aborted && !answer.isOk) return void (one.state = 'waiting')
    count(answer)
    if (answer.isOk) one.state = 'settled'
    else {
      log('event', one.event, 1, answer)
      park(one, { attempts: 1, dueMs: delayOf(1, answer.retryAfterMs) })
    }
  }

  function park(one: Pending, { attempts, dueMs }: { attempts: number; dueMs: number | null }): void {
    const { sequence: seq, subject } = one.event
    unstored.parked.push({ seq, subject, attempts, dueMs })
    waiting.set(subject, (waiting.get(subject) ?? 0) + 1)
    one.state = 'settled'
  }

  /** Stores what was overtaken as retries, so that the cursor passes what was accepted: nobody sends that again. */
  function parkOvertaken(): void {
    const last = pending.findLastIndex(({ state }) => state === 'settled')
    for (const one of pending.slice(0, Math.max(0, last)))
      if (one.state === 'waiting') park(one, { attempts: 0, dueMs: waiting.has(one.event.subject) ? null : 0 })
  }

  async function sendRetries(): Promise<void> {
    if (!maySend() || waiting.size === 0) return
    for (const chain of await readDueRetries(db, id, 2 * MAX_IN_FLIGHT)) {
      if (chains.has(chain.subject)) continue
      const giveBack = takeSlot()
      if (giveBack === null) return
      chains.add(chain.subject)
      void sendChain(chain)
        .catch((error: unknown) => telemetry.log.warn('webhook_not_delivered', { webhook: id }, error))
        .finally(() => {
          finished.push(chain.subject)
          giveBack()
        })
    }
  }

  /** Sends what waits of one subject, in order, until one fails. */
  async function sendChain({ subject, rows }: RetryChain): Promise<void> {
    const events = await readEventsAt(app, clientId, rows.map(({ seq }) => seq)) // prettier-ignore
    const bySeq = new Map(events.map((event) => [event.sequence, event]))
    for (const { seq, attempts } of rows) {
      if (!maySend()) return
      const event = bySeq.get(seq)
      // The event was deleted, because of its age or because its user took the permission back.
      const answer = event === undefined ? null : await send(event)
      if (event === undefined) noteDeleted()
      if (answer !== null && signal.aborted && !answer.isOk) return
      unstoredRetries++
      if (answer !== null) count(answer)
      if (event !== undefined && answer !== null && !answer.isOk)
        return failRetry({ seq, subject, attempts: attempts + 1 }, event, answer)
      unstored.done.push({ seq, subject })
      storeAt = Math.min(storeAt, clock.ticks() + STORE_MS)
    }
  }

  function failRetry(row: { seq: number; subject: string; attempts: number }, event: WireEvent, answer: Answer): void {
    log('retry', event, row.attempts, answer)
    const dueMs = delayOf(row.attempts, answer.retryAfterMs)
    unstored.failed.push({ ...row, dueMs })
    if (dueMs !== null) return
    telemetry.webhookDeliveries.inc({ result: 'dead' })
    telemetry.log.warn('webhook_event_dead', { webhook: id, event: event.id, type: event.type })
  }

  /**
   * Sends the oldest event once, while the webhook stands. A failure counts for the webhook, and not for the event.
   * @returns whether it was delivered, or there is none
   */
  async function probe(): Promise<boolean> {
    const retry = await readOldestRetry(db, id)
    if (retry === undefined) await read()
    const main = pending.find(({ state }) => state === 'waiting')
    const event = retry === undefined ? main?.event : (await readEventsAt(app, clientId, [retry.seq]))[0]
    if (retry !== undefined && event === undefined) {
      unstored.done.push(retry)
      noteDeleted()
      return true
    }
    if (event === undefined) return true
    const answer = await send(event)
    if (signal.aborted && !answer.isOk) {
      probeMs = 0
      return false
    }
    count(answer)
    if (!answer.isOk) {
      log('probe', event, (retry?.attempts ?? 0) + 1, answer)
      probeMs ??= probeDelayOf(failures, answer.retryAfterMs)
      pending.length = 0
      position = claimed.cursor
      return false
    }
    if (retry !== undefined) {
      unstored.done.push(retry)
      unstoredRetries++
    } else main!.state = 'settled'
    return true
  }

  /** Tests and repeats by hand: also while the webhook stands or is disabled. */
  async function sendRequestedOnes(): Promise<void> {
    await sendRequested(app, { id, clientId }, requested, {
      takeSlot,
      send: (event) => send(event),
      failed: (error) => telemetry.log.warn('webhook_not_delivered', { webhook: id }, error),
    })
  }

  function startReplay(): void {
    if (isReplaying || !maySend()) return
    const giveBack = takeSlot()
    if (giveBack === null) return
    isReplaying = true
    void runReplay(
      app,
      { id, clientId, epoch: claimed.epoch, types },
      { send: (event) => send(event, true), maySend, noteDeleted },
    )
      .catch((error: unknown) => telemetry.log.warn('webhook_not_delivered', { webhook: id }, error))
      .finally(giveBack)
  }

  function hasUnstored(): boolean {
    const { parked, done, failed, attempts, delivered, lastFailure } = unstored
    return parked.length + done.length + failed.length + attempts.length + delivered > 0 || lastFailure !== null || pending[0]?.state === 'settled' // prettier-ignore
  }

  /** Stores what happened. @returns false  another process has the webhook: nothing was stored. @throws database_unavailable */
  async function store(isReleased: boolean): Promise<boolean> {
    const settled = pending.findIndex(({ state }) => state !== 'settled')
    const through = settled === -1 ? pending.length : settled
    const cursor = settled === -1 ? position : (pending[through - 1]?.event.sequence ?? claimed.cursor)
    const batch = unstored
    const ended = finished.splice(0)
    unstored = nothingUnstored()
    unstoredRetries = 0
    storeAt = Number.POSITIVE_INFINITY
    const began = clock.ticks()
    const standing = { cursor, failures, probeMs, waiting: countWaiting() - batch.done.length, ends, isReleased }
    const row = await storeProgress(db, claimed, batch, standing)
    if (row === null) {
      isLost = true
      return false
    }
    leaseEnds = began + LEASE_MS
    isAllowed = row.is_allowed
    pending.splice(0, through)
    for (const { subject } of batch.done) settleOne(subject)
    for (const { subject, dueMs } of batch.failed) if (dueMs === null) settleOne(subject)
    for (const subject of ended) chains.delete(subject)
    if (batch.done.length + batch.failed.length > 0) lookAt = 0
    if (!isDisabled && row.disabled_at !== null) {
      isDisabled = true
      telemetry.log.warn('webhook_disabled', { webhook: id, clientId })
    }
    if (row.secret !== settings.secret || row.old_secret !== settings.old_secret)
      secrets = (await secretsOf(app, { ...claimed, ...row })) ?? secrets
    types = filterOf(row.types)
    settings = row
    return true
  }

  function settleOne(subject: string): void {
    const left = waiting.get(subject)! - 1
    if (left === 0) waiting.delete(subject)
    else waiting.set(subject, left)
  }
}

/** Returns the types that a webhook wants; null: all. */
const filterOf = (types: readonly string[]): EventFilter => (types.includes('*') ? null : readTypes(types.join(',')))

/** Decrypts the secrets that sign. @returns null  the key that encrypted the newest one is unknown */
async function secretsOf(
  app: App,
  { id, secret, old_secret: old }: Pick<ClaimedWebhook, 'id' | 'secret' | 'old_secret'>,
): Promise<Uint8Array[] | null> {
  const keys = await readWebhookKeys(app, keyIdOf(secret))
  const [newest, former] = [secret, old].map((text) => (text === null ? null : decryptSecret(keys, text, id)))
  if (newest === null || newest === undefined) return null
  return former === null || former === undefined ? [newest] : [newest, former]
}
