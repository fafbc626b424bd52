import { askOperator } from './ask-operator.ts'
import type { RotationState } from '../keys/rotation.ts'
import { systemClock } from '../../clock.ts'

const LOOK_MS = 1_000

/**
 * Runs `rotateKek` or `rotateDek`: sends the request to a running signer on its admin socket and shows the progress until it is
 * done. If the command is interrupted, the signer continues; running it again shows the same rotation. Exit code 1 if keys are
 * damaged.
 */
async function main(verb: string): Promise<void> {
  let state = await askOperator<RotationState>({ verb, request: {} })
  for (; state.left > 0; state = await askOperator<RotationState>({ verb: 'rotation', request: {} })) {
    process.stdout.write(`${state.accounts - state.left} of ${state.accounts} keys\n`)
    await systemClock.sleep(LOOK_MS)
  }
  const { accounts, damaged, dataKeys, providers, isUnchanged } = state
  if (isUnchanged === true)
    process.stdout.write(
      `The next master key already wraps all data keys. Set SIGNER_KEK to this key, and remove SIGNER_KEK_NEXT.\n`,
    )
  process.stdout.write(
    `${accounts} keys under ${dataKeys} data keys, wrapped by the master key: ${providers.join(', ')}\n`,
  )
  if (damaged === 0) return
  process.stdout.write(
    `${damaged} keys are damaged and were not changed. Restore them with chatelaine signer restore-keys.\n`,
  )
  process.exitCode = 1
}

main(process.argv[2]!).catch((error: unknown) => {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exit(1)
})
