import type { Command } from 'commander'
import { verifyLog } from '../verify-log/main.ts'
import { ExitCode, type Shell } from './shell.ts'

/**
 * Adds `chatelaine verify-log`: verifies the signer's log by independent code, without the installation or its
 * settings.
 */
export function addVerifyLog(program: Command, shell: Shell): void {
  program
    .command('verify-log')
    .description(
      'verify the signer’s log, or two checkpoints of it, independently of the signer; exit code 1: altered, 2: not checked',
    )
    .argument('[store]', 'SIGNER_DIR, a copy of it, or a copy of its file signer.sqlite; omit it with --proof')
    .option(
      '--checkpoint <file>',
      'head of the log that you stored earlier; repeat for each',
      (one, all: string[]) => [...all, one],
      [],
    )
    .option('--key <key>', 'verifier key of the log, from your own records: checks signatures')
    .option('--kek-file <file>', 'master key (KEK): checks MACs')
    .option('--proof <file>', 'proof of one signature, or of two checkpoints: a JSON file')
    .action((store: string | undefined, { checkpoint, key, kekFile, proof }: VerifyLogOptions) => {
      const code = verifyLog(
        [
          ...(store === undefined ? [] : [store]),
          ...checkpoint.flatMap((file) => ['--checkpoint', file]),
          ...(key === undefined ? [] : ['--key', key]),
          ...(kekFile === undefined ? [] : ['--kek-file', kekFile]),
          ...(proof === undefined ? [] : ['--proof', proof]),
        ],
        (line) => shell.stdout.write(`${line}\n`),
      )
      if (code !== 0) throw new ExitCode(code)
    })
}

type VerifyLogOptions = { checkpoint: string[]; key?: string; kekFile?: string; proof?: string }
