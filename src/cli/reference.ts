import { configKeys } from '../config.ts'
import { describeError, errorCodes } from '../errors.ts'
import { eventsReference, metricsReference } from './log-reference.ts'

/** Writes docs/reference/errors.md from the catalogue. */
export function errorsReference(): string {
  const rows = errorCodes.map((code) => {
    const { status, title, help, retryable } = describeError(code)
    return `| <a id="${code}"></a>\`${code}\` | ${status} | ${title}. ${help} | ${retryable ? 'yes' : 'no'} |`
  })
  return `<!-- Written by \`npm run docs\` from src/errors.ts. -->
# Errors

Every refusal is \`application/problem+json\` (RFC 9457) with one of these codes in \`code\`. A code is never renamed
and never changes its status. \`help\` of the document is the meaning below. "Retry" says whether the same request may be sent again as it is; with an
\`Idempotency-Key\` a write may always be retried.

| code | status | meaning | retry |
|---|---|---|---|
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
loopback and needs none of them. In production, start is refused until every setting marked so is there; all
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
