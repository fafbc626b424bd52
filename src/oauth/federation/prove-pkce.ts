import * as openid from 'openid-client'
import type { Clock } from '../../clock.ts'
import { wayTo } from './connection.ts'
import { connect, redeem, REFUSED_PROOF, type Finding, type Redeemed } from './check-provider.ts'
import { callbackOf } from './federation.ts'
import { bindsCode, pkceMarkOf, type ProviderSettings } from './providers.ts'
import { withoutIssuer } from './userinfo.ts'

/**
 * Maximum time from showing a URL to the answer, in milliseconds. X redeems a code for 30 seconds; later it rejects the
 * code for its age.
 */
const MAX_MS = 30_000

/** Shows a text to the operator who signs in. @returns what they typed */
export type AskPerson = (text: string) => Promise<string>

type Probe = { hasChallenge: boolean; hasOwnVerifier: boolean }

/**
 * Checks whether a provider redeems a code only with the verifier of the request that the code was issued for. That
 * needs codes, so the operator signs in three times and gives `ask` the URL where each sign-in ends:
 *
 * 1. With its own verifier, the code must be redeemed. Otherwise the rejections below prove nothing.
 * 2. With another verifier, the code must be rejected.
 * 3. Without a challenge in the request, a code with a verifier must be rejected. Otherwise an attacker can put such a
 *    code of their own into the visit of another user (RFC 9700 §4.8.2).
 *
 * The tokens are dropped. Nobody is signed in here and nothing is stored.
 */
export async function provePkce(
  provider: ProviderSettings,
  { origin, ask, clock }: { origin: string; ask: AskPerson; clock: Clock },
): Promise<Finding[]> {
  if (bindsCode({ dialect: provider.dialect }))
    return [{ about: 'linking', isGood: true, says: 'the nonce in its id tokens binds each code to its sign-in' }]
  const way = wayTo(provider)
  const { config } = await connect(provider, way)

  const own = await visit({ hasChallenge: true, hasOwnVerifier: true })
  if (own !== 'tokens')
    return [bad('sign-in', `the provider does not redeem a code with its own verifier: ${textOf(own)}`)]
  const findings: Finding[] = [{ about: 'sign-in', isGood: true, says: 'a code is redeemed with its own verifier' }]
  for (const [about, code, given] of [
    ['verifier', 'a code with another verifier', { hasChallenge: true, hasOwnVerifier: false }],
    [
      'challenge',
      'a verifier with a code of a request without a challenge',
      { hasChallenge: false, hasOwnVerifier: false },
    ],
  ] as const) {
    const outcome = await visit(given)
    if (outcome === 'tokens')
      return [...findings, bad(about, `${code} is accepted, so users cannot link this provider`)]
    if ('says' in outcome || REFUSED_PROOF.includes(outcome.word))
      return [...findings, bad(about, `${code}: ${textOf(outcome)}. This result proves nothing.`)]
    findings.push({ about, isGood: true, says: `${code} is rejected` })
  }
  const field = `"pkceChecked": "${pkceMarkOf(provider)}"`
  return [
    ...findings,
    { about: 'linking', isGood: true, says: `to let users link this provider, add ${field} to its entry` },
  ]

  async function visit({ hasChallenge, hasOwnVerifier }: Probe): Promise<Redeemed> {
    const verifier = openid.randomPKCECodeVerifier()
    const callback = await come(hasChallenge ? verifier : null)
    if (callback === null) return { word: 'invalid_request' }
    const error = callback.searchParams.get('error')
    if (error !== null)
      return !hasChallenge && error === 'invalid_request'
        ? { word: error }
        : { says: `the provider responded with ${error.slice(0, 64)}` }
    return redeem(config, withoutIssuer(callback), {
      state: callback.searchParams.get('state')!,
      verifier: hasOwnVerifier ? verifier : openid.randomPKCECodeVerifier(),
    })
  }

  /** @returns the callback URL; null if the provider showed an error of its own */
  async function come(verifier: string | null): Promise<URL | null> {
    for (let remark = ''; ;) {
      const state = openid.randomState()
      const url = openid.buildAuthorizationUrl(config, {
        ...provider.parameters,
        redirect_uri: callbackOf(origin, provider),
        scope: provider.scopes.join(' '),
        state,
        ...(verifier === null
          ? {}
          : { code_challenge: await openid.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256' }),
      })
      const begun = clock.ticks()
      const typed = (await ask(`${remark}${askFor(url, verifier !== null)}`)).trim()
      if (typed === '' && verifier === null) return null
      const back = URL.canParse(typed) ? new URL(typed) : null
      if (back === null || back.searchParams.get('state') !== state)
        remark = 'This is not the last address of this sign-in. Try again:\n'
      else if (clock.ticks() - begun > MAX_MS)
        remark = `More than ${MAX_MS / 1_000} seconds passed, so the code may have expired. Try again:\n`
      else return back
    }
  }
}

const askFor = (url: URL, hasChallenge: boolean): string => `Open this URL in a browser and sign in:

${url.href}

Then paste the whole address of the page that follows, within ${MAX_MS / 1_000} seconds${
  hasChallenge ? '' : ', or press Enter if the provider shows an error of its own instead'
}:
`

const bad = (about: string, says: string): Finding => ({ about, isGood: false, says, advice: 'Omit pkceChecked: users can sign in with this provider but cannot link it.' }) // prettier-ignore

const textOf = (outcome: Exclude<Redeemed, 'tokens'>): string => ('says' in outcome ? outcome.says : outcome.word)
