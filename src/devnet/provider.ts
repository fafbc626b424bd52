import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import { createHash, generateKeyPairSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { errors, interactionPolicy, Provider, type Adapter, type AdapterPayload } from 'oidc-provider'
import { BoundedMap } from '../bounded-map.ts'
import { sendPage, textsOf } from '../http/page.ts'
import type { Texts } from '../texts/en.ts'
import { avatar } from './avatar.ts'
import { developmentName } from './username.ts'
import { systemClock } from '../clock.ts'

const PATH = '/devnet/idp'

/**
 * Registers the development identity provider: a real OpenID provider at `/devnet/idp` in which anyone can sign in as
 * anyone. The whole sign-in (discovery, PKCE, state, nonce, signed id token) works as with any provider. A user's id is
 * the name in lower case. Its records end with the process, which is harmless: our own sessions do not depend on them.
 * @param redirectUri  the only redirect URI
 */
export async function developmentIdp(
  server: FastifyInstance,
  { origin, redirectUri }: { origin: string; redirectUri: string },
): Promise<void> {
  const provider = openIdp(origin, redirectUri)
  const answer = provider.callback()
  avatar(server)

  await server.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    scope.route({
      method: ['GET', 'POST'],
      url: `${PATH}/*`,
      schema: { hide: true },
      exposeHeadRoute: false,
      handler: (request, reply) => pass(answer, origin, request, reply),
    })
  })
  await server.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: 8_192 },
      (_request, text, done) => done(null, new URLSearchParams(text as string)),
    )
    signInPage(scope, provider, origin)
  })
}

/** Registers GET and POST /devnet/idp/sign-in/:uid: a form for a name, without a password. */
function signInPage(server: FastifyInstance, provider: Provider, origin: string): void {
  const formKey = randomBytes(32)
  const tokenOf = (uid: string): string => createHash('sha256').update(formKey).update(uid).digest('base64url')
  type Uid = { Params: { uid: string } }

  server.get<Uid>(`${PATH}/sign-in/:uid`, { schema: { hide: true } }, async (request, reply) => {
    const interaction = await current(request, reply)
    if (interaction === null) return over(request, reply)
    const { login_hint: hint } = interaction.params
    return show(request, reply, 200, {
      uid: interaction.uid,
      username: typeof hint === 'string' ? hint : '',
      isInvalid: false,
    })
  })

  server.post<Uid>(`${PATH}/sign-in/:uid`, { schema: { hide: true } }, async (request, reply) => {
    const interaction = await current(request, reply)
    if (interaction === null) return over(request, reply)
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams()
    const token = Buffer.from(form.get('csrf') ?? '')
    const expected = Buffer.from(tokenOf(interaction.uid))
    if (token.length !== expected.length || !timingSafeEqual(token, expected)) return over(request, reply)
    if (form.get('answer') === 'cancel') return goOn(request, reply, { error: 'access_denied' })
    const typed = form.get('username') ?? ''
    const username = developmentName(typed)
    if (username === null)
      return show(request, reply, 400, { uid: interaction.uid, username: typed.slice(0, 100), isInvalid: true })
    return goOn(request, reply, { login: { accountId: username, remember: false } })
  })

  async function current(request: FastifyRequest<Uid>, reply: FastifyReply) {
    pin(request, origin)
    try {
      const interaction = await provider.interactionDetails(request.raw, reply.raw)
      return interaction.uid === request.params.uid ? interaction : null
    } catch (error) {
      if (error instanceof errors.SessionNotFound) return null
      throw error
    }
  }

  async function goOn(
    request: FastifyRequest,
    reply: FastifyReply,
    result: Parameters<Provider['interactionResult']>[2],
  ): Promise<FastifyReply> {
    return reply.redirect(await provider.interactionResult(request.raw, reply.raw, result), 303)
  }

  const show = (
    request: FastifyRequest<Uid>,
    reply: FastifyReply,
    status: number,
    parts: { uid: string; username: string; isInvalid: boolean },
  ): FastifyReply => {
    const words = textsOf(request)
    const { title, notice } = words.development
    return sendPage(reply, status, {
      words,
      title,
      notice,
      body: signInBody(words, { ...parts, csrf: tokenOf(parts.uid) }),
    })
  }

  const over = (request: FastifyRequest<Uid>, reply: FastifyReply): FastifyReply => {
    const words = textsOf(request)
    const { over, overHint } = words.development
    return sendPage(reply, 400, {
      words,
      title: over,
      body: html`<div class="card stack">
        <h1>${over}</h1>
        <p>${overHint}</p>
      </div>`,
    })
  }
}

export function signInBody(
  { development: words }: Texts,
  { uid, csrf, username, isInvalid }: { uid: string; csrf: string; username: string; isInvalid: boolean },
): string {
  const described = isInvalid ? 'username-error username-hint' : 'username-hint'
  return html`
    <div class="card stack">
      <h1>${words.heading}</h1>
      <p class="notice">${words.hint}</p>
      <form class="stack" method="post" action="${PATH}/sign-in/${uid}">
        <input type="hidden" name="csrf" value="${csrf}" />
        <div class="field">
          <label for="username">${words.username}</label>
          <input
            id="username"
            name="username"
            value="${username}"
            placeholder="alice"
            maxlength="100"
            autocomplete="username"
            autocapitalize="none"
            spellcheck="false"
            autofocus
            required
            aria-invalid="${isInvalid}"
            aria-describedby="${described}"
          />
          !${isInvalid ? html`<p class="danger" id="username-error">${words.invalid}</p>` : ''}
          <small class="hint" id="username-hint">${words.rule}</small>
        </div>
        <div class="stack tight">
          <button class="button" name="answer" value="sign-in">${words.signIn}</button>
          <button class="button quiet" name="answer" value="cancel" formnovalidate>${words.cancel}</button>
        </div>
      </form>
    </div>
  `
}

function openIdp(origin: string, redirectUri: string): Provider {
  const jwk = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' })
  const { base } = interactionPolicy
  const policy = base()
  policy.remove('consent')
  const mark = createHash('sha256').update(origin).digest('hex').slice(0, 8)
  const provider = new Provider(`${origin}${PATH}`, {
    adapter: memory(),
    jwks: { keys: [{ ...jwk, alg: 'ES256', use: 'sig', kid: 'devnet' }] as never },
    // Cookies ignore ports, so these names must differ from those of the authorization server, and of other
    // installations.
    cookies: {
      keys: [randomBytes(32).toString('base64url')],
      names: {
        session: `devnet_${mark}_session`,
        interaction: `devnet_${mark}_interaction`,
        resume: `devnet_${mark}_resume`,
      },
      long: { signed: true, httpOnly: true, sameSite: 'lax', overwrite: true, path: PATH },
      short: { signed: true, httpOnly: true, sameSite: 'lax', overwrite: true },
    },
    clients: [
      {
        client_id: 'chatelaine',
        redirect_uris: [redirectUri],
        token_endpoint_auth_method: 'none',
        id_token_signed_response_alg: 'ES256',
        grant_types: ['authorization_code'],
        response_types: ['code'],
      },
    ],
    enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
    responseTypes: ['code'],
    pkce: { required: () => true },
    scopes: ['openid', 'profile', 'email'],
    claims: { openid: ['sub'], profile: ['preferred_username', 'name', 'picture'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    features: {
      devInteractions: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      dPoP: { enabled: false },
      rpInitiatedLogout: { enabled: false },
    },
    ttl: { AccessToken: 60, AuthorizationCode: 60, IdToken: 300, Grant: 600, Session: 600, Interaction: 3_600 },
    interactions: { policy, url: (_ctx, { uid }) => `${PATH}/sign-in/${uid}` },
    findAccount: (_ctx, sub) => ({
      accountId: sub,
      claims: () => ({
        sub,
        preferred_username: sub,
        name: sub,
        picture: `${origin}/devnet/avatar/${encodeURIComponent(sub)}.svg`,
        email: `${encodeURIComponent(sub)}@dev.invalid`,
        email_verified: true,
      }),
    }),
    loadExistingGrant: async ({ oidc }) => {
      const grant = new oidc.provider.Grant({ accountId: oidc.account!.accountId, clientId: oidc.client!.clientId })
      grant.addOIDCScope([...oidc.requestParamScopes].join(' '))
      await grant.save()
      return grant
    },
    renderError: (ctx, out) => {
      ctx.type = 'text'
      ctx.body = `Development identity provider: ${out.error} (${out.error_description ?? ''})\n`
    },
  })
  provider.proxy = true
  provider.silent = true
  return provider
}

async function pass(
  answer: ReturnType<Provider['callback']>,
  origin: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { raw } = request
  pin(request, origin)
  // Remove the session cookie, so that each visit asks for a name again.
  const cookies = (raw.headers.cookie ?? '').split(/; */).filter((pair) => !/^devnet_\w+_session(\.sig)?=/.test(pair))
  raw.headers.cookie = cookies.join('; ')
  Object.assign(raw, { originalUrl: raw.url, url: raw.url!.slice(PATH.length) })
  await request.answerPast(reply, async () => {
    try {
      await answer(raw, reply.raw)
    } catch {
      if (!reply.raw.headersSent) reply.raw.writeHead(500)
      reply.raw.end()
    }
  })
}

/** Overwrites the host headers: URLs must be built from our settings, not from the request. */
function pin({ raw }: FastifyRequest, origin: string): void {
  const { host, protocol } = new URL(origin)
  Object.assign(raw.headers, { host, 'x-forwarded-host': host, 'x-forwarded-proto': protocol.slice(0, -1) })
}

const MAX_RECORDS = 5_000

/** Stores records in memory. It has one process and one developer, so operations need not be atomic. */
function memory(): (kind: string) => Adapter {
  const records = new BoundedMap<string, AdapterPayload>(MAX_RECORDS)
  /** key of the record with each uid, which is needed at each code exchange */
  const places = new BoundedMap<string, string>(MAX_RECORDS)
  return (kind) => ({
    upsert: async (id, payload) => {
      records.set(`${kind}:${id}`, payload)
      if (payload.uid !== undefined) places.set(`${kind}:${payload.uid}`, `${kind}:${id}`)
    },
    find: async (id) => records.get(`${kind}:${id}`),
    findByUid: async (uid) => {
      const record = records.get(places.get(`${kind}:${uid}`) ?? '')
      return record?.uid === uid ? record : undefined
    },
    findByUserCode: async () => undefined,
    consume: async (id) => {
      const record = records.get(`${kind}:${id}`)
      if (record === undefined || record.consumed !== undefined) throw new errors.InvalidGrant('it was already used')
      record.consumed = Math.floor(systemClock.wall() / 1_000)
    },
    destroy: async (id) => void records.delete(`${kind}:${id}`),
    revokeByGrantId: async (grantId) => {
      for (const [key, record] of records)
        if (key.startsWith(`${kind}:`) && record.grantId === grantId) records.delete(key)
    },
  })
}
