import type { Changes } from '../applications/manage.ts'
import type { RegisteredApplication } from '../applications/wire.ts'
import { wholeIn } from '../digits.ts'
import { AppError } from '../errors.ts'
import type { Quota } from '../store/column-values.ts'
import type { Texts } from '../texts/en.ts'
import { numberFields, quoted } from './layout.ts'

type LimitsForm = Record<string, string | undefined>

/** Every quota that an application can have. */
const QUOTAS = (['writes', 'reads'] as const).flatMap((counts) =>
  (['hour', 'day', 'month'] as const).map((per) => ({ counts, per })),
)
const fieldOf = ({ counts, per }: Pick<Quota, 'counts' | 'per'>): string => `${counts}-${per}`

/** Returns the values of the form's fields that an application has now. */
export const limitValues = ({ quotas, sponsor }: RegisteredApplication): Record<string, string> => ({
  ...Object.fromEntries(quotas.map((quota) => [fieldOf(quota), String(quota.limit)])),
  ...(sponsor === null ? {} : { perUser: sponsor.perUser, perApplication: sponsor.perApplication }),
})

/** Renders the inputs of the limits. */
export function limitInputs({ console: { application: texts } }: Texts, values: Record<string, string>): string {
  const fields = [
    ...QUOTAS.map((quota) => [fieldOf(quota), texts.quota(quota.counts, quota.per)] as const),
    ['perUser', texts.perUser] as const,
    ['perApplication', texts.perApplication] as const,
  ]
  return numberFields(
    fields.map(([name, label]) => ({ id: `limit-${name}`, name, label, value: values[name] ?? '' })),
    texts.limitsHint,
  )
}

/**
 * Reads the limits. All are given: an empty quota is removed, and an empty budget ends it. The contracts of a budget remain.
 * @throws invalid_request
 */
export function limitsOf(form: LimitsForm): Changes {
  const [perUser, perApplication] = [form.perUser, form.perApplication].map((one) => (one ?? '').trim())
  if ((perUser === '') !== (perApplication === ''))
    throw new AppError(
      'invalid_request',
      'A gas budget needs both amounts. Nothing was changed. Enter both, or neither.',
    )
  return {
    quotas: quotasIn(form),
    sponsor: perUser === '' ? null : { perUser: perUser!, perApplication: perApplication! },
  }
}

function quotasIn(form: LimitsForm): Quota[] {
  return QUOTAS.flatMap((quota) => {
    const text = (form[fieldOf(quota)] ?? '').trim()
    if (text === '') return []
    const limit = wholeIn(text)
    if (limit === null)
      throw new AppError('invalid_request', `The quota ${fieldOf(quota)} is not a whole number. Nothing was changed.`)
    return [{ ...quota, limit }]
  })
}

/** Returns the options of the command that sets the same limits. */
export function limitsCommand(form: LimitsForm): string {
  const quotas = QUOTAS.flatMap((quota) => {
    const limit = form[fieldOf(quota)]
    return limit === undefined || limit === '' ? [] : [` --quota ${quoted(`${quota.counts}=${limit}/${quota.per}`)}`]
  })
  const { perUser = '', perApplication = '' } = form
  const budget =
    perUser === ''
      ? ' --no-sponsor'
      : ` --sponsor-per-user ${quoted(perUser)} --sponsor-per-application ${quoted(perApplication)}`
  return `${quotas.length === 0 ? ' --no-quota' : quotas.join('')}${budget}`
}
