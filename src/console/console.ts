/**
 * console: pages for operators, under /console.
 * Owns: roles of each action, the pages and their forms, counts of requests for the charts.
 * Does not own: what an action does (`operator/acts.ts`, `operator/webhook-acts.ts`), who has a role (`operator/operators.ts`), sign-in (`oauth/`).
 * Start with `door.ts` and `actions.ts`.
 * Tables: activity.
 */

import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import type { SignedInParts } from '../oauth/oauth.ts'
import { registerActions } from './act.ts'
import { openConsoleDoor } from './door.ts'
import { applicationPages } from './applications.ts'
import { auditPage } from './audit.ts'
import { networksPage } from './networks.ts'
import { operatorsPage } from './operators-page.ts'
import { overviewPage } from './overview.ts'
import { policyPage } from './policy.ts'
import { searchPage } from './search.ts'
import { transactionPage } from './transaction.ts'
import { userPage } from './user.ts'
import { webhookPages } from './webhooks.ts'

/** Registers the pages of the console. They work without JavaScript, from the tables of this installation alone. */
export function consolePages(server: FastifyInstance, app: App, parts: SignedInParts): void {
  const door = openConsoleDoor(server, app, parts)
  overviewPage(app, door)
  searchPage(app, door)
  transactionPage(app, door)
  userPage(app, door)
  applicationPages(app, door)
  webhookPages(app, door)
  networksPage(app, door)
  policyPage(app, door)
  auditPage(app, door)
  operatorsPage(app, door)
  registerActions(app, door)
}
