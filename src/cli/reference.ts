import { configKeys } from '../config.ts'
import { describeError, errorCodes } from '../errors.ts'
import { en } from '../texts/en.ts'
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
  const rows = Object.entries(configKeys).map(([name, key]) => {
    const fallback = key.default === undefined ? '' : `\`${key.default}\``
    const kind = key.kind === 'choice' ? key.choices!.map((choice) => `\`${choice}\``).join(' ') : key.kind
    return `| \`${name}\` | ${key.part} | ${kind}${key.unit === undefined ? '' : `, ${key.unit}`} | ${fallback} | ${key.productionRequired ? 'yes' : ''} | ${key.help} |`
  })
  return `<!-- Written by \`npm run docs\` from src/config.ts. -->
# Configuration

Settings are environment variables. Without \`NODE_ENV=production\` the program runs a development installation on
loopback and needs none of them. In production, the server does not start until every required setting is present; all
problems are listed together.

| name | read by | kind | default | production | meaning |
|---|---|---|---|---|---|
${rows.join('\n')}
`
}

/** Generated pages, by their path in the repository. */
export const referencePages: Record<string, () => string | Promise<string>> = {
  'docs/reference/errors.md': errorsReference,
  'docs/reference/configuration.md': configurationReference,
  'docs/reference/events.md': eventsReference,
  'docs/reference/metrics.md': metricsReference,
}
