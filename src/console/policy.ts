import { html } from 'ghtml'
import type { App } from '../app.ts'
import type { Texts } from '../texts/en.ts'
import type { PolicyHealth } from '../signer-wire/wire.ts'
import type { ConsoleDoor } from './door.ts'
import { draftForm, registerDraft } from './policy-draft.ts'
import { card, facts, mono, time } from './layout.ts'

/** Registers GET /console/policy: the policy in force. It is read only, because policies are signed elsewhere. */
export function policyPage(app: App, door: ConsoleDoor): void {
  registerDraft(app, door)
  door.page('/console/policy', async (visit) => {
    const { words } = visit
    const title = words.console.nav.policy
    const said = await app.signer.health().then(
      ({ policy }) => policyHtml(words, policy),
      (error: unknown) => {
        app.telemetry.log.debug('signer_not_seen', {}, error)
        return html`<p class="danger">${words.console.problems.signer}</p>`
      },
    )
    return { place: 'policy', title, body: `${card(title, `${said}${html`<p class="muted">${words.console.policy.hint}</p>`}`, 'h1')}${draftForm(visit, '')}` } // prettier-ignore
  })
}

function policyHtml(words: Texts, policy: PolicyHealth): string {
  const texts = words.console.policy
  if (policy === null) return html`<p>${texts.builtIn}</p>`
  const { version, hash, state, rules, asksUsers, since, problem } = policy
  return facts([
    [texts.version, html`${version}`],
    [texts.hash, mono(hash)],
    [texts.state, html`${state}`],
    [texts.rules, html`${rules}`],
    [texts.asks, html`${asksUsers ? texts.yes : words.console.user.no}`],
    [texts.since, time(words, new Date(since))],
    [texts.problem, problem === null ? null : html`<span class="danger" lang="en">${problem}</span>`],
  ])
}
