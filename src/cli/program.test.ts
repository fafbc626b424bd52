import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Help } from 'commander'
import { idleShell } from '../../test/kit/command.ts'
import { openProgram, openWholeProgram } from './program.ts'

test('the help says of each command what the command says of itself, although none is loaded for it', async () => {
  const [short, whole] = [await openProgram(['--help'], idleShell()), await openWholeProgram(idleShell())]
  const { commandUsage, subcommandTerm } = new Help()
  const listed = short.commands.map((command) => [
    short.configureHelp().subcommandTerm!(command),
    command.description(),
  ])
  assert.deepEqual(
    listed,
    whole.commands.map((command) => [subcommandTerm(command), command.description()]),
  )
  assert.equal(commandUsage(short), commandUsage(whole))
  assert.ok(listed.length > 10)
})
