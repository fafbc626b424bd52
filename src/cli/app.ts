import { Command, InvalidArgumentError } from 'commander'
import type { ApplicationSettings, BudgetChanges, RegisteredApplication, WrittenBudget } from '../applications/wire.ts'
import type { Quota } from '../store/column-values.ts'
import { addIssuerCommands, issuerLine } from './issuer.ts'
import { withRegistry } from './database.ts'
import { addWays, collect, said, type Ways } from './options.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { inShell, type Shell } from './shell.ts'

/** How each setting is said, the first way by `create` and `update`; another one takes it back, by `update` alone. */
const ways: Ways<Omit<ApplicationSettings, 'sponsor'>> = {
  name: [['--name <name>', 'name shown to people when they are asked to allow it']],
  redirectUris: [['--redirect-uri <uri>', 'redirect URI, exact; repeat for several', collect]],
  postLogoutRedirectUris: [
    [
      '--post-logout-redirect-uri <uri>',
      'where a browser may be sent after signing out, exact; repeat for several. Redirect URIs and front pages of origins are allowed without it',
      collect,
    ],
    ['--no-post-logout-redirect-uri', 'remove all URIs for after a sign-out', []],
  ],
  permissions: [
    [
      '--permission <name>',
      'wallet:read, contracts:read, contracts:write, users:directory, users:read; repeat for several',
      collect,
    ],
  ],
  allowedOrigins: [
    [
      '--origin <origin>',
      'origin whose pages may call the API, and to whose front page a sign-out may lead; repeat for several',
      collect,
    ],
    ['--no-origin', 'remove all origins', []],
  ],
  logoUri: [
    ['--logo <uri>', 'https URL of an image'],
    ['--no-logo', 'remove the logo', null],
  ],
  needsPkce: [
    ['--without-pkce', 'confidential only, for a library without PKCE: it must send a nonce', false],
    ['--pkce', 'require PKCE again', true],
  ],
  needsDpop: [
    [
      '--dpop',
      'every access token is bound to a key of the application (DPoP); otherwise only where it requests that',
      true,
    ],
    ['--no-dpop', 'bind access tokens to a key only where the application requests that', false],
  ],
  isFirstParty: [
    [
      '--first-party',
      'it is your own: the consent page says so, without the warning. Another redirect origin takes it away',
      true,
    ],
    ['--no-first-party', 'it is not your own any more', false],
  ],
  quotas: [
    [
      '--quota <reads|writes=number/hour|day|month>',
      'how many requests it may make, such as writes=100000/day; repeat for several',
      collectQuota,
    ],
    ['--no-quota', 'remove all quotas', []],
  ],
  weight: [['--weight <number>', 'its part against other applications when not all can be served, 1 to 100', weightOf]],
}
const [say, takeBack] = [
  Object.values(ways).map(([first]) => first!),
  Object.values(ways).flatMap(([, ...others]) => others),
]

type BudgetOptions = {
  sponsor?: false
  sponsorPerUser?: string
  sponsorPerApplication?: string
  sponsorContract?: string[]
  sponsorAnyContract?: true
}
type CreateOptions = JsonOption & BudgetOptions & { clientId?: string; network?: string; confidential?: boolean }

/** `chatelaine app …`: the applications of this installation. */
export function app(shell: Shell): Command {
  const command = new Command('app').description('applications: register, change, suspend')
  const json = ['--json', 'print JSON'] as const
  const described = (one: Command) =>
    addWays(one, say)
      .option(
        '--sponsor-per-user <wei>',
        'what sponsors may send one person in 24 hours for its writes, where the gas of its network is topup; with the next',
      )
      .option('--sponsor-per-application <wei>', 'what they may send all its people together in 24 hours')
      .option(
        '--sponsor-contract <address>',
        'what they pay for: writes to this address and those named beside it; repeat for several',
        collect,
      )
      .option('--sponsor-any-contract', 'they pay for writes to any address')

  described(command.command('create').description('register an application'))
    .option('--network <name>', 'network it is bound to, permanently')
    .option('--client-id <id>', 'derived from the name if omitted')
    .option('--confidential', 'it runs on a server and can keep a secret; the secret is shown once, here')
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
    .description('show what an application has used of its quotas')
    .option(...json)
    .action(inShell(shell, usage))
  addWays(
    described(
      command.command('update <client-id>').description('change the given fields; a list is replaced as a whole'),
    ),
    takeBack,
  )
    .option('--no-sponsor', 'sponsors send nothing for it any more')
    .option(...json)
    .action(inShell(shell, update))
  command
    .command('rotate-secret <client-id>')
    .description('issue a new secret; the current one stays valid until the next rotation')
    .option('--end-old', 'revoke all current secrets immediately')
    .option(...json)
    .action(inShell(shell, rotate))
  addIssuerCommands(command, shell)
  command
    .command('suspend <client-id>')
    .description('stop its tokens and sign-ins within 10 seconds')
    .option(...json)
    .action(inShell(shell, suspend))
  command
    .command('resume <client-id>')
    .description('resume a suspended application')
    .option(...json)
    .action(inShell(shell, resume))
  return command
}

async function create(shell: Shell, given: CreateOptions): Promise<void> {
  const settings = said(ways, given)
  const { application, secret } = await withRegistry(shell.env, (registry) =>
    registry.create({
      ...{ ...settings, ...sponsorOf(given), name: settings.name ?? '', redirectUris: settings.redirectUris ?? [] },
      ...{ clientId: given.clientId, network: given.network ?? '' },
      kind: given.confidential === true ? 'confidential' : 'public',
    }),
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
    rows.length === 0 ? 'No quotas.' : table(['quota', 'used', 'begins anew'], rows),
    ...(sponsored === null ? [] : [`Sponsors sent ${sponsored.used} of ${sponsored.perApplication} wei in a day.`]),
  ].join('\n')) // prettier-ignore
}

async function update(shell: Shell, clientId: string, given: JsonOption & BudgetOptions): Promise<void> {
  const application = await withRegistry(shell.env, (registry) =>
    registry.update(clientId, { ...said(ways, given), ...sponsorOf(given) }),
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
    `${application.clientId} is suspended: its tokens and sign-ins stop within a minute.`,
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
    ['PKCE', needsPkce ? null : 'may be omitted where a nonce is sent'],
    ['DPoP', needsDpop ? 'every access token is bound to a key' : null],
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
  `${perUser} wei per person, ${perApplication} wei in all, in 24 hours`,
  ...(contracts === null ? ['for writes to any address'] : ['for writes to these addresses only:', ...contracts]),
]

/** One amount without the other would say nothing of the one that is missing. */
function sponsorOf({
  sponsor,
  sponsorPerUser: perUser,
  sponsorPerApplication: perApplication,
  sponsorContract,
  sponsorAnyContract,
}: BudgetOptions): { sponsor?: BudgetChanges | null } {
  if (sponsor === false) return { sponsor: null }
  if (sponsorContract !== undefined && sponsorAnyContract === true)
    throw new Error('Give --sponsor-contract or --sponsor-any-contract, not both.')
  if ((perUser === undefined) !== (perApplication === undefined))
    throw new Error('Give both: --sponsor-per-user and --sponsor-per-application.')
  const contracts = sponsorAnyContract === true ? null : sponsorContract
  const changes = {
    ...(perUser === undefined || perApplication === undefined ? {} : { perUser, perApplication }),
    ...(contracts === undefined ? {} : { contracts }),
  }
  return Object.keys(changes).length === 0 ? {} : { sponsor: changes }
}

/** What it allows is judged with the rest; here is only what cannot be read. */
function collectQuota(text: string, before: Quota[] | false | undefined): Quota[] {
  const match = /^(reads|writes)=(\d{1,15})\/(hour|day|month)$/.exec(text)
  if (match === null) throw new InvalidArgumentError('Expected, for example, writes=100000/day or reads=5000/hour.')
  const [, counts, limit, per] = match as unknown as [string, Quota['counts'], string, Quota['per']]
  return [...(before || []), { counts, limit: Number(limit), per }]
}
function weightOf(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('Expected a whole number.')
  return Number(text)
}
