/**
 * cli/doctor: `chatelaine doctor`, the checks of an installation.
 * Owns: the codes of faults (`faults.ts`), their severity and next step, and one file per subject of checks.
 * Does not own: the rules of startup and /readyz, which it calls; the files of the signer
 *   (`signer/programs/doctor.ts`).
 */

import { statfs } from 'node:fs/promises'
import type { Command } from 'commander'
import { systemClock } from '../../clock.ts'
import { ConfigError, readConfig, type Config } from '../../config.ts'
import { exitCodeOf, textOf, type Diagnosis } from '../../findings.ts'
import { openPostgres } from '../../store/db.ts'
import { become } from '../become.ts'
import { collect } from '../options.ts'
import { print, type JsonOption } from '../print.ts'
import { ExitCode, type Shell } from '../shell.ts'
import { checkDatabase } from './check-database.ts'
import { checkFiles } from './check-files.ts'
import { checkBackups, checkDisk } from './check-machine.ts'
import { checkNetworks } from './check-networks.ts'
import { checkServer, getJson } from './check-server.ts'
import { checkSigner } from './check-signer.ts'
import { checkWebhooks } from './check-webhooks.ts'
import { finding, ownWords } from './faults.ts'
import type { Patient } from './patient.ts'

type DoctorOptions = JsonOption & { backups?: string[] }

/** Adds `chatelaine doctor`. With settings of the signer, the signer's own program examines its files. */
export function addDoctor(program: Command, shell: Shell): void {
  program
    .command('doctor')
    .description(
      'check this installation, and name each fault and its next step, without changing anything; exit code 0: no problems, 1: warnings, 2: errors',
    )
    .option('--backups <folder>', 'folder with files of `chatelaine backup`; repeat for several', collect)
    .option('--json', 'print JSON')
    .action(async (given: DoctorOptions) => {
      const { env } = shell
      if ((env.SIGNER_DIR ?? '') !== '' && (env.DATABASE_URL ?? '') === '')
        return become(shell, 'programs/doctor.ts', given.json === true ? ['--json'] : [])
      const findings = await diagnose({
        env,
        clock: systemClock,
        uid: process.getuid?.(),
        backups: given.backups ?? [],
        space: spaceOf,
        get: getJson,
        openDatabase: async ({ DATABASE_URL: url, DATABASE_POOLER: pooler }) =>
          openPostgres({ url: url!, pooler, pool: 2, onError: () => {} }),
      })
      print(shell, given, findings, textOf(findings))
      const code = exitCodeOf(findings)
      if (code !== 0) throw new ExitCode(code)
    })
}

/** Examines the installation that the settings describe. It writes nothing and never throws. */
export async function diagnose(patient: Patient): Promise<Diagnosis[]> {
  const { env } = patient
  const part = (env.SIGNER_AUTH_SOCKET ?? '') !== '' && (env.AUTH_SOCKET ?? '') !== '' ? 'auth' : 'server'
  let config: Config
  try {
    config = readConfig(env, part)
  } catch (error) {
    return (error instanceof ConfigError ? error.problems : [ownWords(error)]).map((problem) =>
      finding('settings_rejected', problem),
    )
  }
  const { db, findings } = await checkDatabase({ ...patient, config, part })
  const examined = { ...patient, config, part, db } as const
  try {
    const signer = await checkSigner(examined)
    const rest = await Promise.all([
      checkFiles(examined),
      checkNetworks(examined, signer.chains),
      checkServer(examined),
      checkWebhooks(examined),
      checkDisk(examined),
      checkBackups(examined),
    ])
    const all = [...findings, ...signer.findings, ...rest.flat()]
    // Only a running server sends the list of revoked tokens.
    const isDown = all.some(({ code }) => code === 'server_down')
    return all.filter(({ code }) => !(isDown && code === 'revocations_stale'))
  } finally {
    await db?.destroy()
  }
}

async function spaceOf(path: string): Promise<{ free: number; total: number }> {
  const { bavail, blocks, bsize } = await statfs(path)
  return { free: bavail * bsize, total: blocks * bsize }
}
