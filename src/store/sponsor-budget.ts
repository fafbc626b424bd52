/** Wei that sponsors may send in a rolling day for writes of one application: to one person, and to all of them. */
export type SponsorBudget = { perUser: bigint; perApplication: bigint }

/** The columns of `applications` that hold it: both or neither. */
export const BUDGET_COLUMNS = ['sponsor_per_user', 'sponsor_per_application'] as const

/** What an application's row says of it; null: sponsors send nothing for it. */
export const sponsorBudgetOf = ({
  sponsor_per_user: perUser,
  sponsor_per_application: perApplication,
}: Record<(typeof BUDGET_COLUMNS)[number], string | null>): SponsorBudget | null =>
  perUser === null || perApplication === null
    ? null
    : { perUser: BigInt(perUser), perApplication: BigInt(perApplication) }

/** hours that a rolling day is counted in. An hour counts whole until its last minute is a day old, so a day holds no more than the budget. */
export const DAY_HOURS = 24
/** Whose row of `gas_spent` holds what all people of an application were sent. */
export const EVERYONE = '00000000-0000-0000-0000-000000000000'
