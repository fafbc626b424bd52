// tier: default, because promtool is a process of milliseconds
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openTelemetry } from '../src/telemetry.ts'

const DEPLOY = join(import.meta.dirname, '../deploy')
const RULES = join(DEPLOY, 'prometheus/chatelaine.rules.yml')
const PROMTOOL = ['/usr/bin/promtool', '/usr/local/bin/promtool'].find((path) => existsSync(path))

type Metric = { name: string; labelNames: string[] }

const { registry } = openTelemetry('deploy', 'silent')
/** labels by series name; `instance` and `job` are Prometheus’s own, and so is `up` */
const labelsOf = new Map<string, readonly string[]>([['up', []]])
for (const metric of registry.getMetricsAsArray() as unknown as (Metric & { type: string })[]) {
  labelsOf.set(metric.name, metric.labelNames)
  for (const end of ['_bucket', '_count', '_sum'])
    if (metric.type === 'histogram') labelsOf.set(`${metric.name}${end}`, [...metric.labelNames, 'le'])
}
const OWN = ['instance', 'job']

/** Words of PromQL that are no metrics. */
const WORDS = /^(?:sum|max|min|count|rate|increase|vector|histogram_quantile|by|on|or|and|le)$/

/** Returns what an expression names that no server reports: metrics, and labels of a metric that it does not have. */
function unknownIn(expression: string): string[] {
  const unknown: string[] = []
  const labels = [...expression.matchAll(/\b(?:by|on) \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(/,\s*/))
  const bare = expression.replaceAll(/\b(?:by|on) \([^)]*\)/g, '').replaceAll(/\[\w+\]/g, '')
  const used = [...bare.matchAll(/([a-z_]\w*)(\{[^}]*\})?/g)].filter(([, name]) => !WORDS.test(name!))
  const known = used.map(([, name]) => labelsOf.get(name!))
  for (const [index, [, name, matchers = '']] of used.entries()) {
    if (known[index] === undefined) unknown.push(name!)
    const named = [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => label!)
    unknown.push(...named.filter((label) => ![...(known[index] ?? []), ...OWN].includes(label)).map((label) => `${name}{${label}}`)) // prettier-ignore
  }
  for (const label of labels)
    if (!OWN.includes(label) && !known.some((one) => one?.includes(label))) unknown.push(`by (${label})`)
  return unknown
}

const withoutMatchers = (expression: string): string => expression.replaceAll(/"[^"]*"/g, '""')

const expressionsOfRules = (): string[] =>
  [...readFileSync(RULES, 'utf8').matchAll(/^ {8}expr: (?:\|\n((?: {10}.*\n)+)|(.*)\n)/gm)].map(
    ([, many, one]) => one ?? many!,
  )

const expressionsOfDashboard = (): string[] =>
  JSON.parse(readFileSync(join(DEPLOY, 'grafana/chatelaine.json'), 'utf8')).panels.flatMap(
    ({ targets = [] }: { targets?: { expr: string }[] }) => targets.map(({ expr }) => expr),
  )

test('every alert and every panel reads metrics and labels that a server reports', () => {
  const rules = expressionsOfRules()
  const panels = expressionsOfDashboard()
  assert.equal(rules.length, readFileSync(RULES, 'utf8').split('- alert:').length - 1)
  assert.ok(panels.length > 20)
  for (const expression of [...rules, ...panels])
    assert.deepEqual(unknownIn(withoutMatchers(expression)), [], expression)
  assert.deepEqual(unknownIn('sum by (chain_id) (people{colour=""}) / no_metric'), ['people{colour}', 'no_metric', 'by (chain_id)']) // prettier-ignore
})

test('every runbook and page that an alert names exists', () => {
  const named = readFileSync(RULES, 'utf8').match(/docs\/[\w/-]+\.md/g)!
  for (const page of named) assert.ok(existsSync(join(DEPLOY, '..', page)), page)
})

test(
  'Prometheus accepts the alerts, and they fire when they should',
  { skip: PROMTOOL === undefined && process.env.CI === undefined && 'needs promtool' },
  () => {
    const promtool: string = PROMTOOL ?? assert.fail('promtool is missing')
    for (const words of [
      ['check', 'rules', 'chatelaine.rules.yml'],
      ['test', 'rules', 'chatelaine.test.yml'],
    ]) {
      const ran = spawnSync(promtool, words, { cwd: join(DEPLOY, 'prometheus'), encoding: 'utf8' })
      assert.equal(ran.status, 0, ran.stdout + ran.stderr)
    }
  },
)
