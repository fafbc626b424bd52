import { areTexts, quotasIn, textsIn } from '../store/column-values.ts'
import type { SponsorBudget } from '../store/sponsor-budget.ts'
import type { TrustedIssuer } from './application.ts'
import type { StoredApplication } from './authentic.ts'
import { rowOf } from './columns.ts'
import type { ApplicationSettings, WrittenBudget } from './wire.ts'

/*
 * The settings of an application in its row. Columns that are JSON: their types say what was written, not what someone else may
 * have written since.
 */

const LISTS = ['redirect_uris', 'post_logout_redirect_uris', 'permissions', 'allowed_origins'] as const
const list = (column: (typeof LISTS)[number], unsaid?: string[]) => ({
  column,
  unsaid,
  write: (texts: string[]) => JSON.stringify([...new Set(texts)]),
  read: textsIn,
})

/** Of each setting but the budget, which has three columns; what a setting is: wire.ts. */
const settings = rowOf<Omit<ApplicationSettings, 'sponsor'>, StoredApplication>({
  name: { column: 'name' },
  redirectUris: list('redirect_uris'),
  postLogoutRedirectUris: list('post_logout_redirect_uris', []),
  permissions: list('permissions', ['wallet:read']),
  allowedOrigins: list('allowed_origins', []),
  logoUri: { column: 'logo_uri', unsaid: null },
  needsPkce: { column: 'needs_pkce', unsaid: true },
  needsDpop: { column: 'needs_dpop', unsaid: false },
  isFirstParty: { column: 'is_first_party', unsaid: false },
  quotas: { column: 'quotas', unsaid: [], write: JSON.stringify, read: quotasIn },
  weight: { column: 'weight', unsaid: 1 },
})

type BudgetColumns = { perUser: string | null; perApplication: string | null; contracts: readonly string[] | null }
const budget = rowOf<BudgetColumns, StoredApplication>({
  perUser: { column: 'sponsor_per_user' },
  perApplication: { column: 'sponsor_per_application' },
  // As targets of writes are compared: lower case, each once.
  contracts: {
    column: 'sponsor_contracts',
    write: (contracts) => contracts && JSON.stringify([...new Set(contracts.map((one) => one.toLowerCase()))]),
  },
})
const NO_BUDGET: BudgetColumns = { perUser: null, perApplication: null, contracts: null }

/** What an application is unless said. */
export const unsaid = { ...settings.unsaid, sponsor: null }

/** Columns of what is given, and of nothing else. */
export const columnsOf = ({ sponsor, ...given }: Partial<ApplicationSettings>): Record<string, unknown> => ({
  ...settings.columnsOf(given),
  ...(sponsor === undefined ? {} : budget.columnsOf(sponsor ?? NO_BUDGET)),
})

/** The settings in a row, but for the budget. */
export const settingsIn = settings.fieldsIn

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
  const damaged = ([...LISTS, 'secret_hashes'] as const).find((column) => !areTexts(row[column]))
  if (damaged !== undefined) return damaged
  if (!row.secret_hashes.every((hash) => /^[0-9a-f]{64}$/.test(hash))) return 'secret_hashes'
  return Array.isArray(row.issuers) && row.issuers.every(isIssuer) ? null : 'issuers'
}
