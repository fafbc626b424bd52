import type { Permission } from '../src/applications/permissions.ts'
import { createApplication } from '../src/applications/manage.ts'
import type { World } from './world.ts'

/** Creates a confidential application. @returns its secret, and a token for itself with the scopes that it may have */
export async function addMachine(
  here: Pick<World, 'app' | 'request'>,
  clientId: string,
  permissions: Permission[],
): Promise<{ secret: string; token: string; scope: string }> {
  const made = await createApplication(here.app, {
    ...{ clientId, name: clientId, network: 'devnet', kind: 'confidential' },
    ...{ redirectUris: ['https://shop.example/x'], permissions, allowedOrigins: [], logoUri: null },
  })
  const secret = made.secret!
  const { body } = await here.request('/oauth/token', {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${clientId}:${secret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  })
  return { secret, token: body.access_token, scope: body.scope }
}
