import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openTelemetry } from '../telemetry.ts'
import { LOG_EVENTS } from './log-events.ts'

const SRC = join(import.meta.dirname, '..')

/** The programs or slices that write an event, and its levels. */
type WrittenEvent = { levels: Set<string>; places: Set<string> }

/** Finds every log event in the source text, by name. A name must be a literal, or a choice of two. */
export function writtenEvents(): Map<string, WrittenEvent> {
  const found = new Map<string, WrittenEvent>()
  for (const file of globSync('**/*.ts', { cwd: SRC }).toSorted()) {
    if (file.endsWith('.test.ts') || file === 'cli/log-reference.ts') continue
    const text = readFileSync(join(SRC, file), 'utf8')
    for (const [, level, choice, name] of text.matchAll(CALL))
      for (const [, event] of name!.matchAll(/'([a-z]\w*)'/g)) {
        const known = found.get(event!) ?? { levels: new Set(), places: new Set() }
        found.set(event!, known)
        // The level was chosen earlier, in a variable named `level`.
        const said = level ?? `${choice} ${/\bconst level\b[^\n]*/.exec(text)?.[0] ?? ''}`
        for (const [one] of said.matchAll(/\b(?:debug|info|warn|error)\b/g)) known.levels.add(one)
        known.places.add(file.split('/')[0]!.replace(/\.ts$/, ''))
      }
  }
  return found
}

/** Matches `log.warn('event'`, `log[isBad ? 'warn' : 'info']('event'`, `log.info(isOn ? 'on' : 'off'`. */
const CALL =
  /(?<!reply\.)\blog(?:\??\.(debug|info|warn|error)|\[([^[\]]*(?:\[[^\]]*\][^[\]]*)?)\])\(\s*((?:[\w.!= ]+\?\s*)?'[a-z]\w*'(?:\s*:\s*'[a-z]\w*')?)/g

/** Writes docs/reference/events.md: the log events of all programs. */
export function eventsReference(): string {
  const rows = [...writtenEvents()]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(
      ([event, { levels, places }]) =>
        `| \`${event}\` | ${[...levels].join(', ')} | ${[...places].join(', ')} | ${LOG_EVENTS[event] ?? ''} |`,
    )
  return `<!-- Written by \`npm run docs\` from src/cli/log-events.ts and the source. -->
# Log events

Both programs write JSON lines to standard error. \`msg\` is the event, \`level\` is 20 (debug), 30 (info), 40 (warn) or 50 (error),
\`program\` the program. At level error, someone must act. At level warn, review the event. No line has a token, a key, a
request body or a connection string.

| event | level | written by | meaning |
|---|---|---|---|
${rows.join('\n')}
`
}

/** Writes docs/reference/metrics.md from the registry. */
export async function metricsReference(): Promise<string> {
  const { registry } = openTelemetry('docs', 'silent')
  const metrics = (await registry.getMetricsAsJSON()) as { name: string; type: string; help: string }[]
  const rows = metrics
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .map(({ name, type, help }) => {
      const labels = (registry.getSingleMetric(name) as unknown as { labelNames: string[] }).labelNames
      return `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(' ')} | ${help} |`
    })
  return `<!-- Written by \`npm run docs\` from src/telemetry.ts. -->
# Metrics

\`GET /metrics\` on \`OPS_LISTEN\`, in the format of Prometheus; the signer has none. Labels are bounded: they never contain a user, address or hash.

| metric | type | labels | meaning |
|---|---|---|---|
${rows.join('\n')}
`
}
