import { isDeepStrictEqual } from 'node:util'
import type { App } from '../../app.ts'
import { askApproval, askedApproval } from '../../approvals/ask.ts'
import { AppError } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import { keyReused } from '../../http/idempotency-key.ts'
import type { Checked } from '../../signer-wire/wire.ts'
import { slot } from '../../state.ts'
import type { ApprovalContent } from '../../store/column-values.ts'
import type { Intent } from '../intent.ts'
import type { IdempotencyKey } from '../key.ts'

/** A write that its user may have to approve. */
type Approvable = {
  id: string
  caller: Caller
  key: IdempotencyKey | null
  /** IP address of the request; null: unknown */
  askedFrom: string | null
  calls: readonly Pick<Intent, 'to' | 'value' | 'data'>[]
  /** asks the signer about the write if this approval is shown */
  check: (approval: string | null) => Promise<Pick<Checked, 'requires'>>
}

/**
 * Finds the approval of a write, and asks the user if it is missing. The signer is asked before a number is bound and gas
 * is reserved: a nonce that it then refuses is vacated, and delays the account's other writes. While no rule of the policy
 * requires approvals, the signer is not asked.
 * @returns the approval to show the signer; null if there is none
 * @throws approval_required, approval_denied, idempotency_key_reused, and the errors of `check`
 */
export const findApproval = async (app: App, write: Approvable): Promise<string | null> =>
  (await asksUsers(app)) ? checkApproval(app, write) : shownFor(app, write)

/** Does the same as `findApproval`, and asks the signer in any case. @throws as `findApproval` */
export async function checkApproval(app: App, write: Approvable): Promise<string | null> {
  const token = await shownFor(app, write)
  const { requires } = await write.check(token)
  if (requires !== null) throw await unapproved(app, write, requires)
  return token
}

/** Returns the approval to show. A write that waits for its user is stored only as the question, so its key stands for that. */
async function shownFor(app: App, { id, key, calls }: Approvable): Promise<string | null> {
  const asked = key === null ? null : await askedApproval(app, id)
  if (asked === null) return null
  if (!isDeepStrictEqual(asked.content, contentOf(calls))) throw keyReused()
  return asked.token
}

const contentOf = (calls: Approvable['calls']): ApprovalContent => ({
  calls: calls.map(({ to, value, data }) => ({ to, value: String(value), data })),
})

/** Returns the error for a write that its user has not approved, after asking the user if the write has a key. */
async function unapproved(
  app: App,
  { id, caller, key, askedFrom, calls }: Approvable,
  rule: string,
): Promise<AppError> {
  if (key === null)
    return new AppError(
      'approval_required',
      'The user must approve this write. Nothing was sent, and the user was not asked. Send the request with an idempotency key.',
    )
  const { link: approval } = await askApproval(app, {
    caller,
    intentId: id,
    content: contentOf(calls),
    rule,
    askedFrom,
  })
  return new AppError(
    'approval_required',
    'The user must approve this write. Nothing was sent. Open `approval.url` for the user, then repeat the request with the same idempotency key.',
    { approval },
  )
}

/** Returns whether the signer refused a write only because its user has not approved it. */
export const isUnapproved = (error: unknown): error is AppError =>
  error instanceof AppError && error.code === 'approval_required'

/** milliseconds for which the signer's last answer counts */
const KNOWN_MS = 5_000

const known = slot('whether the policy asks users', (_app: App) => ({ asks: Promise.resolve(false), until: -Infinity }))

/**
 * Returns whether the signer's policy has rules that require approvals. If that cannot be read, or has changed within the
 * last 5 s, the signer still refuses what is not approved.
 */
function asksUsers(app: App): Promise<boolean> {
  const last = known.of(app)
  if (app.clock.ticks() < last.until) return last.asks
  last.until = app.clock.ticks() + KNOWN_MS
  last.asks = app.signer.health().then(
    ({ policy }) => policy?.asksUsers ?? false,
    () => {
      last.until = -Infinity
      return false
    },
  )
  return last.asks
}

/** Notes that the signer has just refused a write without an approval, so the next one is checked first. */
export function noteAsking(app: App): void {
  Object.assign(known.of(app), { asks: Promise.resolve(true), until: app.clock.ticks() + KNOWN_MS })
}
