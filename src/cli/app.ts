import { Command, InvalidArgumentError } from 'commander'
import type { ApplicationSettings, RegisteredApplication, WrittenBudget } from '../applications/wire.ts'
import type { Quota } from '../store/column-values.ts'
import { addIssuerCommands, issuerLine } from './issuer.ts'
import { withRegistry } from './database.ts'
import { addWays, collect, said, type Ways } from './options.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { inShell, type Shell } from './shell.ts'
import { wholeIn } from '../digits.ts'

type Settings = Omit<ApplicationSettings, 'sponsor'>

/** Options of `create` and `update` for the settings of an application. */
const ways: Ways<Settings> = {
  name: ['--name <name>', 'name on the consent page'],
  redirectUris: ['--redirect-uri <uri>', 'redirect URI, exact; repeat for several', collect],
  postLogoutRedirectUris: [
    '--post-logout-redirect-uri <uri>',
    'URI that a browser may open after signing out, exact; repeat for several. Redirect URIs and front pages of origins are always allowed',
    collect,
  ],
  permissions: [
    '--permission <name>',
    'wallet:read, contracts:read, contracts:write, messages:sign, users:directory, users:read, events:read, webhooks:manage; repeat for several',
    collect,
  ],
  allowedOrigins: [
    '--origin <origin>',
    'origin whose pages may call the API; a sign-out may lead to its front page; repeat for several',
    collect,
  ],
  logoUri: ['--logo <uri>', 'https URL of an image'],
  needsPkce: ['--without-pkce', 'confidential only, for a library without PKCE: it must send a nonce', false],
  needsDpop: ['--dpop', 'require access tokens bound to a key of the application (DPoP)', true],
  isFirstParty: [
    '--first-party',
    'mark it as your own: the consent page has no warning. Another redirect origin removes the mark',
    true,
  ],
  quotas: [
    '--quota <reads|writes=number/hour|day|month>',
    'quota of requests, such as writes=100000/day; repeat for several',
    collectQuota,
  ],
  weight: ['--weight <number>', 'share of capacity under overload, 1 to 100, default 1', weightOf],
}

/** Options of `update` that remove a setting or return it to its default. They take precedence over `ways`. */
const waysBack: Ways<Omit<ApplicationSettings, 'name' | 'redirectUris' | 'permissions' | 'weight'>> = {
  allowedOrigins: ['--no-origin', 'remove all origins', []],
  postLogoutRedirectUris: ['--no-post-logout-redirect-uri', 'remove all post-logout redirect URIs', []],
  logoUri: ['--no-logo', 'remove the logo', null],
  needsPkce: ['--pkce', 'require PKCE again', true],
  isFirstParty: ['--no-first-party', 'remove the mark of your own application', false],
  quotas: ['--no-quota', 'remove all quotas', []],
  sponsor: ['--no-sponsor', 'remove the gas budget: sponsors no longer pay for its users', null],
  needsDpop: ['--no-dpop', 'bind access tokens to a key only if the application requests it', false],
}

const waysOfBudget: Ways<{ perUser: string; perApplication: string; contracts: string[]; isForAny: boolean }> = {
  perUser: ['--sponsor-per-user <wei>', 'gas budget of one user in 24 hours, wei; requires --sponsor-per-application'],
  perApplication: ['--sponsor-per-application <wei>', 'gas budget of all its users in 24 hours, wei'],
  contracts: [
    '--sponsor-contract <address>',
    'sponsors pay only for writes to this contract; repeat for several',
    collect,
  ],
  isForAny: ['--sponsor-any-contract', 'sponsors pay for writes to any address', true],
}

/** Options of `create` for what never changes. */
const waysOfCreate: Ways<{ network: string; clientId: string; kind: RegisteredApplication['kind'] }> = {
  network: ['--network <name>', 'network of the application; it cannot be changed'],
  clientId: ['--client-id <id>', 'derived from the name if omitted'],
  kind: [
    '--confidential',
    'the application runs on a server and can store a secret, which is shown once',
    'confidential',
  ],
}

/** Builds `chatelaine app …`: the applications of this installation. */
export function app(shell: Shell): Command {
  const command = new Command('app').description('manage applications')
  const json = ['--json', 'print JSON'] as const
  const described = (one: Command) => addWays(addWays(one, ways), waysOfBudget)

  addWays(described(command.command('create').description('register an application')), waysOfCreate)
    .option(...json)
    .action(inShell(shell, create))
  command
    .command('list')
    .description('list applications')
    .option(...json)
    .action(inShell(shell, list))
  command
    .command('show <client-id>')
    .description('show an application')
    .option(...json)
    .action(inShell(shell, show))
  command
    .command('usage <client-id>')
    .description('show the quota usage of an application')
    .option(...json)
    .action(inShell(shell, usage))
  addWays(
    described(
      command.command('update <client-id>').description('change the given fields; a list is replaced as a whole'),
    ),
    waysBack,
  )
    .option(...json)
    .action(inShell(shell, update))
  command
    .command('rotate-secret <client-id>')
    .description('issue a new secret; the current one remains valid until the next rotation')
    .option('--end-old', 'revoke all current secrets immediately')
    .option(...json)
    .action(inShell(shell, rotate))
  addIssuerCommands(command, shell)
  command
    .command('suspend <client-id>')
    .description('suspend an application: its tokens and sign-ins stop within 10 seconds')
    .option(...json)
    .action(inShell(shell, suspend))
  command
    .command('resume <client-id>')
    .description('resume a suspended application')
    .option(...json)
    .action(inShell(shell, resume))
  return command
}

async function create(shell: Shell, given: JsonOption): Promise<void> {
  const { application, secret } = await withRegistry(shell.env, (registry) =>
    registry.create({ name: '', network: '', redirectUris: [], ...saidSettings(given), ...said(waysOfCreate, given) }),
  )
  print(shell, given, { application, secret }, `Registered.\n\n${describe(application, secret)}`)
}

async function list(shell: Shell, given: JsonOption): Promise<void> {
  const applications = await withRegistry(shell.env, (registry) => registry.list())
  const rows = applications.map((one) => [
    one.clientId,
    one.name,
    one.network ?? `chain ${one.chainId}`,
    one.kind,
    stateOf(one),
  ])
  print(
    shell,
    given,
    applications,
    rows.length === 0 ? 'No applications yet.' : table(['client id', 'name', 'network', 'kind', 'state'], rows),
  )
}

async function show(shell: Shell, clientId: string, given: JsonOption): Promise<void> {
  const application = await withRegistry(shell.env, (registry) => registry.read(clientId))
  print(shell, given, application, describe(application))
}

async function usage(shell: Shell, clientId: string, given: JsonOption): Promise<void> {
  const used = await withRegistry(shell.env, (registry) => registry.usage(clientId))
  const rows = used.quotas.map((quota) => [quotaLine(quota), String(quota.used), quota.endsAt])
  const { sponsored } = used
  print(shell, given, used, [
    rows.length === 0 ? 'No quotas.' : table(['quota', 'used', 'resets at'], rows),
    ...(sponsored === null ? [] : [`Gas budget: ${sponsored.used} of ${sponsored.perApplication} wei used in 24 hours.`]),
  ].join('\n')) // prettier-ignore
}

async function update(shell: Shell, clientId: string, given: JsonOption): Promise<void> {
  const application = await withRegistry(shell.env, (registry) =>
    registry.update(clientId, { ...saidSettings(given), ...said(waysBack, given) }),
  )
  print(shell, given, application, describe(application))
}

async function rotate(shell: Shell, clientId: string, given: JsonOption & { endOld?: boolean }): Promise<void> {
  const done = await withRegistry(shell.env, (registry) =>
    given.endOld === true ? registry.resetSecret(clientId) : registry.rotateSecret(clientId),
  )
  print(shell, given, done, describe(done.application, done.secret))
}

async function suspend(shell: Shell, clientId: string, given: JsonOption): Promise<void> {
  const application = await withRegistry(shell.env, (registry) => registry.suspend(clientId))
  print(
    shell,
    given,
    application,
    `${application.clientId} is suspended: its tokens and sign-ins are rejected within a minute.`,
  )
}

async function resume(shell: Shell, clientId: string, given: JsonOption): Promise<void> {
  const application = await withRegistry(shell.env, (registry) => registry.resume(clientId))
  print(shell, given, application, `${application.clientId} resumed.`)
}

function describe(application: RegisteredApplication, secret: string | null = null): string {
  const { needsPkce, needsDpop, isFirstParty, postLogoutRedirectUris, issuers, quotas, weight, sponsor } = application
  return facts([
    ['Client id', application.clientId],
    ['Secret', secret && `${secret}   (shown only once)`],
    ['Name', application.name],
    ['Network', `${application.network ?? 'not of this installation'} (chain id ${application.chainId})`],
    [
      'Kind',
      application.kind === 'public'
        ? 'public: PKCE, no secret'
        : `confidential: ${application.liveSecrets} live ${application.liveSecrets === 1 ? 'secret' : 'secrets'}`,
    ],
    ['PKCE', needsPkce ? null : 'optional if a nonce is sent'],
    ['DPoP', needsDpop ? 'required: every access token is bound to a key' : null],
    ['First party', isFirstParty ? 'yes: the consent page says that it is yours' : null],
    ['Redirect URIs', application.redirectUris],
    ['After signing out', postLogoutRedirectUris.length === 0 ? null : postLogoutRedirectUris],
    ['Permissions', application.permissions],
    ['Origins', application.allowedOrigins],
    ['Logo', application.logoUri ?? 'none'],
    ['Trusted issuers', issuers.length === 0 ? null : issuers.map(issuerLine)],
    ['Quotas', quotas.length === 0 ? null : quotas.map(quotaLine)],
    ['Weight', weight === 1 ? null : String(weight)],
    ['Sponsored', sponsor && sponsorLines(sponsor)],
    ['Registered', application.createdAt],
    ['State', stateOf(application)],
  ])
}

const stateOf = ({ suspendedAt }: RegisteredApplication): string =>
  suspendedAt === null ? 'active' : `suspended ${suspendedAt}`
const quotaLine = ({ counts, limit, per }: Quota): string => `${counts}=${limit}/${per}`
const sponsorLines = ({ perUser, perApplication, contracts }: WrittenBudget): string[] => [
  `${perUser} wei per user and ${perApplication} wei in total, in 24 hours`,
  ...(contracts === null ? ['for writes to any address'] : ['for writes to these addresses only:', ...contracts]),
]

/** Reads the settings that were given. The two amounts of a budget must be given together. */
function saidSettings(given: object): Partial<ApplicationSettings> {
  const { isForAny = false, ...budget } = said(waysOfBudget, given)
  if (budget.contracts !== undefined && isForAny)
    throw new Error('Give --sponsor-contract or --sponsor-any-contract, not both.')
  if ((budget.perUser === undefined) !== (budget.perApplication === undefined))
    throw new Error('Give both --sponsor-per-user and --sponsor-per-application.')
  const sponsor = isForAny ? { ...budget, contracts: null } : budget
  return { ...said(ways, given), ...(Object.keys(sponsor).length === 0 ? {} : { sponsor }) }
}

/** Parses a quota. Its values are checked later, with the other settings. */
function collectQuota(text: string, before: Quota[] = []): Quota[] {
  const match = /^(reads|writes)=(\d{1,15})\/(hour|day|month)$/.exec(text)
  if (match === null) throw new InvalidArgumentError('Expected, for example, writes=100000/day or reads=5000/hour.')
  const [, counts, limit, per] = match as unknown as [string, Quota['counts'], string, Quota['per']]
  return [...before, { counts, limit: Number(limit), per }]
}
function weightOf(text: string): number {
  const weight = wholeIn(text)
  if (weight === null) throw new InvalidArgumentError('Expected a whole number.')
  return weight
}
