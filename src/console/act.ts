import { html } from 'ghtml'
import type { App } from '../app.ts'
import { forgetApplication } from '../applications/registry.ts'
import { AppError } from '../errors.ts'
import { operatorActs } from '../operator/acts.ts'
import type { Actor } from '../operator/actions.ts'
import { shownText } from '../http/page.ts'
import { webhookActs } from '../operator/webhook-acts.ts'
import { PageError } from '../texts/page-error.ts'
import { webhookKeysOf } from '../webhooks/keys.ts'
import { privateHostsOf } from '../webhooks/post.ts'
import { ACTIONS, mayDo, type ActionName, type ConsoleAction } from './actions.ts'
import type { Texts } from '../texts/en.ts'
import type { ConsoleContent, ConsoleDoor, ConsoleVisit } from './door.ts'
import { card, code, field } from './layout.ts'

/**
 * Registers POST /console/act/:action for every action: `target`, `confirm` for sensitive ones, and further fields of the
 * action. Each is recorded under the operator's identity.
 */
export function registerActions(app: App, door: ConsoleDoor): void {
  const registry = { db: app.db, readSealKeys: () => Promise.resolve(app.sealKeys) }
  const hooks = { db: app.db, readKeys: async () => webhookKeysOf(app.sealKeys), privateHosts: privateHostsOf(app) }
  for (const [name, action] of Object.entries(ACTIONS) as [ActionName, ConsoleAction][])
    door.post(`/console/act/${name}`, async ({ form, requireFresh, userId, role, words }) => {
      const target = (form.target ?? '').trim()
      const back = action.back(target)
      if (!mayDo(role, name)) throw new PageError('insufficient_scope', ({ console: texts }) => texts.notAllowed)
      if (action.isSensitive) {
        if (!requireFresh(back)) return back
        const typed = form.confirm?.trim()
        // A name with hidden characters can only be typed as it is shown.
        if (target === '' || (typed !== target && typed !== shownText(target)))
          throw new PageError('invalid_request', ({ console: texts }) => texts.notTyped)
      }
      const actor: Actor = { name: userId, via: 'console', role, log: app.telemetry.log }
      const acts = operatorActs(registry, actor, (clientId) => forgetApplication(app, clientId))
      const done = await action
        .run({ acts, webhooks: webhookActs(hooks, actor), app, by: userId }, target, form)
        .catch(inWords)
      // A secret is on this one page only: not in an address, and not in the database.
      return isSecret(done) ? secretPage(words, back, done.secret) : `${back}?done=${name}`
    })
}

/** Shows operators the detail of an error, which is English, like logs and the operator API. */
function inWords(error: unknown): never {
  if (!(error instanceof AppError) || error instanceof PageError) throw error
  const { message } = error
  throw new PageError(error.code, () => message, { cause: error })
}

const isSecret = (done: unknown): done is { secret: string } =>
  typeof done === 'object' && done !== null && 'secret' in done && typeof done.secret === 'string'

const secretPage = (
  { console: { secret: texts, back: backText } }: Texts,
  back: string,
  secret: string,
): ConsoleContent => ({
  place: back.startsWith('/console/webhooks') ? 'webhooks' : 'applications',
  title: texts.title,
  body: card(
    texts.title,
    html`<p>${texts.hint}</p>
      <pre>${secret}</pre>
      <p><a href="${back}">${backText}</a></p>`,
    'h1',
  ),
})

/**
 * Renders the form of an action with its command line; nothing if the operator may not do it.
 * @param fields  further inputs, as HTML, and their values for the command line
 */
export function actionForm(
  { words, csrf, role }: ConsoleVisit,
  name: ActionName,
  target: string,
  fields: { html: string; values: Record<string, string> } = { html: '', values: {} },
): string {
  if (!mayDo(role, name)) return ''
  const texts = words.console
  const action: ConsoleAction = ACTIONS[name]
  const id = `confirm-${name}-${target.replaceAll(/\W/g, '-')}`
  const confirmed = field({ id, name: 'confirm', label: texts.confirm(target), hint: texts.fresh }, { required: true })
  const isQuiet = action.isSensitive ? '' : ' quiet'
  return html`<details class="act">
    <summary>${texts.acts[name]}</summary>
    <form class="stack tight" method="post" action="/console/act/${name}">
      <input type="hidden" name="csrf" value="${csrf}" />
      <input type="hidden" name="target" value="${target}" />
      !${fields.html}!${action.isSensitive ? confirmed : ''}
      <p class="muted"><small>${texts.command}: !${code(action.command(target, fields.values))}</small></p>
      <button class="button${isQuiet}">${texts.acts[name]}</button>
    </form>
  </details>`
}
