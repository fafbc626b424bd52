import type { NetworkChanges } from '../applications/wire.ts'
import type { Texts } from '../texts/en.ts'
import { numberFields, quoted } from './layout.ts'

/** The limits of a network's sponsors: fields of the form, and how the command sets and removes each. */
const LIMITS = [
  { field: 'sponsorPerDay', option: '--sponsor-per-day', removed: 'default' },
  { field: 'sponsorLow', option: '--sponsor-low', removed: 'default' },
  { field: 'pagesPerUser', option: '--pages-per-user', removed: 'none' },
  { field: 'pagesPerDay', option: '--pages-per-day', removed: 'none' },
] as const

type LimitField = (typeof LIMITS)[number]['field']
export type SponsorLimits = Record<LimitField, string | null>

/** Renders the inputs of the limits. */
export const sponsorLimitInputs = (
  { console: { networks: texts } }: Texts,
  network: SponsorLimits & { name: string },
): string =>
  numberFields(
    LIMITS.map(({ field }) => ({
      id: `${field}-${network.name}`,
      name: field,
      label: texts.limits[field],
      value: network[field] ?? '',
    })),
    texts.limitsHint,
  )

/** Reads the limits. All are given: an empty one is removed. */
export const sponsorLimitsOf = (form: Record<string, string | undefined>): NetworkChanges =>
  Object.fromEntries(LIMITS.map(({ field }) => [field, form[field]?.trim() || null]))

/** Returns the options of the command that sets the same limits. */
export const sponsorLimitsCommand = (form: Record<string, string | undefined>): string =>
  LIMITS.map(({ field, option, removed }) => ` ${option} ${quoted(form[field] || removed)}`).join('')
