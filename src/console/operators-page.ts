import { html } from 'ghtml'
import type { App } from '../app.ts'
import { CONSOLE_ROLES, listOperators } from '../operator/operators.ts'
import { actionForm } from './act.ts'
import { mayDo } from './actions.ts'
import type { ConsoleDoor, ConsoleVisit } from './door.ts'
import { card, code, doneHtml, field, table, time } from './layout.ts'

/** Registers GET /console/operators: the operators of the console, and the forms of owners. */
export function operatorsPage(app: App, door: ConsoleDoor): void {
  door.page('/console/operators', async (visit) => {
    const { words, query } = visit
    const texts = words.console
    const operators = await listOperators(app)
    const rows = operators.map(({ userId, role, createdAt, isAuthentic }) => [
      html`<span class="mono">${userId}</span>`,
      isAuthentic ? html`${texts.roles[role]}` : html`<span class="danger">${texts.operators.notAuthentic}</span>`,
      time(words, createdAt),
      userId === visit.userId ? '' : actionForm(visit, 'remove-operator', userId),
    ])
    const { userId, role, since, hint, title } = texts.operators
    const body = `${doneHtml(words, query.done)}${card(
      title,
      `${html`<p class="muted">${hint}</p>`}${table(words, [userId, role, since, words.console.user.acts], rows, title)}`,
      'h1',
    )}${mayDo(visit.role, 'add-operator') ? addForm(visit) : ''}`
    return { place: 'operators', title, body }
  })
}

function addForm({ words, csrf }: ConsoleVisit): string {
  const { operators: texts, command, fresh, roles, acts } = words.console
  const example = 'chatelaine operator add --provider PROVIDER --user-id ID --role ROLE'
  return card(
    texts.add,
    html`<form class="stack tight" method="post" action="/console/act/add-operator">
      <input type="hidden" name="csrf" value="${csrf}" />
      !${field({ id: 'add-target', name: 'target', label: texts.userId }, { class: 'mono', placeholder: 'GOOGLE-1', required: true })}
      !${field({ id: 'add-confirm', name: 'confirm', label: texts.repeat, hint: fresh }, { class: 'mono', required: true })}
      <div class="field">
        <label for="add-role">${texts.role}</label>
        <select id="add-role" name="role">
          !${CONSOLE_ROLES.toReversed()
            .map((role) => html`<option value="${role}">${roles[role]}</option>`)
            .join('')}
        </select>
      </div>
      <p class="muted"><small>${command}: !${code(example)}</small></p>
      <button class="button">${acts['add-operator']}</button>
    </form>`,
  )
}
