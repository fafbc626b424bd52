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
  /** checks with the signer whether it would sign the write with this approval */
  check: (approval: string | null) => Promise<Pick<Checked, 'requires'>>
}

/**
 * Finds the approval token of a write. If it is missing, asks the user. The signer checks the write before a nonce is
 * bound and gas is reserved: a bound nonce that the signer refuses must be vacated, which delays the account's other
 * writes. If no rule of the policy requires approvals, the signer is not called.
 * @returns the approval token for the signer; null if there is none
 * @throws approval_required, approval_denied, idempotency_key_reused, and the errors of `check`
 */
export const findApproval = async (app: App, write: Approvable): Promise<string | null> =>
  (await asksUsers(app)) ? checkApproval(app, write) : shownFor(app, write)

/** Works like `findApproval`, but always calls the signer. @throws as `findApproval` */
export async function checkApproval(app: App, write: Approvable): Promise<string | null> {
  const token = await shownFor(app, write)
  const { requires } = await write.check(token)
  if (requires !== null) throw await unapproved(app, write, requires)
  return token
}

/**
 * Returns the approval token. An unapproved write is stored only as a question to its user. So the idempotency key also
 * covers that question's content.
 */
async function shownFor(app: App, { id, key, calls }: Approvable): Promise<string | null> {
  const asked = key === null ? null : await askedApproval(app, id)
  if (asked === null) return null
  const isSame =
    asked.requestHash?.equals(key!.requestHash) === true && isDeepStrictEqual(asked.content, contentOf(calls))
  if (!isSame) throw keyReused()
  return asked.token
}

const contentOf = (calls: Approvable['calls']): ApprovalContent => ({
  calls: calls.map(({ to, value, data }) => ({ to, value: String(value), data })),
})

/** Creates the error for an unapproved write. If the write has a key, asks the user first. */
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
    requestHash: key.requestHash,
    rule,
    askedFrom,
  })
  return new AppError(
    'approval_required',
    'The user must approve this write. Nothing was sent. Open `approval.url` for the user, then repeat the request with the same idempotency key.',
    { approval },
  )
}

/** Returns whether the signer refused a write only because the user's approval is missing. */
export const isUnapproved = (error: unknown): error is AppError =>
  error instanceof AppError && error.code === 'approval_required'

/** milliseconds for which the signer's last response about its rules is used */
const KNOWN_MS = 5_000

const known = slot('whether the policy asks users', (_app: App) => ({ asks: Promise.resolve(false), until: -Infinity }))

/**
 * Returns whether the signer's policy has rules that require approvals. The answer may be 5 s old, or missing if the
 * signer does not respond. Even then the signer refuses unapproved writes.
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

/** Records that the signer has just refused an unapproved write, so that the next writes are checked first. */
export function noteAsking(app: App): void {
  Object.assign(known.of(app), { asks: Promise.resolve(true), until: app.clock.ticks() + KNOWN_MS })
}
