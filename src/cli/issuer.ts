import type { Command } from 'commander'
import type { TrustedIssuer } from '../applications/application.ts'
import type { IssuerDraft } from '../applications/issuers.ts'
import { withRegistry } from './database.ts'
import { facts, print, type JsonOption } from './print.ts'
import { inShell, type Shell } from './shell.ts'

type IssuerOptions = JsonOption & {
  provider: string
  issuer: string
  audience: string
  jwksUri?: string
  algorithm?: string[]
  subjectClaim?: string
  usernameClaim?: string[]
  pictureClaim?: string
  maxAge?: string
  reusable?: boolean
  private?: boolean
  shared?: boolean
}

/** `chatelaine app trust-issuer …`, `… distrust-issuer …`: identity providers that an application brings. */
export function addIssuerCommands(command: Command, shell: Shell): void {
  const json = ['--json', 'print JSON'] as const
  command
    .command('trust-issuer <client-id>')
    .description(
      'let the application exchange tokens of its own identity provider (RFC 8693); run it again to change it',
    )
    .requiredOption('--provider <name>', 'APP_…: prefix of its people’s user ids, permanent')
    .requiredOption('--issuer <uri>', 'the tokens’ iss claim, exactly')
    .requiredOption('--audience <text>', 'the aud claim they must have')
    .option('--jwks-uri <uri>', 'JWKS URL; found by discovery if omitted')
    .option('--algorithm <name>', 'default RS256 and ES256; repeat for several', collect)
    .option('--subject-claim <name>', 'claim with the immutable id of a person, default sub')
    .option(
      '--username-claim <name>',
      'claim with the display name; repeat for several, the first present is used',
      collect,
    )
    .option('--picture-claim <name>', 'claim with the picture, default picture')
    .option('--max-age <seconds>', 'how long ago a token may have been issued, default 3600')
    .option('--reusable', 'one token may be exchanged more than once')
    .option('--private', 'the issuer may be in your own network')
    .option(
      '--shared',
      'the provider name belongs to another application, and both share its people and their accounts',
    )
    .option(...json)
    .action(inShell(shell, trust))
  command
    .command('distrust-issuer <client-id> <provider>')
    .description('end the trust; the provider name stays reserved for it')
    .option(...json)
    .action(inShell(shell, distrust))
}

/** One issuer, as `app show` lists it. */
export const issuerLine = ({ provider, issuer, audience }: TrustedIssuer): string =>
  `${provider}: ${issuer}, for ${audience}`

async function trust(shell: Shell, clientId: string, given: IssuerOptions): Promise<void> {
  const draft: IssuerDraft = {
    issuer: given.issuer,
    audience: given.audience,
    jwksUri: given.jwksUri,
    algorithms: given.algorithm,
    subjectClaim: given.subjectClaim,
    usernameClaims: given.usernameClaim,
    pictureClaim: given.pictureClaim,
    maxAgeSeconds: given.maxAge === undefined ? undefined : secondsOf(given.maxAge),
    isReusable: given.reusable,
    allowsPrivate: given.private,
    isShared: given.shared,
  }
  const application = await withRegistry(shell.env, (registry) => registry.trustIssuer(clientId, given.provider, draft))
  const trusted = application.issuers.find(({ provider }) => provider === given.provider)!
  print(shell, given, application, `${clientId} exchanges tokens of this issuer.\n\n${describe(trusted)}`)
}

async function distrust(shell: Shell, clientId: string, provider: string, given: JsonOption): Promise<void> {
  const application = await withRegistry(shell.env, (registry) => registry.distrustIssuer(clientId, provider))
  print(shell, given, application, `${clientId} no longer exchanges tokens of ${provider}.`)
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

/** NaN is refused with the other problems, as everything that is no number of seconds. */
const secondsOf = (text: string): number => (/^\d{1,9}$/.test(text) ? Number(text) : Number.NaN)
const collect = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value]
