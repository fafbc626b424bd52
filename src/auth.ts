import { openAuth } from './open-auth.ts'
import { refuseKeysInReach, run, settingsOrExit } from './run.ts'

/** Runs the authorization server as a separate program (`chatelaine auth run`). Prints `ready` when it listens. */
const config = settingsOrExit('auth')
await run(config, async () => {
  await refuseKeysInReach('the authorization server', config)
  const opened = await openAuth(config)
  process.stdout.write('ready\n')
  return opened
})
