import { Command } from 'commander'
import { grantRoles } from '../store/roles.ts'
import { readInstallationSettings, withDatabase } from './database.ts'
import type { Shell } from './shell.ts'

/** Builds `chatelaine database …`: commands for the owner of the tables, if the programs have roles of their own. */
export function database({ env, console }: Shell): Command {
  const command = new Command('database').description('manage the database roles of a split deployment')
  command
    .command('roles')
    .description(
      'migrate the tables, and give two existing roles only the rights that they need. Run it as the owner of the tables, after every upgrade',
    )
    .requiredOption('--auth <role>', 'role of `chatelaine auth run` and of the commands for accounts and applications')
    .requiredOption('--api <role>', 'role of the API and of the commands about networks, blocks and transactions')
    .action(async (roles: { auth: string; api: string }) => {
      const settings = readInstallationSettings(env)
      if (settings.databaseUrl === undefined)
        throw new Error('DATABASE_URL is missing: the embedded database has no roles.')
      if (roles.auth === roles.api) throw new Error('--auth and --api must be two different roles.')
      await withDatabase({ ...settings, isApart: false }, (db) => grantRoles(db, roles))
      console.log(`${roles.auth} and ${roles.api} have the rights that they need.`)
    })
  return command
}
