import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import type { RootDb } from '../src/store/db.ts'
import { authorizationUrl, post, type Rehearsal } from './rehearsal.ts'
import { openBrowser } from './kit/browser.ts'

/** For tests: answers of the database arrive late and in another order, so what is read and written apart is overtaken. */
export const slowed = (db: RootDb): RootDb =>
  db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      await wait(Math.random() * 12)
      return result
    },
  })

/**
 * One code after the other, each redeemed by many requests at once that are spread over all replicas.
 * @throws AssertionError with the round in which not exactly one succeeded, or another refusal than invalid_grant came
 */
export async function raceCodes(
  replicas: Rehearsal[],
  { rounds, parallel, onRound = () => {} }: { rounds: number; parallel: number; onRound?: (round: number) => void },
): Promise<{ redemptions: number; succeeded: number }> {
  const { origin } = replicas[0]!
  const browser = openBrowser(origin)
  await browser.signIn(authorizationUrl(origin).url, 'racer')
  let succeeded = 0
  for (let round = 1; round <= rounds; round++) {
    const begun = authorizationUrl(origin)
    // Signed in and allowed before: the answer is the code.
    const code = (await browser.go(begun.url)).url.searchParams.get('code')
    assert.ok(code !== null, `round ${round}: no code`)
    const form = { grant_type: 'authorization_code', code, redirect_uri: begun.redirectUri, code_verifier: begun.verifier, client_id: 'demo' } // prettier-ignore
    const answers = await Promise.all(
      Array.from({ length: parallel }, (_, index) =>
        post(replicas[index % replicas.length]!.base, '/oauth/token', form),
      ),
    )
    const good = answers.filter(({ status }) => status === 200)
    const errors = answers.filter(({ status }) => status !== 200).map(({ body }) => body.error)
    assert.equal(good.length, 1, `round ${round}: ${good.length} of ${parallel} succeeded`)
    assert.deepEqual(new Set(errors), new Set(['invalid_grant']), `round ${round}`)
    succeeded += good.length
    onRound(round)
  }
  return { redemptions: rounds * parallel, succeeded }
}
