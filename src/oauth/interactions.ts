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
 * The sign-in or consent that a page belongs to. The browser proves with its cookie, which is signed and bound to
 * the page's path, that it is the one that began it.
 * @param name  what the page is for; another page's interaction is refused
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

/** `select_account` is asked on the pages of a sign-in. */
const pageOf = ({ prompt }: Interaction): 'login' | 'consent' => (prompt.name === 'consent' ? 'consent' : 'login')

/** Whether a person is to say again who they are, though a provider may know it still. */
export const asksAgain = (interaction: Interaction): boolean =>
  interaction.prompt.name === 'select_account' ||
  (parameterOf(interaction, 'prompt') ?? '').split(' ').some((one) => one === 'login' || one === 'select_account') ||
  wantsFresh(interaction)

/** The reason of a sign-in that a new permission to spend asks for. */
export const NEW_SPENDING = 'new_spending'

/**
 * Whether the sign-in is worth nothing unless its provider asked now: `prompt=login`, a `max_age` that is over, or a new
 * permission to spend.
 */
export const wantsFresh = (interaction: Interaction): boolean =>
  interaction.prompt.reasons.some((reason) => reason === 'max_age' || reason === NEW_SPENDING) ||
  (parameterOf(interaction, 'prompt') ?? '').split(' ').includes('login')

/** The application that an interaction serves. @throws sign_in_expired when it is gone or suspended since */
export async function applicationAt(app: App, interaction: Interaction): Promise<Application> {
  const application = await findClient(app, parameterOf(interaction, 'client_id') ?? '')
  if (application === null || application.isSuspended) throw expired()
  return application
}

/** An interaction whose browser was checked otherwise: a visit to a provider comes back on a path of its own. */
export async function findInteraction(provider: Provider, uid: string): Promise<Interaction> {
  const interaction = await provider.Interaction.find(uid)
  if (interaction === undefined || pageOf(interaction) !== 'login') throw expired()
  return interaction
}

/**
 * Writes what came of an interaction.
 * @returns where the browser continues
 */
export async function finish(interaction: Interaction, result: InteractionResults): Promise<string> {
  interaction.result = 'error' in result ? result : { ...interaction.lastSubmission, ...result }
  await interaction.persist()
  return interaction.returnTo
}

/** The authorization request that an interaction serves, as the query that the client sent. */
export const requestOf = ({ params }: Interaction): string =>
  new URLSearchParams(
    Object.entries(params).filter((one): one is [string, string] => typeof one[1] === 'string'),
  ).toString()

/** The same request begun again by someone else, who chooses how to sign in. @returns where the browser continues */
export function otherPerson(interaction: Interaction): string {
  const query = new URLSearchParams(requestOf(interaction))
  for (const name of ['login_provider', 'login_hint', 'id_token_hint']) query.delete(name)
  const prompts = new Set((query.get('prompt') ?? '').split(' ').filter((one) => one !== ''))
  query.set('prompt', [...prompts.add('select_account')].join(' '))
  return `/oauth/auth?${query.toString()}`
}

/** Where a browser continues whose visit to a provider came back before, or too late: after its sign-in, or at its beginning. */
export async function ledOn(provider: Provider, { interactionUid, request }: SpentVisit): Promise<string> {
  const interaction = await provider.Interaction.find(interactionUid)
  return interaction?.result?.login === undefined ? `/oauth/auth?${request ?? ''}` : interaction.returnTo
}

/** Drops every answer of an interaction, so that each question is asked again. @returns where the browser continues */
export async function begunAgain(interaction: Interaction): Promise<string> {
  interaction.result = {}
  await interaction.persist()
  return interaction.returnTo
}

/**
 * Ends the browser's session when someone else has signed in. The library would ask for a confirmation with a page
 * that needs JavaScript.
 */
export async function dropOtherSession({ db }: App, interaction: Interaction, userId: string): Promise<void> {
  const { session } = interaction
  if (session === undefined || session.accountId === userId) return
  await db.deleteFrom('oauth_records').where('kind', '=', 'Session').where('uid', '=', session.uid).execute()
  delete (interaction as { session?: unknown }).session
}

const expired = (): PageError => new PageError('sign_in_expired', ({ refused }) => refused.over)

/** A parameter of the authorization request; null when the client did not send it. */
export function parameterOf({ params }: Interaction, name: string): string | null {
  const value = params[name]
  return typeof value === 'string' ? value : null
}

/** The language of a page: as the application says that its user reads, or else as the browser does. */
export const textsAt = (interaction: Interaction, { headers }: FastifyRequest): Texts =>
  textsFor({ accept: headers['accept-language'], uiLocales: parameterOf(interaction, 'ui_locales') })

/** The fields of a form; a repeated field counts as absent, so that two readers cannot see two values. */
export function formOf(request: FastifyRequest): Record<string, string | undefined> {
  const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams()
  return Object.fromEntries(
    [...new Set(form.keys())].map((key) => [key, form.getAll(key).length === 1 ? form.get(key)! : undefined]),
  )
}
