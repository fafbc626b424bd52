import { readFileSync } from 'node:fs'
import { configKeys, settingGroups, type Setting } from '../config.ts'
import { describeError, errorCodes } from '../errors.ts'
import { en } from '../texts/en.ts'
import { commandsReference } from './commands-reference.ts'
import { eventsReference, metricsReference } from './log-reference.ts'

/** Writes docs/reference/errors.md from the catalogue. */
export function errorsReference(): string {
  const rows = errorCodes.map((code) => {
    const { status, title, help, retryable } = describeError(code)
    return `| <a id="${code}"></a>\`${code}\` | ${status} | **${title}.** ${help} | ${en.userMessages[code]} | ${retryable ? 'yes' : 'no'} |`
  })
  return `<!-- Written by \`npm run docs\` from src/errors.ts. -->
# Errors

Every error response is \`application/problem+json\` (RFC 9457) with one of these codes in \`code\`. A code is never renamed
and never changes its status. Decide by \`code\`, never by a text. Each document has three texts:

- \`detail\`, for developers: the failure of this request.
- \`help\`, for developers: the meaning below.
- \`userMessage\`, for the user: a text that an application may show unchanged. \`Accept-Language\` chooses English, German, French,
  Spanish or Japanese. \`Content-Language\` names the language.

If "retry" is yes, the same request may be sent again unchanged. With an \`Idempotency-Key\`, a write may always be retried.

OAuth endpoints respond with \`error\` and \`error_description\` instead (RFC 6749 §5.2), without \`userMessage\`. Only \`/oauth/me\`
responds with a problem document.

| code | status | meaning | \`userMessage\` in English | retry |
|---|---|---|---|---|
${rows.join('\n')}
`
}

/** Writes docs/reference/configuration.md from the table of settings. */
export function configurationReference(): string {
  const groups = Object.entries(settingGroups)
  const sections = groups.map(([group, { title, about }]) => {
    const rows = Object.entries(configKeys)
      .filter(([, key]) => key.group === group)
      .map(([name, key]) => {
        const { meaning, fallback } = helpOf(key)
        const reader = `${key.part === 'both' ? 'server, signer' : key.part}${key.productionRequired ? ', **required**' : ''}`
        const value = fallback === '' ? valuesOf(key) : `${valuesOf(key)}; default ${fallback}`
        return `| <a id="${name}"></a>\`${name}\`<br>${reader} | ${value} | ${meaning} |`
      })
    return `## ${title}

${about}

| setting | value | meaning |
|---|---|---|
${rows.join('\n')}
`
  })
  return `<!-- Written by \`npm run docs\` from src/config.ts. -->
# Configuration

Settings are environment variables. Without \`NODE_ENV=production\` the program runs a development installation on
loopback, without any setting. In production, a program refuses to start while a **required** setting is missing, and lists
all problems together. Below each name is the program that reads the setting.

${groups.map(([, { title }]) => `[${title}](#${title.toLowerCase().replaceAll(' ', '-')})`).join(' · ')}

${sections.join('\n')}`
}

/** Separates a default that depends on other settings from the help that states it. */
function helpOf({ help, default: standard }: Setting): { meaning: string; fallback: string } {
  if (standard !== undefined) return { meaning: help, fallback: `\`${standard}\`` }
  const [meaning = '', text = ''] = help.split('. Default: ')
  return { meaning, fallback: /^\S+$/.test(text) ? `\`${text}\`` : text }
}

/** Describes the values that a setting takes: its kind, unit and bounds, or its choices. */
function valuesOf({ kind, unit, choices, min, max }: Setting): string {
  if (choices !== undefined) return choices.map((choice) => `\`${choice}\``).join(' ')
  const bounds =
    min !== undefined && max !== undefined
      ? [`${min} to ${max}`]
      : [min === undefined ? [] : [`at least ${min}`], max === undefined ? [] : [`at most ${max}`]].flat()
  return [kind, ...(unit === undefined || unit === kind ? [] : [unit]), ...bounds].join(', ')
}

/** Turns the documents that a generated page names into links, with their titles. */
function linked(page: string): string {
  return page.replaceAll(/(?<![\w/`])docs\/([\w/-]+\.md)(#[\w-]+)?/g, (_, path: string, anchor = '') => {
    const [, title] = /^# (.+)$/m.exec(readFileSync(new URL(`../../docs/${path}`, import.meta.url), 'utf8'))!
    return `[${title}](../${path}${anchor})`
  })
}

/** Generated pages, by their path in the repository. */
export const referencePages: Record<string, () => Promise<string>> = Object.fromEntries(
  Object.entries({
    errors: errorsReference,
    configuration: configurationReference,
    commands: commandsReference,
    events: eventsReference,
    metrics: metricsReference,
  }).map(([name, write]) => [`docs/reference/${name}.md`, async () => linked(await write())]),
)
