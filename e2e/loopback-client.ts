import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as openid from 'openid-client'

type LoopbackClient = {
  /** where a browser begins the sign-in */
  url: string
  /** redeems the code of the browser that comes back */
  tokens: () => ReturnType<typeof openid.authorizationCodeGrant>
  close: () => void
}

/** Opens the public client on a loopback port, which waits for a browser to come back. */
export async function openLoopbackClient(
  { issuer, clientId }: { issuer: string; clientId: string },
  scope: string,
): Promise<LoopbackClient> {
  const config = await openid.discovery(new URL(issuer), clientId, undefined, openid.None(), {
    execute: [openid.allowInsecureRequests],
  })
  const { promise: back, resolve } = Promise.withResolvers<URL>()
  const server = createServer((request, response) => {
    response.end('<!doctype html><title>back</title><p>back at the application')
    if (request.url?.startsWith('/callback')) resolve(new URL(request.url, redirectUri))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`
  const verifier = openid.randomPKCECodeVerifier()
  const url = openid.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope,
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  }).href
  const tokens = async () =>
    openid.authorizationCodeGrant(config, await back, { pkceCodeVerifier: verifier, idTokenExpected: true })
  return { url, tokens, close: () => server.close() }
}
