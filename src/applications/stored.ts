import { areTexts, quotasIn, textsIn } from '../store/column-values.ts'
import type { SponsorBudget } from '../store/sponsor-budget.ts'
import type { TrustedIssuer } from './application.ts'
import type { StoredApplication } from './authentic.ts'
import { rowOf } from './columns.ts'
import type { ApplicationSettings, WrittenBudget } from './wire.ts'

/*
 * The settings of an application in its row. The types of JSON columns say what this program writes; someone else may
 * have written anything.
 */

const LISTS = ['redirect_uris', 'post_logout_redirect_uris', 'permissions', 'allowed_origins'] as const
const list = (column: (typeof LISTS)[number], unsaid?: string[]) => ({
  column,
  unsaid,
  write: (texts: string[]) => JSON.stringify([...new Set(texts)]),
  read: textsIn,
})

/** All settings but the budget, which has three columns. wire.ts describes the settings. */
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
  // In the form in which targets of writes are compared: lower case, each once.
  contracts: {
    column: 'sponsor_contracts',
    write: (contracts) => contracts && JSON.stringify([...new Set(contracts.map((one) => one.toLowerCase()))]),
  },
})
const NO_BUDGET: BudgetColumns = { perUser: null, perApplication: null, contracts: null }

/** Default settings of an application. */
export const unsaid = { ...settings.unsaid, sponsor: null }

/** Returns the columns of the given settings only. */
export const columnsOf = ({ sponsor, ...given }: Partial<ApplicationSettings>): Record<string, unknown> => ({
  ...settings.columnsOf(given),
  ...(sponsor === undefined ? {} : budget.columnsOf(sponsor ?? NO_BUDGET)),
})

/** Reads the settings in a row, without the budget. */
export const settingsIn = settings.fieldsIn

/** Returns a budget in the form in which its operator writes it. */
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

/** Returns the identity providers of a list that can be read. */
export const issuersIn = (value: unknown): TrustedIssuer[] => (Array.isArray(value) ? value.filter(isIssuer) : [])

/** Returns the first column of an application that is malformed; null if none is. */
export function damagedColumn(row: StoredApplication): string | null {
  const damaged = ([...LISTS, 'secret_hashes'] as const).find((column) => !areTexts(row[column]))
  if (damaged !== undefined) return damaged
  if (!row.secret_hashes.every((hash) => /^[0-9a-f]{64}$/.test(hash))) return 'secret_hashes'
  return Array.isArray(row.issuers) && row.issuers.every(isIssuer) ? null : 'issuers'
}
