/*
 * The forms of stored records. A MAC proves who wrote a record, not that its members are usable: it does not cover the
 * `exp` of a grant. The library and our code use members without checking them.
 */

type MemberCheck = (value: unknown) => boolean

const text: MemberCheck = (value) => typeof value === 'string'
const yesNo: MemberCheck = (value) => typeof value === 'boolean'
/** Seconds since 1970, or a small count. */
const number: MemberCheck = (value) => typeof value === 'number' && value >= 0 && value <= MAX_SECONDS
const texts: MemberCheck = (value) => Array.isArray(value) && value.every(text)
const anyObject: MemberCheck = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
const either =
  (...checks: MemberCheck[]): MemberCheck =>
  (value) =>
    checks.some((check) => check(value))
const orNull = (check: MemberCheck): MemberCheck => either((value) => value === null, check)
const each =
  (check: MemberCheck): MemberCheck =>
  (value) =>
    anyObject(value) && Object.values(value as object).every(check)
/** Checks the known members that are present, and ignores others. */
const members =
  (checks: Record<string, MemberCheck>): MemberCheck =>
  (value) =>
    anyObject(value) &&
    Object.entries(value as object).every(([name, member]) => !Object.hasOwn(checks, name) || checks[name]!(member))
const needs =
  (names: string[], check: MemberCheck): MemberCheck =>
  (value) =>
    check(value) && names.every((name) => Object.hasOwn(value as object, name))

/** the end of the year 9999 */
const MAX_SECONDS = 253_402_300_799

const COMMON = { iat: number, exp: number, kind: text, clientId: text, accountId: text, grantId: text, acr: text, amr: texts } // prettier-ignore
const SIGN_IN = { ...COMMON, sessionUid: text, expiresWithSession: yesNo, authTime: number, claims: anyObject, nonce: text, resource: either(text, texts), scope: text, sid: text } // prettier-ignore
const ALLOWED = members({ openid: members({ scope: text, claims: texts }), resources: each(text) })
const RESULT = members({
  login: needs(['accountId'], members({ accountId: text, amr: texts, acr: text, ts: number, remember: yesNo })),
  consent: members({ grantId: text }),
  error: text,
  error_description: text,
})

const SHAPES: Record<string, MemberCheck> = {
  Session: members({
    ...COMMON,
    uid: text,
    loginTs: number,
    transient: yesNo,
    state: anyObject,
    browser: orNull(text),
    system: orNull(text),
    authorizations: each(members({ sid: text, grantId: text })),
  }),
  Interaction: needs(
    ['params', 'prompt', 'returnTo', 'exp'],
    members({
      ...COMMON,
      returnTo: text,
      trusted: texts,
      cid: text,
      parJti: text,
      result: RESULT,
      lastSubmission: RESULT,
      session: members({ ...COMMON, uid: text, cookie: text }),
      params: each(either(text, texts)),
      prompt: needs(['name', 'reasons', 'details'], members({ name: text, reasons: texts, details: anyObject })),
    }),
  ),
  Grant: members({
    ...COMMON,
    openid: members({ scope: text, claims: texts }),
    resources: each(text),
    rejected: ALLOWED,
    identity: text,
  }),
  AuthorizationCode: members({ ...SIGN_IN, codeChallenge: text, codeChallengeMethod: text, redirectUri: text, dpopJkt: text }), // prettier-ignore
  RefreshToken: members({ ...SIGN_IN, gty: text, jkt: text, rotations: number, iiat: number }),
}

/** Returns whether a payload has the form of its kind. */
export const isWellFormed = (kind: string, payload: unknown): boolean => (SHAPES[kind] ?? members(COMMON))(payload)
