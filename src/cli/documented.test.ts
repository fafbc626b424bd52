import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { idleShell } from '../../test/kit/command.ts'
import { configKeys } from '../config.ts'
import { openWholeProgram } from './program.ts'
import { configurationReference } from './reference.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Words of a command as a document gives them: in a span of code, or on a line of a block. */
const CALL = /(?:^|[`\s($;])chatelaine (?!chatelaine)([a-z][^`\n;|#)']*)/g

function callsIn(text: string): string[] {
  const code = [
    ...[...text.matchAll(/```\w*\n([\s\S]*?)```/g)].map(([, block]) => block!.replaceAll(/\\\n\s*/g, ' ')),
    ...[...text.replaceAll(/```[\s\S]*?```/g, '').matchAll(/`([^`\n]+)`/g)].map(([, span]) => span!),
  ].join('\n')
  return [...code.matchAll(CALL)].map(([, words]) => words!.trim())
}

test('every command that a document names is there, with each of its options', async () => {
  const program = await openWholeProgram(idleShell())
  const wrong: string[] = []
  let calls = 0
  for (const file of ['README.md', 'SECURITY.md', ...globSync('docs/**/*.md', { cwd: ROOT })])
    for (const call of callsIn(readFileSync(join(ROOT, file), 'utf8'))) {
      calls++
      // The first lines of texts that are signed.
      if (call === 'address 1' || call === 'key elsewhere 1') continue
      let command: Command = program
      for (const word of call.split(/\s+/)) {
        if (command.commands.length === 0) break
        const next = command.commands.find((one) => one.name() === word)
        // `chatelaine account …` speaks of all of them.
        if (next === undefined && word !== '…' && word !== '--help') wrong.push(`${file}: chatelaine ${call}`)
        if (next === undefined) break
        command = next
      }
      for (const [option] of call.matchAll(/(?<=\s)--[a-z-]+/g))
        if (option !== '--help' && !command.options.some(({ long }) => long === option))
          wrong.push(`${file}: chatelaine ${call}: ${option}`)
    }
  assert.ok(calls > 60, `${calls} calls`)
  assert.deepEqual(wrong, [])
})

test('each setting is in one group of the reference, and the first has the settings of docs/operate/deploy.md', () => {
  const page = configurationReference()
  const shown = [...page.matchAll(/^\| <a id="(\w+)">/gm)].map(([, name]) => name!)
  assert.deepEqual(shown.toSorted(), Object.keys(configKeys).toSorted())
  for (const group of page.split(/^## /m).slice(1)) assert.match(group, /^\| <a id="/m)

  const deploy = readFileSync(join(ROOT, 'docs/operate/deploy.md'), 'utf8')
  const files = [...deploy.matchAll(/^cat > \w+\.env <<'END'\n([\s\S]*?)^END$/gm)].map(([, lines]) => lines!)
  const set = files.flatMap((lines) => [...lines.matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name!))
  const first = shown.filter((name) => configKeys[name as keyof typeof configKeys].group === 'first')
  assert.deepEqual(first.toSorted(), [...new Set(set)].toSorted())
  const required = Object.entries(configKeys).filter(([, { productionRequired }]) => productionRequired)
  for (const [name] of required) assert.ok(first.includes(name), `${name} is required and not among the first`)
})
