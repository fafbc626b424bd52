import { createInterface } from 'node:readline'
import { Command } from 'commander'
import { systemClock } from '../clock.ts'
import { readSome } from '../config.ts'
import { checkProvider, type Finding } from '../oauth/federation/check-provider.ts'
import { provePkce, type AskPerson } from '../oauth/federation/prove-pkce.ts'
import { developmentProvider, readProviders } from '../oauth/federation/providers.ts'
import { print, type JsonOption } from './print.ts'
import { ExitCode, inShell, type Shell } from './shell.ts'

/** Builds `chatelaine provider …`: the identity providers of PROVIDERS_FILE. */
export function provider(shell: Shell): Command {
  const command = new Command('provider').description('check identity providers before users sign in with them')
  command
    .command('check <name>')
    .description(
      'check discovery document, keys, client authentication and callback URL, and report problems; signs no user in',
    )
    .option(
      '--sign-in',
      'sign in three times in a browser, to find out whether PKCE is enforced: OAuth 2.0 providers without id tokens',
    )
    .option('--json', 'print JSON')
    .action(inShell(shell, check))
  return command
}

async function check(shell: Shell, name: string, given: JsonOption & { signIn?: true }): Promise<void> {
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
  if (given.signIn === true && findings.every(({ isGood }) => isGood)) {
    const lines = createInterface({ input: shell.stdin })
    const answers = lines[Symbol.asyncIterator]()
    const ask: AskPerson = async (text) => {
      shell.console.error(text)
      const { done, value } = await answers.next()
      if (done === true) throw new Error('Standard input ended before the check was complete. Run it again.')
      return value
    }
    findings.push(...(await provePkce(chosen, { origin, ask, clock: systemClock }).finally(() => lines.close())))
  }
  print(shell, given, findings, findings.map(line).join('\n'))
  if (findings.some(({ isGood }) => !isGood)) throw new ExitCode(1)
}

const line = ({ about, isGood, says, advice }: Finding): string =>
  `${isGood ? 'ok   ' : 'WRONG'}  ${about.padEnd(12)}${says}${advice === undefined ? '' : `\n${' '.repeat(19)}${advice}`}`
