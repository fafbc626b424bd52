import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { parseUserId } from '../ids.ts'
import { operatorActs } from '../operator/acts.ts'
import { isConsoleRole, type ConsoleRole } from '../operator/operators.ts'
import { PageError } from '../texts/page-error.ts'
import { quoted } from './layout.ts'

type Acts = ReturnType<typeof operatorActs>
type ActionForm = Record<string, string | undefined>
type ActionRun = { acts: Acts; app: App; by: string }

/**
 * An action of the console.
 * `least`: the lowest role that may do it
 * `isSensitive`: it needs a recent sign-in, and its target typed
 * `back`: the page that offers it
 * `command`: does the same
 */
export type ConsoleAction = {
  least: ConsoleRole
  isSensitive: boolean
  back(target: string): string
  command(target: string, form: ActionForm): string
  run(on: ActionRun, target: string, form: ActionForm): Promise<unknown>
}

/** Every action of the console, by the name under which it is recorded. Each calls a function of the operator API. */
export const ACTIONS = {
  'add-operator': {
    least: 'owner',
    isSensitive: true,
    back: () => '/console/operators',
    command: (target, { role = 'viewer' }) => `chatelaine operator add ${identity(target)} --role ${role}`,
    run: ({ acts, by }, target, { role }) => {
      if (target === by) throw new PageError('conflict', ({ console: words }) => words.ownRole)
      if (!isConsoleRole(role)) throw new AppError('invalid_request', 'This role does not exist. Nothing was changed.')
      return acts.addOperator(target, role)
    },
  },
  'remove-operator': {
    least: 'owner',
    isSensitive: true,
    back: () => '/console/operators',
    command: (target) => `chatelaine operator remove ${identity(target)}`,
    run: ({ acts, by }, target) => {
      if (target === by) throw new PageError('conflict', ({ console: words }) => words.ownRole)
      return acts.removeOperator(target)
    },
  },
} as const satisfies Record<string, ConsoleAction>

export type ActionName = keyof typeof ACTIONS

const RANKS: Record<ConsoleRole, number> = { owner: 0, operator: 1, support: 2, viewer: 3 }

/** Returns whether a role may do an action. */
export const mayDo = (role: ConsoleRole, action: ActionName): boolean => RANKS[role] <= RANKS[ACTIONS[action].least]

function identity(userId: string): string {
  const { provider, subject } = parseUserId(userId) ?? { provider: 'PROVIDER', subject: userId }
  return `--provider ${quoted(provider)} --user-id ${quoted(subject)}`
}
