import type { Command } from 'commander'
import type { TrustedIssuer } from '../applications/application.ts'
import type { IssuerDraft } from '../applications/issuers.ts'
import { withRegistry } from './database.ts'
import { addWays, collect, said, type Ways } from './options.ts'
import { facts, print, type JsonOption } from './print.ts'
import { inShell, type Shell } from './shell.ts'
import { wholeIn } from '../digits.ts'

/** Parses seconds. NaN is rejected later, together with other problems. */
const secondsOf = (text: string): number => wholeIn(text) ?? Number.NaN

/** Options for settings that have a default. */
const ways: Ways<Required<Omit<IssuerDraft, 'issuer' | 'audience'>>> = {
  jwksUri: ['--jwks-uri <uri>', 'JWKS URL; found by discovery if omitted'],
  algorithms: ['--algorithm <name>', 'default RS256 and ES256; repeat for several', collect],
  subjectClaim: ['--subject-claim <name>', 'claim with the immutable id of the user, default sub'],
  usernameClaims: [
    '--username-claim <name>',
    'claim with the display name; repeat for several, the first present is used',
    collect,
  ],
  pictureClaim: ['--picture-claim <name>', 'claim with the picture, default picture'],
  maxAgeSeconds: ['--max-age <seconds>', 'maximum age of a token since it was issued, default 3600', secondsOf],
  isReusable: ['--reusable', 'one token may be exchanged more than once', true],
  allowsPrivate: ['--private', 'the issuer may be in a private network', true],
  isShared: ['--shared', 'share the provider name of another application, with its users and their accounts', true],
}

type IssuerOptions = JsonOption & Pick<TrustedIssuer, 'provider' | 'issuer' | 'audience'>

/** Adds `chatelaine app trust-issuer …` and `… distrust-issuer …`: identity providers of an application. */
export function addIssuerCommands(command: Command, shell: Shell): void {
  const json = ['--json', 'print JSON'] as const
  const trusting = command
    .command('trust-issuer <client-id>')
    .description(
      'let the application exchange tokens of its own identity provider (RFC 8693); run it again to change it',
    )
    .requiredOption('--provider <name>', 'APP_…: permanent prefix of its users’ ids')
    .requiredOption('--issuer <uri>', 'the tokens’ iss claim, exactly')
    .requiredOption('--audience <text>', 'the tokens’ aud claim')
  addWays(trusting, ways)
    .option(...json)
    .action(inShell(shell, trust))
  command
    .command('distrust-issuer <client-id> <provider>')
    .description('remove a trusted issuer; its provider name remains reserved for the application')
    .option(...json)
    .action(inShell(shell, distrust))
}

/** Formats an issuer for `app show`. */
export const issuerLine = ({ provider, issuer, audience }: TrustedIssuer): string =>
  `${provider}: ${issuer}, for ${audience}`

async function trust(shell: Shell, clientId: string, given: IssuerOptions): Promise<void> {
  const draft: IssuerDraft = { issuer: given.issuer, audience: given.audience, ...said(ways, given) }
  const application = await withRegistry(shell.env, (registry) => registry.trustIssuer(clientId, given.provider, draft))
  const trusted = application.issuers.find(({ provider }) => provider === given.provider)!
  print(shell, given, application, `${clientId} can exchange tokens of this issuer.\n\n${describe(trusted)}`)
}

async function distrust(shell: Shell, clientId: string, provider: string, given: JsonOption): Promise<void> {
  const application = await withRegistry(shell.env, (registry) => registry.distrustIssuer(clientId, provider))
  print(shell, given, application, `${clientId} can no longer exchange tokens of ${provider}.`)
}

const describe = (trusted: TrustedIssuer): string =>
  facts([
    ['Provider', `${trusted.provider}: user ids are ${trusted.provider}-<${trusted.subjectClaim}>`],
    ['Issuer', trusted.issuer],
    ['Audience', trusted.audience],
    ['Keys', trusted.jwksUri ?? 'by discovery'],
    ['Algorithms', trusted.algorithms.join(', ')],
    ['Age', `at most ${trusted.maxAgeSeconds} seconds`],
    ['Use', trusted.isReusable ? 'any number of times' : 'once'],
  ])
