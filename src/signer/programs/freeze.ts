import { askOperator } from './ask-operator.ts'
import type { FrozenList } from '../tokens/freezes.ts'

/**
 * Runs `freeze|unfreeze SUBJECT…` and `frozen`: sends the request to a running signer on its admin socket, which only the signer's
 * OS user may open. It prints the frozen subjects, one per line. Exit code 1, with a sentence, if the signer refuses or is
 * unavailable.
 */
async function main([verb = '', ...words]: string[]): Promise<void> {
  const { subjects, total } = await askOperator<FrozenList>({
    verb,
    request: verb === 'frozen' ? {} : { subject: words.join(' ') },
  })
  if (total === 0) process.stdout.write('Nothing is frozen.\n')
  for (const { subject, by, at } of subjects) {
    const whose = by === 'admin' ? 'frozen by the operator' : 'frozen by the server'
    process.stdout.write(`${subject}  ${whose}, since ${new Date(at).toISOString()}\n`)
  }
  if (total > subjects.length) process.stdout.write(`and ${total - subjects.length} more, frozen by the server\n`)
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exit(1)
})
