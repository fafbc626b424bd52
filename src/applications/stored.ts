import { areTexts, quotasIn, textsIn } from '../store/column-values.ts'
import type { SponsorBudget } from '../store/sponsor-budget.ts'
import type { TrustedIssuer } from './application.ts'
import type { StoredApplication } from './authentic.ts'
import type { ApplicationSettings, BudgetChanges, WrittenBudget } from './wire.ts'

/*
 * The settings of an application in its row. Columns that are JSON: their types say what was written, not what someone else may
 * have written since.
 */

type Column<T> = {
  column: keyof StoredApplication
  /** what it is unless said; none: it has to be said */
  unsaid?: T | undefined
  write: (value: T) => unknown
  read: (stored: unknown) => T
}

const plain = <T>(column: keyof StoredApplication, unsaid?: T): Column<T> => ({
  column,
  unsaid,
  write: (value) => value,
  read: (stored) => stored as T,
})
const list = (column: keyof StoredApplication, unsaid?: string[]): Column<string[]> => ({
  ...plain(column, unsaid),
  write: (texts) => JSON.stringify([...new Set(texts)]),
  read: textsIn,
})

/** Of each setting but the budget, which has three columns; what a setting is: wire.ts. */
const columns: { [F in Exclude<keyof ApplicationSettings, 'sponsor'>]: Column<ApplicationSettings[F]> } = {
  name: plain('name'),
  redirectUris: list('redirect_uris'),
  postLogoutRedirectUris: list('post_logout_redirect_uris', []),
  permissions: list('permissions', ['wallet:read']),
  allowedOrigins: list('allowed_origins', []),
  logoUri: plain<string | null>('logo_uri', null),
  needsPkce: plain('needs_pkce', true),
  needsDpop: plain('needs_dpop', false),
  isFirstParty: plain('is_first_party', false),
  quotas: { column: 'quotas', unsaid: [], write: (quotas) => JSON.stringify(quotas), read: quotasIn },
  weight: plain('weight', 1),
}
const everyColumn = Object.entries(columns) as [keyof typeof columns, Column<unknown>][]

/** What an application is unless said. */
export const unsaid: Partial<ApplicationSettings> = {
  ...Object.fromEntries(
    everyColumn.flatMap(([field, { unsaid: value }]) => (value === undefined ? [] : [[field, value]])),
  ),
  sponsor: null,
}

/** Columns of what is given, and of nothing else. */
export const columnsOf = ({ sponsor, ...given }: Partial<ApplicationSettings>): Record<string, unknown> => ({
  ...Object.fromEntries(
    everyColumn.flatMap(([field, { column, write }]) =>
      given[field] === undefined ? [] : [[column, write(given[field])]],
    ),
  ),
  ...(sponsor === undefined ? {} : budgetColumns(sponsor)),
})

/** The settings in a row, but for the budget. */
export const settingsIn = (row: StoredApplication): Omit<ApplicationSettings, 'sponsor'> =>
  Object.fromEntries(everyColumn.map(([field, { column, read }]) => [field, read(row[column])])) as never

function budgetColumns(sponsor: BudgetChanges | null): Record<string, string | null> {
  if (sponsor === null) return { sponsor_per_user: null, sponsor_per_application: null, sponsor_contracts: null }
  const { perUser, perApplication, contracts } = sponsor
  return {
    ...(perUser === undefined ? {} : { sponsor_per_user: perUser }),
    ...(perApplication === undefined ? {} : { sponsor_per_application: perApplication }),
    ...(contracts === undefined ? {} : { sponsor_contracts: contractsColumn(contracts) }),
  }
}

/** As targets of writes are compared: lower case, each once. */
const contractsColumn = (contracts: readonly string[] | null): string | null =>
  contracts === null ? null : JSON.stringify([...new Set(contracts.map((one) => one.toLowerCase()))])

/** A budget as its operator writes it. */
export const writtenBudget = (budget: SponsorBudget | null): WrittenBudget | null =>
  budget && {
    perUser: String(budget.perUser),
    perApplication: String(budget.perApplication),
    contracts: budget.contracts && [...budget.contracts],
  }

const isText = (value: unknown): value is string => typeof value === 'string'

const isIssuer = (value: unknown): value is TrustedIssuer => {
  if (typeof value !== 'object' || value === null) return false
  const one = value as Partial<Record<keyof TrustedIssuer, unknown>>
  return (
    [one.provider, one.issuer, one.audience, one.subjectClaim, one.pictureClaim].every(isText) &&
    (one.jwksUri === null || isText(one.jwksUri)) &&
    areTexts(one.algorithms) &&
    areTexts(one.usernameClaims) &&
    Number.isSafeInteger(one.maxAgeSeconds) &&
    typeof one.isReusable === 'boolean' &&
    typeof one.allowsPrivate === 'boolean'
  )
}

/** Of a list the identity providers that can be read. */
export const issuersIn = (value: unknown): TrustedIssuer[] => (Array.isArray(value) ? value.filter(isIssuer) : [])

/** Of each list of an application whether it is one of what it should be; null: all are. */
export function damagedColumn(row: StoredApplication): string | null {
  const lists = everyColumn.filter(([, { read }]) => read === textsIn).map(([, { column }]) => column)
  const damaged = [...lists, 'secret_hashes' as const].find((column) => !areTexts(row[column]))
  if (damaged !== undefined) return damaged
  if (!row.secret_hashes.every((hash) => /^[0-9a-f]{64}$/.test(hash))) return 'secret_hashes'
  return Array.isArray(row.issuers) && row.issuers.every(isIssuer) ? null : 'issuers'
}
