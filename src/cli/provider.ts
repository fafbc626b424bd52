import { Command } from 'commander'
import { readSome } from '../config.ts'
import { checkProvider, type Finding } from '../oauth/federation/check-provider.ts'
import { developmentProvider, readProviders } from '../oauth/federation/providers.ts'
import { print, type JsonOption } from './print.ts'
import { ExitCode, inShell, type Shell } from './shell.ts'

/** `chatelaine provider …`: the identity providers of PROVIDERS_FILE. */
export function provider(shell: Shell): Command {
  const command = new Command('provider').description('check identity providers before people use them')
  command
    .command('check <name>')
    .description(
      'check discovery document, keys, client authentication and callback URL, and report what is wrong; signs nobody in',
    )
    .option('--json', 'print JSON')
    .action(inShell(shell, check))
  return command
}

async function check(shell: Shell, name: string, given: JsonOption): Promise<void> {
  const { PROVIDERS_FILE, AUTH_ORIGIN, PUBLIC_ORIGIN, PORT } = readSome(shell.env, ['PROVIDERS_FILE', 'AUTH_ORIGIN', 'PUBLIC_ORIGIN', 'PORT']) // prettier-ignore
  const origin = AUTH_ORIGIN ?? PUBLIC_ORIGIN ?? `http://localhost:${PORT}`
  const isDevelopment = shell.env.NODE_ENV !== 'production'
  const providers = [
    ...(PROVIDERS_FILE === undefined ? [] : readProviders(PROVIDERS_FILE, { allowsHttp: isDevelopment })),
    ...(isDevelopment ? [developmentProvider(origin)] : []),
  ]
  const chosen = providers.find((one) => one.name === name.toUpperCase())
  if (chosen === undefined) {
    const there = providers.map((one) => one.name).join(', ')
    throw new Error(
      `There is no provider ${name}${there === '' ? ': PROVIDERS_FILE is not set' : `; known providers: ${there}`}.`,
    )
  }
  const findings = await checkProvider(chosen, { origin })
  print(shell, given, findings, findings.map(line).join('\n'))
  if (findings.some(({ isGood }) => !isGood)) throw new ExitCode(1)
}

const line = ({ about, isGood, says, advice }: Finding): string =>
  `${isGood ? 'ok   ' : 'WRONG'}  ${about.padEnd(12)}${says}${advice === undefined ? '' : `\n${' '.repeat(19)}${advice}`}`
