import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { readVisitor, type Visitor } from './sessions.ts'
import { PageError } from '../texts/page-error.ts'
import { bindsCode, type ProviderSettings } from './federation/providers.ts'

const MARK = 'account:'

/**
 * Returns the purpose of a visit to a provider that adds an identity to this session's account.
 * @throws sign_in_refused  for a provider whose codes an attacker could swap
 */
export function linkingOf({ sessionUid }: Visitor, chosen: ProviderSettings): string {
  // With a swapped code, an attacker's identity would become a way to sign in to this account.
  if (!bindsCode(chosen)) throw new PageError('sign_in_refused', ({ refused }) => refused.cannotLink(chosen.label))
  return `${MARK}${sessionUid}`
}

/** Returns whether a visit adds an identity, instead of signing in. */
export const isLinking = (purpose: string): boolean => purpose.startsWith(MARK)

/**
 * Returns the user who wanted an identity added. The session must be the one in which the visit began. Otherwise an
 * attacker could make a user add the attacker's identity, or add the user's identity to the attacker's account.
 * @throws sign_in_expired, sign_in_refused
 */
export async function linkingVisitor(
  app: App,
  provider: Provider,
  {
    chosen,
    purpose,
    request,
    reply,
  }: { chosen: ProviderSettings; purpose: string; request: FastifyRequest; reply: FastifyReply },
): Promise<Visitor> {
  const visitor = await readVisitor(app, provider, request, reply)
  if (visitor === null || linkingOf(visitor, chosen) !== purpose)
    throw new PageError('sign_in_expired', ({ refused }) => refused.otherBrowser)
  return visitor
}
