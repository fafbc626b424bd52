import { html } from 'ghtml'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { MAX_DRAFT_BYTES, MAX_TRIED, type PolicyDifference, type PolicyTrial } from '../signer-wire/wire.ts'
import { PageError } from '../texts/page-error.ts'
import type { Texts } from '../texts/en.ts'
import { includesRole } from '../operator/operators.ts'
import type { ConsoleDoor, ConsoleVisit } from './door.ts'
import { card, code, facts, linkTo, mono, table, time, transactionPath, userPath } from './layout.ts'

/** Lowest role: a draft costs the signer time. */
const ROLE = 'operator'

/** Renders the form for a draft; nothing for lower roles. */
export function draftForm({ words: { console: texts }, csrf, role }: ConsoleVisit, draft: string): string {
  if (!includesRole(role, ROLE)) return ''
  return card(
    texts.policy.draft,
    html`<form class="stack tight" method="post" action="/console/policy/draft">
      <input type="hidden" name="csrf" value="${csrf}" />
      <div class="field">
        <label for="draft">${texts.policy.draftLabel}</label>
        <textarea id="draft" name="draft" class="mono" rows="12" spellcheck="false" required>${draft}</textarea>
        <small>${texts.policy.draftHint(String(MAX_TRIED))}</small>
      </div>
      <p class="muted">
        <small
          >${texts.command}: !${code('chatelaine policy check FILE')}, !${code('chatelaine policy replay FILE')}</small
        >
      </p>
      <button class="button quiet">${texts.policy.try}</button>
    </form>`,
  )
}

/** Registers POST /console/policy/draft. It changes nothing, so the audit log does not record it. */
export function registerDraft(app: App, door: ConsoleDoor): void {
  door.post(
    '/console/policy/draft',
    async (visit) => {
      const { words, role, form } = visit
      if (!includesRole(role, ROLE)) throw new PageError('insufficient_scope', ({ console: texts }) => texts.notAllowed)
      const draft = form.draft ?? ''
      const title = words.console.policy.draft
      return { place: 'policy', title, body: `${await trialHtml(app, words, draft)}${draftForm(visit, draft)}` }
    },
    // Form encoding may triple the bytes.
    { maxBytes: 4 * MAX_DRAFT_BYTES },
  )
}

async function trialHtml({ signer, telemetry }: App, words: Texts, draft: string): Promise<string> {
  const { policy: texts, problems } = words.console
  const danger = (text: string) =>
    card(words.console.transaction.outcome, html`<p class="danger" role="status">${text}</p>`, 'h1')
  if (Buffer.byteLength(draft) > MAX_DRAFT_BYTES) return danger(texts.invalid(`> ${MAX_DRAFT_BYTES} bytes`))
  try {
    return foundHtml(words, await signer.tryPolicy({ text: draft }))
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    telemetry.log.debug('signer_not_seen', {}, error)
    return danger(error.code === 'signer_unavailable' ? problems.signer : texts.tooOld)
  }
}

function foundHtml(words: Texts, trial: PolicyTrial): string {
  const { policy: texts } = words.console
  if (trial.problem !== null)
    return card(
      words.console.transaction.outcome,
      html`<p class="danger" role="status" lang="en">${texts.invalid(trial.problem)}</p>`,
      'h1',
    )
  const { version, hash, words: described, doubts, records, signatures, refused, allowed, differences } = trial
  const numbers = [signatures, records.first, records.last, refused, allowed].map(String)
  const [a = '', b = '', c = '', d = '', e = ''] = numbers
  const titles = [texts.record, words.console.audit.at, words.console.transaction.user, words.console.transaction.title('').trim(), texts.refusedBy, texts.rule] // prettier-ignore
  return `${card(
    words.console.transaction.outcome,
    html`!${facts([[texts.version, html`${version}`], [texts.hash, mono(hash)]])}
      <ul class="rows" lang="en">
        !${described.map((line) => html`<li>${line}</li>`).join('')}
      </ul>
      !${doubts.map((line) => html`<p class="notice">${texts.warning(line)}</p>`).join('')}
      <p role="status">${texts.tried(a, b, c, d, e)}</p>`,
    'h1',
  )}${differences.length === 0 ? '' : card(texts.differences, table(words, titles, differences.map((one) => rowOf(words, one)), texts.differences))}` // prettier-ignore
}

const rowOf = (words: Texts, { seq, at, userId, intentId, refusedBy, rule, reason }: PolicyDifference): string[] => [
  html`${seq}`,
  time(words, new Date(at)),
  linkTo(userPath(userId), userId),
  linkTo(transactionPath(intentId), intentId),
  html`${refusedBy === 'draft' ? words.console.policy.byDraft : words.console.policy.byCurrent}`,
  html`!${mono(rule)}<br /><small lang="en">${reason}</small>`,
]
