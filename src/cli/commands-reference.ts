import { PassThrough } from 'node:stream'
import type { Argument, Command, Help, Option } from 'commander'
import { commandUsers, openWholeProgram } from './program.ts'
import type { Shell } from './shell.ts'

/** Writes docs/reference/commands.md from the tree of commands. */
export async function commandsReference(): Promise<string> {
  const program = await openWholeProgram(shellWithoutProcess())
  const help = program.createHelp()
  const commands = program.commands.toSorted((one, other) => (one.name() < other.name() ? -1 : 1))
  const sections = commands.map((command) => {
    const isGroup = command.commands.length > 0
    return [
      `## \`${command.name()}\``,
      ...(isGroup ? [sentence(command.description())] : []),
      `Run as: ${commandUsers.get(command.name())}.`,
      ...leavesOf(command).map((leaf) => describe(leaf, help, isGroup)),
    ].join('\n\n')
  })
  return `<!-- Written by \`npm run docs\` from the commands in src/cli/. -->
# Commands

\`chatelaine\` is \`scripts/run.mjs\` of this repository. Its commands use the settings of the server, and
\`chatelaine signer …\` those of the signer: docs/reference/configuration.md.

- Results go to standard output, everything else to standard error. The exit code is 0, or 1 after an error, unless a command
  documents others.
- Run each command as the OS user that its section names, with the settings of that program. In a split deployment the users
  differ: docs/operate/split-deployment.md.
- \`--help\` after a command prints its options.

| command | does |
|---|---|
${commands.map((command) => `| [\`${command.name()}\`](#${command.name()}) | ${cell(command.description())} |`).join('\n')}

${sections.join('\n\n')}
`
}

/** The commands below a command that do something: those without commands of their own. */
const leavesOf = (command: Command): Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf)

function describe(command: Command, help: Help, hasHeading: boolean): string {
  const usage = help.commandUsage(command)
  const rows = [
    ...help.visibleArguments(command).map((one) => [argumentTerm(one), help.argumentDescription(one)] as const),
    ...help
      .visibleOptions(command)
      .filter(({ long }) => long !== '--help')
      .map((one) => [help.optionTerm(one), optionMeaning(one)] as const),
  ]
  const table = ['| argument or option | meaning |', '|---|---|', ...rows.map(([term, meaning]) => `| \`${cell(term)}\` | ${cell(meaning)} |`)] // prettier-ignore
  return [
    ...(hasHeading ? [`### \`${usage.replace(/^chatelaine /, '').replace(/ [[<].*$/, '')}\``] : []),
    sentence(command.description()),
    `\`\`\`\n${usage}\n\`\`\``,
    ...(rows.length === 0 ? [] : [table.join('\n')]),
  ].join('\n\n')
}

/** An argument as in the usage. */
const argumentTerm = (argument: Argument): string => {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

function optionMeaning({ description, mandatory, defaultValue, defaultValueDescription }: Option): string {
  if (mandatory) return `${description} (required)`
  const standard: unknown = defaultValueDescription ?? defaultValue
  return typeof standard === 'string' ? `${description} (default: ${standard})` : description
}

const cell = (text: string): string => text.replaceAll('|', '\\|')

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

/** A shell for commands that are described and never run. */
const shellWithoutProcess = (): Shell => ({
  env: {},
  stdin: new PassThrough(),
  stdout: new PassThrough(),
  stderr: new PassThrough(),
  console: { log() {}, error() {} },
  become: () => Promise.reject(new Error('Nothing runs here.')),
})
