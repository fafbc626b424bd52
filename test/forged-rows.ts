import { createHash } from 'node:crypto'
import { decodeJwt } from 'jose'
import { sql } from 'kysely'
import type { Application } from '../src/applications/application.ts'
import { forgetApplication, saveApplication } from '../src/applications/registry.ts'
import { newSecret } from '../src/ids.ts'
import { authorizationUrl, demoApplication, obtainTokens, post, REDIRECT, type Rehearsal } from './rehearsal.ts'
import { openBrowser } from './kit/browser.ts'
import { reseal } from './reseal.ts'

type Browser = ReturnType<typeof openBrowser>

/** Of every confidential application here. */
export const SECRET = 'a secret of forty-three characters, at least'
export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

const path = (...names: string[]) => `'{${names.join(',')}}'`
export const set = (names: string[], value: unknown) =>
  `payload = jsonb_set(payload, ${path(...names)}, '${JSON.stringify(value)}'::jsonb)`
export const ofUser = (kind: string, userId: string) => `kind = '${kind}' and payload->>'accountId' = '${userId}'`
export const withHash = (kind: string, idHash: string) => `kind = '${kind}' and id_hash = decode('${idHash}', 'hex')`
/** A payload, as SQL, that says that its user came by their first identity, just now. */
export const cameAs = (userId: string) => `(payload || '${JSON.stringify({ amr: amrOf(userId) })}')`
export const amrOf = (userId: string) => [userId, String(Math.floor(Date.now() / 1_000))]

/** Copies a row, with what is said of it changed. */
export const copy = (where: string, changed: { idHash?: string; payload?: string; seal?: string }) => `
  insert into oauth_records (kind, id_hash, grant_id, uid, user_id, client_id, payload, expires_at, seal)
  select kind, ${changed.idHash === undefined ? 'id_hash' : `decode('${changed.idHash}', 'hex')`}, grant_id, uid, user_id, client_id,
    ${changed.payload ?? 'payload'}, expires_at, ${changed.seal ?? 'seal'} from oauth_records where ${where} limit 1`

export const signedInAs = (userId: string) =>
  `user_id = '${userId}', payload = jsonb_set(${cameAs(userId)}, '{accountId}', '"${userId}"'::jsonb)`

/** Everything that `demo` can be allowed. */
const ALL = 'openid wallet:read contracts:read contracts:write'

/**
 * A thief who can write to the database, and people of the same authorization server. Both have the names of one attack, so that
 * attacks do not meet.
 */
export function stage(world: Rehearsal, name: string) {
  const { origin } = world
  const [thief, victim] = [`thief-${name}`, `victim-${name}`]
  const victimId = `DEV-${victim}`

  const run = async (statement: string): Promise<void> => {
    const { numAffectedRows = 0n } = await sql.raw(statement).execute(world.app.db)
    if (numAffectedRows === 0n) throw new Error(`nothing was changed: ${statement}`)
  }

  /** Someone who signed in and allowed something. */
  const arrive = async (username: string, { scope = ALL, ...more }: Record<string, string> = {}) => {
    const browser = openBrowser(origin)
    const tokens = await obtainTokens(world, { username, browser, parameters: { scope, ...more } })
    return { browser, ...tokens, grantId: decodeJwt(tokens.access).gid as string }
  }

  /** A code that comes without a page, by which a browser is signed in and its person has allowed all of it. */
  const silently = async (browser: Browser, parameters: Record<string, string> = {}) => {
    const begun = authorizationUrl(origin, { prompt: 'none', scope: 'openid wallet:read', ...parameters })
    const page = await browser.go(begun.url)
    const code = page.url.searchParams.get('code')
    return code === null ? null : { ...begun, code, at: page.url.origin }
  }
  type Begun = { code: string; verifier: string; redirectUri: string }
  const exchange = async ({ code, verifier, redirectUri }: Begun, more: Record<string, string> = {}) => {
    const form = { grant_type: 'authorization_code', client_id: 'demo', redirect_uri: redirectUri }
    const { status, body } = await post(origin, '/oauth/token', { ...form, code, code_verifier: verifier, ...more })
    if (status >= 500) throw new Error(`${status} ${JSON.stringify(body)}`)
    return body.access_token ?? null
  }
  const refresh = async (token: string, clientId = 'demo') => {
    const form = { grant_type: 'refresh_token', refresh_token: token, client_id: clientId }
    const { status, body } = await post(origin, '/oauth/token', form)
    if (status >= 500) throw new Error(`${status} ${JSON.stringify(body)}`)
    return body.access_token ?? null
  }
  /** What a token is worth to the thief: it is the victim's. */
  const victims = (token: string | null) => (token !== null && decodeJwt(token).sub === victimId ? token : null)

  return {
    ...{ world, thief, victim, victimId, thiefId: `DEV-${thief}`, run, arrive, silently, exchange, refresh, victims },
    /** The whole of a sign-in without pages, to a token. */
    async tokenOf(browser: Browser, parameters: Record<string, string> = {}) {
      const begun = await silently(browser, parameters)
      return begun === null ? null : exchange(begun, { client_id: parameters.client_id ?? 'demo' })
    },
    /** A code of a sign-in that has not been exchanged. */
    async codeOf(username: string, parameters: Record<string, string> = {}) {
      const browser = openBrowser(origin)
      const begun = authorizationUrl(origin, { scope: ALL, ...parameters })
      const page = await browser.signIn(begun.url, username)
      const code = page.url.searchParams.get('code')!
      return { ...begun, code, idHash: hashOf(code), browser }
    },
    /** A confidential application of this attack, with one permission, that forgets nothing for five seconds. */
    async application(changes: Partial<Application> = {}) {
      const clientId = `app-${name}`
      await saveApplication(world.app, {
        ...{ ...demoApplication, clientId, kind: 'confidential', permissions: ['wallet:read', 'users:read'] },
        ...{ redirectUris: [REDIRECT], secretHashes: [hashOf(SECRET)], ...changes },
      })
      return clientId
    },
    /** A machine's token. */
    async machineToken(clientId: string, { secret = SECRET, scope = 'users:read' } = {}) {
      forgetApplication(world.app, clientId)
      const basic = Buffer.from(`${clientId}:${encodeURIComponent(secret)}`).toString('base64')
      const { status, body } = await post(origin, '/oauth/token', { grant_type: 'client_credentials', scope }, { authorization: `Basic ${basic}` }) // prettier-ignore
      if (status >= 500) throw new Error(`${status} ${JSON.stringify(body)}`)
      return body.access_token ?? null
    },
    forget: (clientId: string) => forgetApplication(world.app, clientId),
    /** What the authorization server itself would have written: what an attack begins with. */
    async begins(statement: string): Promise<void> {
      await run(statement)
      await reseal(world.app)
    },
    /** A visit to the provider, stopped where it sends the browser back; the cookies are of the browser that left. */
    async answerOf(username: string) {
      const browser = openBrowser(origin)
      const begun = authorizationUrl(origin, { scope: ALL, login_provider: 'DEV' })
      const login = await browser.go(begun.url)
      const csrf = /name="csrf" value="([^"]*)"/.exec(login.text)![1]!
      const headers = () => ({
        cookie: [...browser.cookies.values()].map((one) => `${one.name}=${one.value}`).join('; '),
      })
      const step = await fetch(login.url, { method: 'POST', redirect: 'manual', headers: headers(), body: new URLSearchParams({ csrf, username }) }) // prettier-ignore
      const back = await fetch(step.headers.get('location')!, { redirect: 'manual', headers: headers() })
      const state = new URL(back.headers.get('location')!).searchParams.get('state')!
      const { rows } = await sql<{ uid: string }>`select interaction_uid as uid from sign_ins where state_hash = decode(${hashOf(state)}, 'hex')`.execute(world.app.db) // prettier-ignore
      return {
        ...{ ...begun, browser, answer: back.headers.get('location')!, stateHash: hashOf(state), uid: rows[0]!.uid },
        browserHash: hashOf([...browser.cookies.values()].find((one) => one.name.endsWith('_browser'))!.value),
        /** the answer is given, and what comes of it not yet looked at */
        answered: async () => {
          const response = await fetch(back.headers.get('location')!, { redirect: 'manual', headers: headers() })
          return new URL(response.headers.get('location')!, origin).href
        },
        resume: `${origin}/oauth/auth/${rows[0]!.uid}`,
      }
    },
    another: () => newSecret(),
  }
}

export type Stage = ReturnType<typeof stage>
