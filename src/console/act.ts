import { html } from 'ghtml'
import type { App } from '../app.ts'
import { forgetApplication } from '../applications/registry.ts'
import { operatorActs } from '../operator/acts.ts'
import type { Actor } from '../operator/actions.ts'
import { PageError } from '../texts/page-error.ts'
import { ACTIONS, mayDo, type ActionName, type ConsoleAction } from './actions.ts'
import type { ConsoleDoor, ConsoleVisit } from './door.ts'
import { code } from './layout.ts'

/**
 * Registers POST /console/act/:action for every action: `target`, `confirm` for sensitive ones, and further fields of the
 * action. Each is recorded under the operator's identity.
 */
export function registerActions(app: App, door: ConsoleDoor): void {
  const registry = { db: app.db, readSealKeys: () => Promise.resolve(app.sealKeys) }
  for (const [name, action] of Object.entries(ACTIONS) as [ActionName, ConsoleAction][])
    door.post(`/console/act/${name}`, async ({ form, requireFresh, userId, role }) => {
      const target = (form.target ?? '').trim()
      const back = action.back(target)
      if (!mayDo(role, name)) throw new PageError('insufficient_scope', ({ console: texts }) => texts.notAllowed)
      if (action.isSensitive) {
        if (!requireFresh(back)) return back
        if (target === '' || form.confirm?.trim() !== target)
          throw new PageError('invalid_request', ({ console: texts }) => texts.notTyped)
      }
      const actor: Actor = { name: userId, via: 'console', log: app.telemetry.log }
      const acts = operatorActs(registry, actor, (clientId) => forgetApplication(app, clientId))
      await action.run({ acts, app, by: userId }, target, form)
      return `${back}?done=${name}`
    })
}

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
  const confirmed = html`<div class="field">
    <label for="${id}">${texts.confirm(target)}</label>
    <input id="${id}" name="confirm" autocomplete="off" required />
    <small>${texts.fresh}</small>
  </div>`
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
