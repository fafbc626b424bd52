import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { stoppedClock } from '../../../test/kit/clock.ts'
import { provePkce } from './prove-pkce.ts'
import { pkceMarkOf, type ProviderSettings } from './providers.ts'

const ORIGIN = 'https://sign-in.example'
type Code = { challenge: string | null; verifier: string }
type Answer = { status?: number; body: object }
const TOKENS: Answer = { body: { access_token: 'x', token_type: 'bearer' } }
const REFUSED: Answer = { status: 400, body: { error: 'invalid_grant' } }
const opens = ({ challenge, verifier }: Code): boolean =>
  challenge === createHash('sha256').update(verifier).digest('base64url')
const strict = (code: Code): Answer => (opens(code) ? TOKENS : REFUSED)

/** What the provider does with a code, and with a person who comes without a challenge. */
let redeems: (code: Code) => Answer
let withoutChallenge: 'code' | 'error' | 'own page' | 'cancelled'
const challenges = new Map<string, string | null>()
const server = createServer(async (request, response) => {
  const form = new URLSearchParams(await text(request))
  const challenge = challenges.get(form.get('code')!)!
  const { status = 200, body } = redeems({ challenge, verifier: form.get('code_verifier')! })
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
})
let forge: ProviderSettings
before(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  forge = {
    ...{ name: 'FORGE', label: 'Forge', issuer: 'urn:forge', clientId: 'us', clientSecret: 'hush', scopes: ['user'] },
    ...{ subjectClaim: 'id', usernameClaims: [], pictureClaim: 'x', parameters: {}, isDevelopment: true },
    dialect: { endpoints: { authorization: `${base}/authorize`, token: `${base}/token`, profile: `${base}/user` } },
  }
})
after(() => server.close())

/** Signs in as the person at the terminal does. @returns the address that they paste */
function signIn(asked: string): string {
  const { searchParams } = new URL(/^http\S+$/m.exec(asked)![0])
  const challenge = searchParams.get('code_challenge')
  const back = new URL(searchParams.get('redirect_uri')!)
  back.searchParams.set('state', searchParams.get('state')!)
  if (challenge === null && withoutChallenge === 'own page') return ''
  if (challenge === null && withoutChallenge === 'error') back.searchParams.set('error', 'invalid_request')
  else if (challenge === null && withoutChallenge === 'cancelled') back.searchParams.set('error', 'access_denied')
  else {
    const code = `code ${challenges.size}`
    challenges.set(code, challenge)
    back.searchParams.set('code', code)
  }
  return back.href
}

const prove = async (ask = async (asked: string) => signIn(asked), clock = stoppedClock()): Promise<string> =>
  (await provePkce(forge, { origin: ORIGIN, ask, clock })).map(({ isGood, about, says }) => `${isGood ? '+' : '-'}${about} ${says}`).join('\n') // prettier-ignore

const cases: Record<string, [redeems: typeof redeems, withoutChallenge: typeof withoutChallenge, says: RegExp]> = {
  'redeems a code with its own verifier only': [strict, 'code', /^\+linking/m],
  'refuses with the status of a success': [(code) => (opens(code) ? TOKENS : { body: { error: 'bad_verification_code' } }), 'code', /^\+linking/m], // prettier-ignore
  'sends people without a challenge back with an error': [strict, 'error', /^\+linking/m],
  'shows people without a challenge an error': [strict, 'own page', /^\+linking/m],
  'knows no PKCE': [() => TOKENS, 'code', /^-verifier a code with another verifier is accepted/m],
  'looks at the verifier only where there was a challenge': [(code) => (code.challenge === null ? TOKENS : strict(code)), 'code', /^-challenge .* is accepted/m], // prettier-ignore
  'refuses every code': [() => REFUSED, 'code', /^-sign-in .*: invalid_grant$/],
  'is out of order for another verifier': [(code) => (opens(code) ? TOKENS : { status: 503, body: { error: 'invalid_grant' } }), 'code', /^-verifier .* proves nothing\.$/m], // prettier-ignore
  'has had enough of us': [(code) => (opens(code) ? TOKENS : { status: 429, body: { error: 'invalid_grant' } }), 'code', /^-verifier .* proves nothing\.$/m], // prettier-ignore
  'is cancelled by its person': [strict, 'cancelled', /^-challenge .*access_denied\. This result proves nothing\.$/m],
}
for (const [name, [how, answer, says]] of Object.entries(cases))
  test(`PKCE of a provider that ${name}: ${says.source.startsWith('^\\+') ? 'enforced' : 'not known to be enforced'}`, async () => {
    redeems = how
    withoutChallenge = answer
    const said = await prove()
    assert.match(said, says)
    assert.equal(said.includes(`"pkceChecked": "${pkceMarkOf(forge)}"`), says.source.startsWith('^\\+'))
    assert.ok(!said.includes('hush'))
  })

test('an address of another sign-in, or one that a code may have expired in, is asked for again', async () => {
  redeems = strict
  withoutChallenge = 'code'
  const clock = stoppedClock()
  const asked: string[] = []
  const said = await prove(async (text) => {
    asked.push(text)
    if (asked.length === 1) return 'https://sign-in.example/login/callback/FORGE?code=code&state=another'
    if (asked.length === 2) await clock.advance(30_001)
    return signIn(text)
  }, clock)
  assert.match(said, /^\+linking/m)
  assert.equal(asked.length, 5)
  assert.match(asked[1]!, /^This is not the last address/)
  assert.match(asked[2]!, /^More than 30 seconds passed/)
  assert.equal(new Set(asked.map((text) => /state=([^&]+)/.exec(text)![1])).size, 5)
})

test('the nonce of an id token is enough: nobody signs in for the check', async () => {
  const [finding] = await provePkce({ ...forge, dialect: {} }, { origin: ORIGIN, ask: () => assert.fail('asked'), clock: stoppedClock() }) // prettier-ignore
  assert.deepEqual([finding!.about, finding!.isGood], ['linking', true])
})
