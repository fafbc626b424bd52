import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { idleShell } from '../../test/kit/command.ts'
import { openWholeProgram } from './program.ts'

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
