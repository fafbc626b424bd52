import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { parseUserId } from '../ids.ts'
import { endIn } from '../oauth/sign-out.ts'
import type { operatorActs } from '../operator/acts.ts'
import { includesRole, isConsoleRole, type ConsoleRole } from '../operator/operators.ts'
import type { webhookActs } from '../operator/webhook-acts.ts'
import { PageError } from '../texts/page-error.ts'
import { limitsCommand, limitsOf } from './application-limits.ts'
import { sponsorLimitsCommand, sponsorLimitsOf } from './sponsor-limits.ts'
import { applicationPath, quoted, transactionPath, userPath, webhookPath } from './layout.ts'

type ActionForm = Record<string, string | undefined>
/** `acts`, `webhooks`: the functions of the operator API, for this operator */
type ActionRun = {
  acts: ReturnType<typeof operatorActs>
  webhooks: ReturnType<typeof webhookActs>
  app: App
  by: string
}

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
  freeze: {
    least: 'support',
    isSensitive: false,
    back: userPath,
    command: (target) => `chatelaine account freeze ${quoted(target)}`,
    run: ({ acts, app }, target) => acts.freeze(target, endIn(app)),
  },
  unfreeze: {
    least: 'operator',
    isSensitive: true,
    back: userPath,
    command: (target) => `chatelaine account unfreeze ${quoted(target)}`,
    run: ({ acts }, target) => acts.unfreeze(target),
  },
  'sign-out': {
    least: 'support',
    isSensitive: false,
    back: userPath,
    command: (target) => `chatelaine account sign-out ${quoted(target)}`,
    run: ({ acts, app }, target) => acts.signOut(target, endIn(app)),
  },
  'resume-account': {
    least: 'operator',
    isSensitive: true,
    back: userPath,
    command: (target) => `chatelaine account resume ${quoted(target)}`,
    run: ({ acts }, target) => acts.resumeAccount(target),
  },
  'cancel-export': {
    least: 'support',
    isSensitive: false,
    back: userPath,
    command: (target) => `chatelaine account cancel-export ${quoted(target)}`,
    run: ({ acts, app }, target) => acts.cancelExport(app.signer, target),
  },
  'cancel-transaction': {
    least: 'support',
    isSensitive: false,
    back: transactionPath,
    command: (target) => `chatelaine transaction cancel ${quoted(target)}`,
    run: ({ acts }, target) => acts.changeTransaction(target, 'cancel'),
  },
  'speed-up-transaction': {
    least: 'support',
    isSensitive: false,
    back: transactionPath,
    command: (target) => `chatelaine transaction speed-up ${quoted(target)}`,
    run: ({ acts }, target) => acts.changeTransaction(target, 'speed-up'),
  },
  suspend: {
    least: 'operator',
    isSensitive: false,
    back: applicationPath,
    command: (target) => `chatelaine app suspend ${quoted(target)}`,
    run: ({ acts }, target) => acts.suspend(target),
  },
  resume: {
    least: 'operator',
    isSensitive: true,
    back: applicationPath,
    command: (target) => `chatelaine app resume ${quoted(target)}`,
    run: ({ acts }, target) => acts.resume(target),
  },
  'rotate-secret': {
    least: 'operator',
    isSensitive: true,
    back: applicationPath,
    command: (target) => `chatelaine app rotate-secret ${quoted(target)}`,
    run: ({ acts }, target) => acts.rotateSecret(target),
  },
  'reset-secret': {
    least: 'operator',
    isSensitive: true,
    back: applicationPath,
    command: (target) => `chatelaine app rotate-secret ${quoted(target)} --end-old`,
    run: ({ acts }, target) => acts.resetSecret(target),
  },
  'update-application': {
    least: 'operator',
    isSensitive: true,
    back: applicationPath,
    command: (target, form) => `chatelaine app update ${quoted(target)}${limitsCommand(form)}`,
    run: ({ acts }, target, form) => acts.update(target, limitsOf(form)),
  },
  'test-webhook': {
    least: 'support',
    isSensitive: false,
    back: webhookPath,
    command: (target) => `chatelaine webhook test ${quoted(target)}`,
    run: ({ webhooks }, target) => webhooks.test(target),
  },
  'redeliver-event': {
    least: 'support',
    isSensitive: false,
    back: webhookPath,
    command: (target, { event = '' }) => `chatelaine webhook redeliver ${quoted(target)} --event ${quoted(event)}`,
    run: ({ webhooks }, target, { event = '' }) => webhooks.redeliver(target, event.trim()),
  },
  'replay-webhook': {
    least: 'operator',
    isSensitive: false,
    back: webhookPath,
    command: (target, { from = '', until }) =>
      `chatelaine webhook replay ${quoted(target)} --from ${quoted(from)}${until ? ` --until ${quoted(until)}` : ''}`,
    run: ({ webhooks }, target, { from = '', until }) =>
      webhooks.replay(target, { from: from.trim(), ...(until?.trim() ? { until: until.trim() } : {}) }),
  },
  'enable-webhook': {
    least: 'operator',
    isSensitive: true,
    back: webhookPath,
    command: (target) => `chatelaine webhook enable ${quoted(target)}`,
    run: ({ webhooks }, target) => webhooks.enable(target),
  },
  'rotate-webhook-secret': {
    least: 'operator',
    isSensitive: true,
    back: webhookPath,
    command: (target) => `chatelaine webhook rotate-secret ${quoted(target)}`,
    run: ({ webhooks }, target) => webhooks.rotateSecret(target),
  },
  'create-sponsor': {
    least: 'operator',
    isSensitive: false,
    back: () => '/console/networks',
    command: (target, { name = 'NAME' }) => `chatelaine sponsor create ${quoted(name)} --network ${quoted(target)}`,
    run: ({ acts, app }, target, { name = '' }) => acts.createSponsor(app, { name, network: target }),
  },
  'set-network': {
    least: 'operator',
    isSensitive: true,
    back: () => '/console/networks',
    command: (target, form) => `chatelaine network set ${quoted(target)}${sponsorLimitsCommand(form)}`,
    run: async ({ acts, app }, target, form) => {
      if (target === app.config.NETWORK_NAME)
        throw new PageError('invalid_request', ({ console: words }) => words.networks.fromSettings)
      return acts.updateNetwork(target, sponsorLimitsOf(form))
    },
  },
  'add-operator': {
    least: 'owner',
    isSensitive: true,
    back: () => '/console/operators',
    command: (target, { role = 'viewer' }) => `chatelaine operator add ${identity(target)} --role ${role}`,
    run: async ({ acts, by }, target, { role }) => {
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
    run: async ({ acts, by }, target) => {
      if (target === by) throw new PageError('conflict', ({ console: words }) => words.ownRole)
      return acts.removeOperator(target)
    },
  },
} as const satisfies Record<string, ConsoleAction>

export type ActionName = keyof typeof ACTIONS

/** Returns whether a role may do an action. */
export const mayDo = (role: ConsoleRole, action: ActionName): boolean => includesRole(role, ACTIONS[action].least)

function identity(userId: string): string {
  const { provider, subject } = parseUserId(userId) ?? { provider: 'PROVIDER', subject: userId }
  return `--provider ${quoted(provider)} --user-id ${quoted(subject)}`
}
