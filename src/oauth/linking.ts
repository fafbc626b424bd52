import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { readVisitor, type Visitor } from './sessions.ts'
import { PageError } from '../texts/page-error.ts'
import { bindsCode, type ProviderSettings } from './federation/providers.ts'

const MARK = 'account:'

/**
 * What a visit to a provider is for, when it is to add an identity to the account of this session.
 * @throws sign_in_refused  for a provider whose codes can be exchanged on the way
 */
export function linkingOf({ sessionUid }: Visitor, chosen: ProviderSettings): string {
  // With an exchanged code the identity of a stranger would become a way to sign in to this account.
  if (!bindsCode(chosen)) throw new PageError('sign_in_refused', ({ refused }) => refused.cannotLink(chosen.label))
  return `${MARK}${sessionUid}`
}

/** Whether a visit was for that, and not for a sign-in. */
export const isLinking = (purpose: string): boolean => purpose.startsWith(MARK)

/**
 * Who wanted the identity added. The session must be the one that the visit began in: otherwise someone could be made
 * to add another person's identity, or theirs to another person's account.
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
