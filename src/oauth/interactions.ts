import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { errors, type InteractionResults, type Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { textsFor } from '../texts/choose.ts'
import type { Texts } from '../texts/en.ts'
import type { SpentVisit } from './federation/federation.ts'
import { PageError } from '../texts/page-error.ts'
import { findClient } from './first-party.ts'
import { pinOrigin } from './mount.ts'

export type Interaction = InstanceType<Provider['Interaction']>

/**
 * Reads the sign-in or consent that a page belongs to. The browser's cookie, which is signed and bound to the page's
 * path, proves that this browser began it.
 * @param name  what the page is for; an interaction of another page is rejected
 * @throws sign_in_expired
 */
export async function readInteraction(
  app: App,
  provider: Provider,
  {
    request,
    response,
    uid,
    name,
  }: { request: IncomingMessage; response: ServerResponse; uid: string; name: 'login' | 'consent' },
): Promise<Interaction> {
  pinOrigin(request, app.authOrigin)
  try {
    const interaction = await provider.interactionDetails(request, response)
    if (interaction.uid === uid && pageOf(interaction) === name) return interaction
  } catch (error) {
    if (!(error instanceof errors.SessionNotFound)) throw error
  }
  throw expired()
}

/** Returns the page of an interaction. `select_account` is asked on the sign-in pages. */
const pageOf = ({ prompt }: Interaction): 'login' | 'consent' => (prompt.name === 'consent' ? 'consent' : 'login')

/** Returns whether the provider must ask the user again, even if the provider still has a session. */
export const asksAgain = (interaction: Interaction): boolean =>
  interaction.prompt.name === 'select_account' ||
  (parameterOf(interaction, 'prompt') ?? '').split(' ').some((one) => one === 'login' || one === 'select_account') ||
  wantsFresh(interaction)

/** Reason of a prompt: a new permission to spend needs a recent sign-in. */
export const NEW_SPENDING = 'new_spending'

/**
 * Returns whether the sign-in counts only if the provider asks the user now: for `prompt=login`, an exceeded `max_age`,
 * or a new permission to spend.
 */
export const wantsFresh = (interaction: Interaction): boolean =>
  interaction.prompt.reasons.some((reason) => reason === 'max_age' || reason === NEW_SPENDING) ||
  (parameterOf(interaction, 'prompt') ?? '').split(' ').includes('login')

/** Returns the application of an interaction. @throws sign_in_expired if it was deleted or suspended */
export async function applicationAt(app: App, interaction: Interaction): Promise<Application> {
  const application = await findClient(app, parameterOf(interaction, 'client_id') ?? '')
  if (application === null || application.isSuspended) throw expired()
  return application
}

/**
 * Finds an interaction without its cookie: a provider's callback has another path, and `Federation.receive` checked the
 * browser.
 * @throws sign_in_expired
 */
export async function findInteraction(provider: Provider, uid: string): Promise<Interaction> {
  const interaction = await provider.Interaction.find(uid)
  if (interaction === undefined || pageOf(interaction) !== 'login') throw expired()
  return interaction
}

/**
 * Stores the result of an interaction.
 * @returns where the browser continues
 */
export async function finish(interaction: Interaction, result: InteractionResults): Promise<string> {
  interaction.result = 'error' in result ? result : { ...interaction.lastSubmission, ...result }
  await interaction.persist()
  return interaction.returnTo
}

/** Returns the authorization request of an interaction, as a query. */
export const requestOf = ({ params }: Interaction): string =>
  new URLSearchParams(
    Object.entries(params).filter((one): one is [string, string] => typeof one[1] === 'string'),
  ).toString()

/** Returns the address at which another user begins the same request, choosing how to sign in. */
export function otherPerson(interaction: Interaction): string {
  const query = new URLSearchParams(requestOf(interaction))
  for (const name of ['login_provider', 'login_hint', 'id_token_hint']) query.delete(name)
  const prompts = new Set((query.get('prompt') ?? '').split(' ').filter((one) => one !== ''))
  query.set('prompt', [...prompts.add('select_account')].join(' '))
  return `/oauth/auth?${query.toString()}`
}

/**
 * Returns where a browser continues whose callback was already used or is too late: after its sign-in, or at the
 * request's start.
 */
export async function ledOn(provider: Provider, { interactionUid, request }: SpentVisit): Promise<string> {
  const interaction = await provider.Interaction.find(interactionUid)
  return interaction?.result?.login === undefined ? `/oauth/auth?${request ?? ''}` : interaction.returnTo
}

/** Drops all results of an interaction, so that each question is asked again. @returns where the browser continues */
export async function begunAgain(interaction: Interaction): Promise<string> {
  interaction.result = {}
  await interaction.persist()
  return interaction.returnTo
}

/**
 * Ends the browser's session if another user has signed in. Otherwise the library would ask for a confirmation on a
 * page that needs JavaScript.
 */
export async function dropOtherSession({ db }: App, interaction: Interaction, userId: string): Promise<void> {
  const { session } = interaction
  if (session === undefined || session.accountId === userId) return
  await db.deleteFrom('oauth_records').where('kind', '=', 'Session').where('uid', '=', session.uid).execute()
  delete (interaction as { session?: unknown }).session
}

const expired = (): PageError => new PageError('sign_in_expired', ({ refused }) => refused.over)

/** Returns a parameter of the authorization request; null if the client did not send it. */
export function parameterOf({ params }: Interaction, name: string): string | null {
  const value = params[name]
  return typeof value === 'string' ? value : null
}

/** Returns the texts of a page in the language of `ui_locales`, otherwise of the browser. */
export const textsAt = (interaction: Interaction, { headers }: FastifyRequest): Texts =>
  textsFor({ accept: headers['accept-language'], uiLocales: parameterOf(interaction, 'ui_locales') })

/**
 * Returns the fields of a form. A repeated field counts as absent, so that two readers cannot see different values, and so does
 * one with NUL, which PostgreSQL rejects.
 */
export function formOf(request: FastifyRequest): Record<string, string | undefined> {
  const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams()
  return Object.fromEntries([...new Set(form.keys())].map((key) => [key, onlyText(form.getAll(key))]))
}

const onlyText = ([text, ...others]: string[]): string | undefined =>
  others.length > 0 || text?.includes('\0') === true ? undefined : text
