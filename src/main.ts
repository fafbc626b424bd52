import { banner } from './devnet/development.ts'
import { open, type OpenedProgram } from './open.ts'
import { refuseSecretsInReach, run, settingsOrExit } from './run.ts'
import { makeFolder } from './store/folder.ts'
import { systemClock } from './clock.ts'

/**
 * Runs the server: settings → open → wait for a signal → close in reverse order. Without settings it is a development
 * installation with its own database, chain, signer and identity provider.
 */
const startedAt = systemClock.ticks()

const USAGE = `Usage: npm start

Starts the server. It takes no arguments. All settings are environment variables: docs/reference/configuration.md.
Without settings, it starts a development installation with its own database, chain, signer and sign-in.

  PORT=4000                 port to listen on
  DATA_DIR=.chatelaine      folder of its files
  DATABASE_URL=postgres://… PostgreSQL instead of the embedded database
  RPC_URL=http://…          EVM node instead of the embedded chain
  NODE_ENV=production       see docs/operate/deploy.md

Commands for operators: npx chatelaine --help`

refuseArguments(process.argv.slice(2))
const config = settingsOrExit('server')
await run(config, async () => {
  if (config.NODE_ENV === 'production') await refuseSecretsInReach(config)
  // Production needs no such folder: it may not be writable.
  else await makeFolder(config.DATA_DIR, 'DATA_DIR')
  const opened = await open(config)
  try {
    if (opened.development !== null) await greet(opened.development)
    return opened
  } catch (error) {
    await opened.close()
    throw error
  }
})

/** Rejects arguments: an unknown flag must not start a server that does something other than intended. */
function refuseArguments(words: string[]): void {
  if (words.length === 0) return
  const isHelp = words.every((word) => word === '--help' || word === '-h')
  if (isHelp) console.log(USAGE)
  else console.error(`Unknown argument ${words.find((word) => !/^(--help|-h)$/.test(word))}.\n\n${USAGE}`)
  process.exit(isHelp ? 0 : 1)
}

/** Prints the first screen of a development installation, with a working access token. */
async function greet({ facts, isEmbedded, issueToken }: NonNullable<OpenedProgram['development']>): Promise<void> {
  const { token, userId } = await issueToken({ username: 'demo', clientId: facts.clientId })
  const seconds = ((systemClock.ticks() - startedAt) / 1_000).toFixed(1)
  const isOpen = config.DEVELOPMENT_OPEN_TO === 'everyone'
  console.log(banner(facts, { token, userId, tokenSeconds: config.ACCESS_TOKEN_SECONDS, seconds, isEmbedded, isOpen }))
}
