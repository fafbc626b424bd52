import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { readVisitor, type Visitor } from './sessions.ts'
import { PageError } from '../texts/page-error.ts'

const MARK = 'account:'

/** What a visit to a provider is for, when it is to add an identity to the account of this session. */
export const linkingOf = ({ sessionUid }: Visitor): string => `${MARK}${sessionUid}`

/** Whether a visit was for that, and not for a sign-in. */
export const isLinking = (purpose: string): boolean => purpose.startsWith(MARK)

/**
 * Who wanted the identity added. The session must be the one that the visit began in: otherwise someone could be made
 * to add another person's identity, or theirs to another person's account.
 * @throws sign_in_expired
 */
export async function linkingVisitor(
  app: App,
  provider: Provider,
  { purpose, request, reply }: { purpose: string; request: FastifyRequest; reply: FastifyReply },
): Promise<Visitor> {
  const visitor = await readVisitor(app, provider, request, reply)
  if (visitor === null || linkingOf(visitor) !== purpose)
    throw new PageError('sign_in_expired', ({ refused }) => refused.otherBrowser)
  return visitor
}
